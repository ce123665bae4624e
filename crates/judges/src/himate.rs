//! HiMATE: an agent for each MQM subtype evaluates and reflects, and discusses uncertain errors with the
//! agent of its core type. "HiMATE: A Hierarchical Multi-Agent Framework for Machine Translation Evaluation"
//! (Findings of EMNLP 2025), Tables 6, 8, 9 and 10, Appendix D; code at nlp2ct-shijie/HiMATE, f3cbb3e. It
//! uses no reference and has no non-translations.
//!
//! Differs:
//! - Prompts. Printed are the role-play and task texts (Tables 9 and 10) for Chinese to English; ours name
//!   the segment's languages. How an answer must look is not printed: `paper` asks for what the worked cases
//!   show, `strict` for JSON. The code has other texts, for Chinese to English and English to German, without
//!   a licence: `code` reads them from the user's copy. The single agent (SA) is in neither; ours asks for
//!   JSON in both.
//! - Severity. Every prompt of the code's discussion states that judging an error as major is not correct in
//!   most cases and asks for care. The paper does not print the sentence, so only `code` has it.
//! - Shots. Not printed; ours are two for each subtype, one with such an error and one without errors, from
//!   English to German and from Chinese to English. Segments in other languages get none, unless `--shots`
//!   has some: of a file, each subtype takes the first that has such an error and one that has none. The code
//!   has two of its own for each subtype and pair, at the end of the question.
//! - One error for each subtype, the worst, as Equation 4, the worked cases and the code have it.
//! - Spans. Neither Table 9 nor the code asks for one; the worked cases and section 5.2 have them, and theirs
//!   are the shortest phrases that the explanations quote from the text ([`quotes`]), which is our rule.
//!   Where nothing is quoted an error has no span in `paper` and `code`; `strict` asks for it when all else
//!   is decided.
//! - A correction that equals the translation: the error is dropped. Section 3.3 takes a correction that does
//!   not mitigate the error for a sign of a false positive; there is nothing left to compare. The code
//!   compares.
//! - The comparison. Equation 3 shows the error information to it, and so do we; Table 9 and the code do not.
//!   The code asks for a letter, `A` or `B`, and so do we: `paper` once, `strict` scores both letters in both
//!   orders of showing the answers and takes the mean (`comparison=asked` asks there too): small models
//!   prefer a place.
//! - No significant difference: the error is dropped and not discussed, as in the code and all worked cases.
//! - Confidence. Paper: the sum of the log-probabilities of the answer, which the comparison gives; code: the
//!   same, of that one letter. Ours likewise, within what the form allows: under free text that is the whole
//!   vocabulary. `confidence=mean` divides by the number of tokens. Without reflection a span has the
//!   confidence of its own tokens.
//! - Threshold. Paper: the 60th percentile for a model and language pair, no number. Code: one for each
//!   subtype as well, for three models, and `<=`: 100 % throughout for qwen-max and qwen2.5-72b-instruct, so
//!   that every confirmed error is discussed, and 99.14 % to 100 % for gpt-4o-mini. Ours: 1 (100 %), another
//!   probability of the answer, `threshold=P`, or `calibration=FILE` from `tribunal calibrate`, with one for
//!   each subtype.
//! - The discussion starts from the error with its correction and the comparison, as in section 3.4. The code
//!   shows the type, existence and severity alone.
//! - End of a discussion. Paper: derived from its history. Ours is the code's: the tier-1 agent's first
//!   opinion where the tier-2 agent agrees, in its first statement or its second; else the tier-2 agent's own
//!   evaluation. The tier-1 agent concedes when its second opinion is that evaluation; in `code` when it says
//!   `I agree with`. `strict` does not ask the tier-2 agent about an opinion that is its own evaluation,
//!   which then stands in every case.
//! - Unusable answers are requested again, three times in all, and their stage once more; then the verdict is
//!   missing. The code drops a sentence whose evaluation it cannot read, which moves all later ones by one;
//!   `code` has no verdict.
//! - Repeats. Each subtype names one error, so there are none; the single agent (SA) can name an error twice:
//!   `paper` charges both, `strict` as many namings of one span and type as the span has occurrences.
//! - Scores. Paper: MAE and MSE imply scores in 0..=1, without a formula. Ours is Equation 4, not normalised,
//!   as in the code.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use self::{
    answer::{Comparison, Finding},
    calibration::Limit,
    hierarchy::{Core, Subtype},
};
use super::{
    Judge, Method, Model, Panel, Protocol, Provenance, Question, Result, Retry, Role, Stage, Verdict,
    in_parallel,
    method::Calls,
    pair::Pair,
    prompt::{File, Prompts, file},
    scale::Scale,
    setup::{self, Preset, Settings, options},
    shots::{self, Shot},
};
use crate::{
    llm::{Chat, Reply, ResponseFormat},
    mqm::{self, ErrorSpan, weights::Weights},
    segment::Segment,
};

