//! Regular expressions of normalizers and pre-tokenizers as Hugging Face's tokenizers read them. It compiles
//! none.
//!
//! They are Oniguruma's in the syntax of Ruby, where `^` and `$` match at each line's beginning and end.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokenizers::Tokenizer;

use super::{Error, Result};

/// Rewrites the anchors of the pipeline's expressions.
///
/// # Errors
/// [`Error::Json`] when an expression cannot be compiled.
pub(super) fn at_lines(pipeline: &mut Tokenizer) -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| Error::Json(e.to_string());
    if let Some(normalizer) = changed(pipeline.get_normalizer())? {
        pipeline.with_normalizer(Some(normalizer)).map_err(|e| failed(&e))?;
    }
    if let Some(pre_tokenizer) = changed(pipeline.get_pre_tokenizer())? {
        pipeline.with_pre_tokenizer(Some(pre_tokenizer));
    }
    Ok(())
}

/// A step with other expressions; `None` where none has an anchor.
fn changed<T: Serialize + DeserializeOwned>(step: Option<&T>) -> Result<Option<T>> {
    let failed = |e: serde_json::Error| Error::Json(e.to_string());
    let Some(mut value) = step.map(serde_json::to_value).transpose().map_err(failed)? else {
        return Ok(None);
    };
    if !anchor(&mut value) {
        return Ok(None);
    }
    serde_json::from_value(value).map(Some).map_err(failed)
}

/// Returns true if an expression was changed.
fn anchor(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |any, item| anchor(item) | any),
        Value::Object(fields) => fields.iter_mut().fold(false, |any, (key, value)| {
            let Value::String(regex) = value else { return anchor(value) | any };
            // `[^x]` has no anchor.
            let has_anchor = key == "Regex" && regex.replace("[^", "").contains(['^', '$']);
            if has_anchor {
                regex.insert_str(0, "(?m)");
            }
            has_anchor | any
        }),
        _ => false,
    }
}
