//! The score head of an open checkpoint beside its settings. No value is read.

use std::{collections::BTreeMap, path::Path};

use super::Entry;
use crate::{Config, Error, Result, config::ScoreHead};

const WEIGHT: &str = ScoreHead::WEIGHT;
const BIAS: &str = ScoreHead::BIAS;

/// Compares the head of an open checkpoint with its settings, and drops an output matrix beside it.
///
/// # Errors
/// A head that is missing, quantised, or of another number of outputs than in the settings.
pub(super) fn check(path: &Path, config: &Config, index: &mut BTreeMap<String, Entry>) -> Result<()> {
    let Some(head) = config.score_head else { return Ok(()) };
    index.retain(|name, _| !name.starts_with("lm_head."));
    let path = path.display().to_string();
    let tensor = |name: &str, reason: String| Error::Tensor { path: path.clone(), name: name.into(), reason };
    let other =
        index.keys().find(|name| name.starts_with("score.") && ![WEIGHT, BIAS].contains(&name.as_str()));
    if let Some(other) = other {
        return Err(tensor(
            other,
            "belongs to a head of several layers; only a single matrix is supported".into(),
        ));
    }
    let Some(weight) = index.get_mut(WEIGHT) else {
        return Err(tensor(WEIGHT, "is missing, and the model has no other head that is read".into()));
    };
    // GGUF drops the dimension of a single row.
    if weight.shape.len() == 1 {
        weight.shape.insert(0, 1);
    }
    if weight.shape.first() != Some(&head.n_outputs) {
        let (rows, n) = (weight.shape.first().copied().unwrap_or(0), head.n_outputs);
        let reason = format!("has {rows} rows, but the settings name {n} labels, one for each row");
        return Err(tensor(WEIGHT, reason));
    }
    let quantised =
        [WEIGHT, BIAS].into_iter().find(|name| index.get(*name).is_some_and(|e| !e.dtype.is_float()));
    match quantised {
        Some(name) => Err(tensor(name, "is quantised; a score head must be in F32, F16 or BF16".into())),
        None => Ok(()),
    }
}
