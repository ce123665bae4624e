//! The signature of a run: everything that can move a score, as `key:value|key:value`. Judges, the engine and
//! the evaluation add their fields.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest;

/// Fields that identify the model, its examples and how it ran. They do not change the scale of scores.
const NOT_OF_SCALE: [&str; 24] = [
    "model",
    "sha256",
    "adapter",
    "adapter_sha256",
    "dtype",
    "act",
    "kv",
    "device",
    "tier",
    "sm",
    "split-k",
    "context",
    "template",
    "prompts",
    "shots",
    "examples",
    "max-tokens",
    "temp",
    "temperature",
    "top_p",
    "top-p",
    "seed",
    "samples",
    "v",
];

/// The most characters of a short signature.
pub const SHORT: usize = 80;

/// Ordered fields. Two runs whose signatures are equal give the same verdicts on the same input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "Map<String, Value>", try_from = "Map<String, Value>")]
pub struct Signature {
    fields: Vec<(String, String)>,
}

/// A field that two signatures do not share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub key: String,
    pub recorded: Option<String>,
    pub present: Option<String>,
}

/// Error of a text that is no signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no signature field\nhint: a signature reads `key:value|key:value`")]
pub struct ParseError(String);

impl Signature {
    /// An empty signature.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field; a key that already exists gets the new value in its place.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        match self.fields.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value,
            None => self.fields.push((key, value)),
        }
        self
    }

    /// Appends the fields of another signature.
    #[must_use]
    pub fn followed_by(self, other: &Self) -> Self {
        other.fields.iter().fold(self, |signature, (key, value)| signature.with(key, value))
    }

    /// The fields in order.
    pub fn fields(&self) -> &[(String, String)] {
        &self.fields
    }

    /// The value of a field.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// The short signature: method, model, the first digits of the SHA-256 of the signature as text, version.
    /// It has at most [`SHORT`] characters; long names are cut, and parts without a field are left out.
    ///
    /// ```
    /// use tribunal_core::signature::Signature;
    /// let signature: Signature = "method:fsp|model:tiny|seed:0|v:0.1.0".parse().unwrap();
    /// assert_eq!(signature.short(), "fsp|tiny|#1db76d46|v0.1.0");
    /// ```
    pub fn short(&self) -> String {
        let part = |key: &str, most: usize| {
            let plain = |c: char| if c == '|' || c.is_whitespace() || c.is_control() { '_' } else { c };
            let name: Vec<char> = self.get(key)?.chars().map(plain).collect();
            let is_cut = name.len() > most;
            let shown = name.iter().take(if is_cut { most - 2 } else { most });
            Some(shown.collect::<String>() + if is_cut { ".." } else { "" })
        };
        let hash = format!("#{}", digest::short(self.to_string()));
        let version = part("v", 14).map(|version| format!("v{version}"));
        let parts = [part("method", 16), part("model", 37), Some(hash), version];
        parts.into_iter().flatten().collect::<Vec<_>>().join("|")
    }

    /// Returns true if scores under both signatures are on one scale: they differ at most in the model and in
    /// how it ran. Of others only ranks can be compared.
    pub fn comparable(&self, other: &Self) -> bool {
        // A model of one role has the role before its fields: `checker.model`.
        let is_of_scale = |key: &str| !NOT_OF_SCALE.contains(&key.rsplit('.').next().unwrap_or(key));
        !self.differences(other).iter().any(|difference| is_of_scale(&difference.key))
    }

    /// Differences from another signature (`there`), in order of keys; the order of fields does not count.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let keys = self.fields.iter().chain(&other.fields).map(|(key, _)| key);
        let mut differences: Vec<Difference> = Vec::new();
        for key in keys {
            let (value, other) = (self.get(key).map(String::from), other.get(key).map(String::from));
            if value != other && differences.iter().all(|d| d.key != *key) {
                differences.push(Difference { key: key.clone(), recorded: other, present: value });
            }
        }
        differences
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| value.as_ref().map_or("not set".into(), |v| format!("`{v}`"));
        write!(f, "{}: {} there, {} now", self.key, value(&self.recorded), value(&self.present))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.fields.iter().enumerate() {
            let bar = if i == 0 { "" } else { "|" };
            write!(f, "{bar}{key}:{}", value.replace('%', "%25").replace('|', "%7C"))?;
        }
        Ok(())
    }
}

