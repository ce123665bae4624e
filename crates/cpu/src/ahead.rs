//! Prefetch hints. No result depends on them.

/// Prefetches the line at any address for reading.
#[inline(always)]
pub(super) fn read<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, whatever the address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(readonly, nostack, preserves_flags));
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Prefetches the line at any address for writing.
#[inline(always)]
pub(super) fn write<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(at.cast());
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, whatever the address.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(readonly, nostack, preserves_flags));
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
