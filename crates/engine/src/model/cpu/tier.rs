//! Which instructions products and attention are computed with. A [`Tier`] that this machine lacks cannot be made.

/// The instructions of a computation, slowest first. The existence of a value says that the machine has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier(Instructions);

/// What a tier stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Instructions {
    /// Plain Rust.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, VNNI and BF16, and those of AVX2.
    Avx512,
}

impl Tier {
    /// Plain Rust, on any machine.
    pub const PORTABLE: Self = Self(Instructions::Portable);

    /// The names of all tiers, slowest first.
    pub const NAMES: [&str; 3] = ["portable", "avx2", "avx512"];

    /// The fastest tier of this machine.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("avx512bf16");
            match (avx2, avx512) {
                (true, true) => return Self(Instructions::Avx512),
                (true, false) => return Self(Instructions::Avx2),
                _ => {}
            }
        }
        Self::PORTABLE
    }

    /// All tiers of this machine, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let all = [Instructions::Portable, Instructions::Avx2, Instructions::Avx512];
        all.into_iter().map(Self).filter(|&tier| tier <= Self::detect())
    }

    /// The tier of this name; `None` where there is none, or this machine lacks it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|tier| tier.name() == name)
    }

    /// As flags and signatures spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Portable => Self::NAMES[0],
            Instructions::Avx2 => Self::NAMES[1],
            Instructions::Avx512 => Self::NAMES[2],
        }
    }

    /// Whether it multiplies pairs of `bf16` in one instruction.
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
        assert_eq!(Tier::named("portable"), Some(Tier::PORTABLE));
        assert_eq!(Tier::named("sse9"), None);
        let here: Vec<&str> = Tier::available().map(Tier::name).collect();
        assert_eq!(here, Tier::NAMES[..here.len()]);
        assert_eq!(Tier::named(Tier::detect().name()), Some(Tier::detect()));
        for name in &Tier::NAMES[here.len()..] {
            assert_eq!(Tier::named(name), None, "this machine lacks {name}");
        }
    }
}
