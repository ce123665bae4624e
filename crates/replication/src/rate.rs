//! RATE as the authors' program runs it (BITHLP/RATE, `agentic/`), message by message. The loop of the other
//! presets is in [`tribunal_judges::rate`].
//!
//! All translations of a source share their search results and anchors, in the order of the input; the first
//! answer that the program could not read leaves the whole source without verdicts.
//!
//! Differs from the program:
//! - A tool's response is a turn of the user, as not every chat template knows tools. Turns of the user that
//!   follow each other are one, with an empty line between them, as many templates refuse anything else.
//! - An answer with a tool call ends with its first call, the only one that the program reads. A call that
//!   the model leaves open is closed and carried out; the program answers that it finds none.
//! - A score that is not finite is none.
//! - `skip=` leaves an agent out of the core agent's prompt; so does a run without evidence.
//! - A search returns the passages of [`tribunal_judges::evidence`], at most five for each query.

use std::cmp::Ordering;

use serde_json::{Value, json};
use tribunal_core::{
    llm::{Chat, MessageRole, Prompt, Reply, ResponseFormat},
    mqm::Repeats,
    segment::Segment,
};
use tribunal_judges::{
    Error, Judge, Panel, Protocol, Result, Role, Settings, Step, Verdict, in_parallel,
    pairwise::{self, Order},
    prompt::{File, Prompts},
    rate::{
        BUDGET, Config, Options,
        agents::{self, Failed, PASSAGES},
        stages,
        tools::{self, Arguments},
    },
    reading,
    setup::{self, GivenOptions},
};

use crate::python::{Number, display, repr};

mod arguments;

use arguments::{argument, queries, score_argument, text};

const CORE: File = File { name: "rate/code/core.j2", text: include_str!("rate/core.j2") };
const TASK: File = File { name: "rate/code/task.j2", text: include_str!("rate/task.j2") };
const TOLD: File = File { name: "rate/code/told.j2", text: include_str!("rate/told.j2") };
const FORCED: File = File { name: "rate/code/forced.j2", text: include_str!("rate/forced.j2") };
const EVALUATION: File = File { name: "rate/code/evaluation.j2", text: include_str!("rate/evaluation.j2") };
const EVALUATE: File = File { name: "rate/code/evaluate.j2", text: include_str!("rate/evaluate.j2") };
const SEARCH: File = File { name: "rate/code/search.j2", text: include_str!("rate/search.j2") };
const SNIPPETS: File = File { name: "rate/code/snippets.j2", text: include_str!("rate/snippets.j2") };
const SUMMARIZE: File = File { name: "rate/code/summarize.j2", text: include_str!("rate/summarize.j2") };
const COMPARISON: File = File { name: "rate/code/comparison.j2", text: include_str!("rate/comparison.j2") };
const COMPARE: File = File { name: "rate/code/compare.j2", text: include_str!("rate/compare.j2") };
const CALIBRATION: File =
    File { name: "rate/code/calibration.j2", text: include_str!("rate/calibration.j2") };

/// The program's prompts and messages.
const FILES: &[File] = &[
    CORE,
    TASK,
    TOLD,
    FORCED,
    EVALUATION,
    EVALUATE,
    SEARCH,
    SNIPPETS,
    SUMMARIZE,
    COMPARISON,
    COMPARE,
    CALIBRATION,
];

/// The program's memory of one source.
#[derive(Default)]
struct Source {
    /// One line for each search.
    context: Vec<String>,
    /// By score, the lowest first.
    anchors: Vec<(Number, String)>,
}

/// Result of both orders of a comparison, with the program's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    CandidateWins,
    BorderlineCandidateWins,
    Tie,
    BorderlineAnchorWins,
    AnchorWins,
}

/// The result of a comparison.
struct Suggestion {
    suggestion: &'static str,
    suggested: Number,
}

/// RATE as published.
pub struct Published {
    prompts: Prompts,
    config: Config,
}