pub mod calibration;

pub mod confidences;

mod hierarchy;

pub mod quotes;

mod answer;

mod evaluation;

mod reflection;

mod dialogue;

/// The stages of its calls.
pub mod stages {
    use crate::Stage;

    pub const EVALUATE: Stage = Stage::new("evaluate");
    pub const CORRECT: Stage = Stage::new("correct");
    pub const COMPARE: Stage = Stage::new("compare");
    pub const COMPARE_SWAPPED: Stage = Stage::new("compare-swapped");
    pub const DISCUSS: Stage = Stage::new("discuss");
    pub const LOCATE: Stage = Stage::new("locate");
}

const SHOTS: File = file!("himate/shots.jsonl");
const COMPARISON: File = file!("himate/comparison.json");
const INFORMATION: File = file!("himate/information.j2");
/// Metadata shown by `tribunal methods show himate`.
pub const METHOD: Method = Method {
    name: "himate",
    summary: "an agent for each of 19 subtypes; self-reflection; discussion where one is not sure",
    citation: "HiMATE, Findings of EMNLP 2025, Tables 6, 8, 9 and 10",
    papers: &["zhang-etal-2025-himate"],
    stages: &[
        stages::EVALUATE,
        stages::CORRECT,
        stages::COMPARE,
        stages::COMPARE_SWAPPED,
        stages::DISCUSS,
        stages::LOCATE,
    ],
    roles: &[Role::Tier1, Role::Tier2, Role::Single],
    // The default of `strict`; every judge has its own.
    calls: calls(Preset::Strict, Stages::Discussion, true, N_SUBTYPES),
    scale: Scale::PENALTY,
    weights: Some("himate"),
    answer_tokens: Some([23, 0]),
    options: Options::CHOICES,
    ..Method::with(|settings, options| HiMate::new(settings, &Options::read(options)).map(built))
};

options! {
    /// Options of HiMATE.
    pub struct Options {
        "stages" stages: Stages = {
            "se+sr+cd" => Stages::Discussion, "se+sr" => Stages::Reflection, "se" => Stages::Evaluation, "sa" => Stages::Single
        }, "subtype evaluation, self-reflection, collaborative discussion; or a single agent (Table 2)";
        "threshold" threshold: f64 = { "1" => 1.0, <number> |n| n },
            "probability of an answer, from 0 to 1, up to which it is discussed; 1 discusses every confirmed error, \
             as published for both Qwen models";
        "calibration" calibration: Option<String> = { "none" => None, <file> Some },
            "thresholds that `tribunal calibrate` has fitted";
        "confidence" is_mean: bool = { "sum" => false, "mean" => true },
            "sum of an answer's log-probabilities, or their mean";
        "comparison" is_weighed: Option<bool> = { "preset" => None, "weighed" => Some(true), "asked" => Some(false) },
            "weigh both answers in both orders, or ask for one of them; strict weighs, paper asks";
        "shots" has_shots: bool = { "2" => true, "0" => false }, "worked examples before the question";
    }
}

/// The subtypes of Table 8.
pub const N_SUBTYPES: usize = 19;

