//! The reasoning before an answer: its place in a chat, and its effort. The engine writes the marks around
//! it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reasoning before an answer. The marks around it act as control tokens where the model has them; the
/// reasoning itself is data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// The reply is the reasoning.
    Open,
    /// The reply is the answer after this reasoning.
    Closed(String),
}

/// Reasoning effort before an answer. Chat templates that read `reasoning_effort` get it by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    Low,
    #[default]
    Medium,
    High,
}

impl Effort {
    /// The name in options, signatures and chat templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Options of the reasoning before each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasoningOptions {
    pub effort: Effort,
    /// The most tokens of the reasoning before one answer. There is no answer after one that reaches it.
    pub max_tokens: usize,
}
