//! Experts from GGUF metadata.
//!
//! Source: llama.cpp's `load_arch_hparams` and `build_moe_ffn`, which have constants where the format has no
//! key.

use super::{Reader, truth};
use crate::{
    Result,
    config::{Experts, Routing},
};

/// `llama_expert_gating_func_type` of llama.cpp.
#[derive(Clone, Copy)]
pub enum Gating {
    Softmax = 1,
    Sigmoid = 2,
    /// A softmax over the chosen logits, which equals one over all that is normalised.
    SoftmaxOfChosen = 3,
}

impl Reader<'_> {
    /// Experts in every layer, whose weights add up to one.
    pub fn experts(&self, gating: Gating) -> Result<Experts> {
        self.check_gating(gating)?;
        if !self.are_weights_normalised()? {
            return Err(self.bad("expert_weights_norm", "is not true, which is not supported"));
        }
        let routing = Routing::softmax(self.size("expert_used_count")?, true);
        self.experts_routed(Routing { scale: self.expert_scale()?, ..routing })
    }

    /// Experts in every layer.
    pub fn experts_routed(&self, routing: Routing) -> Result<Experts> {
        let n = self.size("expert_count")?;
        let width = match self.optional_size("expert_feed_forward_length")? {
            Some(width) => width,
            None => self.size("feed_forward_length")?,
        };
        Ok(Experts::new(n, width, routing, self.n_layers()?))
    }

    /// Columns of a dense feed-forward half; a model of experts alone may leave them out.
    pub(super) fn intermediate(&self) -> Result<usize> {
        let (key, of_experts) = ("feed_forward_length", "expert_feed_forward_length");
        match self.optional_size(key)? {
            None if self.optional_size("expert_count")?.unwrap_or(0) > 0 => self.size(of_experts),
            None => self.size(key),
            Some(width) => Ok(width),
        }
    }

    /// The factor of experts' weights; zero stands for a missing value.
    pub fn expert_scale(&self) -> Result<f32> {
        let scale = self.optional("expert_weights_scale")?.filter(|scale| *scale != 0.0);
        Ok(scale.map_or(1.0, |scale| scale as f32))
    }

    pub fn are_weights_normalised(&self) -> Result<bool> {
        let key = "expert_weights_norm";
        let switch = self.value(key).map_or(Some(true), truth);
        switch.ok_or_else(|| self.bad(key, "is not true or false"))
    }

    pub fn check_gating(&self, gating: Gating) -> Result<()> {
        let (key, expected) = ("expert_gating_func", gating as usize);
        // Zero stands for a missing value.
        match self.optional_size(key)?.filter(|kind| *kind != 0) {
            Some(kind) if kind != expected => {
                Err(self.bad(key, format!("is {kind}; only {expected} is supported for this architecture")))
            }
            _ => Ok(()),
        }
    }
}
