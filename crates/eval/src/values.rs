//! Readers of values as they are typed: numbers, sizes, names. Each error says what form is expected.

use serde::de::{DeserializeOwned, IntoDeserializer as _};

use crate::{
    engine::Isa,
    judges::{Role, setup},
};

pub mod variables;

/// A method that follows from the model, or a model that follows from the method.
pub const AUTO: &str = "auto";

/// The default model of the method `qe`.
pub const DEFAULT_ENCODER: &str = "multilingual-e5-small";

/// The default model of all other methods, of which `probe` is the default one.
pub const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b-instruct";

/// A value of an enum by the name that its JSON has.
///
/// # Errors
/// The names, where the text is none of them.
pub fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    T::deserialize(text.into_deserializer()).map_err(|error: serde::de::value::Error| error.to_string())
}

/// The name of a CPU tier, whether this machine has it or not.
///
/// # Errors
/// The names, where the text is none of them.
pub fn tier(text: &str) -> Result<String, String> {
    let is_known = text == "auto" || Isa::NAMES.contains(&text);
    is_known.then(|| text.to_owned()).ok_or_else(|| format!("it must be auto, {}", Isa::NAMES.join(", ")))
}

/// `ROLE=MODEL`.
///
/// # Errors
/// The expected form, where the text has another.
pub fn role(text: &str) -> Result<(Role, String), String> {
    match text.split_once('=') {
        Some((role, model)) if !model.is_empty() => {
            role.parse().map(|role| (role, model.to_owned())).map_err(|e: setup::Error| e.to_string())
        }
        _ => Err("it must have the form ROLE=MODEL".into()),
    }
}

/// A whole number.
///
/// # Errors
/// The expected form, where the text has another.
pub fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "it must be a whole number".into())
}

/// A random seed.
///
/// # Errors
/// The expected form, where the text has another.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it must be a whole number, at least 0".into())
}

/// A number from 0 to 100.
///
/// # Errors
/// The expected form, where the text has another.
pub fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "it must be a number from 0 to 100".into())
}

/// A whole number that is at least 1.
///
/// # Errors
/// The expected form, where the text has another.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("it must be a whole number, at least 1".into()),
        Ok(n) => Ok(n),
    }
}

/// A whole number from 1 to `MOST`.
///
/// # Errors
/// The expected form, where the text has another.
pub fn up_to<const MOST: usize>(text: &str) -> Result<usize, String> {
    let n = positive(text)?;
    if n <= MOST { Ok(n) } else { Err(format!("it must be at most {MOST}")) }
}

/// A number that is at least 0.
///
/// # Errors
/// The expected form, where the text has another.
pub fn temperature(text: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|t: &f32| t.is_finite() && *t >= 0.0);
    value.ok_or_else(|| "it must be a number, at least 0".into())
}

/// A number above 0 and at most 1.
///
/// # Errors
/// The expected form, where the text has another.
pub fn top_p(text: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|p: &f32| *p > 0.0 && *p <= 1.0);
    value.ok_or_else(|| "it must be a number above 0 and at most 1".into())
}

/// `800MiB`, `2G`, `2.5GiB`: units are powers of 1024, with or without `iB` or `B`.
///
/// # Errors
/// The expected form, where the text has another.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write it like 2GiB or 800MiB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text[digits.len()..].to_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().ok().filter(|n: &f64| *n > 0.0 && n.is_finite()).ok_or_else(wrong)?;
    if factor == 1 && number < f64::from(1 << 10) {
        return Err(format!("`{text}` would be {text} bytes; write `{digits}GiB` or `{digits}MiB`"));
    }
    Ok((number * factor as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("800m"), Ok(800 << 20));
        assert_eq!(bytes("1.5G"), Ok(3 << 29));
        assert_eq!(bytes("4096"), Ok(4096));
        for wrong in ["", "G", "-1G", "2X", "nan", "2"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
