//! M-MAD: agents annotate four dimensions, two sides debate the annotations of each, a judge merges the
//! results. Feng et al., "M-MAD: Multidimensional Multi-Agent Debate for Advanced Machine Translation
//! Evaluation" (ACL 2025), Figures 7 to 18. It uses no reference and judges one segment at a time.
//!
//! Differs:
//! - Prompts. Printed are those of the accuracy agents (Figures 7 to 9) and the final judge (Figure 10). The
//!   others are published with the code, without a licence: `code` reads all texts from the user's copy
//!   (`--prompts M-MAD/code`) and does not run without one. In `paper` and `strict` those of the other
//!   dimensions are ours, from Table 13; so are all texts of `strategy` but consensus, of `topic` but
//!   severity, of the coupled agent (`skip=stage1`), and side B's words against a non-translation.
//! - Shots. Figures 11 to 18 are for zh-en and en-de. Figures 14 (zh-en style) and 17 (en-de terminology) are
//!   misprinted: they mark words in shots that do not contain them. The authors' files mark "hundred-year
//!   struggle history" in the third shot of the one and "Auffrischimpfungen" in the second of the other, and
//!   so does `strict`; `paper` shows the figures as printed. Code: the shots are bare segments, with answers
//!   that begin and end with a line feed, one file for each pair; `code` the same. `shots=auto` shows the
//!   Chinese ones to Chinese sources and the German ones to all others; in `code` the Hebrew ones to Hebrew
//!   sources. A user's file goes to every agent, in `strict` with the errors of its dimension that are
//!   verbatim.
//! - Answers. Code: Stage 1 is passed on unchanged. Of a statement and of the judge, all from the first
//!   `"annotations": [` to the last `]` is read, and bad JSON counts as no errors. `code` does the same, but
//!   a judge without any list gives no verdict, and neither does an answer that its budget cut. `paper` reads
//!   the last object with annotations; `strict` enforces a form: category first, spans verbatim, those of
//!   omissions from the source, non-translation alone, at most 10 annotations, thoughts of at most 800
//!   characters.
//! - Debated annotations. Paper: any error; but against minor ones side B would open with the same
//!   annotations. Code and ours: only annotations that side B's opening changes.
//! - Turns. Paper: side B answers what side A has just said. Code: both speak at once. `code` as the code.
//! - No consensus. Paper: the supportive side (2.2), or the original evaluation (4.3). Code and ours: side
//!   A's last statement, unless `undecided=original` is set.
//! - Consensus. Code: a lower-case `yes` anywhere. `paper`: yes or no as the first word, or the only one of
//!   them, else no verdict. `strict`: a choice of the two.
//! - Judge. `paper` always calls it. `strict` does not when no dimension has an annotation; `code` only skips
//!   it when all four answers are an empty list and not one character more, or when both texts are nothing
//!   but quote marks. Code: Stage 1 ends with a judge of its own, called up to ten times until its answer can
//!   be read; the later stages make no use of it. `code` calls it with `skip=stage2`, where it decides, and
//!   has no verdict after ten answers, where the code makes up a non-translation. Without Stage 3, `strict`
//!   counts a non-translation alone.
//! - Answers that cannot be used. Paper: silent. Code: only the judge of Stage 1 is called again. `paper` and
//!   `strict` call any agent up to three times, each time at another seed and 0.3 warmer; `code` that judge
//!   only, 0.1 warmer each time, since at temperature 0 it would repeat itself.
//! - Temperature. Paper: 0. Code: unset, so 1, in Stages 2 and 3; `code` the same, with the run's seed.
//! - Left out: annotations that survive to the next segment, constants that make all debates Chinese-English.
//! - Repeats. Paper and code: the final judge removes repeated annotations, the program merges none; `paper`
//!   and `code` charge what it lists. `strict` charges as many namings of one span and category as the span
//!   has occurrences, each at its own.
//! - Weights. Paper: 5 and 1 (Equation 1, `mmad-paper`), the default of `paper`. Released scores: 0.1 for
//!   minor punctuation, no cap (`mmad`), the default of `code` and `strict`. A source error costs what its
//!   category costs.
//! - Without Stage 1 (Table 3) one agent annotates all dimensions; whether it has shots is not said. Ours has
//!   those of all agents, or none with `shots=0`.
//! - Coupled start (Table 5): GEMBA-MQM's errors, critical as major, are debated as one dimension.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use serde_json::json;

