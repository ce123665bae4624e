//! The retry rules of GEMBA's own code: an answer that was cut is requested again with more tokens, one that
//! cannot be read at a higher temperature. Prompts and readers are elsewhere.
//!
//! Differs:
//! - Bounds. Code: a budget grows by 200 tokens without end. Ours: up to [`MAX_BUDGET`]; then the verdict is
//!   `truncated`.
//! - No budget. Code: GEMBA-ESA has none, nor has a retry at a higher temperature. Ours: [`NO_BUDGET`], which
//!   is more than any usable answer needs. In both, an answer that is cut there counts as none.
//! - Number of answers. Earlier versions of the code: ten at temperatures above 0. Its last one, and ours:
//!   one.
//!
//! Source: `gemba/gpt_api.py`, `request` and `request_api`; budgets from `gemba/utils.py`.

use tribunal_core::llm::{Chat, Reply, ResponseFormat, Sampling};
use tribunal_judges::{Error, Panel, Result, Role, Stage, reading};

/// Answer tokens of a first question about errors, a score, stars or a class.
const BUDGET: usize = 500;
const STEP: usize = 200;
/// The most answer tokens that a budget grows to; GEMBA has no bound.
pub const MAX_BUDGET: usize = 1500;
/// Answer tokens of a question that GEMBA sets no budget for.
pub const NO_BUDGET: usize = 2048;
/// Maximum number of retries at a higher temperature, a tenth more each time.
pub const HOTTER: u8 = 10;

/// The answer tokens of a question.
#[derive(Clone, Copy, Debug)]
pub struct TokenBudget {
    first: usize,
    grows: bool,
    /// The answer tokens of its retries.
    later: usize,
}

impl TokenBudget {
    /// The budget of all methods but GEMBA-ESA; `asked` is the user's.
    pub fn budgeted(budget: Option<usize>) -> Self {
        Self { first: budget.unwrap_or(BUDGET), grows: true, later: budget.unwrap_or(NO_BUDGET) }
    }

    /// Maximum number of calls: one at each size of the budget. Where an answer can be unreadable, [`HOTTER`]
    /// more.
    pub fn most_calls(&self) -> usize {
        1 + if self.grows { MAX_BUDGET.saturating_sub(self.first) / STEP } else { 0 }
    }

    /// GEMBA-ESA's budget.
    pub fn free(budget: Option<usize>) -> Self {
        let all = budget.unwrap_or(NO_BUDGET);
        Self { first: all, grows: false, later: all }
    }
}

/// Asks the annotator until `read` returns a value for the answer, which is stripped of surrounding space.
///
/// # Errors
/// [`Error::Truncated`] for an answer that is still cut at the end, [`Error::Unparsable`] or
/// [`Error::Refused`] after eleven answers that `read` rejects, and the errors of [`Panel::ask_by`].
pub fn ask<T>(
    panel: &Panel,
    stage: Stage,
    chat: &Chat,
    room: TokenBudget,
    read: impl Fn(&str, &Reply) -> Option<T>,
) -> Result<T> {
    let question = panel.question(chat, &ResponseFormat::Text, room.first);
    let sampling = &question.sampling;
    let again = |_, last: &Sampling, error: &Error| {
        let heat = ((last.temperature - sampling.temperature) * 10.0).round() as u8;
        let next = match error {
            Error::Truncated(_) if heat == 0 && room.grows && last.max_tokens + STEP <= MAX_BUDGET => {
                Sampling { max_tokens: last.max_tokens + STEP, ..last.clone() }
            }
            Error::Truncated(_) => return None,
            _ if heat == HOTTER => return None,
            _ => {
                let temperature = sampling.temperature + f32::from(heat + 1) / 10.0;
                Sampling { temperature, max_tokens: room.later, ..last.clone() }
            }
        };
        Some(next)
    };
    panel.ask_by(Role::Annotator, stage, &question, again, |reply| {
        let answer = reading::strip(&reply.text);
        read(answer, reply).ok_or_else(|| reading::unusable(answer, "an answer that GEMBA cannot read"))
    })
}
