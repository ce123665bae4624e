//! Rotary embeddings from the top level, `rope_scaling` and `rope_parameters`, flat or by layer type.
//! Contradictions between them are rejected.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value, json};

use super::{
    super::{Arch, QueryGrowth, Rope, Scaling},
    settings::{self, Settings, is_same, shown},
};
use crate::Error;

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// Keys that every type of rope may have.
const COMMON: [&str; 5] =
    ["rope_theta", "rope_type", "partial_rotary_factor", "original_max_position_embeddings", "finetuned"];

/// Types of rope, each with the further keys that it reads.
const TYPES: [(&str, &[&str]); 6] = [
    ("default", &[]),
    ("linear", &["factor"]),
    ("dynamic", &["factor", "alpha"]),
    ("llama3", &["factor", "low_freq_factor", "high_freq_factor"]),
    (
        "yarn",
        &["factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"],
    ),
    ("proportional", &["factor"]),
];

/// Keys beside those of YaRN in Hunyuan's files for a rope of constant alpha, which reads none of them.
const BESIDE_ALPHA: [&str; 4] = ["beta_fast", "beta_slow", "mscale", "mscale_all_dim"];

/// A key of Ministral's YaRN alone: the growth of queries.
const GROWTH: &str = "llama_4_scaling_beta";
const OF_MINISTRAL: [&str; 2] = [GROWTH, "max_position_embeddings"];

/// The assignment of a head's rotated values to an image's coordinates; a text has the same position in all.
const OF_IMAGES: [&str; 2] = ["mrope_section", "mrope_interleaved"];

/// The rope of `Ministral3Config` where the file has none.
static OF_MINISTRAL_CLASS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let rope = json!({"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1});
    rope.as_object().cloned().unwrap_or_default()
});

/// The ropes of `Gemma4TextConfig` where the file has none.
static OF_GEMMA4_CLASS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let ropes = json!({SLIDING: {"rope_type": "default", "rope_theta": 1e4},
        FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}});
    ropes.as_object().cloned().unwrap_or_default()
});

/// The rope of `GptOssConfig` where the file has none.
static OF_GPT_OSS_CLASS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let rope = json!({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
        "original_max_position_embeddings": 4096});
    rope.as_object().cloned().unwrap_or_default()
});

/// Returns true if full and sliding layers have ropes of their own.
fn has_two(arch: Arch) -> bool {
    matches!(arch, Arch::Gemma3 | Arch::Gemma4)
}

/// The growth of queries with their position.
pub fn query_growth(s: &Settings<'_>, arch: Arch) -> Result<Option<QueryGrowth>, Error> {
    if arch != Arch::Ministral3 {
        return Ok(None);
    }
    let stated = Stated::of(s, arch, FULL)?;
    if stated.kind()? != "yarn" {
        return Err(stated.bad("rope_type", "is not `yarn`; only that is supported with queries that grow"));
    }
    let beta = stated.number(GROWTH)?;
    let beta =
        beta.ok_or_else(|| stated.bad(GROWTH, format!("needs `{GROWTH}` beside it, which is missing")))?;
    Ok(Some(QueryGrowth { beta, original: stated.original()? }))
}

/// The rope of full layers, whose heads have `head_dim` values, and, where it differs, of sliding layers.
pub fn ropes(s: &Settings<'_>, arch: Arch, head_dim: usize) -> Result<(Rope, Option<Rope>), Error> {
    let full = Stated::of(s, arch, FULL)?;
    let rope = full.rope(FULL, head_dim)?;
    let key = "initial_context_length";
    if let (Arch::GptOss, Some(initial)) = (arch, s.size(key)?)
        && full.original()?.total_cmp(&(initial as f64)).is_ne()
    {
        let reason = format!("is {initial}, not the positions of pretraining that the rope has");
        return Err(s.bad(key, reason));
    }
    if !has_two(arch) {
        return Ok((rope, None));
    }
    full.covers_what_is_flat(&rope)?;
    let sliding = Stated::of(s, arch, SLIDING)?;
    if sliding.kind()? == "proportional" {
        return Err(sliding.bad("rope_type", "is `proportional`; that is supported for full layers only"));
    }
    Ok((rope, Some(sliding.rope(SLIDING, head_dim)?)))
}

