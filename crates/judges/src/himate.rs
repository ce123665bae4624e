//! HiMATE: an agent for each MQM subtype evaluates and reflects, and discusses with the agent of its core type
//! what it is not sure of. "HiMATE: A Hierarchical Multi-Agent Framework for Machine Translation Evaluation"
//! (anonymous ACL submission), Tables 6, 8, 9 and 10, Appendix D. Its code could not be had: there is no preset
//! `code`. It uses no reference and knows no non-translation.
//!
//! Differs:
//! - Prompts. Printed are the role-play and task texts (Tables 9 and 10) for Chinese to English; ours name the
//!   segment's languages. How an answer must look is not printed: `paper` asks for what the worked cases show,
//!   `strict` for JSON, spans verbatim (an omission's from the source). The single agent (SA) is ours, and asks
//!   for JSON in both.
//! - Shots. Not printed; ours are two for each subtype, one with such an error and one without errors, from English
//!   to German and from Chinese to English. Segments in other languages get none, unless `--shots` has some: of a
//!   file, each subtype takes the first that has such an error and one that has none.
//! - One error for each subtype, the worst, as Equation 4 and the worked cases have it.
//! - A correction that leaves the translation as it is: the error is dropped. Section 3.3 takes a correction that
//!   does not mitigate the error for a sign of a false positive; there is nothing left to compare.
//! - The comparison. Table 9 does not show the error information to it, Equation 3 does, and so do we. `paper` asks
//!   for one of the two sentences. `strict` weighs both sentences as a whole, in both orders of showing them, and
//!   takes the mean (`comparison=asked` asks there too): small models prefer a place.
//! - No significant difference: the error is dropped and not discussed, as in all worked cases.
//! - Confidence. Paper: the sum of the log-probabilities of the answer, which the comparison gives. Ours the
//!   same, within what the form allows: under free text that is the whole vocabulary. `confidence=mean` divides by
//!   the number of tokens. Without reflection a span has the confidence of its own tokens.
//! - Threshold. Paper: the 60th percentile for a model and language pair, no number. Ours: `calibration=FILE`
//!   from `tribunal calibrate`, or a probability of the answer, `threshold=P`. `paper` has no default; that of
//!   `strict`, 0.9, is ours.
//! - The discussion starts from the error with its correction and the comparison, as in section 3.4.
//! - End of a discussion. Paper: derived from its history. Ours: the last opinion of the tier-1 agent, whether
//!   or not the tier-2 agent agrees after two statements each. Its second statement can change nothing: `strict`
//!   does not ask for it, and in `paper` it may be unreadable.
//! - Unusable answers are asked for again, three times in all, and their stage once more; then the verdict is missing.
//! - Repeats. Each subtype names one error, so there are none; the single agent (SA) can name an error twice: `paper`
//!   charges both, `strict` as many namings of one span and type as the span has occurrences.
//! - Scores. Paper: MAE and MSE imply scores in 0..=1, without a formula. Ours is Equation 4, not normalised.
//! - A segment whose source and hypothesis are both empty is not asked about: it has no verdict.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use self::{
    answer::{Comparison, Finding},
    calibration::Limit,
    hierarchy::{Core, Subtype},
};
use super::{
    Error, Judge, Judging, Materials, Method, Model, Panel, Reads, Retry, Role, Stage, Verdict, in_parallel,
    method::Calls,
    pair::Pair,
    prompt::{File, Prompts},
    reading,
    setup::{self, Granularity, Preset, Settings, options},
    shots::{self, Shot},
};
use crate::{
    llm::{Chat, Form, Reply, Sampling},
    mqm::{self, ErrorSpan, weights::Weights},
    segment::Segment,
};

pub mod calibration;

mod hierarchy;

mod answer;

mod evaluation;

mod reflection;

mod dialogue;

const SHOTS: File = File { name: "himate/shots.jsonl", text: include_str!("himate/shots.jsonl") };
const COMPARISON: File =
    File { name: "himate/comparison.json", text: include_str!("himate/comparison.json") };