/// Model calls for a segment, retries apart: no subtype finds anything; four do, of which two are confirmed
/// and discussed until the tier-2 agent agrees; all do and never agree, and no explanation quotes the text.
pub const fn calls(preset: Preset, stages: Stages, is_weighed: bool, n_subtypes: usize) -> Calls {
    let reflection = if is_weighed { 3 } else { 2 };
    let span = if matches!(preset, Preset::Strict) { 1 } else { 0 };
    let (typical, most) = match stages {
        Stages::Single => return Calls::exactly(1),
        Stages::Evaluation => (0, span),
        Stages::Reflection => (4 * reflection, reflection + span),
        Stages::Discussion => (4 * reflection + 2 * 2, reflection + 4 + span),
    };
    Calls { least: n_subtypes, typical: n_subtypes + typical, most: n_subtypes * (1 + most) }
}

/// Added to the seed when a stage is repeated: beyond the seeds of samples and of further tries.
const ANOTHER_TIME: u64 = 1 << 48;

/// A configured HiMATE judge.
pub struct HiMate {
    prompts: Prompts,
    preset: Preset,
    stages: Stages,
    hierarchy: Vec<Core>,
    shots: Vec<Shot>,
    comparison: Comparison,
    limit: Limit,
    /// The comparison is scored, not answered in text.
    is_weighed: bool,
    /// A confidence is divided by the number of tokens.
    is_mean: bool,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

/// How far the pipeline goes (Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Stages {
    Single,
    Evaluation,
    Reflection,
    Discussion,
}

/// One subtype of one segment, and the panel for it.
#[derive(Clone, Copy)]
struct Task<'a> {
    panel: &'a Panel,
    segment: &'a Segment,
    core: &'a Core,
    subtype: &'a Subtype,
}

impl Protocol for HiMate {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }

    /// Language pairs without examples.
    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        let bare = |segment: &&Segment| !self.shots.is_empty() && self.shots_for(segment).next().is_none();
        let pairs: BTreeSet<(&str, &str)> =
            segments.iter().filter(bare).map(|s| (s.src_lang.name(), s.tgt_lang.name())).collect();
        let remark = |(from, to): (&str, &str)| {
            format!(
                "no example is from {from} to {to}, so agents are shown none there; hint: shots of this pair"
            )
        };
        if self.stages == Stages::Single { Vec::new() } else { pairs.into_iter().map(remark).collect() }
    }

    fn check_models(&self, model_of: &dyn Fn(Role) -> Model) -> setup::Result<()> {
        self.limit.check_model(&model_of(Role::Tier2))
    }
}

fn built(judge: HiMate) -> Judge {
    let provenance = Provenance::of(&judge.prompts);
    let provenance = match judge.limit.calibration() {
        Some(hash) => provenance.with("calibration", hash),
        None => provenance,
    };
    let calls = calls(judge.preset, judge.stages, judge.is_weighed, judge.subtypes().count());
    Judge { trained_on: judge.limit.trained_on(), calls: Some(calls), ..Judge::new(provenance, judge) }
}

