//! LIKELIHOOD: the probability of the translation after its source, or of the source after its translation,
//! under a model. Each question is one text to be read; nothing is generated, and no errors are named.
//!
//! Prior work:
//! - Thompson and Post, Automatic Machine Translation Evaluation in Many Languages via Zero-Shot Paraphrasing
//!   (2020): the token-averaged log-probability of a translation given its source (Prism-src).
//! - Fu et al., GPTScore: Evaluate as You Desire (2023): the same from a general language model behind a
//!   prompt, in both directions.
//!
//! Differs:
//! - Model. Prism has a multilingual translation model of its own, GPTScore GPT-3 and others; ours is any
//!   model of the role.
//! - Prompt. Prism-src has language tags; GPTScore an instruction, without a chat template as here. Ours
//!   names the languages and nothing else: `English: SOURCE`, then `German:` and the translation. No control
//!   token acts.
//! - Norm. Both papers average over tokens (`norm=mean`); `norm=sum` adds them up, which favours short
//!   translations.
//! - The end of the text is not scored: Prism's models have a token for it, a plain prompt does not.
//! - `relative=on` takes away what the model gives the same text without the other one in front: a
//!   translation is then not rewarded for being made of frequent words.
//! - Documents (`--granularity doc`). Papers: single segments. Ours: earlier segments of the document stand
//!   in front, each as a pair of source and translation, without those that are empty on one side. They are
//!   read once, whatever the length of the document, because each question goes on where the one before
//!   ended.

use serde_json::json;

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Result, Role, Stage, Step, Verdict, in_parallel,
    method::{Calls, Output},
    on_empty,
    prompt::{File, Prompts, file},
    scale::{Scale, Unit},
    setup::{self, Granularity, Preset, Settings, options},
};
use crate::{
    llm::{self, Chat, Scored},
    segment::Segment,
};

const PROMPT: File = file!("likelihood/likelihood.j2");

/// Length in tokens from which no text is as improbable as chance under a working model.
const LONG: usize = 8;

/// The stages of its calls.
const FORWARD: Stage = Stage::new("forward");
const BACKWARD: Stage = Stage::new("backward");
const ALONE: Stage = Stage::new("alone");

/// Metadata shown by `tribunal methods show likelihood`.
pub const METHOD: Method = Method {
    name: "likelihood",
    summary: "how probable the translation is after its source, the source after it, or both; one reading each",
    citation: "Prism-src (Thompson and Post 2020); GPTScore (Fu et al. 2023)",
    papers: &["thompson-post-2020-automatic", "fu-etal-2024-gptscore"],
    stages: &[FORWARD, BACKWARD, ALONE],
    // For each direction one, with relative=on two.
    calls: Calls { least: 1, typical: 1, most: 4 },
    answer_tokens: Some([0, 0]),
    scale: Scale::between(Unit::LogProbability, [f64::NEG_INFINITY, 0.0]),
    scales: &[
        (
            &[("relative", &["on"])],
            Scale::between(Unit::LogProbabilityGain, [f64::NEG_INFINITY, f64::INFINITY]),
        ),
        (&[("norm", &["sum"])], Scale::between(Unit::TextLogProbability, [f64::NEG_INFINITY, 0.0])),
    ],
    granularities: &[Granularity::Seg, Granularity::Doc],
    presets: &[Preset::Strict],
    options: Options::CHOICES,
    common: &[],
    output: Output::LogProbabilities,
    ..Method::with(|settings, options| Likelihood::new(settings, &Options::read(options)).map(built))
};

options! {
    /// Options of LIKELIHOOD.
    pub struct Options {
        "direction" directions: &'static [Conditioning] = {
            "forward" => &[Conditioning::Forward],
            "backward" => &[Conditioning::Backward],
            "both" => &[Conditioning::Forward, Conditioning::Backward]
        }, "the translation after its source, the source after its translation, or the mean of both";
        "norm" is_sum: bool = { "mean" => false, "sum" => true }, "per token, or of the whole text";
        "relative" is_relative: bool = { "off" => false, "on" => true },
            "less what the model gives the same text without the other one in front";
    }
}

/// A configured LIKELIHOOD judge.
pub struct Likelihood {
    prompts: Prompts,
    granularity: Granularity,
    readings: Vec<ScoredText>,
    directions: &'static [Conditioning],
    is_sum: bool,
}

/// Order of source and translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditioning {
    /// The translation follows its source.
    Forward,
    /// The source follows its translation.
    Backward,
}

/// A text that is scored, after the other one or alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScoredText {
    direction: Conditioning,
    is_alone: bool,
}

impl Protocol for Likelihood {
    /// Judges segment by segment, since each question continues where the last one ended; the readings run
    /// side by side.
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        let by_reading = in_parallel(&self.readings, |_, reading| {
            let weigh = |idx: usize| self.weigh(&panel.about(idx), *reading, &group[..=idx]);
            (0..group.len()).map(|idx| panel.wants(idx).then(|| weigh(idx))).collect::<Vec<_>>()
        });
        let segment_verdict = |idx: usize| {
            let values = by_reading.iter().map(|values| values[idx].clone());
            let values: Option<Vec<Result<f64>>> = values.collect();
            let values = values.ok_or_else(Error::nothing_to_judge)?;
            let values = values.into_iter().collect::<Result<Vec<f64>>>()?;
            Ok(self.verdict(&values))
        };
        (0..group.len()).map(segment_verdict).collect()
    }

    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        on_empty(METHOD.name, segments).into_iter().collect()
    }
}

