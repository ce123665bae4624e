//! Ratings as answers: what `strict` allows, and the reader of an answer that is the rating and nothing else.
//! (GEMBA's reader of a number anywhere in an answer is `number` of `gemba_ratings` in crates/replication.)

use serde::Deserialize;

use crate::{
    Result,
    llm::ResponseFormat,
    prompt::{File, Prompts},
    reading, setup,
};

/// An answer that holds one rating.
#[derive(Clone, Copy, Debug)]
pub enum Rating {
    /// `{"score": N}` with a number from 0 to 100.
    Score { schema: File },
    /// `{"score": N, "reasoning": "..."}` with a whole number from 1 to 10.
    ReasonedScore { schema: File },
    /// A number from 0 to 100.
    Number,
    /// 1 to 5.
    Stars,
    /// The index of the class, 0 to 4.
    Classes,
}

/// The numbers from 0 to 100.
pub const PERCENT: &str = "100|[1-9]?[0-9]";

pub const NUMBERS: [&str; 5] = ["one", "two", "three", "four", "five"];

/// The classes as the prompt writes them, worst first.
pub const CLASSES: [&str; 5] = [
    "No meaning preserved",
    "Some meaning preserved, but not understandable",
    "Some meaning preserved and understandable",
    "Most meaning preserved, minor issues",
    "Perfect translation",
];

impl Rating {
    /// The file with the schema of the answer.
    pub fn schema(self) -> Option<File> {
        match self {
            Self::Score { schema } | Self::ReasonedScore { schema } => Some(schema),
            Self::Number | Self::Stars | Self::Classes => None,
        }
    }

    /// The only answers of `strict`.
    ///
    /// # Errors
    /// Those of [`Prompts::schema`].
    pub fn form(self, prompts: &Prompts) -> setup::Result<ResponseFormat> {
        Ok(match self {
            Self::Score { schema } | Self::ReasonedScore { schema } => {
                ResponseFormat::json(prompts.schema(schema)?)
            }
            Self::Number => ResponseFormat::Regex(PERCENT.into()),
            Self::Stars => ResponseFormat::Choice(
                NUMBERS.iter().map(|n| format!("{n} star{}", if *n == "one" { "" } else { "s" })).collect(),
            ),
            Self::Classes => ResponseFormat::Choice(CLASSES.map(Into::into).into()),
        })
    }

    /// The rating that is the whole answer.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] or [`crate::Error::Unparsable`].
    pub fn read(self, answer: &str) -> Result<f64> {
        let text = plain(answer);
        let (rating, missing) = match self {
            Self::Score { .. } => return read_score(answer),
            Self::ReasonedScore { .. } => return read_reasoned_score(answer),
            Self::Number => (read_number(&text), "not a number of 0 to 100"),
            Self::Stars => (read_stars(&text), "not one to five stars"),
            Self::Classes => (read_class(&text), "not one of the five classes"),
        };
        rating.ok_or_else(|| reading::unusable(answer, missing))
    }
}

fn read_score(answer: &str) -> Result<f64> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        score: f64,
    }
    let Answer { score } = reading::json(answer)?;
    if (0.0..=100.0).contains(&score) {
        return Ok(score);
    }
    Err(reading::unusable(answer, &format!("score `{score}` is not in 0 to 100")))
}

fn read_reasoned_score(answer: &str) -> Result<f64> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        score: i64,
        #[serde(rename = "reasoning")]
        _reasoning: String,
    }
    let Answer { score, .. } = reading::json(answer)?;
    if (1..=10).contains(&score) {
        return Ok(score as f64);
    }
    Err(reading::unusable(answer, &format!("score `{score}` is not in 1 to 10")))
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

fn read_number(text: &str) -> Option<f64> {
    let number = text.strip_suffix("/100").unwrap_or(text);
    number.parse().ok().filter(|score| (0.0..=100.0).contains(score))
}

fn read_stars(text: &str) -> Option<f64> {
    for star in ['*', '★', '⭐'] {
        let n = text.chars().filter(|c| *c == star).count();
        if (1..=5).contains(&n) && text.chars().count() == n {
            return Some(n as f64);
        }
    }
    let number = text.strip_suffix("stars").or(text.strip_suffix("star")).unwrap_or(text).trim_end();
    let at = NUMBERS.iter().position(|word| *word == number).map(|at| at + 1);
    at.or_else(|| number.parse().ok()).filter(|n| (1..=5).contains(n)).map(|n: usize| n as f64)
}

fn read_class(text: &str) -> Option<f64> {
    CLASSES.iter().position(|class| class.to_lowercase() == text).map(|n| n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    const SCHEMA: File = File { name: "x/form.json", text: "{}" };

    #[test]
    fn ratings_that_are_the_whole_answer() {
        let score = Rating::Score { schema: SCHEMA };
        for (rating, answer, expected) in [
            (score, " {\"score\": 71.5}\n", Some(71.5)),
            (score, "{\"score\": 101}", None),
            (score, "{\"score\": \"71\"}", None),
            (score, "{\"score\": 71, \"why\": 1}", None),
            (score, "71", None),
            (score, "", None),
            (Rating::Number, "85", Some(85.0)),
            (Rating::Number, " 85.5.\n", Some(85.5)),
            (Rating::Number, "95/100", Some(95.0)),
            (Rating::Number, "\"0\"", Some(0.0)),
            (Rating::Number, "101", None),
            (Rating::Number, "-1", None),
            (Rating::Number, "Score: 85", None),
            (Rating::Number, "nan", None),
            (Rating::Number, "", None),
            (Rating::Stars, "4", Some(4.0)),
            (Rating::Stars, "Four stars.", Some(4.0)),
            (Rating::Stars, "1 star", Some(1.0)),
            (Rating::Stars, "★★★", Some(3.0)),
            (Rating::Stars, "*****", Some(5.0)),
            (Rating::Stars, "⭐⭐", Some(2.0)),
            (Rating::Stars, "six stars", None),
            (Rating::Stars, "0", None),
            (Rating::Stars, "four or five stars", None),
            (Rating::Stars, "★★★★★★", None),
            (Rating::Stars, "", None),
            (Rating::Classes, "\"Perfect translation\"", Some(4.0)),
            (Rating::Classes, "no meaning preserved.", Some(0.0)),
            (Rating::Classes, "Some meaning preserved", None),
        ] {
            let read = rating.read(answer);
            assert_eq!(read.as_ref().ok().copied(), expected, "{rating:?} {answer}");
            assert!(matches!(read, Ok(_) | Err(crate::Error::Unparsable(_))), "{rating:?} {answer}");
        }
        assert!(matches!(score.read("I cannot rate this."), Err(crate::Error::Refused(_))));
    }

    #[test]
    fn every_answer_of_strict_is_read() {
        let prompts = Prompts::load(&[], &Settings::default()).unwrap();
        for (rating, first) in [(Rating::Stars, 1.0), (Rating::Classes, 0.0)] {
            let ResponseFormat::Choice(answers) = rating.form(&prompts).unwrap() else { panic!("a choice") };
            let ratings: Vec<f64> = answers.iter().map(|answer| rating.read(answer).unwrap()).collect();
            assert_eq!(ratings, [0.0, 1.0, 2.0, 3.0, 4.0].map(|n| n + first));
        }
    }
}