use self::{
    annotation::{Annotation, COUPLED, DIMENSIONS, Dimension, written},
    debate::{Debate, Rules, Strategy, Topic, Undecided},
    start::Start,
};
use super::{
    Judge, Method, Panel, Protocol, Provenance, Result, Retry, Role, Stage, Step, Verdict, confidence,
    in_parallel,
    method::Calls,
    pair::Pair,
    prompt::{File, Prompts, file},
    scale::Scale,
    setup::{self, GivenOptions, Preset, Settings, options},
    shots::Shot,
};
use crate::{
    llm::{Chat, Reply, ResponseFormat},
    mqm::{self, ErrorSpan, weights::Weights},
    segment::Segment,
};

mod start;

pub mod demos;

pub mod annotation;

pub mod debate;

const SYSTEM: File = file!("m_mad/system.j2");
const QUERY: File = file!("m_mad/query.j2");
const JUDGE_SYSTEM: File = file!("m_mad/judge_system.j2");
const JUDGE: File = file!("m_mad/judge.j2");

/// Answer tokens of an annotator and of the final judge.
const ANNOTATION_BUDGET: usize = 1000;
const JUDGE_BUDGET: usize = 1536;

/// Figure 3 goes to five rounds.
const MAX_ROUNDS: f64 = 10.0;

/// The stages of its calls.
pub const ANNOTATE: Stage = Stage::new("annotate");
pub const JUDGE_STAGE: Stage = Stage::new("judge");

/// Metadata shown by `tribunal methods show m-mad`.
pub const METHOD: Method = Method {
    name: "m-mad",
    summary: "agents for four dimensions, a debate in each, a judge who merges",
    citation: "Feng et al. 2025, M-MAD, Figures 7 to 18, Equation 1",
    papers: &["feng-etal-2025-mad"],
    stages: &[ANNOTATE, debate::DEBATE_STAGE, JUDGE_STAGE],
    roles: &[Role::Annotator, Role::DebaterA, Role::DebaterB, Role::Checker, Role::Reviewer, Role::Judge],
    // Four agents; one disputed dimension that agrees at once; all four disputed for three rounds.
    calls: Calls { least: 4, typical: 8, most: 41 },
    scale: Scale::PENALTY,
    weights: Some("mmad"),
    options: Options::CHOICES,
    ..Method::with(|settings, options| {
        let (options, rounds) = read_options(options)?;
        MMad::new(settings, &options, rounds).map(built)
    })
};

options! {
    /// Options of M-MAD.
    pub struct Options {
        "start" start: First = { "agents" => First::Agents, "gemba-mqm" => First::Gemba },
            "who annotates first: an agent for each dimension, or GEMBA-MQM (Table 5)";
        "skip" skip: Option<Skipped> = {
            "none" => None,
            "stage1" => Some(Skipped::Stage1), "stage2" => Some(Skipped::Stage2), "stage3" => Some(Skipped::Stage3)
        }, "a stage to leave out (Table 3); without stage 1 one agent annotates all dimensions, with \
            the shots of all";
        "strategy" strategy: Strategy = {
            "consensus" => Strategy::Consensus,
            "deliberation" => Strategy::Deliberation,
            "interactive-review" => Strategy::InteractiveReview,
            "consultancy-review" => Strategy::ConsultancyReview
        }, "how a debate is held (Table 7)";
        "topic" topic: Topic = {
            "severity" => Topic::Severity, "category" => Topic::Category, "entirety" => Topic::Entirety
        }, "what is debated (Table 6)";
        "rounds" rounds: f64 = { "3" => 3.0, <number> |n| n }, "rounds of a debate, at most 10 (Figure 3)";
        "undecided" undecided: Undecided = { "last" => Undecided::Last, "original" => Undecided::Original },
            "what counts when the sides never agree: side A's last word (section 2.2), or the original \
             evaluation (section 4.3)";
        "shots" shots: Shots = {
            "auto" => Shots::Auto, "zh-en" => Shots::ZhEn, "en-de" => Shots::EnDe, "he-en" => Shots::HeEn, "0" => Shots::None
        }, "the worked examples of Stage 1; auto goes by the source language; he-en needs the authors' \
            few_shot_demos_he.py; Figures 14 and 17 are misprinted, which only `paper` shows";
    }
}