/// The judge of preset `code`.
///
/// # Errors
/// Those of [`Config::new`] and [`Prompts::load`].
pub fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let published = Published::new(settings, &Options::read(options))?;
    // The core agent may finish at once.
    let (grouping, calls) = (published.config.grouping(), published.config.calls(1));
    let provenance = published.config.provenance(&published.prompts);
    let mut judge = Judge::new(provenance, published).with_calls(calls);
    judge.grouping = grouping;
    Ok(judge)
}

impl Protocol for Published {
    /// Judges the translations of one source.
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        let assess = |idx: usize, segment: &Segment, source: &mut Source| {
            Session::new(self, &panel.about(idx), segment, source).and_then(Session::assess)
        };
        if !self.config.shares_memory {
            return in_parallel(group, |idx, segment| assess(idx, segment, &mut Source::default()));
        }
        let mut source = Source::default();
        let mut verdicts = Vec::with_capacity(group.len());
        for (idx, segment) in group.iter().enumerate() {
            match assess(idx, segment, &mut source) {
                Err(error) if !segment.is_blank() => return vec![Err(error); group.len()],
                verdict => verdicts.push(verdict),
            }
        }
        verdicts
    }
}

impl Published {
    fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let config = Config::new(settings, options)?;
        let judge = Self { prompts: Prompts::load(FILES, settings)?, config };
        judge.system().map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn system(&self) -> Result<String> {
        self.prompts.render(CORE, self.config.team)
    }

    /// The core agent's first message.
    fn opening(&self, segment: &Segment, source: &Source) -> Result<Chat> {
        let values = json!({
            "context": source.context.join("\n"), "source": segment.source, "target": segment.hypothesis,
        });
        Ok(Chat::new().system(self.system()?).user(self.prompts.render(TASK, values)?))
    }

    /// `_generate_structured_response`.
    fn calibrate(&self, outcome: Outcome, tentative: f64, anchor: Number) -> Result<Value> {
        let Suggestion { suggestion, suggested } = outcome.calibrate(tentative, anchor);
        let message = self.prompts.render(
            CALIBRATION,
            json!({
                "outcome": outcome.name(), "moves": suggestion != "confirm",
                "anchor": anchor.to_string(), "suggested": suggested.to_string(),
            }),
        )?;
        Ok(json!({
            "anchor_memory_status": "initialized",
            "comparison_details": { "anchor_score": anchor.json(), "outcome": outcome.name() },
            "suggestion": suggestion,
            "suggested_score": suggested.json(),
            "message": message,
        }))
    }
}

/// The evaluation of one translation.
struct Session<'a> {
    judge: &'a Published,
    panel: Panel,
    segment: &'a Segment,
    source: &'a mut Source,
    chat: Chat,
    /// Tentative scores that were compared, as written.
    compared: Vec<String>,
    /// The errors named in the last evaluation.
    failed: Vec<Failed>,
}

impl<'a> Session<'a> {
    fn new(
        judge: &'a Published,
        panel: &Panel,
        segment: &'a Segment,
        source: &'a mut Source,
    ) -> Result<Self> {
        if segment.is_blank() {
            return Err(Error::nothing_to_judge());
        }
        let chat = judge.opening(segment, source)?;
        Ok(Self {
            judge,
            panel: panel.clone(),
            segment,
            source,
            chat,
            compared: Vec::new(),
            failed: Vec::new(),
        })
    }

    /// The loop of `CoreAgent.eval`.
    fn assess(mut self) -> Result<Verdict> {
        for round in 1..=self.judge.config.rounds {
            let call = self.ask_core(round)?;
            let told = match call {
                Some((name, arguments)) if name == "finish_evaluation" => return self.finish(&arguments),
                Some((name, arguments)) => self.act(round, &name, &arguments)?,
                None => self.told("fault", "")?,
            };
            self.chat = say(std::mem::take(&mut self.chat), &told);
        }
        let forced = self.judge.prompts.render(FORCED, ())?;
        self.chat = say(std::mem::take(&mut self.chat), &forced);
        match self.ask_core(self.judge.config.rounds + 1)? {
            Some((name, arguments)) if name == "finish_evaluation" => self.finish(&arguments),
            Some((name, _)) => {
                Err(Error::Unparsable(format!("the core agent called `{name}` where it was told to finish")))
            }
            None => {
                Err(Error::Unparsable("the core agent called no tool where it was told to finish".into()))
            }
        }
    }

