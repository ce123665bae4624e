//! Checks that this machine has the instructions that the whole program was compiled for (`-C target-cpu`),
//! so that a binary for newer processors can report it before an illegal instruction ends it. It does not
//! choose an instruction set.

/// An instruction set that this program needs everywhere and this machine lacks; `None` when there is none,
/// as always for the default baseline.
pub fn missing() -> Option<&'static str> {
    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux")))]
    {
        SETS.iter().find(|set| set.compiled_in && !set.is_here()).map(|set| set.name)
    }
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux"))))]
    None
}

#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
use arm::SETS;
#[cfg(target_arch = "x86_64")]
use x86::SETS;

/// An instruction set of a name: the word that reports it, and its bit.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux")))]
macro_rules! set {
    ($name:tt, $word:expr, $bit:literal) => {
        Set { name: $name, compiled_in: cfg!(target_feature = $name), word: $word, bit: $bit }
    };
}

/// The system reports the processor's instruction sets.
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
mod arm {
    use libc::{AT_HWCAP, AT_HWCAP2};

    pub(super) struct Set {
        pub name: &'static str,
        pub compiled_in: bool,
        /// The word of the auxiliary vector.
        word: libc::c_ulong,
        bit: u32,
    }

    impl Set {
        pub fn is_here(&self) -> bool {
            // SAFETY: any word may be requested; unknown ones give zero.
            unsafe { libc::getauxval(self.word) >> self.bit & 1 == 1 }
        }
    }

    /// The instruction sets that compilers use on their own, oldest first. Source: Linux,
    /// `arch/arm64/include/uapi/asm/hwcap.h`.
    pub(super) const SETS: [Set; 11] = [
        set!("aes", AT_HWCAP, 3),
        set!("sha2", AT_HWCAP, 6),
        set!("crc", AT_HWCAP, 7),
        set!("lse", AT_HWCAP, 8),
        set!("rdm", AT_HWCAP, 12),
        set!("rcpc", AT_HWCAP, 15),
        set!("fp16", AT_HWCAP, 10),
        set!("dotprod", AT_HWCAP, 20),
        set!("sve", AT_HWCAP, 22),
        set!("i8mm", AT_HWCAP2, 13),
        set!("bf16", AT_HWCAP2, 14),
    ];
}

/// The processor itself is queried: `is_x86_feature_detected` assumes the features that the program was
/// compiled for.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    /// The register of `cpuid` with an instruction set's bit.
    #[derive(Clone, Copy)]
    enum Register {
        /// Leaf 1, `ecx`.
        First,
        /// Leaf 7, `ebx`.
        Seventh,
        /// Leaf `0x8000_0001`, `ecx`.
        Extended,
    }

    use Register::{Extended, First, Seventh};

    pub(super) struct Set {
        pub name: &'static str,
        pub compiled_in: bool,
        word: Register,
        bit: u32,
    }

    impl Set {
        pub fn is_here(&self) -> bool {
            let (leaf, highest) = match self.word {
                Register::First => (1, __cpuid(0).eax),
                Register::Seventh => (7, __cpuid(0).eax),
                Register::Extended => (0x8000_0001, __cpuid(0x8000_0000).eax),
            };
            if highest < leaf {
                return false;
            }
            let told = __cpuid_count(leaf, 0);
            let word = if matches!(self.word, Register::Seventh) { told.ebx } else { told.ecx };
            word >> self.bit & 1 == 1
        }
    }

    /// The instruction sets of the levels x86-64-v2 to v4, oldest first.
    pub(super) const SETS: [Set; 16] = [
        set!("sse3", First, 0),
        set!("ssse3", First, 9),
        set!("sse4.1", First, 19),
        set!("sse4.2", First, 20),
        set!("popcnt", First, 23),
        set!("avx", First, 28),
        set!("f16c", First, 29),
        set!("fma", First, 12),
        set!("bmi1", Seventh, 3),
        set!("bmi2", Seventh, 8),
        set!("avx2", Seventh, 5),
        set!("lzcnt", Extended, 5),
        set!("avx512f", Seventh, 16),
        set!("avx512dq", Seventh, 17),
        set!("avx512bw", Seventh, 30),
        set!("avx512vl", Seventh, 31),
    ];
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_runs_these_tests() {
        assert_eq!(super::missing(), None);
    }

    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux")))]
    #[test]
    fn the_processor_is_read_as_the_standard_library_reads_it() {
        #[cfg(target_arch = "aarch64")]
        use std::arch::is_aarch64_feature_detected as is_detected;
        #[cfg(target_arch = "x86_64")]
        use std::arch::is_x86_feature_detected as is_detected;
        macro_rules! check {
            ($($name:tt)*) => {
                $(
                    let set = super::SETS.iter().find(|set| set.name == $name).expect("a known set");
                    assert_eq!(set.is_here(), is_detected!($name), $name);
                )*
            };
        }
        #[cfg(target_arch = "aarch64")]
        check!("aes" "sha2" "crc" "lse" "rdm" "rcpc" "fp16" "dotprod" "sve" "i8mm" "bf16");
        #[cfg(target_arch = "x86_64")]
        {
            check!("sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "avx" "f16c" "fma" "bmi1" "bmi2" "avx2" "lzcnt");
            check!("avx512f" "avx512dq" "avx512bw" "avx512vl");
        }
    }
}