fn built(judge: Likelihood) -> Judge {
    Judge {
        grouping: judge.granularity.grouping(),
        calls: Some(Calls::exactly(judge.readings.len())),
        ..Judge::new(Provenance::of(&judge.prompts), judge)
    }
}

impl Likelihood {
    /// Reads the settings and the prompt.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; weights and shots, which the method does not have.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        settings.check_neither_weights_nor_shots(METHOD.name)?;
        let directions = *options.directions;
        let ways: &[bool] = if *options.is_relative { &[false, true] } else { &[false] };
        let in_ways = |&direction| ways.iter().map(move |&is_alone| ScoredText { direction, is_alone });
        let judge = Self {
            prompts: Prompts::load(&[PROMPT], settings)?,
            granularity: settings.granularity.unwrap_or_default(),
            readings: directions.iter().flat_map(in_ways).collect(),
            directions,
            is_sum: *options.is_sum,
        };
        let pair = json!({ "first": "a", "second": "b" });
        let sample = json!({ "first_lang": "", "second_lang": "", "first": "a", "context": [pair] });
        judge.prompts.render(PROMPT, sample).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// The log-probability of one text of the last segment, with the other segments as its context.
    fn weigh(&self, panel: &Panel, reading: ScoredText, segments: &[Segment]) -> Result<f64> {
        let (segment, earlier) = segments.split_last().ok_or_else(Error::nothing_to_judge)?;
        check(segment)?;
        let ScoredText { direction, is_alone } = reading;
        let (first, second) = direction.texts(segment);
        let (first_lang, second_lang) = direction.languages(segment);
        // Earlier segments of the document.
        let context: Vec<_> = (earlier.iter().filter(|segment| check(segment).is_ok()))
            .map(|segment| direction.texts(segment))
            .map(|(first, second)| json!({ "first": first, "second": second }))
            .collect();
        let chat = Chat::plain(self.prompts.render(
            PROMPT,
            json!({
                "first_lang": first_lang,
                "second_lang": second_lang,
                "first": Some(first).filter(|_| !is_alone),
                "context": context,
            }),
        )?);
        // Begins with a space, as any word after another.
        let text = format!(" {second}");
        let scored = panel.score_continuations(Role::Annotator, reading.step(), &chat, &[text])?;
        self.value(&scored, direction)
    }

    /// Unit: nats, per token unless they are summed up.
    fn value(&self, scored: &[Scored], direction: Conditioning) -> Result<f64> {
        let n_tokens = scored.iter().map(|scored| scored.tokens.len()).sum::<usize>();
        let sum = scored.iter().map(Scored::logprob).sum::<f64>();
        let value = if self.is_sum { sum } else { sum / n_tokens as f64 };
        if n_tokens == 0 || !value.is_finite() {
            return Err(Error::Failed(format!("the model gives the {} no probability", direction.second())));
        }
        if has_signal(scored, n_tokens) { Ok(value) } else { Err(llm::Error::NoSignal.into()) }
    }

    /// The mean over the directions, each less the value of its text alone where that was scored too.
    fn verdict(&self, values: &[f64]) -> Verdict {
        let by_direction = values.chunks(self.readings.len() / self.directions.len());
        let net = by_direction.map(|values| values[0] - values.get(1).copied().unwrap_or_default());
        let score = net.sum::<f64>() / self.directions.len() as f64;
        Verdict::new(score, Vec::new())
    }
}

impl Conditioning {
    fn texts(self, segment: &Segment) -> (&str, &str) {
        let Segment { source, hypothesis, .. } = segment;
        if self == Self::Forward { (source, hypothesis) } else { (hypothesis, source) }
    }

    fn languages(self, segment: &Segment) -> (&str, &str) {
        let (source, target) = (segment.src_lang.name(), segment.tgt_lang.name());
        if self == Self::Forward { (source, target) } else { (target, source) }
    }

    /// The name of the scored text.
    fn second(self) -> &'static str {
        if self == Self::Forward { "translation" } else { "source" }
    }
}

impl ScoredText {
    fn step(self) -> Step {
        match self {
            Self { direction, is_alone: true } => ALONE.about(direction.second()),
            Self { direction: Conditioning::Forward, .. } => FORWARD.into(),
            Self { direction: Conditioning::Backward, .. } => BACKWARD.into(),
        }
    }
}

/// True if log-probabilities carry information about a text. One of a word or two may be as improbable as
/// chance; a longer one, or one whose tokens are all equally probable, is not under a working model.
fn has_signal(scored: &[Scored], n_tokens: usize) -> bool {
    let logprobs = scored.iter().flat_map(|scored| &scored.tokens).map(|token| token.logprob);
    let (least, most) =
        logprobs.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
    let is_flat = n_tokens > 1 && most - least < 1e-3;
    let is_chance = scored.iter().all(|scored| scored.is_chance);
    !(is_chance && (is_flat || n_tokens >= LONG))
}

/// Checks that neither side is empty.
fn check(segment: &Segment) -> Result<()> {
    if segment.is_blank() {
        return Err(Error::nothing_to_judge());
    }
    let empty = [("source", &segment.source), ("translation", &segment.hypothesis)];
    match empty.iter().find(|(_, text)| text.trim().is_empty()) {
        Some((name, _)) => Err(Error::Empty(format!("the {name} is empty"))),
        None => Ok(()),
    }
}
