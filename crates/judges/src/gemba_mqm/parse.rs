//! A reader of free text in GEMBA-MQM's blocks: tolerant of layout where the meaning is plain, and without a
//! score for an answer without blocks. GEMBA's own reader is in [`super::code`]; [`super::blocks`] is for
//! constrained answers.
//!
//! It accepts headers in any case, in markdown emphasis or as headings, with the first entry on the same
//! line; bullets and numbers; `category - "span"`, `[category]-[span]` and a category alone; `none`, `n/a`
//! and `no-error` for an empty block, and as a span for no error at all, unless one of the texts has these
//! words; text before the first header and thoughts up to `</think>`; remarks after the last entry of the
//! last block. Anything else under a header makes the answer unusable.

use crate::{
    Error,
    mqm::{ErrorSpan, Severity, typology},
    reading,
};

const NONE: &[&str] = &["no-error", "no error", "no errors", "none", "n/a", "-", "no-errors", "nothing"];

const QUOTES: &[(char, char)] = &[
    ('"', '"'),
    ('“', '”'),
    ('„', '“'),
    ('«', '»'),
    ('「', '」'),
    ('\'', '\''),
    ('‘', '’'),
    ('[', ']'),
    ('`', '`'),
];

/// Reads an answer about these texts, which determine where a quoted span ends when it contains quotes
/// itself.
///
/// # Errors
/// [`Error::Refused`], or [`Error::Unparsable`] when no block is found or a line of a block is not an entry.
pub fn read(answer: &str, source: &str, target: &str) -> Result<Vec<ErrorSpan>, Error> {
    let answer = answer.rsplit_once("</think>").map_or(answer, |(_thoughts, answer)| answer);
    if is_none(plain(answer)) {
        return Ok(Vec::new());
    }
    let mut errors = Vec::new();
    let mut block: Option<Severity> = None;
    let mut n_lines = 0;
    let mut remarks: Option<&str> = None;
    for line in answer.lines().map(plain).filter(|line| !line.is_empty()) {
        let rest = match header(line) {
            Some((severity, rest)) => {
                (block, n_lines) = (Some(severity), 0);
                rest
            }
            None => line,
        };
        let Some(severity) = block else { continue };
        if rest.is_empty() {
            continue;
        }
        let found = read_line(rest, severity, source, target);
        if let (Some(remark), true) = (remarks, matches!(found, Line::Error(_)) || rest != line) {
            return Err(reading::unusable(remark, "a line between the blocks is not an entry"));
        }
        match found {
            Line::Error(error) => errors.push(error),
            Line::NoError => {}
            Line::Remark if severity == Severity::Minor && n_lines > 0 => remarks = Some(rest),
            Line::Remark => {
                return Err(reading::unusable(rest, &format!("a line under `{severity}` is not an entry")));
            }
        }
        n_lines += 1;
    }
    if block.is_none() {
        return Err(reading::unusable(answer, "no block of critical, major or minor errors"));
    }
    Ok(errors)
}

/// A block's severity and the rest of the header's line.
fn header(line: &str) -> Option<(Severity, &str)> {
    let (name, rest) = line.split_once([':', '：'])?;
    let name = name.trim_matches(|c: char| c == '*' || c.is_whitespace()).to_lowercase();
    let name = name.strip_suffix("errors").or(name.strip_suffix("error")).unwrap_or(&name).trim_end();
    let severity =
        [Severity::Critical, Severity::Major, Severity::Minor].into_iter().find(|s| s.name() == name)?;
    Some((severity, plain(rest)))
}

/// Meaning of a line under a header.
enum Line {
    Error(ErrorSpan),
    NoError,
    Remark,
}

