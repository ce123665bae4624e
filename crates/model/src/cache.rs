//! The shape of the paged KV cache; each backend keeps its own. The engine assigns blocks to sequences.

use super::Config;

/// Tokens of a block of the cache.
pub const BLOCK: usize = 16;

/// Number type of the cached keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    #[default]
    Bf16,
    F16,
    F32,
}

impl KvType {
    /// The spelling in flags and signatures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }

    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// Bytes that one block takes over all layers of a model that have keys and values.
    pub fn block_bytes(self, config: &Config) -> usize {
        config.cached() * BLOCK * self.bytes()
    }
}