/// The annotators of Stage 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    Agents,
    Gemba,
}

/// A stage that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    Stage1,
    Stage2,
    Stage3,
}

/// The worked examples of Stage 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shots {
    /// By the source language.
    Auto,
    ZhEn,
    EnDe,
    HeEn,
    None,
}

/// The options of a request, and the rounds of a debate.
///
/// # Errors
/// Options that do not go together, and a number of rounds that is out of range.
pub fn read_options(options: &GivenOptions) -> setup::Result<(Options, usize)> {
    let options = Options::read(options);
    check_options(&options)?;
    let rounds = rounds(&options)?;
    Ok((options, rounds))
}

/// A configured M-MAD judge.
pub struct MMad {
    prompts: Prompts,
    preset: Preset,
    start: Start,
    /// `None` leaves Stage 2 out.
    rules: Option<Rules>,
    has_judge: bool,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

/// The viewpoints of the dimensions, in the order of [`DIMENSIONS`] or as one.
enum Viewpoints {
    Apart(Vec<Vec<Annotation>>),
    Coupled(Vec<Annotation>),
}

impl Protocol for MMad {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }
}

fn built(judge: MMad) -> Judge {
    let mut provenance = Provenance::of(&judge.prompts).weighed_by(&judge.weights.name);
    if let Start::Gemba(gemba) = &judge.start {
        provenance.prompts = format!("{}+{}", provenance.prompts, gemba.provenance().prompts);
    }
    Judge { calls: Some(judge.calls()), ..Judge::new(provenance, judge) }
}