/// An error is the longest known category at the line's start, and its span.
fn read_line(line: &str, severity: Severity, source: &str, target: &str) -> Line {
    if is_none(line) {
        return Line::NoError;
    }
    let mut cuts = line.char_indices().filter(|(_, c)| matches!(c, '-' | '–' | '—' | ':' | '：'));
    let cut = cuts.rfind(|(at, _)| typology::is_known(&line[..*at]));
    let (category, rest) = match cut {
        Some((at, c)) => (&line[..at], line[at + c.len_utf8()..].trim()),
        None if typology::is_known(line) => (line, ""),
        None => return Line::Remark,
    };
    let (span, remark) = unquote(rest, source, target);
    // `non-translation - "no-error"` names no error, unless the text itself has these words.
    if !span.is_empty() && is_none(span) && !target.contains(span) && !source.contains(span) {
        return Line::NoError;
    }
    let error = ErrorSpan::new(category, span, severity).explained(remark);
    if error.category == "no-error" {
        return Line::NoError;
    }
    // As in GEMBA, a non-translation is critical in any block.
    let severity = if error.category == "non-translation" { Severity::Critical } else { error.severity };
    Line::Error(ErrorSpan { severity, ..error })
}

/// The quoted span and what follows it. Of several closing quotes the last one that ends a span of either
/// text, else the last one.
fn unquote<'a>(rest: &'a str, source: &str, target: &str) -> (&'a str, &'a str) {
    let Some(open) = rest.chars().next() else { return ("", "") };
    let Some((_, close)) = QUOTES.iter().find(|(left, _)| *left == open) else { return (rest, "") };
    let body = &rest[open.len_utf8()..];
    let ends: Vec<usize> = body
        .char_indices()
        .filter(|(_, c)| c == close || (*close == '“' && *c == '”'))
        .map(|(at, _)| at)
        .collect();
    let verbatim = |end: &&usize| {
        let span = &body[..**end];
        !span.is_empty() && (target.contains(span) || source.contains(span))
    };
    match ends.iter().rev().find(verbatim).or(ends.last()) {
        Some(end) => {
            let behind = &body[*end + body[*end..].chars().next().map_or(0, char::len_utf8)..];
            (&body[..*end], behind.trim_matches(|c: char| c.is_whitespace() || "-–—:;,.()".contains(c)))
        }
        None => (rest, ""),
    }
}

/// A line without bullet, number, heading marks and emphasis around it.
fn plain(line: &str) -> &str {
    let mut line = line.trim().trim_start_matches('#').trim_start();
    for bullet in ["- ", "* ", "• ", "+ "] {
        line = line.strip_prefix(bullet).unwrap_or(line).trim_start();
    }
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits > 0 {
        let behind = &line[digits..];
        line = behind.strip_prefix(". ").or(behind.strip_prefix(") ")).unwrap_or(line).trim_start();
    }
    line.trim_start_matches("**").trim_end_matches("**").trim()
}

