//! Rated translations for an external trainer of an adapter under a probe (`scripts/tune/probe_gpu.py`): the
//! model's input, the ratings, and the comparison groups. It contains no tokens.

use serde_json::{Value, json};

use super::{Example, examples};
use crate::{
    Error, Result,
    judges::{
        probe::{self, facts},
        prompt::Prompts,
    },
    mqm::{Severity, Side, weights::Weights},
    rated::{Document, Rated},
};

/// One line for each translation: `prompt` and `text`, which the model reads one behind the other; `score`
/// (MQM points or, where `is_penalty` is false, deviations of a direct assessment), `scale` (scores of the
/// same are comparable), `source` (translations of one have the same), `source_bytes`
/// ([`facts::source_bytes`]), `segments` joined, and `marks`: start, end in bytes of the text, whether as
/// major, and the share of the raters.
///
/// # Errors
/// A prompt that cannot be filled in.
pub fn lines(documents: &[Document], prompts: &Prompts, weights: &Weights) -> Result<Vec<Value>> {
    examples(documents).iter().map(|example| line(example, prompts, weights)).collect()
}

fn line(example: &Example<'_>, prompts: &Prompts, weights: &Weights) -> Result<Value> {
    let segment = &example.rated.segment;
    let chat = probe::chat(prompts, segment).map_err(|error| Error::Unsuitable(error.to_string()))?;
    Ok(json!({
        "prompt": chat.untemplated(),
        "text": probe::text(segment),
        "score": example.target(weights),
        "is_penalty": example.is_penalty(),
        "scale": example.scale,
        "source": example.source,
        "source_bytes": facts::source_bytes(&segment.source),
        "segments": example.rated.n_joined,
        "marks": marks(example.rated),
    }))
}

/// Marks of the raters in the translation.
fn marks(rated: &Rated) -> Vec<(usize, usize, bool, f64)> {
    let text = &rated.segment.hypothesis;
    // Behind the space in front of the text.
    let byte = |at: usize| 1 + text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let share = 1.0 / rated.opinions.len().max(1) as f64;
    let errors = rated.opinions.iter().flat_map(|opinion| &opinion.errors);
    errors
        .filter(|error| error.side == Side::Target)
        .filter_map(|error| {
            let is_major = matches!(error.severity, Severity::Major | Severity::Critical);
            Some((byte(error.start?), byte(error.end?), is_major, share))
        })
        .collect()
}
