//! HiMATE as its published program runs it (`pipeline.py`, `record.py`, `get_lst.py`,
//! `score_computation.py`): the authors' texts, and answers read as the program reads them.
//! [`tribunal_judges::himate`] lists the differences.
//!
//! The program works on files of sentences. A sentence whose evaluation it cannot read is left out, and all
//! later ones are judged by their neighbour's log; a correction that it cannot read is replaced by the
//! sentence before. Here segments are independent: both are missing verdicts.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;
use serde_json::json;

use tribunal_core::{
    llm::{Chat, Reply, ResponseFormat},
    mqm::{self, ErrorSpan, Repeats, Severity, Side, typology, weights::Weights},
    segment::Segment,
};
use tribunal_judges::{
    Error, Judge, Panel, Protocol, Provenance, Result, Role, Settings, Stage, Verdict,
    himate::{
        N_SUBTYPES, Options, Stages, calibration, calls, check_options as check_combination, quotes,
        stages::{COMPARE, CORRECT, DISCUSS, EVALUATE},
    },
    in_parallel, prompt,
    reading::{self, pattern},
    setup::{self, GivenOptions, Preset},
};

use self::authors::{Agent, Pair, Texts};
use crate::python::repr;

mod authors;

/// Answer tokens of every question. Answers that are cut off are used unchanged.
const BUDGET: usize = 500;

/// The log's text for a statement that was not made.
const NONE: &str = "None";

/// HiMATE as published.
pub struct Published {
    texts: Texts,
    stages: Stages,
    /// In percent: up to which an answer is discussed.
    limit: f64,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

/// One agent's work on one segment.
#[derive(Clone, Copy)]
struct Task<'a> {
    panel: &'a Panel,
    segment: &'a Segment,
    pair: &'a Pair,
    agent: &'a Agent,
}

/// An entry of the program's log: existence and severity in the answer's spelling.
#[derive(Clone, Debug, PartialEq)]
struct LogEntry {
    exist: String,
    severity: String,
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }

    /// Language pairs without prompts.
    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        let bare = segments.iter().filter(|segment| self.texts.of(segment).is_none());
        let pairs: BTreeSet<String> = bare.map(authors::folder_of).collect();
        let known = self.texts.known();
        let remark = |pair| {
            format!(
                "the authors' files have no prompts for `{pair}`, so it gets no verdict; they are for {known}"
            )
        };
        pairs.into_iter().map(remark).collect()
    }
}

fn built(judge: Published) -> Judge {
    let prompts = prompt::hash(judge.texts.all());
    let calls = calls(Preset::Code, judge.stages, false, N_SUBTYPES);
    Judge::new(Provenance { prompts, ..Provenance::default() }, judge).with_calls(calls)
}

/// The judge of preset `code`, from the user's copy of the published files.
///
/// # Errors
/// No copy, one that lacks a text, and options for which nothing is published.
pub fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    Published::new(settings, &Options::read(options)).map(built)
}

