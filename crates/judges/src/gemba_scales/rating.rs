//! The three scales and their readers of an answer: ours, and GEMBA's own. No model is called here.

use crate::{llm::ResponseFormat, reading::ascii_digits};

/// Scale of a rating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// 0 to 100.
    Sqm,
    /// 1 to 5.
    Stars,
    /// The index of the class, 0 to 4.
    Classes,
}

const NUMBERS: [&str; 5] = ["one", "two", "three", "four", "five"];

/// The classes as the prompt writes them, worst first.
const CLASSES: [&str; 5] = [
    "No meaning preserved",
    "Some meaning preserved, but not understandable",
    "Some meaning preserved and understandable",
    "Most meaning preserved, minor issues",
    "Perfect translation",
];

impl Scale {
    /// The only answers of `strict`.
    #[must_use]
    pub fn form(self) -> ResponseFormat {
        match self {
            Self::Sqm => ResponseFormat::Regex("100|[1-9]?[0-9]".into()),
            Self::Stars => ResponseFormat::Choice(
                NUMBERS.iter().map(|n| format!("{n} star{}", if *n == "one" { "" } else { "s" })).collect(),
            ),
            Self::Classes => ResponseFormat::Choice(CLASSES.map(Into::into).into()),
        }
    }

    /// The rating that is the whole answer.
    #[must_use]
    pub fn read(self, answer: &str) -> Option<f64> {
        let text = plain(answer);
        match self {
            Self::Sqm => text
                .strip_suffix("/100")
                .unwrap_or(&text)
                .parse()
                .ok()
                .filter(|score| (0.0..=100.0).contains(score)),
            Self::Stars => read_stars(&text),
            Self::Classes => index(CLASSES.iter().position(|class| class.to_lowercase() == text)?),
        }
    }

    /// The reason why an answer without a rating cannot be used.
    #[must_use]
    pub fn missing(self) -> &'static str {
        match self {
            Self::Sqm => "not a number of 0 to 100",
            Self::Stars => "not one to five stars",
            Self::Classes => "not one of the five classes",
        }
    }
}

/// Lower case, without the marks that models put around a rating.
fn plain(answer: &str) -> String {
    let around = |c: char| c.is_whitespace() || "\"'`*.“”[]".contains(c);
    let stars = answer.trim();
    if !stars.is_empty() && stars.chars().all(|c| c == '*') {
        return stars.into();
    }
    answer.trim_matches(around).to_lowercase()
}

fn read_stars(text: &str) -> Option<f64> {
    for star in ['*', '★', '⭐'] {
        let n = text.chars().filter(|c| *c == star).count();
        if (1..=5).contains(&n) && text.chars().count() == n {
            return index(n);
        }
    }
    let number = text.strip_suffix("stars").or(text.strip_suffix("star")).unwrap_or(text).trim_end();
    let at = NUMBERS.iter().position(|word| *word == number).map(|at| at + 1);
    index(at.or_else(|| number.parse().ok()).filter(|n| (1..=5).contains(n))?)
}

fn index(n: usize) -> Option<f64> {
    u8::try_from(n).ok().map(f64::from)
}

/// The stars that GEMBA takes from an answer: the one number on which all its patterns agree.
///
/// Source: `gemba/prompt.py`, `validate_stars`: the number of `*` and of `★`, a number word between spaces or
/// a digit before `star`, and the only run of digits.
#[must_use]
pub fn stars_as_code(answer: &str) -> Option<f64> {
    let text = format!(" {} ", answer.to_lowercase()).replace('\n', " ");
    let star_rows = ['*', '★'].map(|star| text.matches(star).count()).into_iter().filter(|n| *n > 0);
    let named = NUMBERS
        .iter()
        .zip(1..)
        .filter(|(word, n)| text.contains(&format!(" {word} ")) || text.contains(&format!("{n} star")));
    let digits = read_digits(&text);
    let mut found: Vec<usize> = star_rows.chain(named.map(|(_, n)| n)).chain(digits).collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [n @ 1..=5] => index(n),
        _ => None,
    }
}

/// The only run of digits, of any size.
fn read_digits(text: &str) -> Option<usize> {
    let text = ascii_digits(text);
    let mut runs = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    match (runs.next()?, runs.next()) {
        (run, None) => Some(run.parse().unwrap_or(usize::MAX)),
        _ => None,
    }
}

/// The class that GEMBA takes from an answer: the only one whose words are in it, in any case.
///
/// Source: `gemba/prompt.py`, `parse_classes`.
#[must_use]
pub fn class_as_code(answer: &str) -> Option<f64> {
    let answer = answer.to_lowercase();
    let mut found = (0..CLASSES.len()).filter(|n| answer.contains(&CLASSES[*n].to_lowercase()));
    match (found.next(), found.next()) {
        (Some(n), None) => index(n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(read: impl Fn(&str) -> Option<f64>, answer: &str, expected: Option<f64>) {
        assert_eq!(read(answer), expected, "{answer}");
    }

    #[test]
    fn ratings_that_are_the_whole_answer() {
        let sqm = |answer: &str| Scale::Sqm.read(answer);
        for (answer, expected) in [
            ("85", Some(85.0)),
            (" 85.5.\n", Some(85.5)),
            ("95/100", Some(95.0)),
            ("\"0\"", Some(0.0)),
            ("101", None),
            ("-1", None),
            ("Score: 85", None),
            ("nan", None),
            ("", None),
        ] {
            check(sqm, answer, expected);
        }
        let stars = |answer: &str| Scale::Stars.read(answer);
        for (answer, expected) in [
            ("4", Some(4.0)),
            ("Four stars.", Some(4.0)),
            ("1 star", Some(1.0)),
            ("★★★", Some(3.0)),
            ("*****", Some(5.0)),
            ("⭐⭐", Some(2.0)),
            ("six stars", None),
            ("0", None),
            ("four or five stars", None),
            ("★★★★★★", None),
            ("", None),
        ] {
            check(stars, answer, expected);
        }
        let class = |answer: &str| Scale::Classes.read(answer);
        check(class, "\"Perfect translation\"", Some(4.0));
        check(class, "no meaning preserved.", Some(0.0));
        check(class, "Some meaning preserved", None);
    }

    #[test]
    fn what_strict_can_say_is_read() {
        for scale in [Scale::Stars, Scale::Classes] {
            let ResponseFormat::Choice(answers) = scale.form() else { panic!("a choice") };
            let first = if scale == Scale::Stars { 1.0 } else { 0.0 };
            let ratings: Vec<f64> = answers.iter().map(|a| scale.read(a).unwrap()).collect();
            assert_eq!(ratings, [0.0, 1.0, 2.0, 3.0, 4.0].map(|n| n + first));
        }
    }

    #[test]
    fn ratings_that_gemba_finds() {
        for (answer, expected) in [
            ("Five stars", Some(5.0)),
            ("4 stars", Some(4.0)),
            ("3", Some(3.0)),
            ("３", Some(3.0)),
            ("★★", Some(2.0)),
            ("I give it four stars: 4", Some(4.0)),
            ("**", Some(2.0)),
            ("**4 stars**", Some(4.0)),
            ("four stars, not five stars", None),
            ("10", None),
            ("five", Some(5.0)),
            ("five: perfect", None),
            ("", None),
        ] {
            check(stars_as_code, answer, expected);
        }
        check(class_as_code, "Class: \"perfect translation\".", Some(4.0));
        check(class_as_code, "No meaning preserved, or perfect translation", None);
        check(class_as_code, "Fine", None);
    }
}
