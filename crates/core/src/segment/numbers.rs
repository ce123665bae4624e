//! Whole numbers as tools write them: data frames with a gap in a column make 7 into 7.0, and CSV into text.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// A whole number from 0; `None` for any other value.
///
/// ```
/// use serde_json::json;
/// use tribunal_core::segment::numbers::whole;
/// assert_eq!((whole(&json!(7)), whole(&json!(7.0)), whole(&json!("7.0"))), (Some(7), Some(7), Some(7)));
/// assert_eq!((whole(&json!(7.5)), whole(&json!(-1)), whole(&json!("x"))), (None, None, None));
/// ```
pub fn whole(value: &Value) -> Option<usize> {
    match value {
        Value::Number(number) => number.as_u64().map(|n| n as usize).or_else(|| of_float(number.as_f64()?)),
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| of_float(text.parse().ok()?))
        }
        _ => None,
    }
}

/// Largest integer up to which `f64` represents every integer.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

fn of_float(number: f64) -> Option<usize> {
    ((0.0..=MAX_EXACT).contains(&number) && number.fract() == 0.0).then_some(number as usize)
}

/// A name that may be a number in the file: `3` and `3.0` are the name `3`; `None` for any other value.
pub fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(whole(value).map_or_else(|| number.to_string(), |n| n.to_string())),
        _ => None,
    }
}

/// Reads a field that is a [`whole`] number.
///
/// # Errors
/// Any other value.
pub fn deserialize_whole<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let value = Value::deserialize(from)?;
    whole(&value).ok_or_else(|| D::Error::custom(format!("`{value}` is not a whole number from 0")))
}

/// Reads a field that is a [`name`].
///
/// # Errors
/// Any other value.
pub fn deserialize_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let value = Value::deserialize(from)?;
    name(&value).ok_or_else(|| D::Error::custom(format!("`{value}` is neither a text nor a number")))
}
