//! Estimates of metrics: the texts of a segment in, a score and error spans out. Judges see no hidden states.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Chat, MessageRole, Reading, Scored, Usage};

/// The texts that a metric reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricTexts<'t> {
    pub source: Option<&'t str>,
    pub translation: &'t str,
    pub reference: Option<&'t str>,
}

/// A metric's estimate of a translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// On the metric's scale; higher is better.
    pub score: f64,
    /// The scores that it consists of, by name; empty where it is the only one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, f64>,
    /// Errors; empty of a metric without word tags too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<EstimatedSpan>,
    /// For each token of the translation the probabilities that a rater marks it, and as a major error;
    /// `None` of a metric that chooses its spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Reading>,
    /// True if a text was cut at the model's context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    #[serde(skip)]
    pub usage: Usage,
}

/// An error that a metric marks in the translation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimatedSpan {
    /// Half-open; equal where it marks no text. Unit: bytes.
    pub start: usize,
    pub end: usize,
    /// The name that the metric has for it.
    pub severity: String,
    /// Range: 0 to 1.
    pub confidence: f64,
}

impl<'t> MetricTexts<'t> {
    /// The texts as a record of the question has them: a turn of the user for the source, the reference as
    /// the system's, and the translation as the answer.
    pub fn chat(&self) -> Chat {
        let chat = self.reference.map_or_else(Chat::new, |reference| Chat::new().system(reference));
        let chat = self.source.map_or(chat.clone(), |source| chat.user(source));
        chat.assistant(self.translation)
    }

    /// The texts of [`Self::chat`]; `None` of another chat.
    pub fn from_chat(chat: &'t Chat) -> Option<Self> {
        let [before @ .., last] = chat.messages() else { return None };
        let of_role = |role| before.iter().find(|turn| turn.role == role).map(|turn| turn.content.as_str());
        let (source, reference) = (of_role(MessageRole::User), of_role(MessageRole::System));
        let texts = Self { source, translation: &last.content, reference };
        (last.role == MessageRole::Assistant && texts.chat().prompt == chat.prompt).then_some(texts)
    }
}

impl From<Estimate> for Scored {
    fn from(estimate: Estimate) -> Self {
        let usage = estimate.usage;
        Self { estimate: Some(estimate), usage, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_their_record() {
        for (source, reference) in [(Some("a"), Some("b")), (Some("a"), None), (None, Some("")), (None, None)]
        {
            let texts = MetricTexts { source, translation: "t", reference };
            assert_eq!(MetricTexts::from_chat(&texts.chat()), Some(texts));
        }
        for chat in
            [Chat::new(), Chat::new().user("a"), Chat::plain("a"), Chat::new().assistant("a").assistant("b")]
        {
            assert_eq!(MetricTexts::from_chat(&chat), None);
        }
    }
}
