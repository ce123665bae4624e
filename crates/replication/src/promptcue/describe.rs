//! Description of a PROMPTCUE set: the number of cues of each label, and the lengths of their texts. Nothing
//! is scored.
//!
//! Source: RUBRIC-MQM, Table 7.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gold::Cue;

/// Counts and text lengths of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    pub n: usize,
    /// Unit: characters, without the tags around the span.
    pub source: Length,
    /// Unit: words between white space, without the tags around the span.
    pub target: Length,
    pub categories: BTreeMap<String, usize>,
    pub severities: BTreeMap<String, usize>,
}

/// The lengths of texts; 0 where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Length {
    pub mean: f64,
    pub min: usize,
    pub max: usize,
}

impl Length {
    fn new(lengths: &[usize]) -> Self {
        Self {
            mean: lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64,
            min: lengths.iter().copied().min().unwrap_or(0),
            max: lengths.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Counts a set.
///
/// ```
/// use tribunal_replication::promptcue::{Cue, describe::describe};
/// let cue = Cue {
///     id: 0, source: "他走了。".into(), reference: String::new(), target: "He <v>has gone</v>.".into(),
///     error_span: "has gone".into(), category: "grammar".into(), severity: "minor".into(),
///     source_lang: "zh".into(), target_lang: "en".into(),
/// };
/// let set = describe(&[cue]);
/// assert_eq!((set.source.max, set.target.max, set.categories["grammar"]), (4, 3, 1));
/// ```
pub fn describe(cues: &[Cue]) -> Description {
    let bare = |text: &str| text.replace("<v>", "").replace("</v>", "");
    let lengths = |length: &dyn Fn(&Cue) -> usize| Length::new(&cues.iter().map(length).collect::<Vec<_>>());
    let count = |label: fn(&Cue) -> &str| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for cue in cues {
            *counts.entry(label(cue).to_owned()).or_default() += 1;
        }
        counts
    };
    Description {
        n: cues.len(),
        source: lengths(&|cue| bare(&cue.source).chars().count()),
        target: lengths(&|cue| bare(&cue.target).split_whitespace().count()),
        categories: count(|cue| &cue.category),
        severities: count(|cue| &cue.severity),
    }
}
