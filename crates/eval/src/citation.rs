//! Citation of a run for a paper: a paragraph about it, BibTeX entries of all that it used, and facts for the
//! ACL Responsible NLP checklist. All facts are from the run folder and from the card that it names; others
//! are left out, or said not to be recorded.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use minijinja::value::Serde;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tribunal_core::jinja;

use crate::{
    error::Result,
    judges::{bibliography, method::Output, registry},
    run::{RunFile, Summary, calls, finish},
    spec::InputSpec,
};

mod models;

use models::CitedModel;

/// Templates of the texts: sentences that both texts have, the paragraph, the checklist.
const DATA: &str = include_str!("citation/data.j2");
const PARAGRAPH: &str = include_str!("citation/paragraph.j2");
const CHECKLIST: &str = include_str!("citation/checklist.j2");

/// Papers of test sets, by the names of their folders.
const TEST_SETS: [(&str, &[&str]); 4] = [
    ("WMT22", &["freitag-etal-2022-results", "kocmi-etal-2022-findings"]),
    ("WMT23", &["freitag-etal-2023-results", "kocmi-etal-2023-findings"]),
    ("WMT24", &["freitag-etal-2024-llms", "kocmi-etal-2024-findings"]),
    ("MENT", &["tian-etal-2026-beyond"]),
];

/// Key of the program's own entry.
const PROGRAM: &str = "tribunal";

/// Calls that are searched for one under a grammar.
const CALLS: usize = 200;

/// The longest text. Unit: bytes.
const MAX_BYTES: usize = 1 << 20;

/// A run as a paper cites it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Citation {
    /// The run folder.
    pub run: PathBuf,
    pub short_signature: String,
    pub signature: String,
    pub paragraph: String,
    /// Facts by item of the checklist.
    pub checklist: Map<String, Value>,
    /// BibTeX entries by key, those of the method first.
    pub bibtex: Map<String, Value>,
}

impl Citation {
    /// Cites the run in a folder; `input` is that of the run's command.
    ///
    /// # Errors
    /// A template that cannot be rendered with the recorded facts.
    pub fn of(dir: &Path, run: &RunFile, input: Option<&InputSpec>) -> Result<Self> {
        let planned = run.share.unwrap_or_else(|| run.keys().len());
        let is_finished = |summary: &Summary| summary.units == planned && summary.unjudged == 0;
        let summary = finish::read_summary(dir).filter(is_finished);
        let test_set = input.and_then(|input| input.testset.as_deref());
        let name = test_set.and_then(Path::file_name).map(|name| name.to_string_lossy().to_uppercase());
        let (set, set_papers) =
            TEST_SETS.into_iter().find(|(set, _)| Some(*set) == name.as_deref()).unwrap_or_default();
        let models = CitedModel::all(run);
        let method = registry::of_signature(&run.signature);
        let papers = method.map_or(&[][..], |method| method.papers);
        let bibtex = entries(run, papers, &models, set_papers);
        let pairs = run.units.iter().map(|unit| format!("{}-{}", unit.src_lang, unit.tgt_lang));
        let mut facts = json!({
            "run": {
                "input": run.input, "shard": run.shard, "merged": run.merged,
                "origin": run.origin, "signature": run.signature,
            },
            "signature": run.signature.to_string(),
            "short": run.signature.short(),
            "cautions": run.all_cautions(),
            "noun": registry::unit_noun(&run.signature),
            "pairs": pairs.collect::<BTreeSet<_>>(),
            "systems": run.systems,
            "chosen": input,
            "is_ours": method.is_some_and(|method| method.citation.starts_with("ours")),
            "papers": labels(papers),
            "reads": method.and_then(|method| reads(method.output)),
            "models": models.iter().map(CitedModel::facts).collect::<Vec<_>>(),
            "set": set,
            "set_papers": labels(set_papers),
            "is_constrained": is_constrained(dir, summary.as_ref()),
            "finished": summary.map(|Summary { units, scored, statuses, cost, .. }| {
                json!({ "units": units, "scored": scored, "statuses": statuses, "cost": cost })
            }),
            "keys": bibtex.keys().collect::<Vec<_>>(),
            "licence": env!("CARGO_PKG_LICENSE"),
            "unrecorded": "not recorded",
        });
        let names = ["data", "hardware", "budget", "program"].into_iter();
        for (name, text) in names.zip(rendered(DATA, &facts)?) {
            facts[name] = text.into();
        }
        let items = rendered(CHECKLIST, &facts)?;
        let items = items.iter().filter_map(|item| item.split_once(": "));
        Ok(Self {
            run: dir.into(),
            short_signature: run.signature.short(),
            signature: run.signature.to_string(),
            paragraph: rendered(PARAGRAPH, &facts)?.join(" "),
            checklist: items.map(|(item, facts)| (item.to_owned(), facts.into())).collect(),
            bibtex,
        })
    }
}

/// The paragraphs of a rendered template, each on one line.
fn rendered(template: &'static str, facts: &Value) -> Result<Vec<String>> {
    let mut environment = jinja::environment();
    jinja::add(&mut environment, PROGRAM, template).map_err(io::Error::other)?;
    let facts = minijinja::Value::from(Serde(facts));
    let text = jinja::render(&environment, PROGRAM, facts, MAX_BYTES).map_err(io::Error::other)?;
    let paragraphs = text.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(paragraphs.filter(|text| !text.is_empty()).collect())
}

/// BibTeX entries of the method, the models, the test set and the program.
fn entries(run: &RunFile, papers: &[&str], models: &[CitedModel<'_>], set: &[&str]) -> Map<String, Value> {
    let paper = |key: &&str| bibliography::find(key).map(|entry| (entry.key().into(), entry.text.into()));
    let version = models::escaped(run.signature.get("v").unwrap_or_default());
    let program = bibliography::find(PROGRAM).map(|entry| entry.text.replace("VERSION", &version));
    let all = papers.iter().filter_map(paper).chain(models.iter().map(CitedModel::entry));
    let all = all.chain(set.iter().filter_map(paper));
    all.chain(program.map(|text| (PROGRAM.into(), text))).map(|(key, text)| (key, text.into())).collect()
}

/// Authors and years of papers.
fn labels(papers: &[&str]) -> String {
    let labels = papers.iter().filter_map(|key| bibliography::find(key)).map(|entry| entry.label());
    labels.collect::<Vec<_>>().join("; ")
}

/// The source of the scores, where models generate no text.
fn reads(output: Output) -> Option<&'static str> {
    match output {
        Output::Text => None,
        Output::LogProbabilities => Some("log-probabilities of the given texts"),
        Output::States => Some("hidden states"),
        Output::Head => Some("a score head"),
        Output::Estimate => Some("the estimates of an encoder"),
    }
}

/// Returns true if a grammar constrained answers; `None` where no call tells.
fn is_constrained(dir: &Path, summary: Option<&Summary>) -> Option<bool> {
    if summary.is_some_and(|summary| summary.cost.usage.forced > 0) {
        return Some(true);
    }
    let contents = calls::read(dir).ok()?.take(CALLS).map_while(std::result::Result::ok);
    let answers = contents.filter_map(|call| call.content).map(|content| content.spelled);
    let mut answers = answers.filter(|spelled| !spelled.tokens.is_empty()).peekable();
    answers.peek()?;
    Some(answers.any(|spelled| !spelled.masked_logprobs.is_empty()))
}
