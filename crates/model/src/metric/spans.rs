//! Error spans from the probabilities of word tags.
//!
//! Source: `decode` of COMET's `unified_metric.py`, and the score of spans of its `xcomet_metric.py`.

use std::{iter, ops::Range};

/// A run of tokens with error tags.
#[derive(Clone, Debug, PartialEq)]
pub struct TaggedSpan {
    /// In the translation; empty where it has special tokens alone. Unit: bytes.
    pub range: Range<usize>,
    /// The label of its first token.
    pub severity: String,
    /// Mean of its tokens' probabilities of their likeliest tag. Range: 0 to 1.
    pub confidence: f64,
}

/// The spans by the likeliest tag of each token, the special token before and behind the translation among
/// them. A span that no token without an error follows is left out.
///
/// `words` has the bytes of each token between the special ones. `probabilities` shape: `[tokens][1 +
/// labels]`, the first of no error.
pub(super) fn decode(
    probabilities: &[Vec<f64>],
    words: &[Range<usize>],
    labels: &[String],
) -> Vec<TaggedSpan> {
    let special = iter::once(&(0..0));
    let n_words = probabilities.len().saturating_sub(2);
    let ranges = special.clone().chain(words.iter().take(n_words)).chain(special);
    let mut spans = Vec::new();
    let mut open: Option<(Range<usize>, usize, Vec<f64>)> = None;
    for (of_token, range) in probabilities.iter().zip(ranges) {
        let tags = of_token.iter().copied().enumerate();
        let (tag, p) = tags.fold((0, f64::NEG_INFINITY), |most, tag| if tag.1 > most.1 { tag } else { most });
        match (tag, &mut open) {
            (0, _) => spans.extend(open.take().map(|(range, tag, probabilities)| TaggedSpan {
                range,
                severity: labels[tag - 1].clone(),
                confidence: probabilities.iter().sum::<f64>() / probabilities.len() as f64,
            })),
            (_, Some((so_far, _, probabilities))) => {
                so_far.end = range.end;
                probabilities.push(p);
            }
            (_, None) => open = Some((range.clone(), tag, vec![p])),
        }
    }
    spans
}

/// The score of errors by MQM's weights, at most 25 points of them, from 0 to 1.
pub(super) fn score(spans: &[TaggedSpan]) -> f64 {
    let points = |span: &TaggedSpan| match span.severity.as_str() {
        "minor" => 1.0,
        "major" => 5.0,
        "critical" => 10.0,
        _ => 0.0,
    };
    1.0 - spans.iter().map(points).sum::<f64>().min(25.0) / 25.0
}
