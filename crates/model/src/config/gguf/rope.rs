//! Rotary embedding from GGUF metadata.
//!
//! Source: llama.cpp's `load_hparams` and `llama_context`, and for YaRN's factors transformers, from which
//! files are converted: `attention_factor` replaces the factor that follows from the scaling, `attn_factor`
//! is multiplied with it.

use super::{Reader, Rope, Scaling, same};
use crate::{
    Error, Result,
    config::yarn_attention,
    gguf::{in_words, shown},
};

impl Reader<'_> {
    /// The rope of all layers but the sliding ones of Gemma; `base` is the family's base of frequencies.
    pub fn rope(&self, base: f64) -> Result<Rope> {
        let theta = self.base(&["rope.freq_base", "rope.global.freq_base"], base)?;
        let attn_factor = self.above_zero("rope.scaling.attn_factor")?.unwrap_or(1.0);
        let kind = self.rope_type()?;
        if kind != "yarn" {
            self.check_only_yarn(attn_factor)?;
        }
        let factor = self.rope_factor()?;
        let scaling = match (kind, self.tensors.factors.as_ref()) {
            ("none", None) => Scaling::None,
            ("none", Some(factors)) => Scaling::Factors(factors.clone()),
            ("linear", Some(factors)) => {
                Scaling::Factors(factors.iter().map(|by| (f64::from(*by) * factor) as f32).collect())
            }
            ("linear", None) if same(factor, 1.0) => Scaling::None,
            ("linear", None) => Scaling::Linear(factor),
            ("yarn", None) => self.yarn(factor, attn_factor)?,
            ("yarn", Some(_)) => {
                let reason = "is `yarn` beside a tensor `rope_freqs.weight`, which is not supported";
                return Err(self.bad("rope.scaling.type", reason));
            }
            (other, _) => {
                let reason = format!("is `{}`, which is not supported", shown(other));
                return Err(self.bad("rope.scaling.type", reason));
            }
        };
        Ok(Rope { theta, scaling })
    }

    pub fn rope_type(&self) -> Result<&str> {
        let key = "rope.scaling.type";
        let Some(value) = self.value(key) else { return Ok("linear") };
        let not_text = |_| self.bad(key, format!("is `{}`, not a string", in_words(value)));
        value.to_string().map(String::as_str).map_err(not_text)
    }

    /// The rope of Gemma's sliding layers.
    pub fn local_rope(&self) -> Result<Rope> {
        let theta = self.base(&["rope.freq_base_swa", "rope.local.freq_base"], 1e4)?;
        Ok(Rope { theta, scaling: Scaling::None })
    }

    /// A fault of the tensor with the factors of the rope.
    pub fn bad_factors(&self, reason: &str) -> Error {
        Error::Config { path: self.path.into(), key: "rope_freqs.weight".into(), reason: reason.into() }
    }

    /// Positions of pretraining.
    pub fn original(&self) -> Result<usize> {
        match self.optional_size("rope.scaling.original_context_length")?.filter(|n| *n > 0) {
            Some(original) => Ok(original),
            None => self.size("context_length"),
        }
    }

    fn yarn(&self, factor: f64, attn_factor: f64) -> Result<Scaling> {
        let original = self.original()?;
        // A negative number stands for a missing value.
        let ext_factor = self.optional("rope.scaling.yarn_ext_factor")?.filter(|factor| *factor >= 0.0);
        if let Some(other) = ext_factor.filter(|factor| !same(*factor, 1.0)) {
            let reason = format!("is {other}; only 1 is supported");
            return Err(self.bad("rope.scaling.yarn_ext_factor", reason));
        }
        let log_multiplier = match self
            .optional("rope.scaling.yarn_log_multiplier")?
            .filter(|multiplier| *multiplier != 0.0)
        {
            // The weight of the logarithm in the divisor, where that in the dividend is 1.
            Some(weight) => Some(yarn_attention(factor) / (1.0 + weight * (yarn_attention(factor) - 1.0))),
            None => self.above_zero("rope.scaling.yarn_attn_factor")?,
        };
        let is_stated = log_multiplier.is_some() || !same(attn_factor, 1.0);
        let attention = log_multiplier.unwrap_or_else(|| yarn_attention(factor)) * attn_factor;
        Ok(Scaling::Yarn {
            factor,
            original: original as f64,
            beta_fast: self.above_zero("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: self.above_zero("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            attention: is_stated.then_some(attention),
            truncate: true,
        })
    }

    /// Checks that no key would change a rope that is not YaRN, which does not support it.
    fn check_only_yarn(&self, attn_factor: f64) -> Result<()> {
        if !same(attn_factor, 1.0) {
            let reason = format!("is {attn_factor}, which is supported with the scaling `yarn` alone");
            return Err(self.bad("rope.scaling.attn_factor", reason));
        }
        let key = "rope.scaling.yarn_ext_factor";
        match self.optional(key)?.filter(|factor| *factor > 0.0) {
            Some(factor) => {
                let reason = format!("is {factor}, which is supported with the scaling `yarn` alone");
                Err(self.bad(key, reason))
            }
            None => Ok(()),
        }
    }

    /// The divisor of positions: under its current name, or else under its old one; zero stands for a missing
    /// value.
    pub fn rope_factor(&self) -> Result<f64> {
        let of =
            |key| Ok::<_, Error>(self.optional(key)?.map(|factor| if factor == 0.0 { 1.0 } else { factor }));
        let (key, old_key) = ("rope.scaling.factor", "rope.scale_linear");
        let factor = match (of(key)?, of(old_key)?) {
            (Some(factor), Some(old)) if !same(factor, old) => {
                let reason = format!("is {old}, and `{}.{key}` is {factor}", self.prefix);
                return Err(self.bad(old_key, reason));
            }
            (factor, old) => factor.or(old).unwrap_or(1.0),
        };
        if factor < 0.0 {
            return Err(self.bad(key, format!("is {factor}, which is not above 0")));
        }
        Ok(factor)
    }

    /// The base of the frequencies, which writers put under any of some keys.
    fn base(&self, keys: &[&str], default: f64) -> Result<f64> {
        let mut found: Option<(&str, f64)> = None;
        for key in keys {
            let Some(base) = self.above_zero(key)? else { continue };
            match found {
                Some((other, theta)) if !same(theta, base) => {
                    let reason = format!("is {base}, and `{}.{other}` is {theta}", self.prefix);
                    return Err(self.bad(key, reason));
                }
                _ => found = Some((key, base)),
            }
        }
        Ok(found.map_or(default, |(_, base)| base))
    }

    pub fn above_zero(&self, key: &str) -> Result<Option<f64>> {
        match self.optional(key)? {
            Some(number) if number <= 0.0 => Err(self.bad(key, format!("is {number}, which is not above 0"))),
            number => Ok(number),
        }
    }
}
