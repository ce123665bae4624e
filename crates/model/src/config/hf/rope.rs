//! Rotary embeddings from the top level, `rope_scaling` and `rope_parameters`, flat or by layer type.
//! Contradictions between them are rejected.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::settings::{self, Settings, is_same, shown};
use crate::{
    Error, Result,
    config::{Rope, Scaling},
};

/// Differences between the ropes of families.
pub struct Schema {
    /// Full and sliding layers have ropes of their own.
    pub by_layer_type: bool,
    /// The part of each head that is rotated where the file has no `partial_rotary_factor`; `None` in a
    /// family that rotates all of it.
    pub part: Option<f64>,
    /// Further keys of some types of rope.
    pub keys: &'static [(&'static str, &'static [&'static str])],
}

impl Schema {
    /// One rope over whole heads.
    pub const WHOLE: Self = Self { by_layer_type: false, part: None, keys: &[] };

    fn keys_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a [&'static str]> {
        self.keys.iter().filter(move |(of, _)| *of == kind).map(|(_, keys)| *keys)
    }
}

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// Keys that every type of rope may have.
const COMMON: [&str; 5] =
    ["rope_theta", "rope_type", "partial_rotary_factor", "original_max_position_embeddings", "finetuned"];

/// Types of rope, each with the further keys that it reads.
const TYPES: [(&str, &[&str]); 7] = [
    ("default", &[]),
    ("linear", &["factor"]),
    ("dynamic", &["factor"]),
    ("llama3", &["factor", "low_freq_factor", "high_freq_factor"]),
    (
        "yarn",
        &["factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"],
    ),
    ("proportional", &["factor"]),
    ("longrope", &["factor", "attention_factor", "short_factor", "long_factor"]),
];

/// The rope of full layers, whose heads have `head_dim` values, and, where it differs, of sliding layers.
pub fn ropes(s: &Settings<'_>, head_dim: usize) -> Result<(Rope, Option<Rope>)> {
    let full = Stated::full(s)?;
    let rope = full.rope(FULL, head_dim)?;
    if !s.schema.rope.by_layer_type {
        return Ok((rope, None));
    }
    full.covers_what_is_flat(&rope)?;
    let sliding = Stated::read(s, SLIDING)?;
    if sliding.kind()? == "proportional" {
        return Err(sliding.bad("rope_type", "is `proportional`; that is supported for full layers only"));
    }
    Ok((rope, Some(sliding.rope(SLIDING, head_dim)?)))
}

/// The values of a head that are rotated.
pub fn rotary_dim(s: &Settings<'_>, head_dim: usize) -> Result<usize> {
    let Schema { by_layer_type, part, .. } = s.schema.rope;
    let of = |part: f64| (head_dim as f64 * part) as usize;
    for layer_type in if by_layer_type { &[FULL, SLIDING][..] } else { &[FULL] } {
        let stated = Stated::read(s, layer_type)?;
        if stated.kind()? == "proportional" {
            // All values are rotated, most of them by an angle of 0.
            continue;
        }
        let Some((place, value)) = stated.by_key.get("partial_rotary_factor") else { continue };
        if part.is_some() {
            let factor = settings::positive(value).filter(|factor| *factor <= 1.0);
            let reason =
                || s.bad(place, format!("is {}; a number above 0, at most 1, was expected", shown(value)));
            return factor.map(of).ok_or_else(reason);
        }
        if value.as_f64() != Some(1.0) {
            return Err(s.bad(place, format!("is {}; only 1.0 is supported", shown(value))));
        }
    }
    Ok(part.map_or(head_dim, of))
}

/// The settings of one rope by key, each with the path that it was read from.
pub struct Stated<'a> {
    settings: &'a Settings<'a>,
    by_key: BTreeMap<&'a str, (String, &'a Value)>,
}

impl<'a> Stated<'a> {
    /// The settings of the rope of full layers.
    pub fn full(settings: &'a Settings<'a>) -> Result<Self> {
        Self::read(settings, FULL)
    }

