//! The mean of a score's distribution: the model's exact probability of each value that its answer could have,
//! in the place of the one value that it wrote. It says nothing of answers in words.

use super::{Error, Panel};
use crate::llm::Chat;

/// The probability-weighted mean of values, each with the text that would be its answer. `prefix` is the text
/// of the answer before it. Texts must end in what follows a value (`}` or `,`), or 8 would take 85's share.
///
/// The probabilities are taken among these values only: what else the model could have said does not count.
///
/// # Errors
/// What the model's [`crate::llm::Llm::weigh`] returns; [`Error::Failed`] when it gives every value a
/// probability of 0.
pub fn score(
    panel: &Panel,
    role: &str,
    stage: &str,
    chat: &Chat,
    prefix: &str,
    values: &[(f64, String)],
) -> Result<f64, Error> {
    let chat = Chat { prefill: format!("{}{prefix}", chat.prefill), ..chat.clone() };
    let texts: Vec<String> = values.iter().map(|(_, text)| text.clone()).collect();
    let weighed = panel.weigh(role, stage, &chat, &texts)?;
    let logprobs: Vec<f64> = weighed.iter().map(crate::llm::Weighed::logprob).collect();
    mean(values.iter().map(|(value, _)| *value).zip(logprobs))
        .ok_or_else(|| Error::Failed("the model gives no score of the scale any probability".into()))
}

/// The mean of values under the softmax of their log-probabilities; `None` when none is finite.
fn mean(weighed: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let most = weighed.clone().map(|(_, logprob)| logprob).filter(|l| l.is_finite()).reduce(f64::max)?;
    let share = |logprob: f64| if logprob.is_finite() { (logprob - most).exp() } else { 0.0 };
    let total: f64 = weighed.clone().map(|(_, logprob)| share(logprob)).sum();
    let sum: f64 = weighed.map(|(value, logprob)| value * share(logprob)).sum();
    Some(sum / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means() {
        let check = |weighed: &[(f64, f64)], expected: Option<f64>| {
            let mean = mean(weighed.iter().copied());
            let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
            assert!(
                mean.zip(expected).map_or(mean == expected, |(a, b)| close(a, b)),
                "{mean:?} {expected:?}"
            );
        };
        check(&[(0.0, 0.25f64.ln()), (4.0, 0.75f64.ln())], Some(3.0));
        check(&[(0.0, 0.01f64.ln()), (4.0, 0.03f64.ln())], Some(3.0));
        check(&[(1.0, -800.0), (3.0, -800.0), (9.0, f64::NEG_INFINITY)], Some(2.0));
        check(&[(1.0, f64::NEG_INFINITY)], None);
        check(&[], None);
    }
}