impl MMad {
    /// Reads the settings, the prompts and the shots.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`], and options that do not go together.
    fn new(settings: &Settings, options: &Options, rounds: usize) -> setup::Result<Self> {
        let rules = (*options.skip != Some(Skipped::Stage2)).then(|| Rules::of(options, rounds));
        let has_judge = *options.skip != Some(Skipped::Stage3);
        let is_gemba = *options.start == First::Gemba;
        let mut files = annotation::FILES.to_vec();
        files.extend(if is_gemba { [].as_slice() } else { &[SYSTEM, QUERY] });
        files.extend(rules.iter().flat_map(|rules| rules.files()));
        files.extend(if has_judge { [JUDGE_SYSTEM, JUDGE].as_slice() } else { &[] });
        let shots_files = start::shots_files(settings, options)?;
        files.extend(&shots_files);
        let prompts = Prompts::load(&files, settings)?;
        let judge = Self {
            start: Start::new(&prompts, settings, options)?,
            prompts,
            preset: settings.preset,
            rules,
            has_judge,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or(match settings.preset {
                Preset::Paper => "mmad-paper",
                Preset::Code | Preset::Strict => "mmad",
            }))?,
            max_tokens: settings.max_tokens,
        };
        if !is_gemba {
            judge.render_query(&COUPLED, Pair::sample()).map_err(setup::Error::from_prompt)?;
        }
        Ok(judge)
    }

    /// Nothing is disputed; one dimension is; all are, in every round.
    fn calls(&self) -> Calls {
        let first = if matches!(self.start, Start::Agents(_)) { DIMENSIONS.len() } else { 1 };
        let last = usize::from(self.has_judge);
        let debate = |calls: fn(Rules) -> usize| self.rules.map_or(0, calls);
        Calls {
            // Without an annotation only `paper` asks the final judge.
            least: first + if self.is_strict() { 0 } else { last },
            typical: first + debate(Rules::shortest) + last,
            most: first + first * debate(Rules::longest) + last,
        }
    }

    /// The three stages.
    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let viewpoints = match &self.start {
            Start::Gemba(gemba) => {
                let annotations = start::from_gemba(gemba, panel, segment)?;
                Viewpoints::Coupled(self.debate(panel, segment, &COUPLED, annotations)?)
            }
            Start::Coupled(_) => Viewpoints::Coupled(self.viewpoint(panel, segment, 0, &COUPLED)?),
            Start::Agents(_) => {
                let view = |idx, dimension: &_| self.viewpoint(panel, segment, idx, dimension);
                Viewpoints::Apart(in_parallel(&DIMENSIONS, view).into_iter().collect::<Result<_, _>>()?)
            }
        };
        let errors = self.conclude(panel, segment, &viewpoints)?;
        let (errors, score) =
            mqm::assess(errors, &segment.source, &segment.hypothesis, self.preset.repeats(), self.weights);
        Ok(Verdict::new(score, errors))
    }

    /// Stages 1 and 2 of one dimension.
    fn viewpoint(
        &self,
        panel: &Panel,
        segment: &Segment,
        idx: usize,
        dimension: &Dimension,
    ) -> Result<Vec<Annotation>> {
        let annotations = self.annotate(panel, segment, dimension, self.start.shots(segment, idx))?;
        self.debate(panel, segment, dimension, annotations)
    }

    /// Stage 1, dimension partition (Figure 7).
    fn annotate(
        &self,
        panel: &Panel,
        segment: &Segment,
        dimension: &Dimension,
        shots: &[Shot],
    ) -> Result<Vec<Annotation>> {
        let chat = self.chat(segment, dimension, shots)?;
        let question = Question {
            role: Role::Annotator,
            step: ANNOTATE.about(dimension.name),
            budget: ANNOTATION_BUDGET,
        };
        let form = self.form(dimension, None, segment)?;
        self.ask(panel, &question, &chat, &form, |reply| annotation::read(&reply.text, self.preset))
    }

    /// Stage 2, multi-agent debate (Figures 8 and 9).
    fn debate(
        &self,
        panel: &Panel,
        segment: &Segment,
        dimension: &Dimension,
        stand: Vec<Annotation>,
    ) -> Result<Vec<Annotation>> {
        match self.rules {
            Some(rules) => Debate::new(self, rules, panel, (segment, dimension), &stand).hold(),
            None => Ok(stand),
        }
    }

    /// Stage 3, final judgement (Figure 10).
    fn conclude(&self, panel: &Panel, segment: &Segment, viewpoints: &Viewpoints) -> Result<Vec<ErrorSpan>> {
        let all = viewpoints.all();
        let to_errors =
            |annotations: &[Annotation]| annotations.iter().map(|a| a.to_error(segment)).collect();
        if !self.has_judge {
            let alone = all.iter().find(|annotation| annotation.is_non_translation() && self.is_strict());
            return Ok(alone
                .map_or_else(|| to_errors(&all), |annotation| to_errors(std::slice::from_ref(annotation))));
        }
        if self.is_strict() && all.is_empty() {
            return Ok(Vec::new());
        }
        let chat = self.judge_chat(segment, viewpoints)?;
        let question = Question { role: Role::Judge, step: JUDGE_STAGE.into(), budget: JUDGE_BUDGET };
        let form = self.form(&COUPLED, Some("analysis"), segment)?;
        self.ask(panel, &question, &chat, &form, |reply| {
            let mut errors: Vec<ErrorSpan> = to_errors(&annotation::read(&reply.text, self.preset)?);
            confidence::note(reply, "error_span", &mut errors);
            Ok(errors)
        })
    }

    /// The question of Stage 1: system, shots, segment. Up to the segment it is the same for all segments.
    fn chat(&self, segment: &Segment, dimension: &Dimension, shots: &[Shot]) -> Result<Chat> {
        let mut chat = Chat::new().system(self.prompts.render(SYSTEM, ())?);
        for shot in shots {
            let answer = annotation::shot_annotations(shot, dimension, self.preset);
            chat = chat
                .user(self.render_query(dimension, Pair::from_shot(shot))?)
                .assistant(self.written(&answer));
        }
        Ok(chat.user(self.render_query(dimension, Pair::of(segment))?))
    }

    fn render_query(&self, dimension: &Dimension, pair: Pair) -> Result<String> {
        let mut query = json!(pair);
        query["dimension"] = json!(dimension.name);
        query["strict"] = json!(self.is_strict());
        self.prompts.render(QUERY, query)
    }

    fn judge_chat(&self, segment: &Segment, viewpoints: &Viewpoints) -> Result<Chat> {
        let mut values = json!(Pair::of(segment));
        values["strict"] = json!(self.is_strict());
        match viewpoints {
            Viewpoints::Apart(views) => {
                for (dimension, view) in DIMENSIONS.iter().zip(views) {
                    values[dimension.name] = json!(self.written(view));
                }
            }
            Viewpoints::Coupled(view) => values["coupled"] = json!(self.written(view)),
        }
        let system = self.prompts.render(JUDGE_SYSTEM, ())?;
        Ok(Chat::new().system(system).user(self.prompts.render(JUDGE, values)?))
    }

    /// The form of an answer with annotations; free text where it is not enforced.
    fn form(
        &self,
        dimension: &Dimension,
        thoughts: Option<&str>,
        segment: &Segment,
    ) -> Result<ResponseFormat> {
        if self.is_strict() {
            return annotation::form(&self.prompts, dimension, thoughts, segment);
        }
        Ok(ResponseFormat::Text)
    }

    /// Asks until the answer is complete and can be read.
    fn ask<T>(
        &self,
        panel: &Panel,
        question: &Question,
        chat: &Chat,
        form: &ResponseFormat,
        read: impl Fn(&Reply) -> Result<T>,
    ) -> Result<T> {
        let max_tokens = self.max_tokens.unwrap_or(question.budget);
        let request = panel.question(chat, form, max_tokens);
        panel.ask_until(question.role, &question.step, &request, Retry::AGENT, read)
    }

    fn written(&self, annotations: &[Annotation]) -> String {
        written(annotations, self.preset)
    }

    fn is_strict(&self) -> bool {
        self.preset == Preset::Strict
    }
}