impl HiMate {
    /// Reads the settings, the prompts, the shots and the calibration.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; options that do not go together; a calibration for other
    /// prompts.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        check_options(options)?;
        // All files in every variant: a threshold that was fitted for them holds for the whole pipeline.
        let prompts = [hierarchy::HIERARCHY, COMPARISON, INFORMATION];
        let mut files =
            [&prompts, evaluation::FILES, answer::FILES, reflection::FILES, dialogue::FILES].concat();
        let shots_file = settings.has_shots(*options.has_shots)?.then_some(SHOTS);
        files.extend(shots_file);
        let prompts = Prompts::load(&files, settings)?;
        let comparison = prompts.render(COMPARISON, ()).map_err(setup::Error::from_prompt)?;
        let judge = Self {
            hierarchy: hierarchy::load(&prompts)?,
            shots: shots::load(&prompts, shots_file, settings)?,
            comparison: serde_json::from_str(&comparison)
                .map_err(|e| setup::Error::Prompt { file: COMPARISON.name.into(), reason: e.to_string() })?,
            prompts,
            preset: settings.preset,
            stages: *options.stages,
            limit: Limit::of(options)?,
            is_weighed: options.is_weighed.unwrap_or(settings.preset == Preset::Strict),
            is_mean: *options.is_mean,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("himate"))?,
            max_tokens: settings.max_tokens,
        };
        judge.limit.check(&[
            ("preset", judge.preset.name()),
            ("prompts", judge.prompts.hash()),
            ("confidence", &options.is_mean.text),
            ("comparison", judge.comparison_name()),
        ])?;
        judge.try_prompts().map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// The hash of the prompts in force, which a calibration names.
    pub fn prompts_hash(&self) -> &str {
        self.prompts.hash()
    }

    /// The way of comparing errors, as named in a calibration: `weighed` or `asked`.
    pub fn comparison_name(&self) -> &'static str {
        if self.is_weighed { "weighed" } else { "asked" }
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let errors = if self.stages == Stages::Single {
            self.evaluate_alone(panel, segment)?
        } else {
            self.evaluate_subtypes(panel, segment)?
        };
        let (errors, score) =
            mqm::assess(errors, &segment.source, &segment.hypothesis, self.preset.repeats(), self.weights);
        Ok(Verdict::new(score, errors))
    }

    /// All tier-2 agents at once.
    fn evaluate_subtypes(&self, panel: &Panel, segment: &Segment) -> Result<Vec<ErrorSpan>> {
        let mut tasks = Vec::new();
        for (core, subtype) in self.subtypes() {
            let limit = self.limit.for_subtype(segment, &subtype.path)?;
            tasks.push((Task { panel, segment, core, subtype }, limit));
        }
        let found = in_parallel(&tasks, |_, (task, limit)| self.evaluate_subtype(task, *limit));
        found.into_iter().filter_map(Result::transpose).collect()
    }

    /// One subtype through all stages. The outcome for an error is counted with the call that found it.
    fn evaluate_subtype(&self, task: &Task, limit: f64) -> Result<Option<ErrorSpan>> {
        let Some(found) = task.stage(|task| self.evaluate(task))? else { return Ok(None) };
        if self.stages == Stages::Evaluation {
            let found = task.stage(|task| self.locate(task, found.clone()))?;
            return Ok(Some(to_error(&found, &task.subtype.path)));
        }
        let Some(reflection) = task.stage(|task| self.reflect(task, &found))? else {
            task.count("dropped-unchanged");
            return Ok(None);
        };
        let compared = &reflection.compared;
        if !compared.is_confirmed {
            task.count("dropped");
            return Ok(None);
        }
        let is_unsure = compared.confidence <= limit;
        let discussed = if self.stages == Stages::Discussion && is_unsure {
            let discussed = task.stage(|task| self.discuss(task, &found, &reflection))?;
            task.count(if discussed.is_some() { "discussed-and-kept" } else { "discussed-and-denied" });
            discussed
        } else {
            task.count("confirmed");
            Some(found)
        };
        let Some(discussed) = discussed else { return Ok(None) };
        let discussed = task.stage(|task| self.locate(task, discussed.clone()))?;
        let error = to_error(&discussed, &task.subtype.path);
        Ok(Some(ErrorSpan { confidence: Some(compared.probability), ..error }))
    }

    /// The confidences of one segment's comparisons, with their subtypes' paths, for a calibration (Appendix
    /// D). Errors whose correction changed nothing have none.
    ///
    /// # Errors
    /// An answer that cannot be used, or none.
    pub fn confidences(&self, panel: &Panel, segment: &Segment) -> Result<Vec<(String, f64)>> {
        let subtypes: Vec<_> = self.subtypes().collect();
        let found = in_parallel(&subtypes, |_, (core, subtype)| {
            let task = Task { panel, segment, core, subtype };
            let Some(found) = task.stage(|task| self.evaluate(task))? else { return Ok(None) };
            let reflection = task.stage(|task| self.reflect(task, &found))?;
            Ok(reflection.map(|reflection| (subtype.path.clone(), reflection.compared.confidence)))
        });
        found.into_iter().filter_map(Result::transpose).collect()
    }

    fn two_turns(&self, system: File, user: File, values: &Value) -> Result<Chat> {
        let system = self.prompts.render(system, values)?;
        Ok(Chat::new().system(system).user(self.prompts.render(user, values)?))
    }

    /// An error in the form that the later stages show.
    fn information(&self, subtype: &Subtype, found: &Finding) -> Result<String> {
        let severity = capitalised(found.severity);
        let values = json!({
            "subtype": subtype, "severity": severity, "span": found.span, "explanation": found.explanation,
        });
        Ok(self.prompts.render(INFORMATION, values)?.trim_end().to_owned())
    }

    fn values(&self, segment: &Segment, subtype: &Subtype) -> Value {
        self.query(&Pair::of(segment), subtype)
    }

    fn query(&self, pair: &Pair, subtype: &Subtype) -> Value {
        let mut values = json!(pair);
        values["subtype"] = json!(subtype);
        values["strict"] = json!(self.is_strict());
        values
    }

    /// The enforced form; free text where answers are not enforced.
    fn form(&self, enforced: impl FnOnce() -> Result<ResponseFormat>) -> Result<ResponseFormat> {
        if self.is_strict() { enforced() } else { Ok(ResponseFormat::Text) }
    }

    /// The form that this file describes, in `strict`; free text in other presets.
    fn json_form(&self, file: File, values: Value) -> Result<ResponseFormat> {
        self.form(|| Ok(ResponseFormat::json(self.prompts.json(file, values)?)))
    }

    fn subtypes(&self) -> impl Iterator<Item = (&Core, &Subtype)> {
        self.hierarchy.iter().flat_map(|core| core.subtypes.iter().map(move |subtype| (core, subtype)))
    }

    /// Renders every prompt once.
    fn try_prompts(&self) -> Result<()> {
        for (core, subtype) in self.subtypes().take(1) {
            let mut values = self.query(&Pair::sample(), subtype);
            self.try_evaluation(&values)?;
            values["core"] = json!(core);
            self.try_reflection(&mut values)?;
            self.try_discussion(&mut values)?;
        }
        Ok(())
    }

    fn is_strict(&self) -> bool {
        self.preset == Preset::Strict
    }
}

