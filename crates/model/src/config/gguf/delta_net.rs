//! Gated DeltaNet from GGUF metadata.
//!
//! Source: llama.cpp's `load_arch_hparams`, and its converter, which puts the value heads of Qwen3.5 that
//! take one key head as many places apart as there are key heads.

use super::Reader;
use crate::{
    Config, Result,
    config::{DeltaNet, QkNorm},
};

/// The distance between layers of full attention in files without a key for it.
const INTERVAL: usize = 4;

impl Reader<'_> {
    /// A decoder with Gated DeltaNet in some layers and gated attention in the others.
    pub fn hybrid(&self) -> Result<Config> {
        let decoder = self.decoder(self.without_windows()?)?;
        let delta_net = Some(self.delta_net(decoder.n_layers)?);
        Ok(Config { qk_norm: QkNorm::Heads, gated_attention: true, delta_net, ..decoder })
    }

    fn delta_net(&self, n_layers: usize) -> Result<DeltaNet> {
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
        Ok(DeltaNet {
            n_key_heads,
            n_value_heads,
            key_dim: self.size("ssm.state_size")?,
            value_dim: values / n_value_heads,
            conv: self.size("ssm.conv_kernel")?,
            layers: self.recurrent_layers(n_layers)?,
            is_tiled: true,
        })
    }

    /// For each layer, true if it has DeltaNet: by the file's list, else all but each
    /// `full_attention_interval`-th.
    fn recurrent_layers(&self, n_layers: usize) -> Result<Vec<bool>> {
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
