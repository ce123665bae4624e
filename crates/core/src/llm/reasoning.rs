//! The reasoning before an answer: where it stands in a chat, and how much of it there is. The engine writes its marks.

use serde::{Deserialize, Serialize};

/// The reasoning that comes before an answer. What opens and closes it acts as control tokens where the model has them;
/// the reasoning itself is data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// The reply is the reasoning.
    Open,
    /// The reply is the answer after this reasoning.
    Closed(String),
}

/// How much a model reasons before it answers. Chat templates that read `reasoning_effort` get it by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    Low,
    #[default]
    Medium,
    High,
}

impl Effort {
    /// The name in options, signatures and chat templates.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How much a model reasons before each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasoningOptions {
    pub effort: Effort,
    /// The most tokens of the reasoning before one answer. There is no answer after one that reaches it.
    pub max_tokens: usize,
}
