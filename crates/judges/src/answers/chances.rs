//! Computation of the score of a JSON answer, and the mean of the quality score's distribution instead of the
//! written number. Answers are read in [`super::errors`].

use crate::{Error, Panel, Preset, Result, Role, Settings, Stage, expected, llm::Chat, method::Calls, setup};

/// The stage in which all numbers are scored and nothing is generated.
pub const EXPECT: Stage = Stage::new("expect");

/// Source of the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    Errors,
    /// The written quality score.
    Quality,
    /// The mean of the quality score's distribution.
    ExpectedQuality,
}

impl Scoring {
    /// Description of the option `score` in methods that always ask for errors and quality score.
    pub const MEANING: &'static str = "what the score is made of: the errors, the quality score as written, or the mean of the \
                                       quality score's distribution";

    /// True if the score comes from the quality score.
    pub fn by_quality(self) -> bool {
        self != Self::Errors
    }

    /// Rejects a distribution in presets other than `strict`, whose layout fixes the place of the number.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`].
    pub fn check(self, settings: &Settings) -> setup::Result<()> {
        let is_loose = self == Self::ExpectedQuality && settings.preset != Preset::Strict;
        setup::reject(&[(
            is_loose,
            "probabilities are weighed within the layout of `strict`; hint: use preset `strict`, or leave `score` out",
        )])
    }

    /// The calls of one question; an answer that cannot be used has no distribution to score.
    pub fn calls(self) -> Calls {
        Calls::up_to(if self == Self::ExpectedQuality { 2 } else { 1 })
    }
}

/// A parsed answer with the chat that it answers, to score continuations of it.
#[derive(Clone, Copy)]
pub struct GivenAnswer<'a> {
    pub panel: &'a Panel,
    pub chat: &'a Chat,
    /// The text of the answer, which has been read without an error.
    pub text: &'a str,
}

impl GivenAnswer<'_> {
    /// The mean of the quality score's distribution, given the written errors.
    ///
    /// # Errors
    /// The errors of [`expected::percent`].
    pub fn quality(&self) -> Result<f64> {
        let prefix = before_quality(self.text).ok_or_else(|| {
            Error::Unparsable("the answer does not have a quality score where its layout has it".into())
        })?;
        expected::percent(self.panel, Role::Annotator, EXPECT.about("quality"), self.chat, prefix)
    }
}

/// An answer up to the number of its quality score, which is its last property.
fn before_quality(text: &str) -> Option<&str> {
    let key = "\"quality_score\":";
    let at = text.rfind(key)? + key.len();
    let value = text[at..].trim_start();
    Some(&text[..text.len() - value.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quality_score_is_the_last_of_its_name() {
        let text = r#"{"errors": [{"error_span": "\"quality_score\": 3"}], "quality_score": 70}"#;
        assert_eq!(before_quality(text).map(|prefix| &text[prefix.len()..]), Some("70}"));
        assert_eq!(
            before_quality(r#"{"errors":[],"quality_score":70}"#),
            Some(r#"{"errors":[],"quality_score":"#)
        );
        assert_eq!(before_quality(r#"{"errors": []}"#), None);
    }
}
