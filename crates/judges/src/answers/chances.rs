//! What an answer in JSON could have said in the place of what it says, and with what probability: whether each error
//! is there at all, how severe it is, and the quality score. It reads no answer ([`super::errors`] does), and it does
//! not know what the model would have gone on to say.

use std::ops::Range;

use crate::{
    Error, Panel, Preset, Role, Settings, Stage, expected,
    llm::{Chat, Weighed},
    method::Calls,
    mqm::{ErrorSpan, Severity, weights::Weights},
    setup::{self, Options},
};

/// The questions that it asks: all alternatives are weighed, nothing is written.
pub const EXPECT: Stage = Stage::new("expect");

/// What a score is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scoring {
    /// The quality score, or else the errors.
    pub by_quality: bool,
    /// What is written counts by its probability.
    pub is_expected: bool,
}

impl Scoring {
    /// Values of the option `score` for methods that always ask for both.
    pub const VALUES: &'static [&'static str] = &["errors", "da", "expected", "expected-da"];

    /// What they mean.
    pub const MEANING: &'static str = "what the score is made of: the errors or the quality score as written, the errors by \
                                       their probability, or the mean of the quality score's distribution";

    /// Reads an option `score` of [`Scoring::VALUES`].
    #[must_use]
    pub fn of(options: &Options) -> Self {
        let name = options.get("score");
        Self { by_quality: name.ends_with("da"), is_expected: name.starts_with("expected") }
    }

    /// What is written, in a preset that lets it be.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] outside `strict`, whose layout says what could stand in the place of what is written.
    pub fn check(self, settings: &Settings) -> Result<(), setup::Error> {
        if self.is_expected && settings.preset != Preset::Strict {
            let reason = "probabilities are weighed within the layout of `strict`; hint: use preset `strict`, or leave `score` out";
            return Err(setup::Error::Conflict(reason.into()));
        }
        Ok(())
    }

    /// The calls of a question that names at most so many errors.
    #[must_use]
    pub fn calls(self, max_errors: usize) -> Calls {
        match self {
            Self { is_expected: false, .. } => Calls::exactly(1),
            Self { by_quality: true, .. } => Calls::exactly(2),
            Self { by_quality: false, .. } => Calls { least: 1, typical: 3, most: 1 + 2 * max_errors },
        }
    }
}

/// An answer that a model wrote.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    pub panel: &'a Panel,
    pub chat: &'a Chat,
    /// The answer, which has been read without an error.
    pub text: &'a str,
}

/// How probable an error of the answer was.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Chance {
    /// That there is an error, given all that was written before it.
    there: f64,
    /// Of critical, major and minor, given the error up to its severity.
    severities: [f64; 3],
}

/// The severities of the answer, as they are spelled there.
const SEVERITIES: [Severity; 3] = [Severity::Critical, Severity::Major, Severity::Minor];

impl Written<'_> {
    /// The mean of the quality score's distribution, given the errors as they are written.
    ///
    /// # Errors
    /// What [`expected::percent`] returns.
    pub fn quality(&self) -> Result<f64, Error> {
        let prefix = before_value(self.text, "quality_score").ok_or_else(|| unlike("a quality score"))?;
        expected::percent(self.panel, Role::Annotator, EXPECT.about("quality"), self.chat, prefix)
    }

    /// Writes into each error, in the order of the answer, the penalty that is expected of it.
    ///
    /// # Errors
    /// What the model's `weigh` returns; [`Error::Failed`] when it gives no alternative any probability.
    pub fn weigh(&self, errors: &mut [ErrorSpan], weights: &Weights) -> Result<(), Error> {
        let places = Place::all(self.text);
        if places.len() != errors.len() {
            return Err(unlike(&format!("a list of {} errors", errors.len())));
        }
        for (i, (place, error)) in places.iter().zip(errors).enumerate() {
            let Chance { there, severities } = self.chance(place, i + 1)?;
            let penalty =
                |(severity, chance): (Severity, f64)| chance * weights.penalty(severity, &error.category);
            error.weight = there * SEVERITIES.into_iter().zip(severities).map(penalty).sum::<f64>();
        }
        Ok(())
    }

    fn chance(&self, place: &Place, number: usize) -> Result<Chance, Error> {
        let begins = [place.begins.clone(), place.ends.clone()];
        let shares = self.shares("error", number, place.decision, &begins)?;
        let names = SEVERITIES.map(|severity| format!("{}\"", severity.name()));
        let severities = self.shares("severity", number, place.severity, &names)?;
        let chance = |at: usize| severities.get(at).copied().unwrap_or_default();
        Ok(Chance { there: shares[0], severities: [chance(0), chance(1), chance(2)] })
    }

    /// The share of each alternative behind so many bytes of the answer.
    fn shares(&self, part: &str, number: usize, at: usize, texts: &[String]) -> Result<Vec<f64>, Error> {
        let prefill = format!("{}{}", self.chat.prefill, &self.text[..at]);
        let chat = Chat { prefill, ..self.chat.clone() };
        let weighed = self.panel.weigh(Role::Annotator, EXPECT.about(part).round(number), &chat, texts)?;
        shares(&weighed)
            .filter(|shares| shares.len() == texts.len())
            .ok_or_else(|| Error::Failed(format!("the model gives no {part} any probability")))
    }
}

