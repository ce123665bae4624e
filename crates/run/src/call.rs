//! A line of `calls.jsonl`: one question to a model, and its answer. It holds every part of an answer that a
//! judge reads, so that verdicts can be derived again without the model.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use crate::llm::{Finish, MessageRole};

use crate::{
    digest,
    folder::json_lines,
    judges::Call,
    llm::{self, Chat, Estimate, Reading, Reply, Sampling, Scored, Token, TokenSource, Usage},
    record::UnitKey,
};

/// One line of `calls.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallLine {
    /// The group's name, made of what is in it: see [`crate::groups::Group::id`].
    pub group: String,
    pub system: String,
    pub doc: String,
    /// `None` when the question was about the whole group.
    pub seg: Option<usize>,
    pub role: String,
    pub stage: String,
    /// 0 for the first attempt; then the number of earlier attempts at the question, whose answers were
    /// unusable.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: usize,
    /// Hash of the chat as JSON with a line end.
    pub prompt_sha256: String,
    /// `None` where a run keeps only what its calls cost (`--calls off`).
    #[serde(flatten)]
    pub content: Option<Content>,
    pub finish: Finish,
    /// Error of a call without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<llm::Error>,
    /// The judge's outcome for the answer, where its method counts outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    pub usage: Usage,
    pub seconds: f64,
}

/// Question and answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Content {
    pub chat: Chat,
    pub sampling: Sampling,
    pub reply: String,
    #[serde(flatten)]
    pub spelled: Spelled,
    /// The given continuations, where they were scored and no answer was generated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scored: Vec<Continuation>,
}

/// A continuation that was scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Continuation {
    pub text: String,
    #[serde(flatten)]
    pub spelled: Spelled,
    /// The values of a probe of it, where it was read through one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
    /// The estimate of a metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// The tokens of a text, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spelled {
    /// Ids.
    pub tokens: Vec<u32>,
    /// The text of each token; one that is part of a character writes U+FFFD.
    pub pieces: Vec<String>,
    /// Natural log of the model's probability of each token, over the whole vocabulary.
    #[serde(deserialize_with = "logprobs")]
    #[schemars(with = "Vec<Option<f64>>")]
    pub logprobs: Vec<f64>,
    /// Log-probabilities among the tokens that the form allowed; empty where it allowed everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "logprobs")]
    #[schemars(with = "Vec<Option<f64>>")]
    pub masked_logprobs: Vec<f64>,
    /// True if the text carries no signal of the model: see [`llm::is_chance`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_chance: bool,
}

/// Log-probabilities as JSON has them, which writes that of the impossible, minus infinity, as `null`.
fn logprobs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(from)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NEG_INFINITY)).collect())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(attempt: &usize) -> bool {
    *attempt == 0
}

/// The hash by which a prompt is found again.
pub fn prompt_hash(chat: &Chat) -> String {
    digest::sha256(json_lines(std::slice::from_ref(chat)))
}

impl CallLine {
    /// The line of a call that a group with these units caused.
    pub fn new(group: &str, units: &[UnitKey], call: Call) -> Self {
        let unit = call.unit.and_then(|unit| units.get(unit));
        let first = unit.or(units.first());
        Self {
            group: group.to_owned(),
            system: first.map_or_else(String::new, |key| key.system.clone()),
            doc: first.map_or_else(String::new, |key| key.doc.clone()),
            seg: unit.or(Some(units).filter(|u| u.len() == 1).and(first)).and_then(|key| key.seg),
            role: call.role.to_string(),
            stage: call.step.to_string(),
            attempt: call.attempt,
            prompt_sha256: prompt_hash(&call.chat),
            finish: call.reply.finish,
            error: call.error,
            outcome: call.outcome.map(ToOwned::to_owned),
            usage: call.reply.usage,
            seconds: call.seconds,
            content: Some(Content {
                chat: call.chat,
                sampling: call.sampling,
                spelled: Spelled::new(&call.reply.tokens, call.reply.is_chance),
                reply: call.reply.text,
                scored: call.scored.into_iter().map(Continuation::new).collect(),
            }),
        }
    }

    /// Returns true if the call has the form in which a run writes it: its prompt has the hash that it names,
    /// and its columns are of one length.
    pub fn is_intact(&self) -> bool {
        self.content.as_ref().is_none_or(|content| {
            content.uneven().is_none() && prompt_hash(&content.chat) == self.prompt_sha256
        })
    }

    /// The answer as the judge got it; `None` where only its cost was kept.
    pub fn answer(&self) -> Option<Reply> {
        let Content { reply, spelled, .. } = self.content.as_ref()?;
        let (text, tokens) = (reply.clone(), spelled.tokens());
        let is_chance = spelled.is_chance;
        let (finish, usage) = (self.finish, self.usage);
        Some(Reply { text, tokens, finish, usage, is_chance, prompt_ids: Vec::new() })
    }
}

impl Content {
    /// The first tokens whose columns are not of one length.
    pub fn uneven(&self) -> Option<&Spelled> {
        let columns = self.scored.iter().map(|continuation| &continuation.spelled).chain([&self.spelled]);
        columns.into_iter().find(|spelled| !spelled.is_even())
    }

