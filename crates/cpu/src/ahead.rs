//! Prefetch hints. No result depends on them.

/// A hint about the line at any address.
macro_rules! hint {
    ($(#[$doc:meta])* $name:ident, $x86:ident, $arm:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name<T>(at: *const T) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a hint, whatever the address.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::$x86 }>(at.cast()) };
            #[cfg(target_arch = "aarch64")]
            // SAFETY: a hint, whatever the address.
            unsafe { std::arch::asm!($arm, in(reg) at, options(readonly, nostack, preserves_flags)) };
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            let _ = at;
        }
    };
}

hint!(
    /// Prefetches the line for reading.
    read, _MM_HINT_T0, "prfm pldl1keep, [{}]"
);
hint!(
    /// Prefetches the line for writing.
    write, _MM_HINT_ET0, "prfm pstl1keep, [{}]"
);