impl FromStr for Signature {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut signature = Self::new();
        for field in text.split('|').filter(|field| !field.is_empty()) {
            let (key, value) = field.split_once(':').ok_or_else(|| ParseError(field.into()))?;
            signature = signature.with(key, value.replace("%7C", "|").replace("%25", "%"));
        }
        Ok(signature)
    }
}

impl From<Signature> for Map<String, Value> {
    fn from(signature: Signature) -> Self {
        signature.fields.into_iter().map(|(key, value)| (key, Value::String(value))).collect()
    }
}

impl TryFrom<Map<String, Value>> for Signature {
    type Error = ParseError;

    fn try_from(map: Map<String, Value>) -> Result<Self, ParseError> {
        let mut signature = Self::new();
        for (key, value) in map {
            let Value::String(value) = value else { return Err(ParseError(key)) };
            signature = signature.with(key, value);
        }
        Ok(signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_comparable_where_only_the_model_differs() {
        let signature: Signature = "method:fsp|model:a|checker.sha256:1|weights:wmt".parse().unwrap();
        assert!(signature.comparable(&signature.clone().with("model", "b").with("checker.sha256", "2")));
        assert!(!signature.comparable(&signature.clone().with("weights", "gemba")));
        assert!(!signature.comparable(&signature.clone().with("granularity", "doc")));
    }

    #[test]
    fn prints_and_parses_back() {
        let signature = Signature::new().with("method", "fsp").with("device", "cuda:0").with("odd", "a|b%");
        assert_eq!(signature.to_string(), "method:fsp|device:cuda:0|odd:a%7Cb%25");
        assert_eq!(signature.to_string().parse::<Signature>().unwrap(), signature);
        let json = serde_json::to_string(&signature).unwrap();
        assert_eq!(serde_json::from_str::<Signature>(&json).unwrap(), signature);
        assert!("method".parse::<Signature>().is_err());
    }

    #[test]
    fn the_short_signature_is_short_whatever_the_names() {
        let long = "Ünïcode|".repeat(40);
        for name in ["", "a", "a method with spaces\n", &long] {
            let signature = Signature::new().with("method", name).with("model", name).with("v", name);
            let short = signature.short();
            assert!(short.chars().count() <= SHORT, "{short}");
            assert_eq!(short.matches('|').count(), 3, "{short}");
            assert!(!short.contains(char::is_whitespace), "{short}");
        }
        assert_eq!(
            Signature::new()
                .with("method", &long)
                .with("model", &long)
                .with("v", &long)
                .short()
                .chars()
                .count(),
            SHORT
        );
        assert_eq!(Signature::new().short(), "#e3b0c442");
    }

    #[test]
    fn short_signatures_are_equal_where_the_long_ones_are() {
        let texts = [
            "method:fsp|model:a|seed:0|v:1",
            "method:fsp|model:a|seed:1|v:1",
            "method:fsp|model:b|seed:0|v:1",
            "method:fsp|model:a|v:1|seed:0",
            "method:fsp|model:a|seed:0|v:2",
            "method:fsp|model:a|seed:0%7Cv:1",
        ];
        for a in texts {
            for b in texts {
                let [long_a, long_b] = [a, b].map(|text| text.parse::<Signature>().unwrap());
                assert_eq!(long_a.short() == long_b.short(), long_a == long_b, "{a} {b}");
            }
            // The hash is that of the text as it is printed.
            let hash = format!("|#{}", digest::sha256(a).get(..8).unwrap());
            assert!(a.parse::<Signature>().unwrap().short().contains(&hash), "{a}");
        }
    }

    #[test]
    fn differences_name_the_field() {
        let recorded: Signature = "method:fsp|shots:3|seed:0".parse().unwrap();
        let present: Signature = "shots:0|method:fsp|temp:0".parse().unwrap();
        let shown: Vec<String> = present.differences(&recorded).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["shots: `3` there, `0` now", "temp: not set there, `0` now", "seed: `0` there, not set now"]
        );
    }
}