const INFORMATION: File = File { name: "himate/information.j2", text: include_str!("himate/information.j2") };
/// What `tribunal methods show himate` says.
pub const METHOD: Method = Method {
    name: "himate",
    summary: "an agent for each of 19 subtypes; self-reflection; discussion where one is not sure",
    citation: "HiMATE, Tables 6, 8, 9 and 10",
    stages: &[
        evaluation::EVALUATE,
        reflection::CORRECT_STAGE,
        reflection::COMPARE_STAGE,
        reflection::SWAPPED_STAGE,
        dialogue::DISCUSS,
    ],
    roles: &[Role::Tier1, Role::Tier2, Role::Single],
    // No subtype finds anything; four do, and two of them discuss; all do and never agree. Unusable answers apart.
    calls: Calls { least: 19, typical: 35, most: 133 },
    scale: "negative penalty, 0 is best and higher is better",
    misses: None,
    marks: None,
    granularities: &[Granularity::Seg],
    presets: &[Preset::Paper, Preset::Strict],
    weights: Some("himate"),
    options: Asked::CHOICES,
    reads: Reads::Translations,
    build: |settings, options| Ok(HiMate::new(settings, &Asked::read(options))?.into()),
};

options! {
    /// What it can be told.
    pub struct Asked {
        "stages" stages: Stages = {
            "se+sr+cd" => Stages::Discussion, "se+sr" => Stages::Reflection, "se" => Stages::Evaluation, "sa" => Stages::Single
        }, "subtype evaluation, self-reflection, collaborative discussion; or a single agent (Table 2)";
        "threshold" threshold: f64 = { "0.9" => 0.9, <number> |n| n },
            "probability of an answer, from 0 to 1, below which it is discussed; paper has no default";
        "calibration" calibration: Option<String> = { "none" => None, <file> Some },
            "thresholds that `tribunal calibrate` has fitted";
        "confidence" is_mean: bool = { "sum" => false, "mean" => true },
            "sum of an answer's log-probabilities, or their mean";
        "comparison" is_weighed: Option<bool> = { "preset" => None, "weighed" => Some(true), "asked" => Some(false) },
            "weigh both sentences in both orders, or ask for one of them; strict weighs, paper asks";
        "shots" has_shots: bool = { "2" => true, "0" => false }, "worked examples before the question";
    }
}

/// What is added to the seed when a stage is done once more: beyond the seeds of samples and of further tries.
const ANOTHER_TIME: u64 = 1 << 48;

/// HiMATE as it was asked for.
pub struct HiMate {
    prompts: Prompts,
    preset: Preset,
    stages: Stages,
    hierarchy: Vec<Core>,
    shots: Vec<Shot>,
    comparison: Comparison,
    limit: Limit,
    /// A comparison is weighed, not asked.
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

/// One subtype of one segment, and who is asked about it.
#[derive(Clone, Copy)]
struct Task<'a> {
    panel: &'a Panel,
    segment: &'a Segment,
    core: &'a Core,
    subtype: &'a Subtype,
}

impl Judging for HiMate {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(group, |idx, segment| self.judge_segment(&panel.about(idx), segment))
    }

    /// Language pairs without examples.
    fn remarks(&self, segments: &[Segment]) -> Vec<String> {
        let bare = |segment: &&Segment| !self.shots.is_empty() && self.shots_for(segment).next().is_none();
        let pairs: BTreeSet<(&str, &str)> =
            segments.iter().filter(bare).map(|s| (s.src_lang.name(), s.tgt_lang.name())).collect();
        let remark = |(from, to): (&str, &str)| {
            format!("no example is from {from} to {to}, so agents are shown none there; hint: `--shots FILE`")
        };
        if self.stages == Stages::Single { Vec::new() } else { pairs.into_iter().map(remark).collect() }
    }

    fn check_models(&self, model_of: &dyn Fn(Role) -> Model) -> Result<(), setup::Error> {
        self.limit.check_model(&model_of(Role::Tier2))
    }
}

impl From<HiMate> for Judge {
    fn from(judge: HiMate) -> Self {
        let materials = Materials::of(&judge.prompts);
        let materials = match judge.limit.calibration() {
            Some(hash) => materials.with("calibration", hash),
            None => materials,
        };
        Self {
            trained_on: judge.limit.trained_on(),
            calls: Some(judge.calls()),
            ..Self::new(materials, judge)
        }
    }
}

