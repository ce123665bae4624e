//! Findings of `tribunal lint` as text, as rows and as JSON, with what to do about each. It looks for nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::counted;
use crate::{
    console::table::Table,
    meta::lint::{Finding, Kind},
    segment::numbered,
};

/// Findings of one kind that a text names one by one.
const MOST: usize = 20;

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Checked {
    /// Translations of systems.
    pub translations: usize,
    pub ratings: usize,
    /// Metrics that were compared with human scores.
    pub metrics: usize,
}

/// What to do about a kind of finding.
#[must_use]
pub fn advice(kind: Kind) -> &'static str {
    match kind {
        Kind::ShiftedLines => {
            "look for a line that is missing, split or there twice just before the first one, and rate again"
        }
        Kind::SpanOutside => {
            "offsets are half-open, in Unicode code points: look for bytes, UTF-16 units, or another version of the text"
        }
        Kind::EmptySpan => {
            "mark at least one character; an omission is marked in the source, or at its place with a word of context"
        }
        Kind::LowWithoutSpan => "ask the annotator to mark what the score is for, or to raise it",
        Kind::NeverMarks => "check whether this annotator knows the task; leave the ratings out if not",
        Kind::AgreesWithNone => {
            "have some of the segments rated again; `tribunal meta --gold NAME@agreeing` leaves such annotators out"
        }
        Kind::RatedApart => "ask the annotator which of the two is meant",
        Kind::EqualTranslations => {
            "rate it once and copy the rating; check that no system's file was copied by mistake"
        }
        Kind::FlippedSign => {
            "if lower is better, negate the scores: `--scores NAME=FILE --negate NAME`, or in the file for a metric of the test set"
        }
        Kind::SummedSystemScores => "use means: sums grow with a system's segments",
        Kind::FillerScores => "write `None` for what was not scored",
    }
}

/// Findings that say something against the data.
#[must_use]
pub fn n_warnings(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| !finding.kind.is_note()).count()
}

/// The findings of each kind below what to do about them, and a last line with their number.
#[must_use]
pub fn text(checked: Checked, findings: &[Finding]) -> String {
    let mut kinds: BTreeMap<Kind, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        kinds.entry(finding.kind).or_default().push(finding);
    }
    let mut lines = Vec::new();
    for (kind, findings) in kinds {
        let level = if kind.is_note() { "note" } else { "warning" };
        lines.push(format!("{level}: {} ({})", kind.name(), findings.len()));
        lines.push(format!("hint: {}", advice(kind)));
        for finding in findings.iter().take(MOST) {
            lines.push(format!("  {}: {}", place(finding), finding.message));
        }
        if findings.len() > MOST {
            lines.push(format!("  and {} more, which `--format json` lists", findings.len() - MOST));
        }
        lines.push(String::new());
    }
    let Checked { translations, ratings, metrics } = checked;
    let n = n_warnings(findings);
    let notes = findings.len() - n;
    let found = match (n, notes) {
        (0, 0) => "nothing found".to_owned(),
        (n, 0) => counted(n, "warning"),
        (n, notes) => format!("{}, {}", counted(n, "warning"), counted(notes, "note")),
    };
    let checked = [(translations, "translation"), (ratings, "rating"), (metrics, "metric")];
    let checked = checked.map(|(n, name)| counted(n, name)).join(", ");
    lines.push(format!("{checked} checked: {found}\n"));
    lines.join("\n")
}

/// Where a finding is, as far as it is known: file and line, segment, system and annotator.
fn place(finding: &Finding) -> String {
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!("{}:{line}", file.display()),
        (Some(file), None) => file.display().to_string(),
        (None, _) => finding.lp.clone(),
    };
    let segment = finding.segment.map(numbered);
    let system = finding.system.as_ref().map(|system| format!("`{system}`"));
    let what = match (segment, system) {
        (Some(segment), Some(system)) => Some(format!("{segment} of {system}")),
        (segment, system) => segment.or(system),
    };
    // A line says it already, and numbers may begin anew in each document.
    let document = finding.document.as_ref().filter(|doc| finding.line.is_none() && !doc.is_empty());
    let document = document.map(|name| format!("document `{name}`"));
    let annotator = finding.annotator.as_ref().map(|name| format!("annotator `{name}`"));
    let metric = finding.metric.as_ref().map(|name| format!("metric `{name}`"));
    let parts = [Some(place), document, what, annotator, metric].into_iter().flatten();
    parts.collect::<Vec<_>>().join(", ")
}

/// A row for each finding.
#[must_use]
pub fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new();
    table.head([
        "level",
        "kind",
        "pair",
        "file",
        "line",
        "system",
        "document",
        "id",
        "annotator",
        "metric",
        "message",
        "advice",
    ]);
    for finding in findings {
        let number = |n: Option<usize>| n.map_or_else(String::new, |n| n.to_string());
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        table.row([
            if finding.kind.is_note() { "note" } else { "warning" }.to_owned(),
            finding.kind.name().to_owned(),
            finding.lp.clone(),
            finding.file.as_ref().map_or_else(String::new, |file| file.display().to_string()),
            number(finding.line),
            name(&finding.system),
            name(&finding.document),
            number(finding.segment),
            name(&finding.annotator),
            name(&finding.metric),
            finding.message.clone(),
            advice(finding.kind).to_owned(),
        ]);
    }
    table
}

/// All findings, for programs.
#[must_use]
pub fn json(checked: Checked, findings: &[Finding]) -> Value {
    let findings_json = findings.iter().map(|finding| {
        let mut value = json!(finding);
        value["level"] = if finding.kind.is_note() { "note" } else { "warning" }.into();
        value["advice"] = advice(finding.kind).into();
        value
    });
    let n = n_warnings(findings);
    json!({
        "checked": checked,
        "n_warnings": n,
        "n_notes": findings.len() - n,
        "findings": findings_json.collect::<Vec<_>>(),
    })
}
