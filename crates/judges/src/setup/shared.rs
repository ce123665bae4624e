//! The options that methods share: the reasoning before answers, the reference, the mean of a distribution.
//! No reasoning is run here.

use super::{Error, GivenOptions, OptionSpec, Reference, Result, options};
use crate::llm::{Effort, ReasoningOptions};

options! {
    /// Options of every method whose models generate answers.
    pub struct SharedOptions {
        "reasoning" effort: Option<Effort> = {
            "off" => None,
            "low" => Some(Effort::Low),
            "medium" => Some(Effort::Medium),
            "high" => Some(Effort::High)
        }, "reason before each answer, for models whose chat template has reasoning";
        "reasoning-budget" budget: Option<f64> = { "auto" => None, <number> Some },
            "tokens of the reasoning before one answer, at most; auto: 2048, 8192 or 24576";
    }
}

options! {
    /// The option of methods with a variant that shows the reference translation.
    pub struct ReferenceOption {
        "reference" reference: Reference = {
            "auto" => Reference::Auto, "on" => Reference::On, "off" => Reference::Off
        }, Reference::MEANING;
    }
}

options! {
    /// The option of methods whose answer is a number.
    pub struct ScoreOption {
        "score" is_expected: bool = { "greedy" => false, "expected" => true },
            "the number that is written, or the mean of its distribution";
    }
}

/// The reasoning of a request, and its options as signed; `None` for none.
///
/// # Errors
/// [`Error::Conflict`] for a budget without reasoning, and for one that is no number of tokens.
pub(crate) fn reasoning(common: &[OptionSpec], given: &GivenOptions) -> Result<Option<ReasoningOptions>> {
    if common.is_empty() {
        return Ok(None);
    }
    let SharedOptions { effort, budget } = SharedOptions::read(given);
    let conflict = |reason: &str| Err(Error::Conflict(reason.into()));
    let Some(effort) = *effort else {
        let hint = "`reasoning-budget` has no effect without reasoning; hint: add reasoning=low";
        return if budget.is_given { conflict(hint) } else { Ok(None) };
    };
    if budget.is_some_and(|budget| budget.fract() != 0.0 || budget < 1.0) {
        return conflict("`reasoning-budget` is a whole number of tokens from 1");
    }
    let max_tokens = budget.map_or_else(|| default_budget(effort), |budget| budget as usize);
    Ok(Some(ReasoningOptions { effort, max_tokens }))
}

/// The most tokens of a reasoning whose budget is not given. The numbers are ours: the largest leaves a
/// quarter of the default context to prompt and answer.
fn default_budget(effort: Effort) -> usize {
    match effort {
        Effort::Low => 2048,
        Effort::Medium => 8192,
        Effort::High => 24_576,
    }
}
