//! Units in a text report: the source, the translation with its errors marked, and the errors' explanations.
//! The units to show are selected in `examples`.

use std::fmt::Write;

use super::{
    ReportExamples, TextStyle,
    examples::Contrast,
    marked,
    style::{paint, score, wrapped},
};
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    plain::plain,
    run::Record,
    segment::numbered,
};

/// Largest number of lines of a unit, and of its source or translation.
const LINES: usize = 10;
const TEXT_LINES: usize = 3;

/// Examples of what a judge finds: units with its most certain errors, or else sources whose translations it
/// scores furthest apart, and how much is not shown.
pub fn examples(shown: &ReportExamples, style: TextStyle) -> String {
    let mut parts: Vec<String> = shown.records().map(|record| cut(&unit(record, style), record)).collect();
    let contrasts = shown.contrasts();
    if !contrasts.is_empty() {
        let title = "translations of one source that the judge scores furthest apart:".to_owned();
        parts.push(wrapped([title], style));
        parts.extend(contrasts.into_iter().map(|contrast| side_by_side(contrast, style)));
    }
    let counts = counted(shown);
    parts.extend((!counts.is_empty()).then(|| wrapped(counts, style)));
    parts.join("\n")
}

/// The number of units that are not shown, in sentences.
fn counted(shown: &ReportExamples) -> Vec<String> {
    let mut counts = Vec::new();
    let more = shown.more();
    if more > 0 {
        let qualifier = if shown.names_errors { " with errors or without a verdict" } else { "" };
        counts.push(format!(
            "... and {more} more{qualifier}; `verdicts.jsonl` and `tribunal report` have them all"
        ));
    }
    let (marks, units) = shown.doubtful;
    if marks > 0 {
        counts.push(format!(
            "not shown: {marks} mark{} in {units} translation{}, each with a confidence below {}; `verdicts.jsonl` and \
             `tribunal report` have them",
            if marks == 1 { "" } else { "s" },
            if units == 1 { "" } else { "s" },
            shown.shows_from
        ));
    }
    if let Some(unmarked) = shown.unmarked() {
        counts.push(format!(
            "{unmarked} of {} translations without a marked error",
            shown.units - shown.unjudged
        ));
    }
    counts
}

/// Two translations of one source, each behind its score.
fn side_by_side(contrast: &Contrast, style: TextStyle) -> String {
    let mut out = String::new();
    let Contrast { better, worse } = contrast;
    let doc = Some(better.doc.clone()).filter(|doc| !doc.is_empty());
    let place: Vec<String> = doc.into_iter().chain(better.seg.map(numbered)).collect();
    let _ = writeln!(out, "{}", paint(&plain(&place.join(" · ")), "\x1b[1m", style));
    labelled(&mut out, &better.src_lang.to_string(), &better.source, &[], Side::Source, style);
    for record in [better, worse] {
        let text = format!("{}: {}", record.system, record.hypothesis);
        labelled(&mut out, &score(record.score), &text, &[], Side::Target, style);
    }
    out
}

/// A unit in as many lines as are shown of one, and how to see the rest.
fn cut(unit: &str, record: &Record) -> String {
    let name = record.seg.map_or_else(|| format!("'{}'", record.doc), |seg| (seg + 1).to_string());
    let system = plain(&record.system);
    let note = format!("  ... (the rest: `tribunal show DIR {name} --system '{system}'`)");
    let mut lines: Vec<&str> = unit.lines().collect();
    if lines.len() > LINES {
        lines.splice(LINES - 1.., [&note[..]]);
    }
    lines.join("\n") + "\n"
}

fn unit(record: &Record, style: TextStyle) -> String {
    let mut out = String::new();
    let out = &mut out;
    let mut title = record.system.clone();
    if !record.doc.is_empty() {
        let _ = write!(title, " · {}", record.doc);
    }
    if let Some(seg) = record.seg {
        let _ = write!(title, " · {}", numbered(seg));
    }
    let _ = writeln!(out, "{}  {}", paint(&plain(&title), "\x1b[1m", style), verdict(record));
    labelled(out, &record.src_lang.to_string(), &record.source, &record.errors, Side::Source, style);
    judged(out, record, style);
    std::mem::take(out)
}