/// The role, the stage, and the token limit of the answer.
pub struct Question {
    pub role: Role,
    pub step: Step,
    pub budget: usize,
}

impl Viewpoints {
    fn all(&self) -> Vec<Annotation> {
        match self {
            Self::Apart(views) => views.concat(),
            Self::Coupled(view) => view.clone(),
        }
    }
}

/// Options that do not go together.
fn check_options(options: &Options) -> setup::Result<()> {
    let conflict = |text: &str| Err(setup::Error::Conflict(text.into()));
    let is_gemba = *options.start == First::Gemba;
    if is_gemba && *options.skip == Some(Skipped::Stage1) {
        return conflict(
            "`start=gemba-mqm` replaces stage 1, so there is nothing for `skip=stage1` to skip; hint: leave out one of them",
        );
    }
    if is_gemba && options.shots.is_given {
        return conflict(
            "`shots` are for the agents of stage 1, which `start=gemba-mqm` replaces; hint: leave out one of them",
        );
    }
    if options.undecided.is_given && *options.strategy != Strategy::Consensus {
        return conflict("`undecided` is an option of `strategy=consensus`; hint: leave out one of them");
    }
    let about_debates = [
        ("strategy", options.strategy.is_given),
        ("topic", options.topic.is_given),
        ("rounds", options.rounds.is_given),
        ("undecided", options.undecided.is_given),
    ];
    let debate_option = about_debates.into_iter().find(|(_, is_given)| *is_given);
    if let (Some((name, _)), Some(Skipped::Stage2)) = (debate_option, *options.skip) {
        return conflict(&format!(
            "`{name}` is an option of stage 2, which `skip=stage2` leaves out; hint: leave out one of them"
        ));
    }
    Ok(())
}

fn rounds(options: &Options) -> setup::Result<usize> {
    let rounds = Some(*options.rounds).filter(|n| n.fract() == 0.0 && (1.0..=MAX_ROUNDS).contains(n));
    rounds.map(|n| n as usize).ok_or_else(|| setup::Error::Value {
        option: "option `rounds`".into(),
        value: options.rounds.text.clone(),
        known: format!("a whole number from 1 to {MAX_ROUNDS}"),
    })
}