/// The values of a head that are rotated.
pub fn rotary_dim(s: &Settings<'_>, arch: Arch, head_dim: usize) -> Result<usize, Error> {
    for layer_type in [FULL, SLIDING] {
        if layer_type == SLIDING && !has_two(arch) {
            continue;
        }
        let stated = Stated::of(s, arch, layer_type)?;
        if stated.kind()? == "proportional" {
            // All values are rotated, most of them by an angle of 0.
            continue;
        }
        let Some((place, value)) = stated.by_key.get("partial_rotary_factor") else { continue };
        if arch.rotates_in_part() {
            let factor = settings::positive(value).filter(|factor| *factor <= 1.0);
            let reason =
                || s.bad(place, format!("is {}; a number above 0, at most 1, was expected", shown(value)));
            return Ok((head_dim as f64 * factor.ok_or_else(reason)?) as usize);
        }
        if value.as_f64() != Some(1.0) {
            return Err(s.bad(place, format!("is {}; only 1.0 is supported", shown(value))));
        }
    }
    Ok(match arch {
        Arch::Glm4Moe => head_dim / 2,
        arch if arch.is_hybrid() => head_dim / 4,
        _ => head_dim,
    })
}

/// The settings of one rope by key, each with the path that it was read from.
struct Stated<'a> {
    settings: &'a Settings<'a>,
    arch: Arch,
    by_key: BTreeMap<&'a str, (String, &'a Value)>,
}