impl HiMate {
    /// Reads the settings, the prompts, the shots and the calibration.
    ///
    /// # Errors
    /// What [`super::registry::build`] names; options that do not go together; a calibration for other prompts.
    pub fn new(settings: &Settings, asked: &Asked) -> Result<Self, setup::Error> {
        check_options(asked, settings.preset)?;
        // All files in every variant: a threshold that was fitted for them holds for the whole pipeline.
        let own = [hierarchy::HIERARCHY, COMPARISON, INFORMATION];
        let mut files = [&own, evaluation::FILES, answer::FILES, reflection::FILES, dialogue::FILES].concat();
        let shots_file = settings.has_shots(*asked.has_shots)?.then_some(SHOTS);
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
            stages: *asked.stages,
            limit: Limit::of(asked)?,
            is_weighed: asked.is_weighed.unwrap_or(settings.preset == Preset::Strict),
            is_mean: *asked.is_mean,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("himate"))?,
            max_tokens: settings.max_tokens,
        };
        judge.limit.check(&[
            ("preset", judge.preset.name()),
            ("prompts", judge.prompts.hash()),
            ("confidence", &asked.is_mean.text),
            ("comparison", judge.comparison_name()),
        ])?;
        judge.try_prompts().map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// No subtype finds anything; four do, and two of them discuss; all do and never agree.
    fn calls(&self) -> Calls {
        let n = self.subtypes().count();
        let reflection = if self.is_weighed { 3 } else { 2 };
        // The opinion of a tier-1 agent and the answer to it, twice; `strict` leaves the last answer out.
        let discussion = if self.is_strict() { 3 } else { 4 };
        match self.stages {
            Stages::Single => Calls::exactly(1),
            Stages::Evaluation => Calls::exactly(n),
            Stages::Reflection => Calls { least: n, typical: n + 4 * reflection, most: n * (1 + reflection) },
            Stages::Discussion => Calls {
                least: n,
                typical: n + 4 * reflection + 2 * 2,
                most: n * (1 + reflection + discussion),
            },
        }
    }

    /// The hash of the prompts in force, which a calibration names.
    #[must_use]
    pub fn prompts_hash(&self) -> &str {
        self.prompts.hash()
    }

    /// How errors are compared, as a calibration names it: `weighed` or `asked`.
    #[must_use]
    pub fn comparison_name(&self) -> &'static str {
        if self.is_weighed { "weighed" } else { "asked" }
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict, Error> {
        if segment.is_blank() {
            return Err(Error::nothing_to_judge());
        }
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
    fn evaluate_subtypes(&self, panel: &Panel, segment: &Segment) -> Result<Vec<ErrorSpan>, Error> {
        let limit = self.limit.for_segment(segment)?;
        let subtypes: Vec<_> = self.subtypes().collect();
        let found = in_parallel(&subtypes, |_, (core, subtype)| {
            self.evaluate_subtype(&Task { panel, segment, core, subtype }, limit)
        });
        found.into_iter().filter_map(Result::transpose).collect()
    }

    /// One subtype through all stages. What becomes of an error is counted with the call that found it.
    fn evaluate_subtype(&self, task: &Task, limit: f64) -> Result<Option<ErrorSpan>, Error> {
        let Some(found) = task.stage(|task| self.evaluate(task))? else { return Ok(None) };
        if self.stages == Stages::Evaluation {
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
        let is_unsure = compared.confidence < limit;
        let kept = if self.stages == Stages::Discussion && is_unsure {
            let kept = task.stage(|task| self.discuss(task, &found, &reflection))?;
            task.count(if kept.is_some() { "discussed-and-kept" } else { "discussed-and-denied" });
            kept
        } else {
            task.count("confirmed");
            Some(found)
        };
        let error = kept.map(|found| to_error(&found, &task.subtype.path));
        Ok(error.map(|error| ErrorSpan { confidence: Some(compared.probability), ..error }))
    }

    /// The confidences of one segment's comparisons, for a calibration (Appendix D). Errors whose correction changed
    /// nothing have none.
    ///
    /// # Errors
    /// An answer that cannot be used, or none.
    pub fn confidences(&self, panel: &Panel, segment: &Segment) -> Result<Vec<f64>, Error> {
        let subtypes: Vec<_> = self.subtypes().collect();
        let found = in_parallel(&subtypes, |_, (core, subtype)| {
            let task = Task { panel, segment, core, subtype };
            let Some(found) = task.stage(|task| self.evaluate(task))? else { return Ok(None) };
            let reflection = task.stage(|task| self.reflect(task, &found))?;
            Ok(reflection.map(|reflection| reflection.compared.confidence))
        });
        found.into_iter().filter_map(Result::transpose).collect()
    }

    fn two_turns(&self, system: File, user: File, values: &Value) -> Result<Chat, Error> {
        let system = self.prompts.render(system, values)?;
        Ok(Chat::new().system(system).user(self.prompts.render(user, values)?))
    }

    /// An error as the later stages are told of it.
    fn information(&self, subtype: &Subtype, found: &Finding) -> Result<String, Error> {
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
    fn form(&self, enforced: impl FnOnce() -> Result<Form, Error>) -> Result<Form, Error> {
        if self.is_strict() { enforced() } else { Ok(Form::Text) }
    }

    /// Asks about one subtype, and again where the answer cannot be used.
    fn ask<T>(
        &self,
        task: &Task,
        (role, stage): (Role, Stage),
        chat: &Chat,
        (form, budget): (&Form, usize),
        read: impl Fn(&Reply) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let max_tokens = self.max_tokens.unwrap_or(budget);
        let sampling = Sampling { max_tokens, ..task.panel.sampling.clone() };
        let step = stage.about(task.subtype.path.as_str());
        task.panel.ask_until(role, step, (chat, form, &sampling), Retry::AGENT, |reply| {
            reading::whole(reply, max_tokens)?;
            read(reply)
        })
    }

    fn subtypes(&self) -> impl Iterator<Item = (&Core, &Subtype)> {
        self.hierarchy.iter().flat_map(|core| core.subtypes.iter().map(move |subtype| (core, subtype)))
    }

    /// Fills in every prompt once.
    fn try_prompts(&self) -> Result<(), Error> {
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
    /// Does a stage, and once more at another seed where one of its answers cannot be used.
    fn stage<T>(&self, work: impl Fn(&Task) -> Result<T, Error>) -> Result<T, Error> {
        match work(self) {
            Err(error) if error.is_of_the_answer() => {
                let seed = self.panel.sampling.seed.wrapping_add(ANOTHER_TIME);
                let panel = self.panel.at_seed(seed);
                work(&Task { panel: &panel, ..*self })
            }
            result => result,
        }
    }

    /// Notes what became of the error that the evaluation found.
    fn count(&self, outcome: &'static str) {
        self.panel.mark(&evaluation::EVALUATE.about(self.subtype.path.as_str()), outcome);
    }
}

fn to_error(found: &Finding, category: &str) -> ErrorSpan {
    let error = ErrorSpan::new(category, found.span.as_str(), found.severity);
    ErrorSpan { confidence: found.confidence, ..error.explained(found.explanation.as_str()) }
}

/// A severity as the prompts write it.
fn capitalised(severity: mqm::Severity) -> String {
    let (first, rest) = severity.name().split_at(1);
    first.to_uppercase() + rest
}

/// Options that do not go together, and those that `paper` cannot do without.
fn check_options(asked: &Asked, preset: Preset) -> Result<(), setup::Error> {
    let conflict = |text: String| Err(setup::Error::Conflict(text));
    let has_discussion = *asked.stages == Stages::Discussion;
    let given = [("threshold", asked.threshold.is_given), ("calibration", asked.calibration.is_given)];
    let given: Vec<&str> =
        given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect();
    match given[..] {
        [name, ..] if !has_discussion => conflict(format!(
            "`{name}` says what is discussed, but `stages={}` has no discussion; hint: leave one of them out",
            asked.stages.text
        )),
        [_, _] if asked.calibration.is_some() => conflict(
            "`threshold` and `calibration` both say what is discussed; hint: leave one of them out".into(),
        ),
        [] if has_discussion && preset == Preset::Paper => {
            let needed =
                "preset `paper` needs a threshold fitted for the model and language pair (Appendix D)";
            let hint = "run `tribunal calibrate --preset paper --out FILE` on other segments, then add calibration=FILE";
            conflict(format!("{needed}; hint: {hint}"))
        }
        _ => Ok(()),
    }
}
