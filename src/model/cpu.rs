//! CPU kernels and the tier that runs them. Slices in, slices out; no tensors.
//! The only room but the memory map and the CUDA launches where `unsafe` is allowed.

pub mod activate;

pub mod attend;

pub mod lanes;

/// Instructions that a kernel may use. Kernels over [`lanes::Lanes`] give the same bits on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Portable,
    /// AVX2, FMA, F16C.
    Avx2,
    /// AVX-512 F, BW, VL, VNNI, BF16.
    Avx512,
}

impl Tier {
    /// The best tier of this machine.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("avx512bf16");
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx512 && avx2 {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Portable
    }
}

/// Runs a generic kernel on the lanes of a tier.
macro_rules! on_tier {
    ($tier:expr, $name:ident<$($l:ident),*>($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments, reason = "the kernel's own")]
            fn avx512<$($l: $crate::model::cpu::lanes::Stored),*>($($arg: $ty),*) {
                $name::<$crate::model::cpu::lanes::Avx512 $(, $l)*>($($arg),*)
            }
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments, reason = "the kernel's own")]
            fn avx2<$($l: $crate::model::cpu::lanes::Stored),*>($($arg: $ty),*) {
                $name::<$crate::model::cpu::lanes::Avx2 $(, $l)*>($($arg),*)
            }
            match $tier {
                // SAFETY: `Tier::detect` or the caller's own check found the features on this machine.
                $crate::model::cpu::Tier::Avx512 => unsafe { avx512::<$($l),*>($($arg),*) },
                // SAFETY: as above.
                $crate::model::cpu::Tier::Avx2 => unsafe { avx2::<$($l),*>($($arg),*) },
                $crate::model::cpu::Tier::Portable => {
                    $name::<$crate::model::cpu::lanes::Portable $(, $l)*>($($arg),*)
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        $name::<$crate::model::cpu::lanes::Portable $(, $l)*>($($arg),*)
    }};
}
pub(crate) use on_tier;