/// The share of each text among all, by their log-probabilities.
fn shares(weighed: &[Weighed]) -> Option<Vec<f64>> {
    let most = weighed.iter().map(Weighed::logprob).fold(f64::NEG_INFINITY, f64::max);
    let odds: Vec<f64> = weighed.iter().map(|weighed| (weighed.logprob() - most).exp()).collect();
    let total: f64 = odds.iter().sum();
    (most.is_finite() && total.is_finite()).then(|| odds.iter().map(|odds| odds / total).collect())
}

fn unlike(what: &str) -> Error {
    Error::Unparsable(format!("the answer does not have {what} where its layout has it"))
}

/// Where an error stands in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The byte up to which nothing says whether there is an error.
    decision: usize,
    /// What follows there where there is one, up to the first thing that differs between errors.
    begins: String,
    /// What would follow in its place.
    ends: String,
    /// The byte at which its severity begins.
    severity: usize,
}

impl Place {
    /// Those of all errors; none where the text is not an answer of the layout.
    fn all(text: &str) -> Vec<Self> {
        let Some((list, elements)) = elements(text) else { return Vec::new() };
        let end = elements.last().map_or(list.start, |last| last.end);
        // Up to the quality score, where there is one: its digits are no part of the decision.
        let ends = before_value(&text[end..], "quality_score").unwrap_or(text[end..].trim_end());
        let before = std::iter::once(list.start).chain(elements.iter().map(|element| element.end));
        let place = |(decision, element): (usize, &Range<usize>)| {
            let whole = &text[..element.end];
            let at = element.start + whole[element.start..].find(':')? + 1;
            let opening = at + text[at..].find('"')? + 1;
            let severity = element.start + before_value(&whole[element.start..], "severity")?.len() + 1;
            Some(Self {
                decision,
                begins: text[decision..opening].to_owned(),
                ends: ends.to_owned(),
                severity,
            })
        };
        before.zip(&elements).map(place).collect::<Option<_>>().unwrap_or_default()
    }
}

/// A JSON text up to the value of the last property of this name.
fn before_value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let key = format!("\"{name}\":");
    let at = text.rfind(&key)? + key.len();
    let value = text[at..].trim_start();
    Some(&text[..text.len() - value.len()])
}

/// The inside of the first list of a JSON text, and where its objects stand.
fn elements(text: &str) -> Option<(Range<usize>, Vec<Range<usize>>)> {
    let (mut in_string, mut is_escaped, mut depth) = (false, false, 0_usize);
    let (mut list, mut begun, mut found) = (None, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match (byte, list) {
            (b'"', _) => in_string = true,
            (b'[', None) => list = Some(at + 1),
            (b'{', Some(_)) => {
                depth += 1;
                begun = if depth == 1 { at } else { begun };
            }
            (b'}', Some(_)) if depth == 1 => {
                depth = 0;
                found.push(begun..at + 1);
            }
            (b'}', Some(_)) => depth = depth.checked_sub(1)?,
            (b']', Some(start)) if depth == 0 => return Some((start..at, found)),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_found_where_they_begin() {
        let text = r#"{"errors": [{"error_category": "style", "error_span": "a ]}\" b", "severity": "major"}, {"error_category": "other", "severity": "minor"}], "quality_score": 70}"#;
        let places = Place::all(text);
        assert_eq!(places.len(), 2);
        assert_eq!(&text[..places[0].decision], r#"{"errors": ["#);
        assert_eq!(places[0].begins, r#"{"error_category": ""#);
        assert_eq!(places[1].begins, r#", {"error_category": ""#);
        for place in &places {
            assert_eq!(place.ends, r#"], "quality_score": "#);
        }
        assert!(text[places[0].severity..].starts_with("major\"}, "));
        assert!(text[places[1].severity..].starts_with("minor\"}]"));
        assert!(text[..places[1].decision].ends_with("\"major\"}"));
        assert_eq!(before_value(text, "quality_score").map(|prefix| &text[prefix.len()..]), Some("70}"));
    }

    #[test]
    fn what_is_no_answer_has_no_errors() {
        for text in ["", "{}", r#"{"errors": []}"#, r#"{"errors": [{"a": 1}]}"#, r#"{"errors": [{"a""#] {
            assert_eq!(Place::all(text), [], "{text}");
        }
        let bare = r#"{"errors":[{"error_category":"style","severity":"minor"}]}"#;
        assert_eq!(Place::all(bare)[0].ends, "]}");
        assert_eq!(Place::all(bare)[0].begins, r#"{"error_category":""#);
    }
}