impl<'a> Stated<'a> {
    fn of(settings: &'a Settings<'a>, arch: Arch, layer_type: &str) -> Result<Self, Error> {
        let mut stated = Self { settings, arch, by_key: BTreeMap::new() };
        let has_two = has_two(arch);
        let theta = if layer_type == SLIDING { "rope_local_base_freq" } else { "rope_theta" };
        for (key, place) in [
            ("rope_theta", theta),
            ("partial_rotary_factor", "partial_rotary_factor"),
            ("original_max_position_embeddings", "original_max_position_embeddings"),
        ] {
            if let Some(value) = settings.given(place) {
                stated.put(key, place.into(), value)?;
            }
        }
        let objects = ["rope_scaling", "rope_parameters"];
        let of_class = match arch {
            Arch::Ministral3 => Some(&*OF_MINISTRAL_CLASS),
            Arch::GptOss => Some(&*OF_GPT_OSS_CLASS),
            Arch::Gemma4 => OF_GEMMA4_CLASS.get(layer_type).and_then(Value::as_object),
            _ => None,
        };
        if objects.iter().all(|place| settings.given(place).is_none()) {
            for (key, value) in of_class.into_iter().flatten() {
                stated.by_key.entry(key).or_insert((format!("rope_parameters.{key}"), value));
            }
        }
        for place in objects {
            let Some(object) = settings.object(place)? else { continue };
            for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{place}.{key}");
                if [FULL, SLIDING].contains(&key.as_str()) {
                    if key == layer_type || !has_two {
                        stated.put_all(&path, value)?;
                    }
                } else if layer_type == FULL && (place == "rope_scaling" || !has_two) {
                    stated.put(key, path, value)?;
                }
            }
        }
        Ok(stated)
    }

    fn put_all(&mut self, place: &str, value: &'a Value) -> Result<(), Error> {
        let object = value.as_object();
        let object =
            object.ok_or_else(|| self.settings.bad(place, format!("is {}, not an object", shown(value))))?;
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            self.put(key, format!("{place}.{key}"), value)?;
        }
        Ok(())
    }

    fn put(&mut self, key: &'a str, place: String, value: &'a Value) -> Result<(), Error> {
        // `type` is the older name.
        let key = if key == "type" { "rope_type" } else { key };
        if let Some((other, before)) = self.by_key.get(key)
            && !is_same(before, value)
        {
            let reason =
                format!("is {}, but `{other}` is {}; hint: remove one of them", shown(value), shown(before));
            return Err(self.settings.bad(&place, reason));
        }
        self.by_key.entry(key).or_insert((place, value));
        Ok(())
    }

    /// Checks a flat `rope_parameters` of a class that reads it by layer type only: its values must equal
    /// those in force.
    fn covers_what_is_flat(&self, rope: &Rope) -> Result<(), Error> {
        let nothing = Map::new();
        let object = self.settings.object("rope_parameters")?.unwrap_or(&nothing);
        let flat =
            object.iter().filter(|(key, value)| ![FULL, SLIDING].contains(&key.as_str()) && !value.is_null());
        for (key, value) in flat {
            let holds = match key.as_str() {
                "rope_theta" => value.as_f64() == Some(rope.theta),
                "rope_type" | "type" => value.as_str() == Some(self.kind()?),
                key => self.by_key.get(key).is_some_and(|(_, stated)| is_same(stated, value)),
            };
            if !holds {
                let name = &self.settings.class.name;
                let reason = format!("is not read by `{name}`; hint: move it into `{FULL}` or `{SLIDING}`");
                return Err(self.settings.bad(&format!("rope_parameters.{key}"), reason));
            }
        }
        Ok(())
    }

    fn rope(&self, layer_type: &str, head_dim: usize) -> Result<Rope, Error> {
        let theta = match self.positive("rope_theta")? {
            Some(theta) => theta,
            None => self.settings.class.rope_theta(layer_type).expect("a test reads both of every class"),
        };
        Ok(Rope { theta, scaling: self.scaling(head_dim)? })
    }

    fn kind(&self) -> Result<&'a str, Error> {
        let Some((place, value)) = self.by_key.get("rope_type") else { return Ok("default") };
        let known = || TYPES.map(|(kind, _)| kind).join(", ");
        let kind = value.as_str().filter(|kind| TYPES.iter().any(|(known, _)| known == kind));
        kind.ok_or_else(|| self.settings.bad(place, format!("is {}; known are {}", shown(value), known())))
    }

    fn scaling(&self, head_dim: usize) -> Result<Scaling, Error> {
        let kind = self.kind()?;
        self.check_keys(kind)?;
        Ok(match kind {
            "linear" => Scaling::Linear(self.needed("factor")?),
            "dynamic" => match self.positive("alpha")? {
                Some(alpha) if self.arch == Arch::Hunyuan => Scaling::NtkAlpha(alpha),
                _ => {
                    self.needed("factor")?;
                    Scaling::Dynamic
                }
            },
            "llama3" => {
                let (low, high) = (self.needed("low_freq_factor")?, self.needed("high_freq_factor")?);
                if high <= low {
                    let reason = format!("is {high}; more than `low_freq_factor` ({low}) was expected");
                    return Err(self.bad("high_freq_factor", reason));
                }
                Scaling::Llama3 { factor: self.needed("factor")?, low, high, original: self.original()? }
            }
            "yarn" => self.yarn()?,
            "proportional" if self.arch == Arch::Gemma4 => {
                let part = self.positive("partial_rotary_factor")?.unwrap_or(1.0);
                if part > 1.0 {
                    return Err(
                        self.bad("partial_rotary_factor", format!("is {part}; at most 1 was expected"))
                    );
                }
                let pairs = (part * head_dim as f64 / 2.0) as usize;
                Scaling::Proportional { pairs, factor: self.positive("factor")?.unwrap_or(1.0) }
            }
            "proportional" => {
                let reason = "is `proportional`, which is supported for Gemma 4 only";
                return Err(self.bad("rope_type", reason));
            }
            _ => Scaling::None,
        })
    }

    fn yarn(&self) -> Result<Scaling, Error> {
        let original = self.original()?;
        let factor = match (self.positive("factor")?, self.by_key.get("original_max_position_embeddings")) {
            (Some(factor), _) => factor,
            // The ratio of the model's context to that of pretraining.
            (None, Some(_)) => self.settings.needed_positive("max_position_embeddings")? / original,
            (None, None) => self.needed("factor")?,
        };
        let attention = match self.number("attention_factor")? {
            Some(factor) => Some(factor),
            None => match (self.number("mscale")?, self.number("mscale_all_dim")?) {
                (Some(scale), Some(all)) if scale != 0.0 && all != 0.0 => {
                    Some(magnitude(factor, scale) / magnitude(factor, all))
                }
                _ => None,
            },
        };
        let truncate = self.by_key.get("truncate");
        let not_a_switch = |(place, value): &(String, &Value)| {
            self.settings.bad(place, format!("is {}, not true or false", shown(value)))
        };
        let truncate = truncate.map(|at| at.1.as_bool().ok_or_else(|| not_a_switch(at))).transpose()?;
        // As in the reference, 0 counts as not set.
        let beta = |key| Ok::<_, Error>(self.number(key)?.filter(|&beta| beta != 0.0));
        Ok(Scaling::Yarn {
            factor,
            original,
            beta_fast: beta("beta_fast")?.unwrap_or(32.0),
            beta_slow: beta("beta_slow")?.unwrap_or(1.0),
            attention,
            truncate: truncate.unwrap_or(true),
        })
    }

    /// Rejects keys that this type of rope does not read.
    fn check_keys(&self, kind: &str) -> Result<(), Error> {
        let own = TYPES.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, own)| own);
        let is_own = |key: &str| match self.arch {
            Arch::Hunyuan if kind == "dynamic" => own.contains(&key) || BESIDE_ALPHA.contains(&key),
            Arch::Ministral3 => own.contains(&key) || OF_MINISTRAL.contains(&key),
            Arch::Qwen35 | Arch::Qwen35Moe => own.contains(&key) || OF_IMAGES.contains(&key),
            _ => own.contains(&key) && key != "alpha",
        };
        let unread = self.by_key.iter().find(|(key, (_, value))| {
            let is_neutral = **key == "factor" && value.as_f64() == Some(1.0);
            !is_own(key) && !COMMON.contains(key) && !is_neutral
        });
        match unread {
            Some((_, (place, value))) => {
                let reason = format!("is {}, which a rope of type `{kind}` does not read", shown(value));
                Err(self.settings.bad(place, reason))
            }
            None => Ok(()),
        }
    }

    /// Positions of pretraining.
    fn original(&self) -> Result<f64, Error> {
        match self.positive("original_max_position_embeddings")? {
            Some(original) => Ok(original),
            None => self.settings.needed_positive("max_position_embeddings"),
        }
    }

    fn bad(&self, key: &str, reason: impl Into<String>) -> Error {
        let place = self.by_key.get(key).or_else(|| self.by_key.get("rope_type")).map(|(place, _)| place);
        self.settings.bad(place.map_or(key, String::as_str), reason)
    }

    fn needed(&self, key: &str) -> Result<f64, Error> {
        self.positive(key)?.ok_or_else(|| self.bad(key, format!("needs `{key}` beside it, which is missing")))
    }

    fn positive(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, settings::positive, "a number above 0")
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.typed(key, Value::as_f64, "a number")
    }

    fn typed(
        &self,
        key: &str,
        read: impl Fn(&Value) -> Option<f64>,
        expected: &str,
    ) -> Result<Option<f64>, Error> {
        let Some((place, value)) = self.by_key.get(key) else { return Ok(None) };
        let number = read(value);
        let bad = || self.settings.bad(place, format!("is {}, not {expected}", shown(value)));
        number.ok_or_else(bad).map(Some)
    }
}

/// `YaRN`'s factor on cos and sin, with its own weight of the logarithm (`mscale`).
fn magnitude(factor: f64, weight: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 }
}
