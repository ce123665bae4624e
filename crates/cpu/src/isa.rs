//! The instruction set (SIMD level) of products and attention, detected at run time. It computes nothing.

/// An instruction set of this machine, which every value guarantees. The order is that of speed within an
/// architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Instructions);

/// All instruction sets, available or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Instructions {
    /// Plain Rust.
    Portable,
    /// NEON, which every processor of its architecture has.
    Neon,
    /// Products of four bytes (`sdot`), and NEON.
    NeonDotprod,
    /// Products of matrices of bytes (`smmla`), those of four bytes, and NEON.
    NeonI8mm,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-VNNI (products of 8-bit integers in 256 bits), and those of AVX2.
    AvxVnni,
    /// AVX-512 F, BW, VNNI and BF16, and those of AVX2.
    Avx512,
    /// AMX (products of tiles of 8-bit integers), and those of AVX-512. Pairs of bf16 are multiplied as
    /// floats, which is faster on all processors that have AMX.
    Amx,
}

impl Instructions {
    const ALL: [Self; 8] = [
        Self::Portable,
        Self::Neon,
        Self::NeonDotprod,
        Self::NeonI8mm,
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512,
        Self::Amx,
    ];

    /// Returns true if this machine has it and its system saves its registers.
    fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("avx512bf16");
            match self {
                Self::Portable => true,
                Self::Neon | Self::NeonDotprod | Self::NeonI8mm => false,
                Self::Avx2 => avx2,
                Self::AvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
                Self::Avx512 => avx2 && avx512,
                Self::Amx => avx2 && avx512 && has_tiles(),
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            let dotprod = std::arch::is_aarch64_feature_detected!("dotprod");
            match self {
                Self::Portable | Self::Neon => true,
                Self::NeonDotprod => dotprod,
                Self::NeonI8mm => dotprod && std::arch::is_aarch64_feature_detected!("i8mm"),
                Self::Avx2 | Self::AvxVnni | Self::Avx512 | Self::Amx => false,
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            self == Self::Portable
        }
    }
}

/// Returns true if this machine has tiles of 8-bit integers and the system lets this process use them, which
/// requires a request.
#[cfg(target_arch = "x86_64")]
fn has_tiles() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const TILES_OF_INT8: u32 = 1 << 24 | 1 << 25;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILES_OF_INT8 == TILES_OF_INT8 && may_use_tiles()
}

/// Source: Linux, `Documentation/arch/x86/xstate.rst`.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn may_use_tiles() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: a request that only changes the features this process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn may_use_tiles() -> bool {
    false
}

impl Isa {
    /// Plain Rust, on any machine.
    pub const PORTABLE: Self = Self(Instructions::Portable);

    /// The names of all instruction sets, slowest first among those of one architecture.
    pub const NAMES: [&str; 8] =
        ["portable", "neon", "neon-dotprod", "neon-i8mm", "avx2", "avxvnni", "avx512", "amx"];

    /// The fastest instruction set of this machine.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::PORTABLE)
    }

    /// All instruction sets of this machine, slowest first. A machine may have a faster one and lack a slower
    /// one.
    pub fn available() -> impl Iterator<Item = Self> {
        Instructions::ALL.into_iter().filter(|instructions| instructions.is_available()).map(Self)
    }

    /// The instruction set of this name; `None` where there is none, or this machine lacks it.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|isa| isa.name() == name)
    }

    /// The spelling in flags and signatures.
    pub fn name(self) -> &'static str {
        Self::NAMES[self.0 as usize]
    }

    /// Returns true if it multiplies pairs of `bf16` in one instruction.
    pub(super) fn has_pairs(self) -> bool {
        self.0 == Instructions::Avx512
    }

    pub(super) fn instructions(self) -> Instructions {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_machine_has_can_be_named() {
        assert_eq!(Isa::named("portable"), Some(Isa::PORTABLE));
        assert_eq!(Isa::named("sse9"), None);
        let here: Vec<&str> = Isa::available().map(Isa::name).collect();
        let rest: Vec<&str> = Isa::NAMES.into_iter().filter(|name| !here.contains(name)).collect();
        assert_eq!(here.len() + rest.len(), Isa::NAMES.len());
        assert!(here.is_sorted_by_key(|name| Isa::NAMES.iter().position(|other| other == name)));
        assert_eq!(Isa::named(Isa::detect().name()), Some(Isa::detect()));
        if let Ok(expected) = std::env::var("TRIBUNAL_TEST_TIERS") {
            assert_eq!(here.join(" "), expected, "the instruction sets of the emulated processor");
        }
        for name in rest {
            assert_eq!(Isa::named(name), None, "this machine lacks {name}");
        }
    }
}
