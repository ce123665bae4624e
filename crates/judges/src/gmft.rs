//! GMFT: one prompt over a text of any length, for a model that was tuned on MQM ratings of texts of that
//! length. "FSP" paper, Sections 2 and 3.2, Appendix B.3. Nothing is trained here: `tribunal tune export`
//! takes its target answers from [`answer`], and `scripts/tune/gmft_gpu.py` trains on them.
//!
//! Differs:
//! - The prompt of the tuned model is printed nowhere. Ours is Figure 9's without its schema and its
//!   examples: tuning teaches the layout, the form enforces it, and every text is spared the tokens.
//! - Answers are those of the strict JSON form of [`super::gemba_mqm`], without explanations: ratings have
//!   none.
//! - Raters use categories and severities that the prompt does not have: see [`taught`].
//! - Longer texts and empty ones: as the JSON form of [`super::gemba_mqm`].
//! - A model that was not tuned can be used as well, which shows the effect of tuning.

use std::io::{self, Write};

use serde::Serialize as _;
use serde_json::{
    Value,
    ser::{Formatter, Serializer},
};

use super::{
    Judge, Method, Stage,
    answers::{
        chances::Scoring,
        errors::{AnswerFormat, Target},
    },
    declaration::{self, Answers, Declaration},
    method::Calls,
    pair::Texts,
    prompt::{File, file},
    scale::Scale,
    setup::{self, Granularity, Preset, Settings},
};
use crate::{mqm::ErrorSpan, segment::Segment};

pub mod taught;

const PROMPT: File = file!("gmft/gmft.j2");

/// The stages of its calls.
const ANNOTATE: Stage = Stage::new("annotate");

/// Metadata shown by `tribunal methods show gmft`.
pub const METHOD: Method = Method {
    name: "gmft",
    summary: "one short prompt over the whole text, for a model tuned on MQM ratings (docs/tuning.md)",
    citation: "Focus Sentence Prompting, Sections 2 and 3.2 (GMFT), Appendix B.3",
    papers: &["domhan-zhu-2025-evaluation"],
    stages: &[ANNOTATE],
    calls: Calls::exactly(1),
    scale: Scale::PENALTY,
    granularities: &[Granularity::Seg, Granularity::Doc, Granularity::FiveDoc],
    presets: &[Preset::Strict],
    weights: Some("gemba"),
    ..Method::with(|settings, _| judge(settings))
};

/// Fields of an answer.
const FORMAT: AnswerFormat =
    AnswerFormat { is_strict: true, explain: false, quality: false, target: Target::Translation };

const ERRORS: Answers = Answers::Errors { format: FORMAT, scoring: Scoring::Errors };
const QUESTION: Declaration = Declaration::message(ANNOTATE, PROMPT, ERRORS, 2048);

/// The judge with these settings; the method has no options.
///
/// # Errors
/// Those of [`declaration::judge`].
pub fn judge(settings: &Settings) -> setup::Result<Judge> {
    declaration::judge(&METHOD, QUESTION, settings)
}

/// The target answer of a tuned model about a unit of these segments, whose errors have offsets in their
/// segment. It has the form that the judge then enforces.
///
/// # Panics
/// When there is no segment.
pub fn answer(group: &[Segment], errors: &[Vec<ErrorSpan>]) -> String {
    let texts = Texts::join(group).expect("a unit has a segment");
    let written = FORMAT.written(&taught::errors(group, errors, texts.max_errors()));
    let value: Value = serde_json::from_str(&written).expect("a layout writes JSON");
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, Spaced);
    value.serialize(&mut serializer).expect("strings can be written into memory");
    String::from_utf8(bytes).expect("JSON is text")
}

/// JSON on one line with a space behind commas and colons, as forms enforce it.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
