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
    Error, Judge, Method, Panel, Protocol, Provenance, Role, Stage, Verdict,
    answers::errors::{AnswerFormat, Target},
    gemba_mqm::Texts,
    in_parallel,
    method::Calls,
    prompt::{File, Prompts},
    reading,
    scale::Scale,
    setup::{self, Granularity, Preset, Settings},
};
use crate::{
    llm::{Chat, Sampling},
    mqm::{ErrorSpan, weights::Weights},
    segment::Segment,
};

pub mod taught;

const PROMPT: File = File { name: "gmft/gmft.j2", text: include_str!("gmft/gmft.j2") };

/// The stages of its calls.
const ANNOTATE: Stage = Stage::new("annotate");

/// Fields of an answer.
const LAYOUT: AnswerFormat =
    AnswerFormat { is_strict: true, explain: false, quality: false, target: Target::Translation };

/// Metadata shown by `tribunal methods show gmft`.
pub const METHOD: Method = Method {
    name: "gmft",
    summary: "one short prompt over the whole text, for a model tuned on MQM ratings (docs/tuning.md)",
    citation: "Focus Sentence Prompting, Sections 2 and 3.2 (GMFT), Appendix B.3",
    stages: &[ANNOTATE],
    calls: Calls::exactly(1),
    scale: Scale::PENALTY,
    granularities: &[Granularity::Seg, Granularity::Doc, Granularity::FiveDoc],
    presets: &[Preset::Strict],
    weights: Some("gemba"),
    options: &[],
    ..Method::with(|settings, _| Ok(Gmft::new(settings)?.into()))
};

/// A configured GMFT judge.
pub struct Gmft {
    prompts: Prompts,
    granularity: Granularity,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

impl Protocol for Gmft {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(&Texts::units(self.granularity, group), |idx, texts| {
            self.judge_unit(&panel.about(idx), texts)
        })
    }
}

impl From<Gmft> for Judge {
    fn from(judge: Gmft) -> Self {
        Self {
            grouping: judge.granularity.grouping(),
            unit: judge.granularity.unit(),
            ..Self::new(Provenance::of(&judge.prompts), judge)
        }
    }
}

impl Gmft {
    /// Reads the settings and the prompt.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`].
    pub fn new(settings: &Settings) -> Result<Self, setup::Error> {
        let granularity = settings.granularity.unwrap_or_default();
        let judge = Self {
            prompts: Prompts::load(&[&[PROMPT], LAYOUT.files().as_slice()].concat(), settings)?,
            granularity,
            weights: settings.weights("gemba", granularity)?,
            max_tokens: settings.max_tokens,
        };
        judge.chat(&Texts::sample()).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn judge_unit(&self, panel: &Panel, texts: &Texts) -> Result<Verdict, Error> {
        if texts.is_empty() {
            return Err(Error::nothing_to_judge());
        }
        let chat = self.chat(texts)?;
        let form = LAYOUT.form(&self.prompts, texts.max_errors(), &texts.source, &texts.target)?;
        let sampling = Sampling { max_tokens: self.budget(), ..panel.sampling.clone() };
        let reply = panel.ask_with(Role::Annotator, ANNOTATE, &chat, &form, &sampling)?;
        let answer = LAYOUT.read(reading::whole(&reply, self.budget())?)?.weighed(&reply);
        Ok(answer.verdict(&texts.source, &texts.target, self.weights, false))
    }

    fn chat(&self, texts: &Texts) -> Result<Chat, Error> {
        Ok(Chat::new().user(self.prompts.render(PROMPT, texts.query())?))
    }

    /// Maximum number of tokens of an answer.
    fn budget(&self) -> usize {
        let own = if self.granularity == Granularity::FiveDoc { 4096 } else { 2048 };
        self.max_tokens.unwrap_or(own)
    }
}

/// The target answer of a tuned model about a unit of these segments, whose errors have offsets in their
/// segment. It has the form that [`Gmft`] then enforces.
///
/// # Panics
/// When there is no segment.
#[must_use]
pub fn answer(group: &[Segment], errors: &[Vec<ErrorSpan>]) -> String {
    let texts = Texts::join(group).expect("a unit has a segment");
    let written = LAYOUT.written(&taught::errors(group, errors, texts.max_errors()));
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