    fn ask_core(&mut self, round: usize) -> Result<Option<(String, Arguments)>> {
        let reply = self.ask(Role::Core, stages::CORE.round(round), &self.chat, Some(tools::CALL_END))?;
        let text = closed(content(&reply));
        self.chat = std::mem::take(&mut self.chat).assistant(text.as_str());
        Ok(tools::first_call(&text))
    }

    /// The response to the core agent's call.
    fn act(&mut self, round: usize, name: &str, arguments: &Arguments) -> Result<String> {
        match name {
            "search_agent" if self.judge.config.team.search => {
                let found = self.search(round, arguments)?;
                self.told(name, &found)
            }
            "general_evaluation_agent" => {
                let evaluation = self.evaluate(round, arguments)?;
                self.told(name, &display(&evaluation))
            }
            "comparison_agent" if self.judge.config.team.comparison => self.compare(round, arguments),
            _ => self.told("fault", ""),
        }
    }

    fn told(&self, kind: &str, response: &str) -> Result<String> {
        self.judge.prompts.render(TOLD, json!({ "kind": kind, "response": response, "score": response }))
    }

    /// `_finalize`: any number is a score.
    fn finish(self, arguments: &Arguments) -> Result<Verdict> {
        let score = score_argument(arguments, "final_score")?;
        self.source.set_anchor(Number::Float(score), text(arguments, "translation_text"));
        let errors =
            agents::errors(self.failed, (&self.segment.source, &self.segment.hypothesis), Repeats::Charged);
        Ok(Verdict::new(score, errors))
    }

    /// `SearchAgent.response`.
    fn search(&mut self, round: usize, arguments: &Arguments) -> Result<String> {
        let query = text(arguments, "query");
        let prompts = &self.judge.prompts;
        let chat = Chat::new().system(prompts.render(SEARCH, ())?).user(&query);
        let reply = self.ask(Role::Search, stages::SEARCH.round(round), &chat, Some(tools::CALL_END))?;
        let queries = queries(content(&reply))?;
        let mut passages = Vec::new();
        for query in &queries {
            let found = self.judge.config.evidence.as_ref().map(|evidence| evidence.search(query, PASSAGES));
            let found = found.transpose().map_err(|e| Error::Failed(e.to_string()))?.unwrap_or_default();
            passages.extend(found.into_iter().map(|hit| hit.passage));
        }
        let chat = say(chat, &prompts.render(SNIPPETS, json!({ "passages": passages }))?);
        let chat = say(chat, &prompts.render(SUMMARIZE, ())?);
        let reply = self.ask(Role::Search, stages::SUMMARIZE.round(round), &chat, None)?;
        let answer = content(&reply).to_owned();
        self.source.context.push(format!("Query: {query} -> Result: {answer}"));
        Ok(answer)
    }

    /// `GeneralEvaluationAgent.response`: any JSON is an answer, and its scores are not checked.
    fn evaluate(&mut self, round: usize, arguments: &Arguments) -> Result<Value> {
        let some = |key: &str| argument(arguments, key).filter(|value| !value.is_empty() && value != "0");
        let values = json!({
            "source": text(arguments, "source_text"),
            "target": text(arguments, "translation_text"),
            "notes": some("context_notes"),
            "instruction": some("specific_instruction"),
        });
        let prompts = &self.judge.prompts;
        let chat =
            Chat::new().system(prompts.render(EVALUATION, ())?).user(prompts.render(EVALUATE, values)?);
        let reply = self.ask(Role::Evaluator, stages::EVALUATE.round(round), &chat, None)?;
        let mut evaluation: Value = reading::json(unfenced(content(&reply)))
            .map_err(|error| agents::within("the evaluation agent", error))?;
        let spans = evaluation["error_spans"].as_array().into_iter().flatten();
        self.failed = spans.filter_map(|span| serde_json::from_value(span.clone()).ok()).collect();
        agents::weigh_spans(&mut self.failed, &reply);
        if self.judge.config.expected && evaluation.is_object() {
            evaluation["expected_score"] =
                json!(agents::expected_score(&self.panel, stages::EXPECT.round(round), &chat)?);
        }
        Ok(evaluation)
    }