fn is_none(line: &str) -> bool {
    let line = line.trim_matches(|c: char| "*\"'`.[]()".contains(c) || c.is_whitespace()).to_lowercase();
    NONE.contains(&line.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOURCE: &str = "the account holder said \"no\" twice";
    const TARGET: &str = "der Inhaber wäre \"nein\" dir involvement";

    /// The answer's errors, one a line, or the reason why there are none.
    fn seen(answer: &str) -> String {
        match read(answer, SOURCE, TARGET) {
            Ok(errors) => errors
                .iter()
                .map(|e| {
                    let why = e.explanation.as_ref().map_or(String::new(), |x| format!(" ({x})"));
                    format!("{} {} `{}`{why}", e.severity, e.category, e.span)
                })
                .collect::<Vec<_>>()
                .join("; "),
            Err(error @ Error::Refused(_)) => format!("refused: {error}"),
            Err(error) => format!("error: {error}"),
        }
    }

    #[track_caller]
    fn check(answer: &str, expected: &str) {
        assert_eq!(seen(answer), expected, "{answer}");
    }

    #[test]
    fn the_canonical_layout() {
        check(
            "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"involvement\"\naccuracy/omission - \"the \
             account holder\"\nMinor:\nfluency/grammar - \"wäre\"\nfluency/register - \"dir\"\n",
            "major accuracy/mistranslation `involvement`; major accuracy/omission `the account holder`; minor \
             fluency/grammar `wäre`; minor fluency/register `dir`",
        );
        check("Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error", "");
        check("no-error", "");
    }

    #[test]
    fn layouts_that_gemba_misreads() {
        check(
            "**Critical:**\nno-error\n**Major:**\n- style/awkward - \"dir\"\n**Minor:** none",
            "major style/awkward `dir`",
        );
        check("### Major errors:\n1. fluency/grammar: “wäre”", "major fluency/grammar `wäre`");
        check("Major: accuracy/mistranslation - \"dir\"", "major accuracy/mistranslation `dir`");
        check("Critical:\nnone\nMajor:\nnone\nMinor:\nnone", "");
        check(
            "Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error\n\nOverall the translation is good.",
            "",
        );
        check("<think>\nMajor:\nHm.\n</think>\nMajor:\nother - \"dir\"", "major other `dir`");
        check("Minor:\nnon-translation", "critical non-translation ``");
        check("Major:\n[accuracy/mistranslation]-[dir]", "major accuracy/mistranslation `dir`");
        check("Major:\nmistranslation - dir", "major accuracy/mistranslation `dir`");
        check("Major:\naccuracy (omission) - \"the\"", "major accuracy/omission `the`");
        check(
            "Minor:\nfluency/grammar - \"wäre\" (should be war)",
            "minor fluency/grammar `wäre` (should be war)",
        );
    }

    #[test]
    fn a_category_without_an_error() {
        check("Critical:\nno-error\nMajor:\nno-error\nMinor:\nnon-translation - \"no-error\"", "");
        check("Major:\naccuracy/mistranslation - \"no error\"\nother - \"dir\"", "major other `dir`");
        check("Minor:\nno-error - \"dir\"", "");
        let errors =
            read("Major:\naccuracy/mistranslation - \"no error\"", "kein Fehler", "no error").unwrap();
        assert_eq!(errors[0].span, "no error", "the translation's own words");
    }

    #[test]
    fn quotes_inside_a_span() {
        check("Major:\nother - \"wäre \"nein\" dir\"", "major other `wäre \"nein\" dir`");
        check("Major:\nother - \"dir\" instead of \"Ihnen\"", "major other `dir` (instead of \"Ihnen\")");
        check("Major:\nother - \"not there\"", "major other `not there`");
        check("Major:\nother - \"open", "major other `\"open`");
    }

    #[test]
    fn what_cannot_be_used_is_no_verdict() {
        check("", "error: no block of critical, major or minor errors: ``");
        check("It is fine.", "error: no block of critical, major or minor errors: `It is fine.`");
        check("I'm sorry, I can't do that.", "refused: the model declined: I'm sorry, I can't do that.");
        check(
            "Major:\nThe verb is wrong.",
            "error: a line under `major` is not an entry: `The verb is wrong.`",
        );
        check("Minor:\nwords only", "error: a line under `minor` is not an entry: `words only`");
        check(
            "Minor:\nother - \"dir\"\nBut wait.\nother - \"wäre\"",
            "error: a line between the blocks is not an entry: `But wait.`",
        );
        check(
            "Minor:\nno-error\nBut wait.\nMajor: other - \"wäre\"",
            "error: a line between the blocks is not an entry: `But wait.`",
        );
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(answer in "(Major:|Minor: |\\n|- |\"|“|”|\\*\\*|1\\. |other|style/awkward|wäre|高| ){0,24}") {
            let errors = read(&answer, SOURCE, TARGET).unwrap_or_default();
            prop_assert!(errors.iter().all(|e| typology::is_known(&e.category)));
        }

        #[test]
        fn a_canonical_line_is_read_back(from in 0usize..20, len in 1usize..15) {
            let span: String = TARGET.chars().skip(from).take(len).collect();
            let errors = read(&format!("Major:\nfluency/grammar - \"{span}\""), SOURCE, TARGET).unwrap();
            prop_assert_eq!(&errors[0].span, &span);
        }
    }
}
