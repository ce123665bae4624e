//! The mean of a score's distribution, from the model's exact probability of every value that the answer
//! could have, instead of the one value that was written. It does not apply to answers in words.

use super::{Error, Panel, Result, Role, Step};
use crate::llm::{self, Chat, Scored};

/// The mean of a whole number from 0 to 100, computed as by [`score`]: of each number its digits and no
/// further one. The numbers are a tree of digits, which costs ten tokens where a digit is a token.
///
/// # Errors
/// Those of [`score`].
pub fn percent(panel: &Panel, role: Role, step: impl Into<Step>, chat: &Chat, prefix: &str) -> Result<f64> {
    let values: Vec<_> = (0..=100).map(|score| (f64::from(score), score.to_string())).collect();
    score(panel, role, step, chat, prefix, &values)
}

/// The probability-weighted mean of values, each given with the text that would state it. `prefix` is the
/// part of the answer in front of it. The share of 8 that continues to 85 is deducted from 8 where both are
/// values. Where 8 could continue to a text that is no value, such as 8.5, each text should include the
/// character that ends it (`}` or `,`).
///
/// The probabilities are normalized over these values; other continuations do not count.
///
/// # Errors
/// The errors of the model's [`crate::llm::Llm::score_continuations`]; [`Error::NoSignal`] when the model
/// gives each value no more probability than chance would; [`Error::Failed`] when it gives every value a
/// probability of 0.
pub fn score(
    panel: &Panel,
    role: Role,
    step: impl Into<Step>,
    chat: &Chat,
    prefix: &str,
    values: &[(f64, String)],
) -> Result<f64> {
    let chat = Chat { prefill: format!("{}{prefix}", chat.prefill), ..chat.clone() };
    let texts: Vec<String> = values.iter().map(|(_, text)| text.clone()).collect();
    let scored = panel.score_continuations(role, step, &chat, &texts)?;
    if scored.iter().all(|scored| scored.is_chance) {
        return Err(llm::Error::NoSignal.into());
    }
    let values: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
    mean(&values, &ended(&scored))
        .ok_or_else(|| Error::Failed("the model gives every score on the scale a probability of 0".into()))
}

/// The share of each text that ends there, without the part that continues, token by token, to a longer text
/// of the list. Shares are relative to the likeliest text.
fn ended(scored: &[Scored]) -> Vec<f64> {
    let most = scored.iter().map(Scored::logprob).filter(|l| l.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    let share = |w: &Scored| if w.logprob().is_finite() { (w.logprob() - most).exp() } else { 0.0 };
    let ids = |w: &Scored| w.tokens.iter().map(|token| token.id).collect::<Vec<_>>();
    let all: Vec<(Vec<u32>, f64)> = scored.iter().map(|w| (ids(w), share(w))).collect();
    let goes_on = |ids: &[u32]| -> f64 {
        let next = |other: &&(Vec<u32>, f64)| other.0.len() == ids.len() + 1 && other.0.starts_with(ids);
        all.iter().filter(next).map(|(_, share)| share).sum()
    };
    all.iter().map(|(ids, share)| (share - goes_on(ids)).max(0.0)).collect()
}

/// The mean of values with these shares; `None` when all are 0.
fn mean(values: &[f64], shares: &[f64]) -> Option<f64> {
    let total: f64 = shares.iter().sum();
    let sum: f64 = values.iter().zip(shares).map(|(value, share)| value * share).sum();
    (total > 0.0).then(|| sum / total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Token, TokenSource, Usage};

    /// A text whose tokens have these ids and, together, this probability.
    fn scored(ids: &[u32], probability: f64) -> Scored {
        let logprob = probability.ln() / ids.len() as f64;
        let source = TokenSource::Sampled;
        let token =
            |id: &u32| Token { id: *id, text: String::new(), logprob, masked_logprob: logprob, source };
        Scored {
            text: String::new(),
            tokens: ids.iter().map(token).collect(),
            reading: None,
            estimate: None,
            is_chance: false,
            usage: Usage::default(),
        }
    }

    fn check(values: &[f64], texts: &[Scored], expected: Option<f64>) {
        let mean = mean(values, &ended(texts));
        let close = mean.zip(expected).map_or(mean == expected, |(a, b)| (a - b).abs() < 1e-9);
        assert!(close, "{mean:?}, not {expected:?}");
    }

    #[test]
    fn means() {
        check(&[0.0, 4.0], &[scored(&[1], 0.25), scored(&[2], 0.75)], Some(3.0));
        check(&[0.0, 4.0], &[scored(&[1], 0.01), scored(&[2], 0.03)], Some(3.0));
        check(&[1.0, 3.0, 9.0], &[scored(&[1], 1e-300), scored(&[2], 1e-300), scored(&[3], 0.0)], Some(2.0));
        check(&[1.0], &[scored(&[1], 0.0)], None);
        check(&[], &[], None);
    }

    #[test]
    fn a_text_that_goes_on_to_another_keeps_what_ends_there() {
        // 8 has 0.6, of which 0.4 goes on to 80; 9 has 0.2.
        let texts = [scored(&[8], 0.6), scored(&[8, 0], 0.4), scored(&[9], 0.2)];
        check(&[8.0, 80.0, 9.0], &texts, Some((0.2 * 8.0 + 0.4 * 80.0 + 0.2 * 9.0) / 0.8));
    }
}