    /// `ComparisonAgent.response`, and before it the check against comparing twice.
    fn compare(&mut self, round: usize, arguments: &Arguments) -> Result<String> {
        let written = argument(arguments, "tentative_score").unwrap_or_else(|| "None".into());
        if self.compared.contains(&written) {
            return self.told("repeated", &written);
        }
        self.compared.push(written);
        let tentative = score_argument(arguments, "tentative_score")?;
        let synthetic = |key: &str| argument(arguments, key);
        match (synthetic("synthetic_low_anchor"), synthetic("synthetic_high_anchor")) {
            (Some(low), Some(high)) => self.source.initialize(&low, &high),
            _ if self.source.anchors.is_empty() => return self.told("cold", ""),
            _ => {}
        }
        let (anchor, anchored) = self.source.anchor(tentative);
        let candidate = text(arguments, "target_text");
        let source = text(arguments, "source_text");
        let [first, second] = pairwise::both_orders(|order| {
            self.compare_once(round, &source, order.put(&candidate, &anchored), order)
        })?;
        let outcome = Outcome::between(&first, &second);
        let response = self.judge.calibrate(outcome, tentative, anchor)?;
        self.told("comparison_agent", &repr(&response))
    }

    /// The winner of one order; an answer that is no JSON is a tie.
    fn compare_once(&self, round: usize, source: &str, (a, b): (&str, &str), order: Order) -> Result<String> {
        let prompts = &self.judge.prompts;
        let values = json!({ "source": source, "context": self.source.context.join("\n"), "a": a, "b": b });
        let chat = Chat::new().system(prompts.render(COMPARISON, ())?).user(prompts.render(COMPARE, values)?);
        let stage = if order == Order::AsGiven { stages::COMPARE } else { stages::COMPARE_SWAPPED };
        let reply = self.ask(Role::Comparer, stage.round(round), &chat, None)?;
        let reply_text = content(&reply);
        let json = reply_text
            .split("```json")
            .nth(1)
            .map_or(reply_text, |after| after.split("```").next().unwrap_or(after));
        match serde_json::from_str::<Value>(json.trim()) {
            Ok(Value::Object(answer)) => {
                Ok(answer.get("winner").and_then(Value::as_str).unwrap_or("").to_owned())
            }
            Ok(_) => {
                Err(reading::unusable(reply_text, "the comparison agent gave JSON that is not an object"))
            }
            Err(_) => Ok("Tie".into()),
        }
    }

    /// One question; the program does not limit answers, so one that its budget cut is not an answer.
    fn ask(&self, role: Role, step: Step, chat: &Chat, stop: Option<&str>) -> Result<Reply> {
        let mut question = self.panel.question(chat, &ResponseFormat::Text, self.judge.config.budget(BUDGET));
        question.sampling.stop = stop.into_iter().map(ToOwned::to_owned).collect();
        self.panel.answer(role, step, &question)
    }
}

impl Source {
    /// `update_anchor`: an existing score keeps its key.
    fn set_anchor(&mut self, score: Number, text: String) {
        let anchor = self.anchors.iter_mut().find(|(at, _)| is_same(at.value(), score.value()));
        if let Some((_, anchored)) = anchor {
            *anchored = text;
        } else {
            self.anchors.push((score, text));
            self.anchors.sort_by(|(a, _), (b, _)| a.value().total_cmp(&b.value()));
        }
    }

