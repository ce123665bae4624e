//! Rotary embedding from GGUF metadata.
//!
//! Source: llama.cpp's `load_hparams` and `llama_context`, and for YaRN's factors transformers, from which
//! files are converted: `attention_factor` replaces the factor that follows from the scaling, `attn_factor`
//! is multiplied with it.

use super::{Arch, QueryGrowth, Reader, Rope, Scaling, same};
use crate::{
    Error,
    config::yarn_attention,
    gguf::{in_words, shown},
};

impl Reader<'_> {
    /// The rope of all layers but the sliding ones of Gemma.
    pub(super) fn rope(&self, arch: Arch, factors: Option<Vec<f32>>) -> Result<Rope, Error> {
        let default = if matches!(arch, Arch::Gemma3 | Arch::Gemma4) { 1e6 } else { 1e4 };
        let theta = self.base(&["rope.freq_base", "rope.global.freq_base"], default)?;
        let attn_factor = self.above_zero("rope.scaling.attn_factor")?.unwrap_or(1.0);
        let kind = match self.value("rope.scaling.type") {
            Some(value) => value.to_string().map(String::as_str).map_err(|_| {
                self.bad("rope.scaling.type", format!("is `{}`, not a string", in_words(value)))
            })?,
            None => "linear",
        };
        if kind != "yarn" {
            self.check_only_yarn(attn_factor)?;
        }
        let factor = self.factor()?;
        let scaling =
            match (kind, factors) {
                (_, None) if arch == Arch::Gemma4 => return Err(self.bad_factors("is missing")),
                ("none", None) => Scaling::None,
                ("none", Some(factors)) => Scaling::Factors(factors),
                ("linear", Some(factors)) if arch == Arch::Gemma4 => proportional(&factors, factor)
                    .ok_or_else(|| {
                        self.bad_factors("is not a run of ones followed by values of at least 1e20")
                    })?,
                ("linear", Some(factors)) => {
                    Scaling::Factors(factors.into_iter().map(|by| (f64::from(by) * factor) as f32).collect())
                }
                ("linear", None) if same(factor, 1.0) => Scaling::None,
                ("linear", None) => Scaling::Linear(factor),
                ("yarn", None) => self.yarn(arch, factor, attn_factor)?,
                ("yarn", Some(_)) => {
                    let reason = "is `yarn` beside a tensor `rope_freqs.weight`, which is not supported";
                    return Err(self.bad("rope.scaling.type", reason));
                }
                (other, _) => {
                    return Err(self
                        .bad("rope.scaling.type", format!("is `{}`, which is not supported", shown(other))));
                }
            };
        Ok(Rope { theta, scaling })
    }

    /// A fault of the tensor with the factors of the rope.
    fn bad_factors(&self, reason: &str) -> Error {
        Error::Config { path: self.path.into(), key: "rope_freqs.weight".into(), reason: reason.into() }
    }

    /// The rope of Gemma's sliding layers.
    pub(super) fn local_rope(&self) -> Result<Rope, Error> {
        let theta = self.base(&["rope.freq_base_swa", "rope.local.freq_base"], 1e4)?;
        Ok(Rope { theta, scaling: Scaling::None })
    }

    /// The growth of queries with their position.
    pub(super) fn query_growth(&self, arch: Arch) -> Result<Option<QueryGrowth>, Error> {
        let beta = self.optional("attention.temperature_scale")?.filter(|beta| *beta != 0.0);
        let Some(beta) = beta.filter(|_| arch == Arch::Ministral3) else { return Ok(None) };
        Ok(Some(QueryGrowth { beta, original: self.original()? as f64 }))
    }

    /// Positions of pretraining.
    fn original(&self) -> Result<usize, Error> {
        match self.optional_size("rope.scaling.original_context_length")?.filter(|n| *n > 0) {
            Some(original) => Ok(original),
            None => self.size("context_length"),
        }
    }

    fn yarn(&self, arch: Arch, factor: f64, attn_factor: f64) -> Result<Scaling, Error> {
        let original = self.original()?;
        // A negative number stands for a missing value.
        let ext_factor = self.optional("rope.scaling.yarn_ext_factor")?.filter(|factor| *factor >= 0.0);
        if let Some(other) = ext_factor.filter(|factor| !same(*factor, 1.0)) {
            let reason = format!("is {other}; only 1 is supported");
            return Err(self.bad("rope.scaling.yarn_ext_factor", reason));
        }
        let own = match self
            .optional("rope.scaling.yarn_log_multiplier")?
            .filter(|multiplier| *multiplier != 0.0)
        {
            // The weight of the logarithm in the divisor, where that in the dividend is 1.
            Some(weight) => Some(yarn_attention(factor) / (1.0 + weight * (yarn_attention(factor) - 1.0))),
            None => self.above_zero("rope.scaling.yarn_attn_factor")?,
        };
        let is_stated = own.is_some() || !same(attn_factor, 1.0);
        let attention = own.unwrap_or_else(|| yarn_attention(factor)) * attn_factor;
        Ok(Scaling::Yarn {
            factor,
            original: original as f64,
            beta_fast: self.above_zero("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: self.above_zero("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            attention: is_stated.then_some(attention),
            // The model's own setting; the format has no key for it.
            truncate: arch != Arch::GptOss,
        })
    }

    /// Checks that no key would change a rope that is not YaRN, which does not support it.
    fn check_only_yarn(&self, attn_factor: f64) -> Result<(), Error> {
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
    fn factor(&self) -> Result<f64, Error> {
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
    fn base(&self, keys: &[&str], default: f64) -> Result<f64, Error> {
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

    pub(super) fn above_zero(&self, key: &str) -> Result<Option<f64>, Error> {
        match self.optional(key)? {
            Some(number) if number <= 0.0 => Err(self.bad(key, format!("is {number}, which is not above 0"))),
            number => Ok(number),
        }
    }
}

/// Divisors of the first frequencies that are 1, of all others so large that these pairs are not rotated.
fn proportional(factors: &[f32], factor: f64) -> Option<Scaling> {
    const NEVER: f32 = 1e20;
    let pairs = factors.iter().take_while(|by| same(f64::from(**by), 1.0)).count();
    let others = factors[pairs..].iter().all(|by| *by >= NEVER);
    others.then_some(Scaling::Proportional { pairs, factor })
}
