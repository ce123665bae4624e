//! Gated DeltaNet from a `config.json`.

use super::{Settings, shown};
use crate::{
    Result,
    config::{Config, DeltaNet, QkNorm},
};

const INTERVAL: &str = "full_attention_interval";

impl Settings<'_> {
    /// A decoder with Gated DeltaNet in some layers and gated attention in the others.
    pub fn hybrid(&self) -> Result<Config> {
        // The activation of the gate on DeltaNet's output; the gate of attention is always a sigmoid.
        let gate = "output_gate_type";
        if let Some(value) =
            self.given(gate).filter(|value| !matches!(value.as_str(), Some("swish" | "silu")))
        {
            return Err(self.bad(gate, format!("is {}; only `swish` is supported", shown(value))));
        }
        Ok(Config {
            norm_plus_one: true,
            qk_norm: QkNorm::Heads,
            gated_attention: true,
            delta_net: Some(self.delta_net()?),
            ..self.decoder(self.without_windows()?)?
        })
    }

    fn delta_net(&self) -> Result<DeltaNet> {
        let (n_key_heads, n_value_heads) =
            (self.needed_size("linear_num_key_heads")?, self.needed_size("linear_num_value_heads")?);
        if n_key_heads == 0 || !n_value_heads.is_multiple_of(n_key_heads) {
            let reason =
                format!("is {n_value_heads}, not a multiple of `linear_num_key_heads`, {n_key_heads}");
            return Err(self.bad("linear_num_value_heads", reason));
        }
        Ok(DeltaNet {
            n_key_heads,
            n_value_heads,
            key_dim: self.needed_size("linear_key_head_dim")?,
            value_dim: self.needed_size("linear_value_head_dim")?,
            conv: self.needed_size("linear_conv_kernel_dim")?,
            layers: self.linear_layers()?,
            is_tiled: false,
        })
    }

    /// For each layer, true if it has DeltaNet: by `layer_types`, else all but each
    /// `full_attention_interval`-th.
    fn linear_layers(&self) -> Result<Vec<bool>> {
        let (n_layers, interval) = (self.n_layers()?, self.size(INTERVAL)?);
        if interval == Some(0) {
            return Err(self.bad(INTERVAL, "is 0; a number from 1 was expected"));
        }
        let by_interval = |interval: usize| -> Vec<bool> {
            (1..=n_layers).map(|layer| !layer.is_multiple_of(interval)).collect()
        };
        let Some(listed) = self.layer_types("linear_attention")? else {
            return Ok(by_interval(interval.unwrap_or(4)));
        };
        match interval {
            Some(interval) if by_interval(interval) != listed => Err(self.bad(
                INTERVAL,
                format!("is {interval}, which contradicts `layer_types`; hint: remove one of them"),
            )),
            _ => Ok(listed),
        }
    }
}
