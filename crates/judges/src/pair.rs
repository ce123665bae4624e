//! A source and its translation in the form of prompts, with the names of their languages. Nothing is
//! rendered here.

use serde::Serialize;

use super::{reading::strip, setup::Preset, shots::Shot};
use crate::segment::Segment;

/// The values that most prompts have in common.
#[derive(Clone, Copy, Serialize)]
pub struct Pair<'a> {
    pub source_lang: &'a str,
    pub source: &'a str,
    pub target_lang: &'a str,
    pub target: &'a str,
}

/// A pair for a prompt whose wording differs where it follows the authors' code.
#[derive(Clone, Copy, Serialize)]
pub struct PromptPair<'a> {
    #[serde(flatten)]
    pair: Pair<'a>,
    code: bool,
}

impl<'a> Pair<'a> {
    #[must_use]
    pub fn of(segment: &'a Segment) -> Self {
        Self {
            source_lang: segment.src_lang.name(),
            source: &segment.source,
            target_lang: segment.tgt_lang.name(),
            target: &segment.hypothesis,
        }
    }

    #[must_use]
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
    #[must_use]
    pub fn shown(self, preset: Preset) -> PromptPair<'a> {
        if preset != Preset::Code {
            return PromptPair { pair: self, code: false };
        }
        PromptPair {
            pair: Self { source: strip(self.source), target: strip(self.target), ..self },
            code: true,
        }
    }

    /// Texts for a test rendering of a prompt.
    #[must_use]
    pub fn sample() -> Self {
        Self { source_lang: "", source: "a", target_lang: "", target: "b" }
    }
}
