//! Answers to cues: reading them, and finding the entry about the marked span. Nothing is scored here.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use tribunal_core::files;
use tribunal_judges::reading::pattern;

use super::labels::{self, NO_ERROR};
use tribunal_meta::Result;
use tribunal_meta::scores::{line_error, read_text};

/// A model's answer to one cue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Answer {
    pub id: usize,
    /// The model's text.
    #[serde(alias = "text", alias = "answer", default)]
    pub review: Option<String>,
    /// The category that a human reader recorded with the answer.
    #[serde(default)]
    pub category: Option<String>,
    #[serde(default)]
    pub severity: Option<String>,
}

/// One entry of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerEntry {
    pub span: String,
    pub label: Option<&'static str>,
    pub severity: Severity,
}

/// Severity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Major,
    Minor,
    /// On the scenario's scale, 1 to 4, 8 or 100.
    Points(u32),
    Unsaid,
}

/// The labels of the marked span in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanLabels {
    pub category: String,
    pub severity: String,
}

/// The answers in a file, or in the `answers.jsonl` of a run's folder.
///
/// # Errors
/// An unreadable file or row.
pub fn read(path: &Path) -> Result<Vec<Answer>> {
    let path = if path.is_dir() { path.join("answers.jsonl") } else { path.to_owned() };
    let text = read_text(&path)?;
    let row = |(index, line): (usize, &str)| {
        files::json::parse(line).map_err(|reason| line_error(&path, index + 1, reason))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(row).collect()
}

static SCALED: LazyLock<Regex> = LazyLock::new(|| pattern(r#"^\s*(?:\d+\.\s*)?["“]?(.*?)["”]?\s+-\s+(.*)$"#));
static POINTS: LazyLock<Regex> = LazyLock::new(|| pattern(r"-\s*(\d{1,3})\s*$"));
static HEADER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)^\W*(critical|major|minor)\W*$"));
static LABELLED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*(.*?)\s+-\s+(.*)$"));
static QUOTED: LazyLock<Regex> = LazyLock::new(|| pattern(r#"["“](.*?)["”]"#));

/// The entries of an answer, in their order: `"span" - category - 73` on a scale, or `category - "span"`
/// under a heading with the severity.
pub fn entries(review: &str, scaled: bool) -> Vec<AnswerEntry> {
    if scaled { review.lines().filter_map(scaled_entry).collect() } else { labelled_entries(review) }
}

fn scaled_entry(line: &str) -> Option<AnswerEntry> {
    let parts = SCALED.captures(line)?;
    let points = POINTS.captures(&parts[2]).and_then(|found| found[1].parse().ok());
    Some(AnswerEntry {
        span: parts[1].trim_matches([' ', '"', '“', '”']).to_owned(),
        label: labels::spoken(&parts[2]),
        severity: points.map_or(Severity::Unsaid, Severity::Points),
    })
}

fn labelled_entries(review: &str) -> Vec<AnswerEntry> {
    let mut severity = Severity::Unsaid;
    let mut entries = Vec::new();
    for line in review.lines() {
        if let Some(header) = HEADER.captures(line) {
            severity =
                if header[1].eq_ignore_ascii_case("minor") { Severity::Minor } else { Severity::Major };
        } else if let Some(parts) = LABELLED.captures(line) {
            let quoted: Vec<String> =
                QUOTED.captures_iter(&parts[2]).map(|found| found[1].to_owned()).collect();
            let spans = if quoted.is_empty() { vec![parts[2].to_owned()] } else { quoted };
            let label = labels::spoken(&parts[1]);
            entries.extend(spans.into_iter().map(|span| AnswerEntry { span, label, severity }));
        }
    }
    entries
}

/// The labels of the marked span in an answer: those of its first entry whose span contains the marked one or
/// is contained in it.
///
/// `threshold` is the least number of points that is major. Without such an entry it is `none`.
///
/// ```
/// use tribunal_replication::promptcue::answers::find;
/// let found = find("\"the lab\" - mistranslation - 73", " back to the lab ", Some(52));
/// assert_eq!((found.category.as_str(), found.severity.as_str()), ("mistranslation", "major"));
/// assert_eq!(find("\"elsewhere\" - grammar - 3", "the lab", Some(52)).category, "none");
/// ```
pub fn find(review: &str, marked: &str, threshold: Option<u32>) -> SpanLabels {
    let Some(entry) = entry_about(review, marked, threshold.is_some()) else {
        return SpanLabels { category: labels::NONE.into(), severity: labels::NONE.into() };
    };
    let severity = match (entry.label, entry.severity) {
        (Some(NO_ERROR), _) => NO_ERROR,
        (_, Severity::Major) => "major",
        (_, Severity::Points(points)) if points >= threshold.unwrap_or(0) => "major",
        (_, Severity::Minor | Severity::Points(_)) => "minor",
        (_, Severity::Unsaid) => labels::NONE,
    };
    SpanLabels { category: entry.label.unwrap_or(labels::NONE).into(), severity: severity.into() }
}

/// The first entry whose words hold the marked ones, or stand in them.
fn entry_about(review: &str, marked: &str, scaled: bool) -> Option<AnswerEntry> {
    let marked = marked.trim();
    entries(review, scaled).into_iter().find(|entry| {
        let span = entry.span.trim();
        !span.is_empty() && (span.contains(marked) || marked.contains(span))
    })
}

/// The points of the first entry about the marked span.
pub fn points(review: &str, marked: &str) -> Option<u32> {
    match entry_about(review, marked, true)?.severity {
        Severity::Points(points) => Some(points),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labelled_answers_take_the_header_above() {
        let review = "MQM annotations:\nCritical:\nno-error\nMajor:\naccuracy/omission - \"何立峰指出\"\nMinor:\n\
                      fluency/grammar - \"wäre\" (should be \"war\")";
        let found = find(review, "何立峰指出", None);
        assert_eq!((found.category.as_str(), found.severity.as_str()), ("omission", "major"));
        assert_eq!(find(review, "wäre", None).severity, "minor");
    }

    #[test]
    fn scaled_answers_split_at_the_threshold() {
        let review = "MQM annotations:\n\"I gave a\" - no-error - 10\n\"it is\" - incorrect word order - 51";
        assert_eq!(find(review, " I gave a ", Some(52)).severity, "no-error");
        assert_eq!(find(review, "it is", Some(52)).severity, "minor");
        assert_eq!(find(review, "it is", Some(51)).severity, "major");
        assert_eq!(points(review, "it is"), Some(51));
    }
}
