//! Size of the run folder that a plan leads to, from 120 verdicts of GEMBA-MQM and 35 of FSP by Qwen2.5-Coder
//! 1.5B. It reads no folder.

use crate::{calls::CallRetention, llm::Chat};

/// Bytes of a call without its texts and tokens.
const CALL: usize = 460;

/// Bytes of an answer token in a call: its id, its text and its log-probability, twice where a form masks it.
const ANSWER_TOKEN: usize = 53;

/// Bytes of a verdict without its texts.
const VERDICT: usize = 380;

/// Bytes of a verdict's errors for each answer token.
const FINDING: usize = 4;

/// Bytes of a segment in the input without its texts.
pub const SEGMENT: usize = 125;

/// Share of `calls.jsonl` that compression leaves.
const COMPRESSED: f64 = 0.1;

/// Contents of a run folder.
pub struct Contents {
    pub calls: usize,
    /// Bytes of all prompts.
    pub prompts: f64,
    pub answer_tokens: usize,
    pub units: usize,
    /// Bytes of the sources and translations that are judged.
    pub texts: usize,
    /// Bytes of the input.
    pub input: usize,
}

impl Contents {
    /// Bytes of the finished run folder: calls, verdicts, the journal and the input.
    pub fn bytes(&self, retention: CallRetention) -> u64 {
        let contents = self.prompts + (ANSWER_TOKEN * self.answer_tokens) as f64;
        let costs = (CALL * self.calls) as f64;
        let calls = match retention {
            CallRetention::Plain => costs + contents,
            CallRetention::Zstd => COMPRESSED * (costs + contents),
            CallRetention::Off => costs,
        };
        let verdicts = VERDICT * self.units + FINDING * self.answer_tokens + self.texts;
        // Twice, in the journal and in order.
        calls as u64 + (2 * verdicts + self.input) as u64
    }
}

/// Bytes of a prompt in a call.
pub fn bytes(chat: &Chat) -> usize {
    serde_json::to_string(chat).map_or(0, |text| text.len())
}
