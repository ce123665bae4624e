//! Experts from GGUF metadata.
//!
//! Source: llama.cpp's `load_arch_hparams` and `build_moe_ffn`, which have constants where the format has no key.

use super::{Arch, Reader};
use crate::model::{
    Error,
    config::{Experts, Routing},
};

/// `LLAMA_EXPERT_GATING_FUNC_TYPE_SOFTMAX`.
const SOFTMAX: usize = 1;

impl Reader<'_> {
    /// The experts of an architecture that has them.
    pub(super) fn experts(&self, arch: Arch, n_layers: usize) -> Result<Option<Experts>, Error> {
        match arch {
            Arch::Qwen3Moe => self.qwen3(n_layers).map(Some),
            Arch::Llama | Arch::Mistral | Arch::Qwen2 | Arch::Qwen3 | Arch::Gemma3 => Ok(None),
        }
    }

    /// Columns of a dense feed-forward half; a model of experts alone may leave them out.
    pub(super) fn intermediate(&self, arch: Arch) -> Result<usize, Error> {
        let key = "feed_forward_length";
        match self.optional_size(key)? {
            None if arch == Arch::Qwen3Moe => self.size("expert_feed_forward_length"),
            None => self.size(key),
            Some(width) => Ok(width),
        }
    }

    /// Every layer has experts, and their weights add up to one.
    fn qwen3(&self, n_layers: usize) -> Result<Experts, Error> {
        self.check_gating(SOFTMAX)?;
        self.check_switch("expert_weights_norm", true)?;
        let top_k = self.size("expert_used_count")?;
        let routing = Routing { scale: self.expert_scale()?, ..Routing::softmax(top_k, true) };
        Ok(Experts {
            n: self.size("expert_count")?,
            width: self.size("expert_feed_forward_length")?,
            routing,
            shared: None,
            layers: vec![true; n_layers],
        })
    }

    /// What the weights of experts are multiplied by; zero is how it is left out.
    fn expert_scale(&self) -> Result<f32, Error> {
        let scale = self.optional("expert_weights_scale")?.filter(|scale| *scale != 0.0);
        Ok(scale.map_or(1.0, |scale| scale as f32))
    }

    fn check_gating(&self, expected: usize) -> Result<(), Error> {
        let key = "expert_gating_func";
        // Zero is how it is left out.
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
