//! Raters' errors in the words of the prompt: the targets of a tuned model. No answer is written here.
//!
//! Categories of raters that the prompt does not have are replaced by the nearest that it has. Source errors
//! are no fault of the translation and neutral errors cost nothing, so neither is a target. A non-translation
//! is critical: it weighs as much as the whole scale.

use crate::{
    mqm::{ErrorSpan, Severity, Side},
    segment::Segment,
    shots::ShotError,
};

/// The types that the prompt offers, besides omissions.
const TYPES: &[(&str, &[&str])] = &[
    ("accuracy", &["addition", "mistranslation", "untranslated text", "wrong language"]),
    ("fluency", &["character encoding", "grammar", "inconsistency", "punctuation", "register", "spelling"]),
    ("style", &["awkward"]),
    ("terminology", &["inappropriate for context", "inconsistent use"]),
];

const OMISSION: &str = "accuracy/omission";

/// The errors of a unit in the order of the target answer: along the translation, then omissions along the
/// source. Where there are more than `most`, the worst remain.
pub fn errors(group: &[Segment], errors: &[Vec<ErrorSpan>], most: usize) -> Vec<ShotError> {
    let mut taught: Vec<((Side, usize, usize), ShotError)> = Vec::new();
    for (idx, (segment, errors)) in group.iter().zip(errors).enumerate() {
        for error in errors {
            if let Some((side, start, error)) = one(segment, error) {
                taught.push(((side, idx, start), error));
            }
        }
    }
    taught.sort_by_key(|(_, error)| error.severity);
    taught.truncate(most);
    taught.sort_by_key(|(place, _)| *place);
    taught.dedup_by(|a, b| a.0 == b.0 && a.1.span == b.1.span && a.1.category == b.1.category);
    taught.into_iter().map(|(_, error)| error).collect()
}

/// One error with its side and its place there; `None` where it is no target.
fn one(segment: &Segment, error: &ErrorSpan) -> Option<(Side, usize, ShotError)> {
    if error.severity == Severity::Neutral || ["no-error", "source error"].contains(&error.category.as_str())
    {
        return None;
    }
    let (start, end) = (error.start?, error.end?);
    let text = if error.side == Side::Source { &segment.source } else { &segment.hypothesis };
    let marked: String = text.chars().skip(start).take(end.saturating_sub(start)).collect();
    let span = marked.trim();
    if span.is_empty() {
        return None;
    }
    let category = if error.side == Side::Source { OMISSION.to_owned() } else { in_target(&error.category) };
    let severity = if error.category == "non-translation" { Severity::Critical } else { error.severity };
    let error = ShotError {
        category,
        span: span.to_owned(),
        severity,
        explanation: String::new(),
        points: std::collections::BTreeMap::new(),
    };
    Some((side_of(&error), start, error))
}

fn side_of(error: &ShotError) -> Side {
    if error.category == OMISSION { Side::Source } else { Side::Target }
}

/// The prompt's nearest category for an error that is marked in the translation. An omission marked there
/// shows where something is missing, for which the prompt has no category: the marked text counts as wrong.
fn in_target(category: &str) -> String {
    let (top, kind) = category.split_once('/').unwrap_or((category, ""));
    let Some((_, kinds)) = TYPES.iter().find(|(name, _)| *name == top) else {
        return "other/other".to_owned();
    };
    let near = match (top, kind) {
        (_, kind) if kinds.contains(&kind) => kind,
        ("accuracy", "source language fragment") => "untranslated text",
        ("accuracy", _) => "mistranslation",
        ("style", _) => "awkward",
        ("terminology", _) => "inappropriate for context",
        _ => "grammar",
    };
    format!("{top}/{near}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::lang::parse_pair;

    fn segment(source: &str, hypothesis: &str) -> Segment {
        Segment {
            system: "A".into(),
            doc: "d".into(),
            ..Segment::new(parse_pair("en-de").unwrap(), source, hypothesis)
        }
    }

    fn error(category: &str, severity: Severity, side: Side, start: usize, end: usize) -> ErrorSpan {
        let error = ErrorSpan::new(category, "", severity);
        ErrorSpan { side, start: Some(start), end: Some(end), ..error }
    }

    fn shown(taught: &[ShotError]) -> Vec<String> {
        taught.iter().map(|e| format!("{} {} `{}`", e.severity, e.category, e.span)).collect()
    }

    #[test]
    fn raters_words_become_the_prompts() {
        use Severity::{Major, Minor, Neutral};
        use Side::{Source, Target};
        let group = [segment("one thing more", "ein Ding mehr da")];
        let marked = vec![
            error("Accuracy/Omission", Major, Source, 4, 9),
            error("Style/Bad sentence structure", Minor, Target, 9, 13),
            error("Locale convention/Date format", Minor, Target, 0, 3),
            error("Non-translation!", Major, Target, 0, 16),
            error("Source issue", Minor, Source, 0, 3),
            error("Fluency/Grammar", Neutral, Target, 0, 3),
            error("Accuracy/Source language fragment", Minor, Target, 3, 8),
            error("Accuracy/Omission", Minor, Target, 13, 14),
        ];
        let taught = errors(&group, std::slice::from_ref(&marked), 10);
        assert_eq!(
            shown(&taught),
            [
                "critical other/other `ein Ding mehr da`",
                "minor other/other `ein`",
                "minor accuracy/untranslated text `Ding`",
                "minor style/awkward `mehr`",
                "major accuracy/omission `thing`",
            ]
        );
        let worst = errors(&group, &[marked], 2);
        assert_eq!(
            shown(&worst),
            ["critical other/other `ein Ding mehr da`", "major accuracy/omission `thing`"]
        );
    }
}
