//! The published code's own reader of an answer and its own score, faults included: an error whose category
//! has two words is lost, and an answer without entries is perfect. It is behaviour to compare with, not to
//! rely on; [`tribunal_judges::rubric_mqm::lines`] is ours. One fault is left out: the code gives 0 to every
//! row that comes without a gold span, so that nothing but its own sets could be scored.
//!
//! Source: trotacodigos/Rubric-MQM at 6221019d, `rmqm_parser/scale_parser.py` and
//! `rmqm_parser/no_scale_parser.py`.

use tribunal_core::mqm::{ErrorSpan, Severity};
use tribunal_judges::rubric_mqm::Scenario;

/// The entries of an answer as error spans, with the code's cost of each as weight.
pub fn read(answer: &str, scenario: Scenario) -> Vec<ErrorSpan> {
    if scenario.scale().is_none() {
        return blocks(answer);
    }
    let entries: Vec<(&str, &str, u32)> = lines(answer).filter_map(scaled_entry).collect();
    let to_error = |(span, category, points): (&str, &str, u32)| ErrorSpan {
        weight: f64::from(points),
        ..ErrorSpan::new(category, span, scenario.severity(points))
    };
    entries.into_iter().map(to_error).collect()
}

/// The score of entries that [`read`] found, on the code's own scale.
///
/// Unit: with points, their sum over -100: 0 is best and higher is better. Else the penalty, at most 25, over
/// 100: the code divides a negative score by -100, so 0 is best and lower is better.
pub fn score(errors: &[ErrorSpan], scenario: Scenario) -> f64 {
    // Of no errors the sum is -0, which would print.
    let sum = 0.0 + errors.iter().map(|e| e.weight).sum::<f64>();
    match scenario.scale() {
        Some(_) => 0.0 - sum / 100.0,
        None => sum.min(25.0) / 100.0,
    }
}

/// Lines as split by Python's `splitlines`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    })
}

/// The value of a decimal digit; full-width digits, which Chinese answers have, are read too, as by the code.
fn digit(c: char) -> Option<u32> {
    match c {
        '０'..='９' => Some(u32::from(c) - u32::from('０')),
        _ => c.to_digit(10),
    }
}

/// The first match of `"span" - word - digits` on a line; spaces around the hyphens are free, and the digits
/// may be followed by other words.
fn scaled_entry(line: &str) -> Option<(&str, &str, u32)> {
    // The leftmost opening quote from which some closing quote leads to a match; of those the nearest.
    line.match_indices('"').find_map(|(open, _)| {
        let body = &line[open + 1..];
        body.match_indices('"').find_map(|(close, _)| {
            let (category, points) = category_and_points(&body[close + 1..])?;
            Some((&body[..close], category, points))
        })
    })
}

/// ` - word - digits` at the start of a text.
fn category_and_points(text: &str) -> Option<(&str, u32)> {
    let word = text.trim_start().strip_prefix('-')?.trim_start();
    let end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
    let digits = word[end..].trim_start().strip_prefix('-')?.trim_start();
    let mut digits = digits.chars().map_while(digit);
    let first = digits.next().filter(|_| end > 0)?;
    let points = digits.fold(first, |points, digit| points.saturating_mul(10).saturating_add(digit));
    Some((&word[..end], points))
}

/// Entries `category - "span"` under `Critical:`, `Major:` or `Minor:`, which stand alone on their line in
/// exactly this spelling.
fn blocks(answer: &str) -> Vec<ErrorSpan> {
    let mut block = None;
    let mut errors = Vec::new();
    for line in lines(answer).map(str::trim) {
        let header = match line {
            "Critical:" => Some((Severity::Critical, 25.0)),
            "Major:" => Some((Severity::Major, 5.0)),
            "Minor:" => Some((Severity::Minor, 1.0)),
            _ => None,
        };
        if header.is_some() {
            block = header;
        } else if let (Some((severity, penalty)), Some((category, span))) = (block, block_entry(line)) {
            let weight = if category.to_lowercase().contains("punctuation") { 0.1 } else { penalty };
            errors.push(ErrorSpan { weight, ..ErrorSpan::new(category, span, severity) });
        }
    }
    errors
}

