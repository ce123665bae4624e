//! Free text of EAPrompt: errors listed under `Major errors` and `Minor errors`, a score in its tag, two
//! counts. Nothing is weighed. The authors published no reader; this is ours.

use crate::{
    Error, Result,
    mqm::{ErrorSpan, Severity},
    reading,
};

const QUOTES: &[(char, char)] = &[('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('「', '」'), ('‘', '’')];

/// The errors listed in an answer; an answer in prose has none.
///
/// # Errors
/// [`Error::Refused`], or [`Error::Unparsable`] for an empty answer.
pub fn read(answer: &str) -> Result<Vec<ErrorSpan>> {
    let lines = lines(answer)?;
    Ok(lines.iter().filter_map(|(severity, line)| entry(plain(line), *severity)).collect())
}

/// The errors of an answer whose lists are counted: a numbered line without a quoted span is an error too.
///
/// # Errors
/// Those of [`read`], and [`Error::Unparsable`] for an answer without lists.
pub fn count(answer: &str) -> Result<Vec<ErrorSpan>> {
    if !answer.lines().any(|line| header(plain(line)).is_some()) {
        return Err(reading::unusable(answer, "no list of major or minor errors"));
    }
    let unnamed = |severity, line: &str| {
        is_numbered(line).then(|| ErrorSpan::new("other", "", severity).explained(plain(line)))
    };
    let lines = lines(answer)?;
    let errors = lines
        .iter()
        .filter_map(|(severity, line)| entry(plain(line), *severity).or_else(|| unnamed(*severity, line)));
    Ok(errors.collect())
}

/// The lines of the lists, each with the list's severity.
fn lines(answer: &str) -> Result<Vec<(Severity, &str)>> {
    let answer = answer.rsplit_once("</think>").map_or(answer, |(_thoughts, answer)| answer);
    let refusal = reading::unusable(answer, "an empty answer");
    if answer.trim().is_empty() || matches!(refusal, Error::Refused(_)) {
        return Err(refusal);
    }
    let mut listed = Vec::new();
    let mut list = None;
    for line in answer.lines().filter(|line| !plain(line).is_empty()) {
        let line = match header(plain(line)) {
            Some((severity, rest)) => {
                list = Some(severity);
                rest
            }
            None => line,
        };
        // A concluding paragraph ends the lists.
        let text = plain(line);
        if text.to_lowercase().starts_with("based on the above") || text.starts_with("<score>") {
            list = None;
        }
        listed.extend(list.map(|severity| (severity, line)));
    }
    Ok(listed)
}

/// `(1)`, `1.` or `1)`, and something behind it that is not `None`.
fn is_numbered(line: &str) -> bool {
    let line = line.trim();
    let behind = line.trim_start_matches('(').trim_start_matches(|c: char| c.is_ascii_digit());
    let text = plain(line);
    behind.len() < line.trim_start_matches('(').len()
        && behind.starts_with(['.', ')'])
        && !text.is_empty()
        && !["none", "no errors", "n/a"].contains(&text.trim_end_matches('.').to_lowercase().as_str())
}

/// `Major errors:` and what follows on its line.
fn header(line: &str) -> Option<(Severity, &str)> {
    let lower = line.to_ascii_lowercase();
    let severity = [Severity::Major, Severity::Minor].into_iter().find(|s| lower.starts_with(s.name()))?;
    let tail = &line[severity.name().len()..];
    let tail = ["errors", "error"].iter().find_map(|w| cut(tail.trim_start(), w)).unwrap_or(tail);
    let tail = tail.trim_start_matches('*');
    let behind = tail.strip_prefix([':', '：']);
    behind.or_else(|| tail.trim().is_empty().then_some("")).map(plain).map(|tail| (severity, tail))
}

fn cut<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word)).map(|_| &text[word.len()..])
}

/// `"span" - Category`, or `Category - "span"`.
fn entry(line: &str, severity: Severity) -> Option<ErrorSpan> {
    let (at, open) = line.char_indices().find(|(_, c)| QUOTES.iter().any(|(left, _)| left == c))?;
    let (_, close) = QUOTES.iter().find(|(left, _)| *left == open)?;
    let body = &line[at + open.len_utf8()..];
    let proper = body.find(|c: char| c == *close || (open == '„' && c == '”'));
    // The authors' own examples close a straight quote with a curly one.
    let end = proper.or_else(|| body.find(['"', '”']).filter(|_| "\"“„".contains(open)))?;
    let behind = &body[end + body[end..].chars().next().map_or(0, char::len_utf8)..];
    let dashes = |text: &str| -> String {
        text.trim_matches(|c: char| c.is_whitespace() || "-–—:*()".contains(c)).to_owned()
    };
    let names = [dashes(behind), dashes(&line[..at])];
    let name = names.iter().find(|name| !name.is_empty()).map_or("other", String::as_str);
    // Of `Mistranslation. It should be ...` the category is the first part.
    let (name, why) = name.split_once(['.', ';', ':', '(']).unwrap_or((name, ""));
    Some(ErrorSpan::new(category(name.trim()), &body[..end], severity).explained(dashes(why)))
}

