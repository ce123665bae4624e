//! Our reader of RUBRIC-MQM's printed answers, one `"span" - category - 73` a line: it is tolerant of other
//! layouts where the meaning is plain, and has no score for an answer without entries. Answers in blocks of
//! severity are read by [`crate::answers::blocks`].

use crate::{Result, reading};

/// One entry: an error with its points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineEntry<'a> {
    pub span: &'a str,
    pub category: &'a str,
    pub points: u32,
}

/// The errors of an answer; remarks around the entries are skipped.
///
/// # Errors
/// [`crate::Error::Refused`], or [`crate::Error::Unparsable`] when no line is an entry or a
/// `no-error`, or when points are not on the scale.
pub fn read(answer: &str, max: u32) -> Result<Vec<LineEntry<'_>>> {
    let answer = answer.rsplit_once("</think>").map_or(answer, |(_thoughts, answer)| answer);
    let mut entries = Vec::new();
    let (mut says_none, mut is_foreign) = (false, false);
    for line in answer.lines().map(plain) {
        let Some(found) = entry(line) else {
            says_none |= is_none(line);
            // `category - "span"`: an error in another layout.
            is_foreign |= !is_none(line) && line.contains(" - ") && line.contains(['"', '“']);
            continue;
        };
        if is_none(found.category) {
            says_none = true;
        } else if found.points > max || found.points == 0 {
            let reason = format!("severity `{}` is not in 1 to {max}", found.points);
            return Err(reading::unusable(answer, &reason));
        } else {
            entries.push(found);
        }
    }
    if entries.is_empty() && (!says_none || is_foreign) {
        return Err(reading::unusable(answer, "no line reads `\"span\" - category - severity`"));
    }
    Ok(entries)
}

/// `"span" - category - 73`, from the right: a span may hold quotes and hyphens. Unquoted spans are read too.
fn entry(line: &str) -> Option<LineEntry<'_>> {
    let (head, points) = line.rsplit_once(['-', '–', ':'])?;
    let points = points.trim().split('/').next().and_then(|points| points.trim().parse().ok())?;
    let head = head.trim_end();
    let cut = head.rfind('"').or(head.rfind('”')).map(|at| {
        let end = at + head[at..].chars().next().map_or(0, char::len_utf8);
        (&head[..end], &head[end..])
    });
    let (span, category) = match cut {
        Some((span, behind)) => (span, behind.trim_start().strip_prefix(['-', '–', ':'])?),
        None => head.split_once(" - ")?,
    };
    let category = category.trim().trim_matches(|c: char| "*[]'".contains(c));
    let is_name = !category.is_empty() && category.chars().any(char::is_alphabetic);
    is_name.then_some(LineEntry { span: unquoted(span.trim()), category, points })
}

fn unquoted(span: &str) -> &str {
    for (left, right) in [('"', '"'), ('“', '”')] {
        if let Some(inner) = span.strip_prefix(left).and_then(|inner| inner.strip_suffix(right)) {
            return inner;
        }
    }
    span
}

/// A line without bullet, number and emphasis.
fn plain(line: &str) -> &str {
    let mut line = line.trim();
    for bullet in ["- ", "* ", "• "] {
        line = line.strip_prefix(bullet).unwrap_or(line).trim_start();
    }
    let behind = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if behind.len() < line.len() {
        line = behind.strip_prefix(". ").or(behind.strip_prefix(") ")).unwrap_or(line).trim_start();
    }
    line.trim_matches('*').trim()
}

/// `no-error`, alone, after a span or with a remark.
fn is_none(text: &str) -> bool {
    let text = text.to_lowercase().replace("no error", "no-error");
    let last = text.rsplit(" - ").next().unwrap_or(&text);
    let says = |part: &str| part.trim_matches(|c: char| !c.is_alphanumeric()).starts_with("no-error");
    says(&text) || says(last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(answer: &str) -> String {
        match read(answer, 100) {
            Ok(entries) => entries
                .iter()
                .map(|e| format!("`{}` {} {}", e.span, e.category, e.points))
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => error.to_string(),
        }
    }

    #[track_caller]
    fn check(answer: &str, expected: &str) {
        assert_eq!(seen(answer), expected, "{answer}");
    }

    #[test]
    fn the_printed_layout() {
        check(
            "MQM annotations:\n\"involvement\" - mistranslation - 73\n\"the account\" - untranslated text - 59",
            "`involvement` mistranslation 73; `the account` untranslated text 59",
        );
        check("\"a - b\" - incorrect word order - 5", "`a - b` incorrect word order 5");
        check(
            "\"stop-start\" - terminology (inappropriate for context) - 34",
            "`stop-start` terminology (inappropriate for context) 34",
        );
        check("\"say \"no\" twice\" - grammar - 8", "`say \"no\" twice` grammar 8");
        check("- “a” – grammar – 8/100", "`a` grammar 8");
        check("1. **\"a\" - grammar - 8**", "`a` grammar 8");
        check("Using and Porting - incorrect word order - 30", "`Using and Porting` incorrect word order 30");
        check("\"a\" - grammar - 8\n\nExplanation:\n- \"a\" is wrong; see 3-4.", "`a` grammar 8");
    }

    #[test]
    fn no_error_is_an_answer() {
        for answer in [
            "no-error",
            "MQM annotations:\nno-error",
            "\"a b\" - no-error - 0",
            "\"a\" - no-error",
            "No errors.",
            "\"\" - no-error - 1",
        ] {
            check(answer, "");
        }
    }

    #[test]
    fn what_cannot_be_used_is_no_verdict() {
        check("", "no line reads `\"span\" - category - severity`: ``");
        check("I'm sorry, I can't.", "the model declined: I'm sorry, I can't.");
        check(
            "{\"a\": {\"category\": \"grammar\", \"severity\": 7}}",
            "no line reads `\"span\" - category - severity`: `{\"a\": {\"category\": \"grammar\", \"severity\": 7}}`",
        );
        check(
            "Critical:\nno-error\nMajor:\ngrammar - \"a\"",
            "no line reads `\"span\" - category - severity`: `Critical: no-error Major: grammar - \"a\"`",
        );
        check("\"a\" - grammar - 101", "severity `101` is not in 1 to 100: `\"a\" - grammar - 101`");
        check(
            "The translation scores 5 - 10",
            "no line reads `\"span\" - category - severity`: `The translation scores 5 - 10`",
        );
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(answer in "(\"|“|”|a|高| - |-|grammar|no-error|7|73|\\n|\\*|1\\. ){0,24}") {
            for entry in read(&answer, 100).unwrap_or_default() {
                prop_assert!((1..=100).contains(&entry.points));
            }
        }

        #[test]
        fn a_printed_line_is_read_back(span in "[a-zé ,.\"-]{1,12}", points in 1_u32..=100) {
            let answer = format!("\"{span}\" - untranslated text - {points}");
            let entries = read(&answer, 100).unwrap();
            prop_assert_eq!((entries[0].span, entries[0].points), (span.as_str(), points));
        }
    }
}