    /// Takes synthetic anchors of 4 and 1 where no translation has these scores.
    fn initialize(&mut self, low: &str, high: &str) {
        for (score, text) in [(4, high), (1, low)] {
            if !self.anchors.iter().any(|(at, _)| is_same(at.value(), f64::from(score))) {
                self.set_anchor(Number::Int(score.into()), text.to_owned());
            }
        }
    }

    /// The anchor of the nearest score, the lower of two. For an exact match, the score is the tentative one.
    fn anchor(&self, tentative: f64) -> (Number, String) {
        let distance = |(at, _): &&(Number, String)| (at.value() - tentative).abs();
        let nearest = self.anchors.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let (score, text) = nearest.cloned().unwrap_or((Number::Float(tentative), "None".into()));
        let score = if is_same(score.value(), tentative) { Number::Float(tentative) } else { score };
        (score, text)
    }
}

impl Outcome {
    /// `_resolve_consistency`, of the winners in both orders: anything unknown or inconsistent is a tie.
    fn between(first: &str, second: &str) -> Self {
        match (first, second) {
            ("A", "B") => Self::CandidateWins,
            ("B", "A") => Self::AnchorWins,
            ("A", "Tie") | ("Tie", "B") => Self::BorderlineCandidateWins,
            ("B", "Tie") | ("Tie", "A") => Self::BorderlineAnchorWins,
            _ => Self::Tie,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::CandidateWins => "candidate_wins",
            Self::BorderlineCandidateWins => "borderline_candidate_wins",
            Self::Tie => "tie",
            Self::BorderlineAnchorWins => "borderline_anchor_wins",
            Self::AnchorWins => "anchor_wins",
        }
    }

    /// Moves to the anchor's score plus or minus 1 or 0.5, unless the tentative score is on the right side of
    /// it.
    fn calibrate(self, tentative: f64, anchor: Number) -> Suggestion {
        let half = |by: f64| Number::Float(anchor.value() + by);
        let (moves, suggestion, suggested) = match self {
            Self::CandidateWins => (tentative <= anchor.value(), "upgrade", anchor.plus_whole(1).at_most(4)),
            Self::BorderlineCandidateWins => (tentative <= anchor.value(), "adjust", half(0.5).at_most(4)),
            Self::Tie if is_same(tentative, anchor.value()) => {
                return Suggestion { suggestion: "confirm", suggested: anchor };
            }
            Self::Tie => (true, "adjust", anchor),
            Self::BorderlineAnchorWins => (tentative >= anchor.value(), "adjust", half(-0.5).at_least(0)),
            Self::AnchorWins => (tentative >= anchor.value(), "downgrade", anchor.plus_whole(-1).at_least(0)),
        };
        if moves {
            Suggestion { suggestion, suggested }
        } else {
            Suggestion { suggestion: "confirm", suggested: Number::Float(tentative) }
        }
    }
}

/// Equality as in Python: -0.0 is 0.0.
fn is_same(a: f64, b: f64) -> bool {
    a.partial_cmp(&b).is_some_and(Ordering::is_eq)
}

/// One more message to the assistant: a turn of its own, or the rest of the turn that is open.
fn say(mut chat: Chat, text: &str) -> Chat {
    if let Prompt::Messages(turns) = &mut chat.prompt
        && let Some(turn) = turns.last_mut().filter(|turn| turn.role == MessageRole::User)
    {
        turn.content += "\n\n";
        turn.content += text;
        return chat;
    }
    chat.user(text)
}

/// The answer after its thoughts, which the program receives separately.
fn content(reply: &Reply) -> &str {
    match reply.text.rsplit_once("</think>") {
        Some((_, answer)) => answer.trim_start(),
        None => &reply.text,
    }
}

/// The turn as the model wrote it, with the end of the call at which it was stopped.
fn closed(text: &str) -> String {
    format!("{text}{}", if tools::is_open(text) { tools::CALL_END } else { "" })
}

/// `_clean_json_string`.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let text = text.strip_prefix("```json").unwrap_or(text);
    let text = text.strip_prefix("```").unwrap_or(text);
    text.strip_suffix("```").unwrap_or(text).trim()
}

#[cfg(test)]
mod tests;