    fn read(settings: &'a Settings<'a>, layer_type: &str) -> Result<Self> {
        let mut stated = Self { settings, by_key: BTreeMap::new() };
        let has_two = settings.schema.rope.by_layer_type;
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
        if objects.iter().all(|place| settings.given(place).is_none()) {
            let of_class = settings.class.defaults.get("rope_parameters");
            let of_class = of_class.and_then(|ropes| ropes.get(layer_type).or(Some(ropes)));
            for (key, value) in of_class.and_then(Value::as_object).into_iter().flatten() {
                stated.by_key.entry(key).or_insert((format!("rope_parameters.{key}"), value));
            }
        }
        for place in objects {
            if settings.given(place).is_none() {
                continue;
            }
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

    fn put_all(&mut self, place: &str, value: &'a Value) -> Result<()> {
        let object = value.as_object();
        let object =
            object.ok_or_else(|| self.settings.bad(place, format!("is {}, not an object", shown(value))))?;
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            self.put(key, format!("{place}.{key}"), value)?;
        }
        Ok(())
    }

    fn put(&mut self, key: &'a str, place: String, value: &'a Value) -> Result<()> {
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
    fn covers_what_is_flat(&self, rope: &Rope) -> Result<()> {
        let nothing = Map::new();
        let object = self.settings.given("rope_parameters").and_then(Value::as_object).unwrap_or(&nothing);
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

    fn rope(&self, layer_type: &str, head_dim: usize) -> Result<Rope> {
        let theta = match self.positive("rope_theta")? {
            Some(theta) => theta,
            None => self.settings.class.rope_theta(layer_type).expect("a test reads both of every class"),
        };
        Ok(Rope { theta, scaling: self.scaling(head_dim)? })
    }

    pub fn kind(&self) -> Result<&'a str> {
        let Some((place, value)) = self.by_key.get("rope_type") else { return Ok("default") };
        let known = || TYPES.map(|(kind, _)| kind).join(", ");
        let kind = value.as_str().filter(|kind| TYPES.iter().any(|(known, _)| known == kind));
        kind.ok_or_else(|| self.settings.bad(place, format!("is {}; known are {}", shown(value), known())))
    }

    fn scaling(&self, head_dim: usize) -> Result<Scaling> {
        let kind = self.kind()?;
        self.check_keys(kind)?;
        Ok(match kind {
            "linear" => Scaling::Linear(self.needed("factor")?),
            "dynamic" => {
                if let Some(alpha) = self.positive("alpha")? {
                    Scaling::NtkAlpha(alpha)
                } else {
                    self.needed("factor")?;
                    Scaling::Dynamic
                }
            }
            "llama3" => {
                let (low, high) = (self.needed("low_freq_factor")?, self.needed("high_freq_factor")?);
                if high <= low {
                    let reason = format!("is {high}; more than `low_freq_factor` ({low}) was expected");
                    return Err(self.bad("high_freq_factor", reason));
                }
                Scaling::Llama3 { factor: self.needed("factor")?, low, high, original: self.original()? }
            }
            "yarn" => self.yarn()?,
            "longrope" => self.long()?,
            "proportional" if self.settings.schema.rope.keys_of(kind).next().is_some() => {
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

    fn long(&self) -> Result<Scaling> {
        let key = "short_factor";
        let Some((place, value)) = self.by_key.get(key) else {
            return Err(self.bad("rope_type", format!("needs `{key}` beside it, which is missing")));
        };
        let number = |value: &Value| settings::positive(value).map(|factor| factor as f32);
        let short = value.as_array().and_then(|list| list.iter().map(number).collect::<Option<Vec<f32>>>());
        let short = short.ok_or_else(|| self.settings.bad(place, "is not a list of numbers above 0"))?;
        let original = self.original()?;
        let attention = match (self.positive("attention_factor")?, self.positive("factor")?) {
            (Some(attention), _) => attention,
            (None, factor) => {
                let context = self.settings.needed_positive("max_position_embeddings")?;
                let factor = factor.unwrap_or(context / original);
                if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / original.ln()).sqrt() }
            }
        };
        Ok(Scaling::Long { short, attention, original: original as usize })
    }

    fn yarn(&self) -> Result<Scaling> {
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
    fn check_keys(&self, kind: &str) -> Result<()> {
        let own = TYPES.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, own)| own);
        let is_own = |key: &str| {
            own.contains(&key) || self.settings.schema.rope.keys_of(kind).any(|keys| keys.contains(&key))
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

    /// The factor on scores that `mscale_all_dim` stands for in models with latent attention.
    pub fn score_factor(&self) -> Result<f64> {
        let weight = self.number("mscale_all_dim")?.filter(|weight| *weight != 0.0);
        weight.map_or(Ok(1.0), |weight| Ok(magnitude(self.needed("factor")?, weight).powi(2)))
    }

    /// Positions of pretraining.
    pub fn original(&self) -> Result<f64> {
        let key = "original_max_position_embeddings";
        match self.positive(key)?.or(self.settings.positive(key)?) {
            Some(original) => Ok(original),
            None => self.settings.needed_positive("max_position_embeddings"),
        }
    }

    pub fn bad(&self, key: &str, reason: impl Into<String>) -> Error {
        let place = self.by_key.get(key).or_else(|| self.by_key.get("rope_type")).map(|(place, _)| place);
        self.settings.bad(place.map_or(key, String::as_str), reason)
    }

    fn needed(&self, key: &str) -> Result<f64> {
        self.positive(key)?.ok_or_else(|| self.bad(key, format!("needs `{key}` beside it, which is missing")))
    }

    fn positive(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, settings::positive, "a number above 0")
    }

    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, Value::as_f64, "a number")
    }

    fn typed(&self, key: &str, read: impl Fn(&Value) -> Option<f64>, expected: &str) -> Result<Option<f64>> {
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
