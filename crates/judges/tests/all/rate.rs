//! RATE against scripted agents. The agents and their answers are here; the tests are in the modules, by
//! theme.

use std::{fmt::Write, path::Path, sync::Arc};

use tribunal_core::{
    llm::{Finish, ResponseFormat, Sampling},
    segment::Segment,
};
use tribunal_judges::{Built, Call, Error, Grouping, Panel, Preset, Role, Settings, Verdict, evidence};

use tribunal_testing::{Preview as _, Script, judged};

mod code;
mod faults;
mod settings;
mod strict;
mod trajectories;

const NOTE: &str = "夺笋啊 is a Chinese internet slang term that is a homophonic pun on 多损啊 (duō sǔn a), meaning \
                    'how mean/scathing' or 'so vicious'";

fn translation(system: &str, hypothesis: &str) -> Segment {
    Segment {
        system: system.into(),
        ..Segment::new(tribunal_core::segment::lang::parse_pair("zh-en").unwrap(), "夺笋啊", hypothesis)
    }
}

fn one() -> Vec<Segment> {
    vec![translation("a", "How ridiculous!")]
}

fn index(dir: &Path) -> String {
    let glossary = dir.join("slang.tsv");
    std::fs::write(&glossary, format!("term\tmeaning\n夺笋\t{NOTE}\n内卷\tinvolution\n")).unwrap();
    let out = dir.join("index");
    evidence::build(&glossary, &out).unwrap();
    out.display().to_string()
}

fn judge(request: &str, preset: Preset) -> Built {
    let settings = Settings { preset, ..Settings::default() };
    tribunal_replication::build(request, &settings).unwrap_or_else(|e| panic!("{request}: {e}"))
}

/// A tool call as in Figure 15.
fn call(name: &str, arguments: &[(&str, &str)]) -> String {
    let arguments: String = arguments
        .iter()
        .map(|(key, value)| format!("<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"))
        .collect::<Vec<_>>()
        .concat();
    format!("Thought: next.\n<tool_call>{name}\n{arguments}</tool_call>")
}

fn search(query: &str) -> String {
    call("search_agent", &[("query", query)])
}

fn evaluate() -> String {
    call(
        "general_evaluation_agent",
        &[("source_text", "s"), ("translation_text", "t"), ("context_notes", NOTE)],
    )
}

fn finish(score: &str) -> String {
    call("finish_evaluation", &[("translation_text", "t"), ("final_score", score), ("final_rationale", "r")])
}

fn compare(tentative: &str) -> String {
    call("comparison_agent", &[("target_text", "t"), ("tentative_score", tentative), ("context_notes", NOTE)])
}

fn cold(tentative: &str) -> String {
    call(
        "comparison_agent",
        &[
            ("target_text", "t"),
            ("tentative_score", tentative),
            ("context_notes", NOTE),
            ("synthetic_low_anchor", "LOW"),
            ("synthetic_high_anchor", "HIGH"),
        ],
    )
}

fn evaluation(score: u8, confidence: &str) -> String {
    format!(
        r#"{{"score": {score}, "confidence": {confidence}, "rationale": "why", "error_spans": [{{"source_segment": "夺笋啊", "target_segment": "ridiculous", "issue": "literal"}}], "suspected_knowledge_gaps": []}}"#
    )
}

fn asks(query: &str) -> String {
    call("search", &[("search_query", &format!(r#"[{{"q": "{query}", "recency": null}}]"#))])
}

fn says(winner: &str) -> String {
    format!(r#"{{"winner": "{winner}", "rationale": "because"}}"#)
}

/// The four agents.
struct Agents {
    core: Arc<Script>,
    evaluator: Arc<Script>,
    search: Arc<Script>,
    comparer: Arc<Script>,
}

fn script(answers: &[String]) -> Arc<Script> {
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    Arc::new(if answers.is_empty() { Script::new() } else { Script::new().on("", &answers) })
}

impl Agents {
    fn new(core: &[String], evaluator: &[String]) -> Self {
        Self { core: script(core), evaluator: script(evaluator), search: script(&[]), comparer: script(&[]) }
    }

    fn searching(self, answers: &[String]) -> Self {
        Self { search: script(answers), ..self }
    }

    /// The winners of the two orders, as given first.
    fn comparing(self, candidate: &str, as_given: &str, swapped: &str) -> Self {
        let first = format!("**Candidate A:** \"{candidate}\"");
        let comparer = Script::new().on(&first, &[&says(as_given)]).on("", &[&says(swapped)]);
        Self { comparer: Arc::new(comparer), ..self }
    }

    fn judge(&self, judge: &Built, group: &[Segment]) -> (Vec<Result<Verdict, Error>>, Vec<Call>) {
        let panel = Panel::new(self.core.clone(), Sampling::default())
            .assign(Role::Evaluator, self.evaluator.clone())
            .assign(Role::Search, self.search.clone())
            .assign(Role::Comparer, self.comparer.clone());
        judged(judge, &panel, group)
    }
}

/// The calls of each round; the two orders of a comparison, which run side by side, in one order.
fn stages(calls: &[Call]) -> String {
    let mut stages: Vec<String> = calls.iter().map(|call| call.step.to_string()).collect();
    for pair in 1..stages.len() {
        if stages[pair - 1].starts_with("compare-swapped") && stages[pair].starts_with("compare@") {
            stages.swap(pair - 1, pair);
        }
    }
    stages.join(" ")
}

fn score(verdict: &Result<Verdict, Error>) -> String {
    match verdict {
        Ok(verdict) => verdict.score.to_string(),
        Err(error) => format!("{}: {error}", format!("{error:?}").split('(').next().unwrap()),
    }
}

/// The last turn of a question that holds this text.
fn question(script: &Script, needle: &str) -> String {
    let asked = script.asked();
    let found = asked.iter().map(|(chat, ..)| chat.messages().last().unwrap().content.clone());
    found
        .into_iter()
        .find(|text| text.contains(needle))
        .unwrap_or_else(|| panic!("no question holds {needle}"))
}

/// The responses to the core agent in each round.
fn told(calls: &[Call]) -> String {
    let last = calls.iter().rfind(|call| call.role.name() == "core").unwrap();
    let turns = last.chat.messages().iter().skip(1).map(|t| format!("<<< {:?} >>>\n{}\n", t.role, t.content));
    turns.collect()
}

/// A turn of the core agent in the constrained form.
fn turn(name: &str, arguments: &serde_json::Value) -> String {
    serde_json::json!({ "thought": "t", "tool_call": { "name": name, "arguments": arguments } }).to_string()
}