impl Task<'_> {
    /// The text that errors of the subtype are marked in.
    fn marked(&self) -> &str {
        if self.subtype.is_omission { &self.segment.source } else { &self.segment.hypothesis }
    }

    /// Asks about the subtype, and again where the answer cannot be used.
    fn ask<T>(
        &self,
        role: Role,
        stage: Stage,
        question: &Question,
        read: impl Fn(&Reply) -> Result<T>,
    ) -> Result<T> {
        let step = stage.about(self.subtype.path.as_str());
        self.panel.ask_until(role, step, question, Retry::AGENT, read)
    }

    /// Runs a stage, and once more at another seed where one of its answers cannot be used.
    fn stage<T>(&self, work: impl Fn(&Task) -> Result<T>) -> Result<T> {
        match work(self) {
            Err(error) if error.is_of_the_answer() => {
                let seed = self.panel.sampling.seed.wrapping_add(ANOTHER_TIME);
                let panel = self.panel.at_seed(seed);
                work(&Task { panel: &panel, ..*self })
            }
            result => result,
        }
    }

    /// Counts the outcome for the error that the evaluation found.
    fn count(&self, outcome: &'static str) {
        self.panel.mark(&stages::EVALUATE.about(self.subtype.path.as_str()), outcome);
    }
}

fn to_error(found: &Finding, category: &str) -> ErrorSpan {
    let error = ErrorSpan::new(category, found.span.as_str(), found.severity);
    ErrorSpan { confidence: found.confidence, ..error.explained(found.explanation.as_str()) }
}

/// A severity as the prompts write it.
fn capitalised(severity: mqm::Severity) -> String {
    let (first, tail) = severity.name().split_at(1);
    first.to_uppercase() + tail
}

/// Rejects options that do not go together.
///
/// # Errors
/// [`setup::Error::Conflict`].
pub fn check_options(options: &Options) -> setup::Result<()> {
    let conflict = |text: String| Err(setup::Error::Conflict(text));
    let has_discussion = *options.stages == Stages::Discussion;
    let options_given =
        [("threshold", options.threshold.is_given), ("calibration", options.calibration.is_given)];
    let options_given: Vec<&str> =
        options_given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect();
    match options_given[..] {
        [name, ..] if !has_discussion => conflict(format!(
            "`{name}` says what is discussed, but `stages={}` has no discussion; hint: leave one of them out",
            options.stages.text
        )),
        [_, _] if options.calibration.is_some() => conflict(
            "`threshold` and `calibration` both say what is discussed; hint: leave one of them out".into(),
        ),
        _ => Ok(()),
    }
}
