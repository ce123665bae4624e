//! Entries of a `strict` answer of RUBRIC-MQM: read from JSON, and written as the lines of the other presets.
//! They are not weighed here.

use serde::{Deserialize, Serialize};

use crate::{Result, mqm::Severity, reading};

/// One error of a `strict` answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonEntry {
    pub category: String,
    pub span: String,
    pub severity: Level,
}

/// Severity of an error.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    Points(u32),
    Severity(Severity),
}

/// The entries of an answer.
///
/// # Errors
/// [`crate::Error::Unparsable`] for anything but the requested JSON, and for an entry without a span.
pub fn read(answer: &str) -> Result<Vec<JsonEntry>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        errors: Vec<JsonEntry>,
    }
    let Answer { errors } = reading::json(answer)?;
    if errors.iter().any(|entry| entry.span.is_empty()) {
        return Err(reading::unusable(answer, "an error has no span"));
    }
    Ok(errors)
}

/// Entries as the examples print them: with points, a line each; else in blocks of severity.
pub fn printed(entries: &[JsonEntry], layout: EntryFormat) -> String {
    let mut lines = vec!["MQM annotations:".to_owned()];
    match layout {
        EntryFormat::Points => lines.extend(points(entries)),
        EntryFormat::Blocks => lines.extend(blocks(entries)),
    }
    lines.join("\n")
}

/// Printed layout of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFormat {
    Points,
    Blocks,
}

fn points(entries: &[JsonEntry]) -> Vec<String> {
    if entries.is_empty() {
        return vec!["no-error".into()];
    }
    let line = |JsonEntry { category, span, severity }: &JsonEntry| match severity {
        Level::Points(points) => format!("\"{span}\" - {category} - {points}"),
        Level::Severity(severity) => format!("\"{span}\" - {category} - {severity}"),
    };
    entries.iter().map(line).collect()
}

fn blocks(entries: &[JsonEntry]) -> Vec<String> {
    let mut lines = Vec::new();
    for (header, severity) in
        [("Critical:", Severity::Critical), ("Major:", Severity::Major), ("Minor:", Severity::Minor)]
    {
        lines.push(header.to_owned());
        let mut entries_of_severity =
            entries.iter().filter(|e| e.severity == Level::Severity(severity)).peekable();
        if entries_of_severity.peek().is_none() {
            lines.push("no-error".into());
        }
        lines.extend(entries_of_severity.map(|e| format!("{} - \"{}\"", e.category, e.span)));
    }
    lines
}