impl Published {
    fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        check_options(settings, options)?;
        Ok(Self {
            texts: Texts::read(settings.prompts.as_deref())?,
            stages: *options.stages,
            limit: 100.0 * calibration::probability(options)?,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("himate"))?,
            max_tokens: settings.max_tokens,
        })
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let Some(pair) = self.texts.of(segment) else {
            let folder = authors::folder_of(segment);
            return Err(Error::Failed(format!("the authors' files have no prompts for `{folder}`")));
        };
        let found = in_parallel(&pair.agents, |_, agent| self.run(&Task { panel, segment, pair, agent }));
        let errors = found.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
        let (errors, score) =
            mqm::assess(errors, &segment.source, &segment.hypothesis, Repeats::Charged, self.weights);
        Ok(Verdict::new(score, errors))
    }

    /// One subtype through all stages.
    fn run(&self, task: &Task) -> Result<Option<ErrorSpan>> {
        let (evaluated, explanation) = self.evaluate(task)?;
        if self.stages == Stages::Evaluation {
            return Ok(task.error(&evaluated, &explanation, None));
        }
        let is_reflected = evaluated.exist.contains("Yes");
        let (verified, percent) =
            if is_reflected { self.reflect(task, &evaluated, &explanation)? } else { (evaluated, 0.0) };
        let confidence = is_reflected.then_some((percent / 100.0).min(1.0));
        let count = |outcome| {
            if is_reflected {
                task.panel.mark(&EVALUATE.about(task.agent.path), outcome);
            }
        };
        if self.stages == Stages::Reflection {
            count(if verified.exist.contains("Yes") { "confirmed" } else { "dropped" });
            return Ok(task.error(&verified, &explanation, confidence));
        }
        let is_open = !verified.exist.contains("No") && percent <= self.limit;
        let concluded = if is_open { self.discuss(task, &verified)? } else { verified.clone() }.concluded();
        count(match (is_open, concluded.exist == "Yes") {
            (true, true) => "discussed-and-kept",
            (true, false) => "discussed-and-denied",
            (false, true) => "confirmed",
            (false, false) => "dropped",
        });
        Ok(task.error(&concluded, &explanation, confidence))
    }

    /// `record_SE`: the log entry, and the explanation.
    fn evaluate(&self, task: &Task) -> Result<(LogEntry, String)> {
        let Task { pair, agent, .. } = task;
        let [first, second] = &agent.examples;
        let question = format!(
            "{}{}{}\n{}\n{}\n{first}{second}",
            agent.evaluated,
            pair.requirement,
            pair.severity,
            task.shown(),
            pair.format
        );
        let reply = self.ask(task, (Role::Tier2, EVALUATE), &pair.evaluator, question)?;
        evaluation(&reply.text).ok_or_else(|| {
            reading::unusable(&reply.text, "no existence, severity and explanation of an error")
        })
    }

    /// `record_SRc` and `record_SRv`: the evaluation after the comparison, and the comparison's probability
    /// in percent.
    fn reflect(&self, task: &Task, evaluated: &LogEntry, explanation: &str) -> Result<(LogEntry, f64)> {
        let Task { pair, agent, segment, .. } = task;
        let LogEntry { severity, .. } = evaluated;
        let question = format!(
            "{}Existing error type and definition: {}Severity: {severity}({})\nExplanation: {explanation}\n{}",
            task.shown(),
            agent.corrected,
            pair.correction_severity,
            pair.correction_format
        );
        let answer = self.ask(task, (Role::Tier2, CORRECT), &pair.corrector, question)?.text;
        let correction = answer
            .split("Translation: ")
            .nth(1)
            .ok_or_else(|| reading::unusable(&answer, "no `Translation: ` before the correction"))?;
        let question = format!(
            "Error definition: {}Original Translation: {}\n\nCorrected Translation: {correction}\n{}",
            agent.verified, segment.hypothesis, pair.verification_format
        );
        let reply = self.ask(task, (Role::Tier2, COMPARE), &pair.verifier, question)?;
        if reply.tokens.is_empty() {
            return Err(Error::Failed(
                "the answer has no log-probabilities, so there is no confidence".into(),
            ));
        }
        let sum: f64 = reply.tokens.iter().filter_map(|token| as_printed(token.logprob)).sum();
        Ok((evaluated.verified(&reply.text), sum.exp() * 100.0))
    }

    /// Four rounds, until an agent agrees, and `get_stage4_final_result`.
    fn discuss(&self, task: &Task, verified: &LogEntry) -> Result<LogEntry> {
        let Task { pair, agent, .. } = task;
        let LogEntry { exist, severity } = verified;
        let name = agent.name;
        let assessed =
            format!("{}Error Type: {name}\nError Exist: {exist}\nSeverity: {severity}", task.shown());
        let mut rounds = [NONE; 4].map(String::from);
        for round in 0..rounds.len() {
            let [first, second, third, _] = &rounds;
            let history = match round {
                0 => String::new(),
                1 => format!("\n\nChat History: \nSuperior evaluator: \n{first}"),
                2 => format!("\n\nChat History: \nYou: \n{first}\nSub-category: \n{second}"),
                _ => format!(
                    "\n\nChat History: \nSuperior evaluator: \n{first}\nYou: \n{second}\nSuperior evaluator: \n{third}"
                ),
            };
            let instruction = format!("{}{}", pair.discussion_severity, pair.rounds[round]);
            let (role, system, question) = if round % 2 == 0 {
                let colon = if round == 0 { ":" } else { ": " };
                let question = format!(
                    "{}\n{instruction}\nThe subcategory evaluator's evaluation{colon}\n{assessed}{history}",
                    agent.core
                );
                (Role::Tier1, &pair.tier1, question)
            } else {
                let question = format!(
                    "You are responsible for {name}. The definition of {name} is: {}{instruction}\n\n\
                     Your previous evaluation:\n{assessed}{history}",
                    agent.discussed
                );
                (Role::Tier2, &pair.tier2, question)
            };
            rounds[round] = self.ask(task, (role, DISCUSS), system, question)?.text;
            if rounds[round].contains("I agree with") {
                break;
            }
        }
        Ok(outcome(&rounds, verified))
    }

    /// Asks once.
    fn ask(
        &self,
        task: &Task,
        (role, stage): (Role, Stage),
        system: &str,
        question: String,
    ) -> Result<Reply> {
        let chat = Chat::new().system(system).user(question);
        let max_tokens = self.max_tokens.unwrap_or(BUDGET);
        let question = task.panel.question(&chat, &ResponseFormat::Text, max_tokens);
        Ok(task.panel.ask(role, stage.about(task.agent.path), &question)?)
    }
}

