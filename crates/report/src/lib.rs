//! Verdicts for readers: a table of systems and the errors found (text), JSON, TSV, CSV, and the formats of
//! the field. It lays out what `run` and `meta` have computed.

use serde_json::json;

use tribunal_core::{files, llm, mqm, plain, segment, signature, table};
use tribunal_meta as meta;
use tribunal_run as run;

use crate::{
    meta::verdicts::Verdict,
    plain::{plain, plain_json},
    run::{Record, Summary},
};

mod cells;
pub mod compare;
mod examples;
pub mod export;
pub mod health;
mod marked;
pub mod page;
pub mod statistics;
mod style;
mod text;
pub mod transcript;
mod units;

pub use cells::quoted;
pub use examples::ReportExamples;
pub use style::TextStyle;
pub use text::{cost, latex, text, text_of};
pub use units::{examples, of_source};

/// Verdicts as `meta` would read them from a run's folder.
///
/// # Panics
/// Never: a record holds what a verdict does.
pub fn as_verdicts(records: &[Record]) -> Vec<Verdict> {
    let as_verdict = |record: &Record| serde_json::to_value(record).and_then(serde_json::from_value);
    records.iter().map(|record| as_verdict(record).expect("a record holds what a verdict does")).collect()
}

/// Amount of a run's results that is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Systems and units.
    #[default]
    Units,
    Systems,
}

/// One JSON object: the signature, the systems, the cost of the run, and every verdict.
pub fn json(summary: &Summary, records: &[Record], detail: Detail) -> String {
    let mut value = json!({
        "signature": summary.signature,
        "direction": "higher",
        "units": summary.units,
        "scored": summary.scored,
        "unjudged": summary.unjudged,
        "statuses": summary.statuses,
        "reasons": summary.reasons,
        "systems": summary.systems,
        "common": summary.common,
        "pairs": summary.pairs,
        "health": summary.health,
        "cautions": summary.cautions,
    });
    if detail == Detail::Units {
        value["verdicts"] = json!(records);
    }
    format!("{value:#}\n")
}

/// One row for each unit (or system), with a header. Missing values are empty; `errors` is JSON; control
/// characters are shown.
pub fn tsv(summary: &Summary, records: &[Record], detail: Detail) -> String {
    let rows: Vec<Vec<String>> = match detail {
        Detail::Systems => system_rows(summary),
        Detail::Units => unit_rows(records),
    };
    rows.into_iter().map(|row| quoted(row).join("\t") + "\n").collect()
}

fn system_rows(summary: &Summary) -> Vec<Vec<String>> {
    let header =
        "lp system units scored score quality_score critical major minor neutral common_score untranslated";
    let rows = summary.systems.iter().map(|s| {
        vec![
            s.pair.clone().unwrap_or_default(),
            field(&s.system),
            s.units.to_string(),
            s.scored.to_string(),
            number(s.score),
            number(s.quality_score),
            s.critical.to_string(),
            s.major.to_string(),
            s.minor.to_string(),
            s.neutral.to_string(),
            number(s.common_score),
            s.untranslated.to_string(),
        ]
    });
    std::iter::once(header.split(' ').map(String::from).collect()).chain(rows).collect()
}

/// The columns of [`export::csv`] without the texts and the signature.
fn unit_rows(records: &[Record]) -> Vec<Vec<String>> {
    let shown = |row: Vec<String>| {
        let cells = export::HEADER.split(' ').zip(row);
        let cells = cells.filter(|(name, _)| !["source", "hypothesis", "signature"].contains(name));
        let cell = |(name, cell): (&str, String)| match name {
            "errors" => plain_json(&cell).into_owned(),
            _ => field(&cell),
        };
        cells.map(cell).collect()
    };
    let rows = records.iter().map(|record| export::row(record, None));
    std::iter::once(export::HEADER.split(' ').map(String::from).collect()).chain(rows).map(shown).collect()
}

/// A text as a field: tabs and line ends become spaces, other control characters are shown.
fn field(text: &str) -> String {
    plain(&text.replace(['\t', '\n', '\r'], " ")).into_owned()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

/// `3 verdicts`, `1 verdict`.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
