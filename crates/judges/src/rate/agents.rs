//! RATE's three sub-agents: search (Figure 19), evaluation (Figure 18) and comparison (Figure 20), and their
//! responses to the core agent. The core agent decides when they are called.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    LastEvaluation, Session,
    memory::{self, Outcome, Scenario, halves},
    stages,
    tools::{self, CompareRequest, EvaluateRequest, Query},
};
use crate::{
    Error, Panel, Question, Result, Retry, Role, Step, confidence,
    evidence::Passage,
    expected,
    llm::{Chat, Reply, ResponseFormat},
    mqm::{ErrorSpan, Repeats, Severity, Side},
    pairwise::{self, Order},
    prompt::{File, file},
    reading,
    segment::Segment,
};

const EVALUATION: File = file!("rate/evaluation.j2");
const EVALUATE: File = file!("rate/evaluate.j2");
const EVALUATION_FORM: File = file!("rate/evaluation.json");
const SEARCH: File = file!("rate/search.j2");
const SEARCH_FORM: File = file!("rate/search.json");
const SUMMARIZE: File = file!("rate/summarize.j2");
const SUMMARY_FORM: File = file!("rate/summary.json");
const COMPARISON: File = file!("rate/comparison.j2");
const COMPARE: File = file!("rate/compare.j2");
const COMPARISON_FORM: File = file!("rate/comparison.json");

/// Prompts and forms of the sub-agents.
pub const FILES: &[File] = &[
    EVALUATION,
    EVALUATE,
    EVALUATION_FORM,
    SEARCH,
    SEARCH_FORM,
    SUMMARIZE,
    SUMMARY_FORM,
    COMPARISON,
    COMPARE,
    COMPARISON_FORM,
];

/// Answer tokens of one question to a sub-agent.
const BUDGET: usize = 1024;

/// The confidence below which the core agent should compare (Figure 17).
const SURE: f64 = 0.9;

/// Passages that the search agent is shown for each query.
pub const PASSAGES: usize = 5;

/// Answer of the evaluation agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// 0 to 4.
    score: i64,
    /// The mean of the score's distribution, where the option is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expected_score: Option<f64>,
    /// 0 to 1.
    confidence: f64,
    rationale: String,
    #[serde(default)]
    error_spans: Vec<Failed>,
    #[serde(default)]
    suspected_knowledge_gaps: Vec<String>,
}

/// A part of the translation that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    #[serde(default)]
    source_segment: String,
    #[serde(default)]
    target_segment: String,
    #[serde(default)]
    issue: String,
    /// Confidence in the target segment, or in the source segment where there is no other.
    #[serde(skip)]
    confidence: Option<f64>,
}

/// Answer of the comparison agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Comparison {
    winner: String,
    #[serde(default)]
    rationale: String,
}

/// Answer of the search agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    answer: String,
    #[serde(default)]
    reasoning: String,
}

impl Evaluation {
    /// Reads an answer, with the model's confidence in each span.
    fn read(reply: &Reply) -> Result<Self> {
        let mut evaluation: Self = read("the evaluation agent", &reply.text)?;
        let Self { score, confidence, .. } = evaluation;
        if !(0..=4).contains(&score) || !(0.0..=1.0).contains(&confidence) {
            let reason = format!(
                "the evaluation agent: score `{score}` or confidence `{confidence}` is outside its range"
            );
            return Err(reading::unusable(&reply.text, &reason));
        }
        weigh_spans(&mut evaluation.error_spans, reply);
        Ok(evaluation)
    }

    /// The error spans, neutral and located; one without a target segment is in the source.
    pub fn errors(self, (source, target): (&str, &str), repeats: Repeats) -> Vec<ErrorSpan> {
        errors(self.error_spans, (source, target), repeats)
    }

    /// True if the agent names missing knowledge, or has less confidence than Figure 17 requires.
    pub fn is_unsure(&self) -> bool {
        !self.suspected_knowledge_gaps.is_empty() || self.confidence < SURE
    }
}

