//! Experts from GGUF metadata.
//!
//! Source: llama.cpp's `load_arch_hparams` and `build_moe_ffn`, which have constants where the format has no
//! key.

use super::{Arch, Reader};
use crate::{
    Error,
    config::{Experts, Routing, Scoring, SharedExpert},
};

/// `LLAMA_EXPERT_GATING_FUNC_TYPE_SOFTMAX`.
const SOFTMAX: usize = 1;
/// `LLAMA_EXPERT_GATING_FUNC_TYPE_SOFTMAX_WEIGHT`.
const SOFTMAX_WEIGHT: usize = 3;
/// `LLAMA_EXPERT_GATING_FUNC_TYPE_SIGMOID`.
const SIGMOID: usize = 2;

impl Reader<'_> {
    /// The experts of an architecture that has them.
    pub(super) fn experts(&self, arch: Arch, n_layers: usize) -> Result<Option<Experts>, Error> {
        match arch {
            Arch::Qwen3Moe => self.qwen3(n_layers).map(Some),
            Arch::Glm4Moe => self.glm4(n_layers).map(Some),
            Arch::Qwen35Moe | Arch::Qwen3Next => self.hybrid(n_layers).map(Some),
            Arch::Gemma4 if self.optional_size("expert_count")?.unwrap_or(0) > 0 => {
                let experts = self.qwen3(n_layers)?;
                let routing = Routing { expert_factors: true, ..experts.routing };
                Ok(Some(Experts { routing, beside_dense: true, ..experts }))
            }
            Arch::GptOss => {
                let experts = Experts { biases: true, ..self.weighted_softmax(n_layers)? };
                let routing = Routing { logit_bias: true, ..experts.routing };
                Ok(Some(Experts { routing, ..experts }))
            }
            _ => Ok(None),
        }
    }

    /// Columns of a dense feed-forward half; a model of experts alone may leave them out.
    pub(super) fn intermediate(&self, arch: Arch) -> Result<usize, Error> {
        let key = "feed_forward_length";
        match self.optional_size(key)? {
            None if matches!(arch, Arch::Qwen3Moe | Arch::Qwen35Moe | Arch::Qwen3Next | Arch::GptOss) => {
                self.size("expert_feed_forward_length")
            }
            None => self.size(key),
            Some(width) => Ok(width),
        }
    }

    /// A softmax over the chosen logits, which equals one over all that is normalised.
    fn weighted_softmax(&self, n_layers: usize) -> Result<Experts, Error> {
        self.check_gating(SOFTMAX_WEIGHT)?;
        self.normalised(n_layers)
    }

    /// Every layer has experts, and their weights add up to one.
    fn qwen3(&self, n_layers: usize) -> Result<Experts, Error> {
        self.check_gating(SOFTMAX)?;
        self.normalised(n_layers)
    }

    fn normalised(&self, n_layers: usize) -> Result<Experts, Error> {
        self.check_switch("expert_weights_norm", true)?;
        let top_k = self.size("expert_used_count")?;
        let routing = Routing { scale: self.expert_scale()?, ..Routing::softmax(top_k, true) };
        Ok(Experts {
            n: self.size("expert_count")?,
            width: self.size("expert_feed_forward_length")?,
            routing,
            shared: None,
            biases: false,
            beside_dense: false,
            layers: vec![true; n_layers],
        })
    }

    /// Qwen's hybrids: Qwen3's experts with a gated shared expert.
    fn hybrid(&self, n_layers: usize) -> Result<Experts, Error> {
        let width = self.size("expert_shared_feed_forward_length")?;
        Ok(Experts { shared: Some(SharedExpert { width, is_gated: true }), ..self.qwen3(n_layers)? })
    }

    /// All layers but the first ones have experts.
    fn glm4(&self, n_layers: usize) -> Result<Experts, Error> {
        self.check_gating(SIGMOID)?;
        let width = self.size("expert_feed_forward_length")?;
        let is_normalised = match self.value("expert_weights_norm").map(super::truth) {
            None => true,
            Some(switch) => switch.ok_or_else(|| self.bad("expert_weights_norm", "is not true or false"))?,
        };
        let groups = |key| Ok::<_, Error>(self.optional_size(key)?.filter(|n| *n > 0).unwrap_or(1));
        let n_shared = self.optional_size("expert_shared_count")?.unwrap_or(0);
        let first = self.optional_size("leading_dense_block_count")?.unwrap_or(0);
        Ok(Experts {
            n: self.size("expert_count")?,
            width,
            routing: Routing {
                scoring: Scoring::Sigmoid,
                top_k: self.size("expert_used_count")?,
                has_bias: true,
                n_groups: groups("expert_group_count")?,
                top_groups: groups("expert_group_used_count")?,
                normalised: is_normalised.then_some(1e-20),
                scale: self.expert_scale()?,
                logit_bias: false,
                expert_factors: false,
            },
            shared: (n_shared > 0)
                .then_some(SharedExpert { width: n_shared.saturating_mul(width), is_gated: false }),
            biases: false,
            beside_dense: false,
            layers: (0..n_layers).map(|layer| layer >= first).collect(),
        })
    }

    /// The factor of experts' weights; zero stands for a missing value.
    fn expert_scale(&self) -> Result<f32, Error> {
        let scale = self.optional("expert_weights_scale")?.filter(|scale| *scale != 0.0);
        Ok(scale.map_or(1.0, |scale| scale as f32))
    }

    fn check_gating(&self, expected: usize) -> Result<(), Error> {
        let key = "expert_gating_func";
        // Zero stands for a missing value.
        match self.optional_size(key)?.filter(|kind| *kind != 0) {
            Some(kind) if kind != expected => {
                Err(self.bad(key, format!("is {kind}; only {expected} is supported for this architecture")))
            }
            _ => Ok(()),
        }
    }

    fn check_switch(&self, key: &str, expected: bool) -> Result<(), Error> {
        match self.value(key).map(super::truth) {
            None => Ok(()),
            Some(Some(value)) if value == expected => Ok(()),
            Some(_) => Err(self.bad(key, format!("is not {expected}, which is not supported"))),
        }
    }
}
