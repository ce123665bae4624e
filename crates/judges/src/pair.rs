//! Source and translation in the form of prompts, with the names of their languages: of a segment, of a shot,
//! or of the segments of a unit joined. Nothing is rendered here.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Unit,
    reading::strip,
    setup::{Granularity, Preset},
    shots::Shot,
};
use crate::segment::{self, Segment};

/// The values that most prompts have in common.
#[derive(Clone, Copy, Serialize)]
pub struct Pair<'a> {
    pub source_lang: &'a str,
    pub source: &'a str,
    pub target_lang: &'a str,
    pub target: &'a str,
}

impl<'a> Pair<'a> {
    pub fn of(segment: &'a Segment) -> Self {
        Self {
            source_lang: segment.src_lang.name(),
            source: &segment.source,
            target_lang: segment.tgt_lang.name(),
            target: &segment.hypothesis,
        }
    }

    pub fn from_shot(shot: &'a Shot) -> Self {
        Self {
            source_lang: &shot.source_lang,
            source: &shot.source,
            target_lang: &shot.target_lang,
            target: &shot.target,
        }
    }

    /// The pair in the form of a preset's prompt. The authors' programs strip the lines of their files, and
    /// so does `code`.
    pub fn shown(self, preset: Preset) -> Value {
        let code = preset == Preset::Code;
        let strip = |text: &'a str| if code { strip(text) } else { text };
        let mut values = json!(Self { source: strip(self.source), target: strip(self.target), ..self });
        values["code"] = json!(code);
        values
    }

    /// Texts for a test rendering of a prompt.
    pub fn sample() -> Self {
        Self { source_lang: "", source: "a", target_lang: "", target: "b" }
    }
}

/// The texts of one unit of judgement.
#[derive(Clone, Debug)]
pub struct Texts<'a> {
    pub source_lang: &'a str,
    pub source: String,
    pub target_lang: &'a str,
    pub target: String,
    /// `None` where the segment has none, and for several segments.
    pub reference: Option<&'a str>,
    n_segments: usize,
}

impl<'a> Texts<'a> {
    /// The texts of a segment.
    pub fn of(segment: &'a Segment) -> Self {
        Self {
            source_lang: segment.src_lang.name(),
            source: segment.source.clone(),
            target_lang: segment.tgt_lang.name(),
            target: segment.hypothesis.clone(),
            reference: segment.reference.as_deref(),
            n_segments: 1,
        }
    }

    /// The segments of one unit, joined by newlines; `None` when there are none.
    pub fn join(segments: &'a [Segment]) -> Option<Self> {
        let (first, n_segments) = (Self::of(segments.first()?), segments.len());
        if n_segments == 1 {
            return Some(first);
        }
        let (source, target) = segment::joined(segments);
        Some(Self { source, target, reference: None, n_segments, ..first })
    }

    /// The unit of each verdict of a group.
    pub fn units(granularity: Granularity, group: &'a [Segment]) -> Vec<Self> {
        match granularity.unit() {
            Unit::Segment => group.iter().map(Self::of).collect(),
            Unit::Group => Self::join(group).into_iter().collect(),
        }
    }

    /// Texts for a test rendering of a prompt.
    pub fn sample() -> Self {
        let [source, target] = ["a", "b"].map(ToOwned::to_owned);
        Self { source_lang: "", source, target_lang: "", target, reference: Some("c"), n_segments: 1 }
    }

    /// The values for prompts, without the reference.
    pub fn query(&self) -> Pair<'_> {
        let Self { source_lang, target_lang, .. } = self;
        Pair { source_lang, source: &self.source, target_lang, target: &self.target }
    }

    /// True if neither side has a text.
    pub fn is_empty(&self) -> bool {
        self.source.trim().is_empty() && self.target.trim().is_empty()
    }

    /// Maximum number of errors of a `strict` answer: WMT's annotators mark up to five a segment.
    pub fn max_errors(&self) -> usize {
        (5 * self.n_segments).clamp(10, 100)
    }

    /// Maximum number of errors in one block of a `strict` answer in text.
    pub fn errors_in_a_block(&self) -> usize {
        (5 * self.n_segments).min(100)
    }
}
