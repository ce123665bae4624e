//! Gated DeltaNet from GGUF metadata.
//!
//! Source: llama.cpp's `load_arch_hparams`, and its converter, which puts the value heads of Qwen3.5 that
//! take one key head as many places apart as there are key heads.

use super::{Arch, Reader};
use crate::{Error, config::DeltaNet};

/// The distance between layers of full attention in files without a key for it.
const INTERVAL: usize = 4;

impl Reader<'_> {
    /// The Gated DeltaNet of an architecture that has it.
    pub(super) fn delta_net(&self, arch: Arch, n_layers: usize) -> Result<Option<DeltaNet>, Error> {
        if !arch.is_hybrid() {
            return Ok(None);
        }
        let (n_key_heads, n_value_heads) = (self.size("ssm.group_count")?, self.size("ssm.time_step_rank")?);
        let values = self.size("ssm.inner_size")?;
        if n_key_heads == 0 || n_value_heads == 0 || !n_value_heads.is_multiple_of(n_key_heads) {
            let reason = format!("is {n_value_heads}, not a multiple of `ssm.group_count`, {n_key_heads}");
            return Err(self.bad("ssm.time_step_rank", reason));
        }
        if !values.is_multiple_of(n_value_heads) {
            let reason = format!("is {values}, not a multiple of `ssm.time_step_rank`, {n_value_heads}");
            return Err(self.bad("ssm.inner_size", reason));
        }
        Ok(Some(DeltaNet {
            n_key_heads,
            n_value_heads,
            key_dim: self.size("ssm.state_size")?,
            value_dim: values / n_value_heads,
            conv: self.size("ssm.conv_kernel")?,
            layers: self.recurrent_layers(n_layers)?,
            is_tiled: arch != Arch::Qwen3Next,
        }))
    }

    /// For each layer, true if it has DeltaNet: by the file's list, else all but each
    /// `full_attention_interval`-th.
    fn recurrent_layers(&self, n_layers: usize) -> Result<Vec<bool>, Error> {
        let (key, list) = ("full_attention_interval", "attention.recurrent_layers");
        let interval = self.optional_size(key)?;
        if interval == Some(0) {
            return Err(self.bad(key, "is 0; a number from 1 was expected"));
        }
        let regular = |interval: usize| -> Vec<bool> {
            (1..=n_layers).map(|layer| !layer.is_multiple_of(interval)).collect()
        };
        let Some(listed) = self.switches(list, n_layers)? else {
            return Ok(regular(interval.unwrap_or(INTERVAL)));
        };
        match interval {
            Some(interval) if regular(interval) != listed => {
                Err(self.bad(list, format!("contradicts `{}.{key}`, {interval}", self.prefix)))
            }
            _ => Ok(listed),
        }
    }
}