/// Adds the model's confidence in each span.
pub fn weigh_spans(failed: &mut [Failed], reply: &Reply) {
    let in_source = confidence::value_confidences(reply, "source_segment");
    let in_target = confidence::value_confidences(reply, "target_segment");
    // Spans that leave a segment out would shift what follows.
    if in_source.len() == failed.len() && in_target.len() == failed.len() {
        for (failed, (source, target)) in failed.iter_mut().zip(in_source.into_iter().zip(in_target)) {
            failed.confidence = target.or(source);
        }
    }
}

/// Failed parts as errors, neutral and located; one without a target segment is in the source.
pub fn errors(failed: Vec<Failed>, (source, target): (&str, &str), repeats: Repeats) -> Vec<ErrorSpan> {
    let to_error = |failed: Failed| {
        let in_source = failed.target_segment.is_empty() && !failed.source_segment.is_empty();
        let span = if in_source { failed.source_segment } else { failed.target_segment };
        let side = if in_source { Side::Source } else { Side::Target };
        let error = ErrorSpan::new("other", span, Severity::Neutral).explained(failed.issue);
        ErrorSpan { side, confidence: failed.confidence, ..error }
    };
    repeats.settled(failed.into_iter().map(to_error).collect(), source, target)
}

impl Session<'_> {
    /// Two calls of the search agent: for the queries, and for the summary of the passages. Repeated queries
    /// are answered from memory.
    pub(super) fn search(&mut self, round: usize, query: &str) -> Result<Value> {
        let Some(evidence) = &self.judge.config.evidence else {
            return Ok(json!({ "error": "there is no tool `search_agent`" }));
        };
        if let Some(known) = self.memory.notes().iter().find(|note| note.query == query) {
            return Ok(json!({ "skipped": "this was searched before", "answer": known.answer }));
        }
        let strict = self.judge.is_strict();
        let langs = if strict { self.languages() } else { "English/Chinese".into() };
        let prompt = json!({ "strict": strict, "search_langs": langs });
        let chat = Chat::new().system(self.judge.prompts.render(SEARCH, prompt)?).user(query);
        let form = if strict { self.form_of(SEARCH_FORM)? } else { ResponseFormat::Text };
        let mut question = self.question(&chat, &form);
        question.sampling.stop = if strict { Vec::new() } else { vec![tools::CALL_END.to_owned()] };
        let read_call = |reply: &Reply| {
            let text = tools::closed(&reply.text);
            let queries = if strict { read_queries(&text)? } else { read_search(&text)? };
            Ok((text, queries))
        };
        let (text, queries) = self.ask(Role::Search, stages::SEARCH.round(round), &question, read_call)?;
        let mut passages: Vec<Passage> = Vec::new();
        for query in &queries {
            let found = evidence.search(query, PASSAGES).map_err(|e| Error::Failed(e.to_string()))?;
            passages.extend(found.into_iter().map(|hit| hit.passage));
        }
        let mut seen = std::collections::BTreeSet::new();
        passages.retain(|passage| seen.insert((passage.origin.clone(), passage.text.clone())));
        let results = self.judge.prompts.render(SUMMARIZE, json!({ "passages": passages }))?;
        let chat = chat.assistant(text).user(results);
        let form = if strict { self.form_of(SUMMARY_FORM)? } else { ResponseFormat::Text };
        let step = stages::SUMMARIZE.round(round);
        let question = self.question(&chat, &form);
        let summary: Summary =
            self.ask(Role::Search, step, &question, |reply| read("the search agent", &reply.text))?;
        self.memory.note(query, &summary.answer);
        Ok(json!(summary))
    }

    fn languages(&self) -> String {
        format!("{}/{}", self.segment.src_lang.name(), self.segment.tgt_lang.name())
    }

    /// One question to the evaluation agent, unless it has answered the same one.
    pub(super) fn evaluate(&mut self, round: usize, request: EvaluateRequest) -> Result<Value> {
        let notes =
            if self.judge.is_strict() { self.memory.log() } else { request.notes.unwrap_or_default() };
        let notes_and_instruction = (notes, request.instruction.unwrap_or_default());
        if self.asked.contains(&notes_and_instruction) {
            let reason = "the same notes and instruction were evaluated before, so the answer is the same";
            return Ok(json!({ "skipped": reason }));
        }
        let (notes, instruction) = &notes_and_instruction;
        let Segment { source, hypothesis, .. } = self.segment;
        let values = json!({
            "source": source, "target": hypothesis, "notes": notes, "instruction": instruction,
        });
        let prompts = &self.judge.prompts;
        let chat =
            Chat::new().system(prompts.render(EVALUATION, ())?).user(prompts.render(EVALUATE, values)?);
        let schema = prompts.json(EVALUATION_FORM, ())?;
        let form = if self.judge.is_strict() {
            ResponseFormat::about(schema, [("source", source), ("target", hypothesis)])
        } else {
            ResponseFormat::Text
        };
        let step = stages::EVALUATE.round(round);
        let mut evaluation =
            self.ask(Role::Evaluator, step, &self.question(&chat, &form), Evaluation::read)?;
        if self.judge.config.expected {
            evaluation.expected_score = Some(expected_score(self.panel, stages::EXPECT.round(round), &chat)?);
        }
        self.asked.push(notes_and_instruction);
        let response = json!(evaluation);
        self.judged = Some(self.after(evaluation));
        Ok(response)
    }

    fn after(&self, evaluation: Evaluation) -> LastEvaluation {
        let n_notes = self.memory.notes().len();
        let is_second = self.judged.as_ref().is_some_and(|before| before.n_notes == n_notes);
        LastEvaluation { evaluation, n_notes, is_second }
    }

    /// True if another evaluation could add something: the first one, one after a search, and a second one
    /// with an instruction where the evaluation agent was not sure (Figure 22).
    pub(super) fn may_evaluate(&self) -> bool {
        let n_notes = self.memory.notes().len();
        self.judged
            .as_ref()
            .is_none_or(|last| n_notes > last.n_notes || (last.evaluation.is_unsure() && !last.is_second))
    }

    /// Two questions to the comparison agent, one in each order.
    pub(super) fn compare(&mut self, round: usize, request: CompareRequest) -> Result<Value> {
        let status = |memory: &memory::Memory| if memory.is_initialized() { "initialized" } else { "empty" };
        if !self.judge.config.team.comparison {
            return Ok(json!({ "error": "there is no tool `comparison_agent`" }));
        }
        let tentative = request.tentative;
        if self.compared.contains(&halves(tentative)) {
            let reason = format!("{tentative} was compared before");
            return Ok(
                json!({ "recommendation": "confirm", "skipped": reason, "anchor_memory_status": status(self.memory) }),
            );
        }
        if !self.memory.is_initialized() {
            let (Some(low), Some(high)) = (request.low, request.high) else {
                let warning = "no anchors yet: give `synthetic_low_anchor` and `synthetic_high_anchor`";
                return Ok(json!({ "warning": warning, "anchor_memory_status": "empty" }));
            };
            self.memory.initialize(low, high);
        }
        let Some(anchor) = self.memory.nearest(tentative) else { return Ok(json!({ "error": "no anchor" })) };
        let notes =
            if self.judge.is_strict() { self.memory.log() } else { request.notes.unwrap_or_default() };
        let answers = pairwise::both_orders(|order| {
            self.compare_once(round, &notes, &order.put(&self.segment.hypothesis, &anchor.text), order)
        })?;
        let [(first, _), (second, _)] = &answers;
        let scenario = Scenario::between(*first, *second);
        let suggested = scenario.calibrate(tentative, anchor.score);
        self.compared.push(halves(tentative));
        Ok(json!({
            "recommendation": memory::advice(tentative, suggested),
            "comparison_details": { "anchor_score": anchor.score, "outcome": scenario, "suggested_score": suggested },
            "rationale": answers.map(|(_, rationale)| rationale),
            "anchor_memory_status": status(self.memory),
        }))
    }

    /// The result of one order for the translation, and its reason.
    fn compare_once(
        &self,
        round: usize,
        notes: &str,
        (a, b): &(&str, &str),
        order: Order,
    ) -> Result<(Outcome, String)> {
        let prompts = &self.judge.prompts;
        let values = json!({ "source": self.segment.source, "notes": notes, "a": a, "b": b });
        let chat = Chat::new().system(prompts.render(COMPARISON, ())?).user(prompts.render(COMPARE, values)?);
        let form = if self.judge.is_strict() { self.form_of(COMPARISON_FORM)? } else { ResponseFormat::Text };
        let stage = if order == Order::AsGiven { stages::COMPARE } else { stages::COMPARE_SWAPPED };
        self.ask(Role::Comparer, stage.round(round), &self.question(&chat, &form), |reply| {
            let Comparison { winner, rationale } = read("the comparison agent", &reply.text)?;
            let outcome = match (winner.as_str(), order) {
                ("A", Order::AsGiven) | ("B", Order::Swapped) => Outcome::Win,
                ("B", Order::AsGiven) | ("A", Order::Swapped) => Outcome::Lose,
                ("Tie", _) => Outcome::Tie,
                _ => {
                    let reason = format!("the comparison agent: the winner is `{winner}`, not A, B or Tie");
                    return Err(reading::unusable(&reply.text, &reason));
                }
            };
            Ok((outcome, rationale))
        })
    }

    /// A question that ends with its answer's form or budget alone.
    fn question<'q>(&self, chat: &'q Chat, form: &'q ResponseFormat) -> Question<'q> {
        let mut question = self.panel.question(chat, form, self.judge.config.budget(BUDGET));
        question.sampling.stop = Vec::new();
        question
    }

    /// One question, asked again where its answer cannot be used.
    fn ask<T>(
        &self,
        role: Role,
        step: Step,
        question: &Question,
        read: impl Fn(&Reply) -> Result<T>,
    ) -> Result<T> {
        self.panel.ask_until(role, step, question, Retry::AGENT, read)
    }

    fn form_of(&self, file: File) -> Result<ResponseFormat> {
        Ok(ResponseFormat::json(self.judge.prompts.json(file, ())?))
    }
}