/// A source and its translations by several systems, each with its verdict.
pub fn of_source(records: &[Record], style: TextStyle) -> String {
    let mut out = String::new();
    let Some(first) = records.first() else { return out };
    let doc = Some(first.doc.clone()).filter(|doc| !doc.is_empty());
    let place: Vec<String> = doc.into_iter().chain(first.seg.map(numbered)).collect();
    let _ = writeln!(out, "{}", paint(&plain(&place.join(" · ")), "\x1b[1m", style));
    labelled(&mut out, &first.src_lang.to_string(), &first.source, &[], Side::Source, style);
    for record in records {
        let _ = writeln!(out, "\n{}  {}", paint(&plain(&record.system), "\x1b[1m", style), verdict(record));
        judged(&mut out, record, style);
    }
    out
}

/// The score with its interval, or the status of a missing one.
fn verdict(record: &Record) -> String {
    let mut verdict = match record.score {
        Some(value) => format!("score {}{}", score(Some(value)), record.interval_text()),
        None => format!("no verdict: {}", record.status.name()),
    };
    if let Some(quality) = record.quality_score.filter(|_| record.quality_score != record.score) {
        let _ = write!(verdict, ", quality {quality:.0}");
    }
    verdict
}

/// The translation with its errors marked, and what is said about it.
fn judged(out: &mut String, record: &Record, style: TextStyle) {
    labelled(out, &record.tgt_lang.to_string(), &record.hypothesis, &record.errors, Side::Target, style);
    if let Some(warning) = &record.warning {
        labelled(out, "warning", warning, &[], Side::Target, style);
    }
    if let Some(reason) = &record.reason {
        labelled(out, "why", reason, &[], Side::Target, style);
    }
    for error in &record.errors {
        one_error(out, error, style);
    }
}

/// Width of the labels before texts.
const LABEL: usize = 12;

fn labelled(out: &mut String, label: &str, text: &str, errors: &[ErrorSpan], side: Side, style: TextStyle) {
    let mut lines =
        marked::lines(text, errors, side, style.width.saturating_sub(LABEL + 2).max(20), style.colour);
    if lines.len() > TEXT_LINES {
        let first = errors.iter().filter(|error| error.side == side).filter_map(|error| error.start).min();
        lines = around(&lines, text, first);
    }
    for (i, line) in lines.iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        let _ = writeln!(out, "  {label:<LABEL$}{line}");
    }
}

/// The lines of a long text that are shown: the first ones, or those from the first error on.
fn around(lines: &[String], text: &str, first: Option<usize>) -> Vec<String> {
    let share = first.unwrap_or(0) as f64 / text.chars().count().max(1) as f64;
    // Lines are about equally long; one before, so that the error is not missed.
    let from = ((share * lines.len() as f64) as usize).saturating_sub(1).min(lines.len() - TEXT_LINES);
    let mut shown = lines[from..from + TEXT_LINES].to_vec();
    if from > 0 {
        shown[0] = format!("… {}", shown[0]);
    }
    if from + TEXT_LINES < lines.len() {
        shown[TEXT_LINES - 1] += " …";
    }
    shown
}

fn one_error(out: &mut String, error: &ErrorSpan, style: TextStyle) {
    let severity = match error.severity {
        Severity::Critical => "critical",
        Severity::Major => "major",
        Severity::Minor => "minor",
        Severity::Neutral => "neutral",
    };
    let pad = " ".repeat(LABEL - severity.len());
    let explanation = error.explanation.as_deref().filter(|text| !text.trim().is_empty());
    // A judge that neither explains nor classifies has said nothing with it.
    let is_named = error.category != "other" || explanation.is_some() || error.span.is_empty();
    let mut line = if is_named { plain(&error.category).into_owned() } else { String::new() };
    if !error.span.is_empty() {
        let _ =
            write!(line, "{}`{}`", if is_named { " " } else { "" }, plain(&error.span).replace('\n', "⏎"));
        let place = match (error.side, error.start) {
            (_, None) => " (not in the text)",
            (Side::Source, _) => " in the source",
            (Side::Target, _) if error.ambiguous => " (occurs more than once)",
            (Side::Target, _) => "",
        };
        line += place;
    }
    if error.times > 1 {
        let _ = write!(line, " (named {} times)", error.times);
    }
    let severity = paint(severity, marked::ansi(error.severity), style);
    for (i, line) in marked::wrapped(&line, style.width.saturating_sub(LABEL + 2).max(20)).iter().enumerate()
    {
        let label = if i == 0 { format!("{severity}{pad}") } else { " ".repeat(LABEL) };
        let _ = writeln!(out, "  {label}{line}");
    }
    if let Some(explanation) = explanation {
        labelled(out, "", explanation, &[], Side::Target, style);
    }
    if let Some(suggestion) = &error.suggestion {
        labelled(out, "", &format!("suggestion: {suggestion}"), &[], Side::Target, style);
    }
}