/// The figure writes `Awkward Style` for style/awkward, and terminology without its type.
pub fn category(name: &str) -> &str {
    if name.eq_ignore_ascii_case("awkward style") { "style/awkward" } else { name }
}

/// A line without number, bullet and emphasis.
fn plain(line: &str) -> &str {
    let line = line.trim().trim_start_matches(['#', '*', '-', '•']).trim();
    let numbered = line.strip_prefix('(').unwrap_or(line);
    let behind = numbered.trim_start_matches(|c: char| c.is_ascii_digit());
    let line = if behind.len() < numbered.len() {
        behind.strip_prefix(") ").or(behind.strip_prefix(". ")).unwrap_or(line)
    } else {
        line
    };
    line.trim_start_matches("**").trim_end_matches("**").trim()
}

/// The last `<score>N</score>`, at most 0.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`].
pub fn score(answer: &str) -> Result<f64> {
    let inside = answer.rsplit_once("<score>").and_then(|(_, tail)| tail.split_once("</score>"));
    let Some((number, _)) = inside else { return Err(reading::unusable(answer, "no `<score>N</score>`")) };
    // Models write the sign with a dash of their own.
    match number.trim().replace(['−', '–'], "-").parse::<f64>() {
        Ok(score) if score.is_finite() && score <= 0.0 => Ok(0.0 + score),
        _ => Err(reading::unusable(answer, &format!("score `{}` is not a number up to 0", number.trim()))),
    }
}

/// `x, x` in the last line of an answer.
///
/// # Errors
/// Those of [`counts`].
pub fn last_counts(answer: &str) -> Result<[usize; 2]> {
    counts(answer.trim_end().lines().last().unwrap_or_default())
}

/// `x, x`: the numbers of major and minor errors.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`] when the answer is anything else.
pub fn counts(answer: &str) -> Result<[usize; 2]> {
    let wrong = || reading::unusable(answer, "not two counts");
    let around = |c: char| c.is_whitespace() || "\"'`*.“”".contains(c);
    let (major, minor) = answer.trim_matches(around).split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u8>().map(usize::from).map_err(|_| wrong());
    Ok([number(major)?, number(minor)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(answer: &str) -> String {
        match read(answer) {
            Ok(errors) => errors
                .iter()
                .map(|e| format!("{} {} `{}`", e.severity, e.category, e.span))
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lists() {
        let check = |answer: &str, expected: &str| assert_eq!(seen(answer), expected, "{answer}");
        check(
            "Major errors:\n(1) \"Sie\" - Mistranslation\n(2) \"Dear\" - Untranslated text\nMinor errors:\n(1) \"im \
             Inneren\" - Awkward Style\nBased on the above evaluation, \"it\" - is -11.\n<score>-11</score>",
            "major accuracy/mistranslation `Sie`; major accuracy/untranslated text `Dear`; minor style/awkward `im Inneren`",
        );
        check(
            "**Major Errors:**\n1. \"a\" – Grammar: wrong case\n**Minor Errors:** None",
            "major fluency/grammar `a`",
        );
        check("### Minor errors\n- Mistranslation: “a b”", "minor accuracy/mistranslation `a b`");
        check("Major errors: None\nMinor errors: None", "");
        check("The translation is \"perfect\".", "");
        check("", "an empty answer: ``");
        check("I'm sorry, I cannot.", "the model declined: I'm sorry, I cannot.");
    }

    #[test]
    fn lists_that_are_counted() {
        let n = |answer: &str| count(answer).map(|errors| errors.len()).map_err(|e| e.to_string());
        assert_eq!(
            n("Major errors:\n(1) “BEIJING” – Omission\n(2) subjects – Mistranslation\nMinor errors:\nNone"),
            Ok(2)
        );
        assert_eq!(n("Major errors: None\nMinor errors:\n1. None"), Ok(0));
        assert_eq!(n("Minor errors:\n(4) \"b” – Agreement'\n\nGood otherwise."), Ok(1));
        assert_eq!(n("It reads well."), Err("no list of major or minor errors: `It reads well.`".into()));
    }

    #[test]
    fn scores() {
        let check =
            |answer: &str, expected: Option<f64>| assert_eq!(score(answer).ok(), expected, "{answer}");
        check("so -5-1=-6.\n<score>-6</score>", Some(-6.0));
        check("<score>x</score> no: <score> −7.5 </score>", Some(-7.5));
        check("<score>0</score>", Some(0.0));
        check("<score>6</score>", None);
        check("<score>nan</score>", None);
        check("The score is -6", None);
    }

    #[test]
    fn two_counts() {
        let check = |answer: &str, expected: Option<[usize; 2]>| {
            assert_eq!(counts(answer).ok(), expected, "{answer}");
        };
        check("2, 5", Some([2, 5]));
        check("\"0, 0\"\n", Some([0, 0]));
        check("2,5.", Some([2, 5]));
        check("2", None);
        check("1, 2, 3", None);
        check("major: 1, minor: 2", None);
        check("-1, 2", None);
        assert_eq!(last_counts("Major errors:\n(1) \"a\" - Grammar\n1, 0\n").unwrap(), [1, 0]);
        assert!(last_counts("Major errors:\nNone").is_err() && last_counts("").is_err());
    }
}