/// The mean of 0 to 4 under the evaluation agent, to two digits.
///
/// # Errors
/// The errors of [`expected::score`].
pub fn expected_score(panel: &Panel, step: Step, chat: &Chat) -> Result<f64> {
    let values: Vec<_> = (0..=4).map(|score| (f64::from(score), format!("{score},"))).collect();
    let mean = expected::score(panel, Role::Evaluator, step, chat, "{\"score\": ", &values)?;
    Ok((mean * 100.0).round() / 100.0)
}

/// The error with the name of the agent whose answer caused it.
pub fn within(agent: &str, error: Error) -> Error {
    match error {
        Error::Unparsable(reason) => Error::Unparsable(format!("{agent}: {reason}")),
        other => other,
    }
}

/// An answer of one agent, which is named in the error.
fn read<T: DeserializeOwned>(agent: &str, text: &str) -> Result<T> {
    reading::json(tools::answer(text)).map_err(|error| within(agent, error))
}

fn read_search(text: &str) -> Result<Vec<String>> {
    let call = tools::read_search_xml(text);
    call.map_err(|fault| reading::unusable(text, &format!("the search agent called no search, {fault}")))
}

fn read_queries(text: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Queries {
        search_query: Vec<Query>,
    }
    let Queries { search_query } = read("the search agent", text)?;
    Ok(search_query.into_iter().map(|query| query.q).collect())
}
