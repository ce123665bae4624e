//! Names of values: what stands on the command line, in files and in the signature. Meanings are elsewhere.

/// Gives the values of an enum their names: `ALL`, `name`, `Display`, and `FromStr`, which takes names in any
/// case, with `_` for `-`, and refuses others with a list. The text is what a message calls such a value.
macro_rules! names {
    ($kind:ty, $meaning:literal, { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $kind {
            /// All values in their order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the command line, in files and in the signature.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $kind {
            type Err = $crate::setup::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let plain = text.trim().to_lowercase().replace('_', "-");
                Self::ALL.iter().find(|known| known.name() == plain).copied().ok_or_else(|| Self::Err::Value {
                    option: $meaning.into(),
                    value: text.into(),
                    known: $crate::setup::either([$($name),+].into_iter()),
                })
            }
        }
    };
}
pub(crate) use names;