    /// The answer for display: that of a probe or a metric in numbers, since the text beside it leads to no
    /// score.
    pub fn shown(&self) -> &str {
        if self.scored.iter().any(|scored| scored.estimate.is_some()) {
            "(nothing was written: the verdict is a metric's estimate)"
        } else if self.scored.iter().any(|scored| scored.reading.is_some()) {
            "(nothing was written: the verdict was read off the hidden states)"
        } else {
            &self.reply
        }
    }
}

impl Spelled {
    /// The columns of these tokens.
    pub fn new(tokens: &[Token], is_chance: bool) -> Self {
        let is_masked = tokens.iter().any(|t| t.masked_logprob.to_bits() != t.logprob.to_bits());
        let masked = tokens.iter().filter(|_| is_masked).map(|token| token.masked_logprob);
        Self {
            tokens: tokens.iter().map(|token| token.id).collect(),
            pieces: tokens.iter().map(|token| token.text.clone()).collect(),
            logprobs: tokens.iter().map(|token| token.logprob).collect(),
            masked_logprobs: masked.collect(),
            is_chance,
        }
    }

    fn is_even(&self) -> bool {
        let Self { tokens, pieces, logprobs, masked_logprobs, .. } = self;
        let n = tokens.len();
        pieces.len() == n && logprobs.len() == n && (masked_logprobs.is_empty() || masked_logprobs.len() == n)
    }

    /// The tokens, except how each came into the answer, which no judge reads.
    pub fn tokens(&self) -> Vec<Token> {
        let at = |values: &[f64], i: usize| values.get(i).copied();
        let token = |(i, &id): (usize, &u32)| {
            let logprob = at(&self.logprobs, i).unwrap_or(f64::NEG_INFINITY);
            Token {
                id,
                text: self.pieces.get(i).cloned().unwrap_or_default(),
                logprob,
                masked_logprob: at(&self.masked_logprobs, i).unwrap_or(logprob),
                source: TokenSource::Sampled,
            }
        };
        self.tokens.iter().enumerate().map(token).collect()
    }
}

impl Continuation {
    /// A continuation of a line.
    pub fn new(scored: Scored) -> Self {
        let spelled = Spelled::new(&scored.tokens, scored.is_chance);
        Self { spelled, text: scored.text, reading: scored.reading, estimate: scored.estimate }
    }

    /// The continuation as the judge got it.
    pub fn scored(&self) -> Scored {
        Scored {
            text: self.text.clone(),
            tokens: self.spelled.tokens(),
            reading: self.reading.clone(),
            estimate: self.estimate.clone(),
            is_chance: self.spelled.is_chance,
            usage: Usage::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judges::{Role, Stage, Wanted},
        llm::ResponseFormat,
    };

    fn call() -> Call {
        let token = |id, text: &str, logprob, masked_logprob| Token {
            id,
            text: text.into(),
            logprob,
            masked_logprob,
            source: TokenSource::Sampled,
        };
        let tokens = vec![token(5, "B", -0.1, -0.0), token(9, "\u{fffd}", -1e-17, -1e-17)];
        let scored = Scored {
            text: "7".into(),
            tokens: vec![token(7, "7", f64::NEG_INFINITY, f64::NEG_INFINITY)],
            reading: None,
            estimate: None,
            is_chance: false,
            usage: Usage::default(),
        };
        Call {
            unit: None,
            role: Role::Judge,
            step: Stage::new("score").about("style").round(2),
            attempt: 1,
            chat: Chat::new().user("How good?"),
            wanted: Wanted::Answer(ResponseFormat::Text),
            sampling: Sampling { temperature: 0.3, seed: u64::MAX, ..Sampling::default() },
            reply: Reply { text: "B\u{e9}".into(), tokens, finish: Finish::Length, ..Reply::default() },
            scored: vec![scored],
            error: None,
            outcome: Some("kept"),
            seconds: 0.5,
        }
    }

    #[test]
    fn what_was_said_survives_a_line() {
        let line = CallLine::new("3", &[], call());
        let text = serde_json::to_string(&line).unwrap();
        let read: CallLine = serde_json::from_str(&text).unwrap();
        assert_eq!(read, line);
        assert_eq!(read.answer(), Some(call().reply));
        assert_eq!(read.content.unwrap().scored[0].scored(), call().scored[0]);
    }

    #[test]
    fn a_line_without_content_has_its_cost() {
        let line = CallLine { content: None, ..CallLine::new("3", &[], call()) };
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains("How good"), "{text}");
        let read: CallLine = serde_json::from_str(&text).unwrap();
        assert_eq!((read.answer(), read), (None, line));
    }

    #[test]
    fn why_there_is_no_answer_survives_a_line() {
        for error in [
            llm::Error::TooLong { prompt: 9, answer: 2, context: 8 },
            llm::Error::Form("no".into()),
            llm::Error::Template("no".into()),
            llm::Error::Engine("no".into()),
        ] {
            let line = CallLine::new("0", &[], Call { error: Some(error), ..call() });
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<CallLine>(&text).unwrap(), line, "{text}");
        }
    }
}