impl Task<'_> {
    /// Both texts as lines of a file.
    fn shown(&self) -> String {
        format!("Source: {}\nTranslation: {}\n", self.segment.source, self.segment.hypothesis)
    }

    /// The error of a log's entry, as `score_computation.py` weighs it: a severity in another spelling counts
    /// nothing.
    fn error(&self, entry: &LogEntry, explanation: &str, confidence: Option<f64>) -> Option<ErrorSpan> {
        let severity = match entry.severity.as_str() {
            _ if !entry.exist.contains("Yes") => return None,
            said if said.contains("Major") => Severity::Major,
            said if said.contains("Minor") => Severity::Minor,
            _ => Severity::Neutral,
        };
        let is_omission = typology::side(self.agent.path) == Side::Source;
        let marked = if is_omission { &self.segment.source } else { &self.segment.hypothesis };
        let span = quotes::shortest(explanation, marked).unwrap_or_default();
        let error = ErrorSpan::new(self.agent.path, span, severity).explained(explanation);
        Some(ErrorSpan { confidence, ..error })
    }
}

impl LogEntry {
    /// `record_SRv`: an `A` anywhere confirms the error, else a `B` denies it, else it is unchanged.
    fn verified(&self, answer: &str) -> Self {
        match answer {
            _ if answer.contains('A') => Self { exist: "Yes".into(), severity: self.severity.clone() },
            _ if answer.contains('B') => Self { exist: "No".into(), severity: "Neutral".into() },
            _ => self.clone(),
        }
    }

    /// `record_CD` at the end: an error that is not denied exists.
    fn concluded(&self) -> Self {
        let severity = if self.severity.contains("Major") {
            "Major"
        } else if self.severity.contains("Minor") {
            "Minor"
        } else {
            "Neutral"
        };
        if self.exist.contains("No") {
            return Self { exist: "No".into(), severity: "Neutral".into() };
        }
        Self { exist: "Yes".into(), severity: severity.into() }
    }
}

/// `record_SE`; the severity is found in any case and kept in its spelling.
fn evaluation(text: &str) -> Option<(LogEntry, String)> {
    static SEVERITY: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"(?i)Error Severity:\s*['"]?(Major|Neutral|Minor)['"]?"#));
    let exist = text.split("Error Exist: ").nth(1)?.split('\n').next()?.to_owned();
    let severity = SEVERITY.captures(text)?[1].to_owned();
    let explanation = text.split("Explanation: ").nth(1)?.to_owned();
    Some((LogEntry { exist, severity }, explanation))
}

/// `get_stage4_final_result`. After the first reply of the tier-2 agent its superior's opinion may stand in
/// quotation marks and extends to the first other sign; after the second it must be a bare word.
fn outcome(rounds: &[String; 4], verified: &LogEntry) -> LogEntry {
    static PHRASES: LazyLock<[Regex; 2]> = LazyLock::new(|| {
        [r#"Error Exist:\s*["']?([\w\s.]+)["']?"#, r#"Error Severity:\s*["']?([\w\s.]+)["']?"#].map(pattern)
    });
    static WORDS: LazyLock<[Regex; 2]> =
        LazyLock::new(|| [r"Error Exist:\s*(\w+)", r"Error Severity:\s*(\w+)"].map(pattern));
    let [first, second, third, fourth] = rounds;
    let read = |patterns: &[Regex; 2]| {
        [0, 1].map(|nth| patterns[nth].captures(first).map(|found| found[1].to_owned()))
    };
    if first == NONE || second == NONE {
        return verified.clone();
    }
    if third == NONE
        && let [Some(exist), severity] = read(&PHRASES)
    {
        let unsaid = if exist.contains("No") { "Neutral" } else { "Minor" };
        return LogEntry { severity: severity.unwrap_or_else(|| unsaid.into()), exist };
    }
    if fourth.contains("I agree")
        && let [Some(exist), Some(severity)] = read(&WORDS)
    {
        return LogEntry { exist, severity };
    }
    verified.clone()
}

/// A log-probability as the program reads it from the printed answer: of `-1e-05`, which has no point, only
/// `-1`.
fn as_printed(logprob: f64) -> Option<f64> {
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^([-+]?\d*\.\d+e[-+]?\d+|[-+]?\d*\.\d+|[-+]?\d+)"));
    NUMBER.find(&repr(&json!(logprob)))?.as_str().parse().ok()
}

/// Options for which nothing is published.
fn check_options(settings: &Settings, options: &Options) -> setup::Result<()> {
    check_combination(options)?;
    let published = [
        ("stages", &options.stages.text, *options.stages != Stages::Single),
        ("calibration", &options.calibration.text, options.calibration.is_none()),
        ("confidence", &options.is_mean.text, !*options.is_mean),
        ("comparison", &options.is_weighed.text, *options.is_weighed != Some(true)),
        ("shots", &options.has_shots.text, *options.has_shots),
    ];
    if let Some((name, value, _)) = published.into_iter().find(|(.., is_published)| !is_published) {
        return Err(setup::Error::Conflict(format!(
            "`{name}={value}` of `himate` has no published code; hint: use preset `paper` or `strict`"
        )));
    }
    match &settings.shots {
        Some(file) => Err(setup::Error::Conflict(format!(
            "preset `code` of `himate` shows the examples of its authors' files, not those of `{}`; hint: use preset \
             `paper` or `strict`",
            file.display()
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