/// The shortest category before ` - "span"` with a span that is not empty.
fn block_entry(line: &str) -> Option<(&str, &str)> {
    line.match_indices('-').filter(|(at, _)| *at > 0).find_map(|(at, _)| {
        let body = line[at + 1..].trim_start().strip_prefix('"')?;
        let first = body.chars().next()?.len_utf8();
        let end = first + body[first..].find('"')?;
        Some((line[..at].trim_end(), &body[..end]))
    })
}

#[cfg(test)]
mod tests {
    use tribunal_judges::rubric_mqm::scenario::Scale;

    use super::*;

    const DR: Scenario = Scenario::DeepRubric(Scale::Hundred);

    #[track_caller]
    fn check(scenario: Scenario, answer: &str, expected: &str) {
        let errors = read(answer, scenario);
        let shown: Vec<_> = errors
            .iter()
            .map(|e| format!("{} {} `{}` {}", e.severity, e.category, e.span, e.weight))
            .collect();
        assert_eq!(format!("{} = {}", shown.join("; "), score(&errors, scenario)), expected, "{answer}");
    }

    #[test]
    fn lines_with_points() {
        check(DR, "MQM annotations:\n\"a\" - grammar - 42", "minor fluency/grammar `a` 42 = -0.42");
        check(DR, "\"a\"-grammar-52 and more", "major fluency/grammar `a` 52 = -0.52");
        // Two words are no category: the error is lost.
        check(
            DR,
            "\"a\" - untranslated text - 65\n\"b\" - addition - 80",
            "major accuracy/addition `b` 80 = -0.8",
        );
        check(DR, "\"a\" - no-error - 0", " = 0");
        check(DR, "{\"a\": {\"category\": \"grammar\", \"severity\": 50}}", " = 0");
        check(DR, "I'm sorry.", " = 0");
        // The README's example: 356 points are listed, 291 are scored.
        check(
            DR,
            "\"Kim Jong-un\" - mistranslation - 80\n\"Kim Jong-un\" - inconsistency - 63\n\
             \"C位\" - untranslated text - 65\n\"their parents\" - mistranslation - 78\n\
             \"sits on the podium with Kim Jong-un\" - inconsistency - 70",
            "major accuracy/mistranslation `Kim Jong-un` 80; major fluency/inconsistency `Kim Jong-un` 63; \
             major accuracy/mistranslation `their parents` 78; \
             major fluency/inconsistency `sits on the podium with Kim Jong-un` 70 = -2.91",
        );
        check(
            DR,
            "\"a\" - source issue - 50\n\"b\" - incorrect word order - 50\n\"c\" - no-error - 50",
            " = 0",
        );
        // As in Python: digits of full width, and other line ends.
        check(DR, "\"a\" - grammar - ５０", "minor fluency/grammar `a` 50 = -0.5");
        check(
            DR,
            "\"a\" - grammar - 5\r\"b\" - grammar - 6\u{2028}\"c\" - grammar - 7",
            "minor fluency/grammar `a` 5; minor fluency/grammar `b` 6; minor fluency/grammar `c` 7 = -0.18",
        );
        // The regular expression begins at the leftmost quote.
        check(DR, "\"a\" is \"b\" - grammar - 5", "minor fluency/grammar `a\" is \"b` 5 = -0.05");
    }

    #[test]
    fn blocks_without_points() {
        let check = |answer: &str, expected: &str| check(Scenario::Gemba, answer, expected);
        check("Major:\nomission - \"a\"\nMinor:\nno-error", "major accuracy/omission `a` 5 = 0.05");
        check("**Major:**\nomission - \"a\"", " = 0");
        check("major:\nomission - \"a\"", " = 0");
        check(
            "Critical:\naddition - \"a\"\naddition - \"b\"",
            "critical accuracy/addition `a` 25; critical accuracy/addition `b` 25 = 0.25",
        );
        check("Major:\npunctuation - \",\"", "major fluency/punctuation `,` 0.1 = 0.001");
        check("Major:\nstyle-awkward -\"x\" (why)", "major style/awkward `x` 5 = 0.05");
    }
}
