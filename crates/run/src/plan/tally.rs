//! Counts of calls and tokens. Each role is counted with its own model's tokenizer.

use std::iter::Sum;

use super::Amount;
use crate::{
    judges::{Panel, RehearsedQuestion, Role},
    llm::{self, Chat, PrefixTracker},
};

/// A prompt as its model reads it.
pub struct Prompt {
    pub tokens: usize,
    /// `None` when the model does not show them.
    pub ids: Option<Vec<u32>>,
}

/// Texts behind a prompt that are scored or read, as their model computes them: common beginnings once, and
/// of a text that is only scored, not the last token.
#[derive(Debug, Default)]
pub struct ScoredTexts {
    pub tokens: usize,
    /// The tokens that are computed of each; empty when the model does not show them.
    pub ids: Vec<Vec<u32>>,
}

impl ScoredTexts {
    /// The texts of a question.
    pub fn new(panel: &Panel, question: &RehearsedQuestion) -> Self {
        if question.given().is_empty() {
            return Self::default();
        }
        let Some(counter) = panel.llm(question.role).counter() else { return Self::default() };
        let ids = |text: &str| counter.prompt_ids(&Chat::plain(text)).ok().flatten();
        // Not of the text: what the model puts in front of every prompt.
        let n_front = ids("").map_or(0, |front| front.len());
        let shown: Option<Vec<Vec<u32>>> = question.given().iter().map(|text| ids(text)).collect();
        let Some(shown) = shown else {
            let counts = question.given().iter().map(|text| counter.count(&Chat::plain(text)).unwrap_or(0));
            return Self { tokens: counts.sum(), ids: Vec::new() };
        };
        Self::computed(shown.iter().map(|ids| &ids[n_front.min(ids.len())..]), question.is_read)
    }

    fn computed<'i>(texts: impl Iterator<Item = &'i [u32]>, is_read: bool) -> Self {
        let of =
            |ids: &'i [u32]| if is_read { ids } else { ids.split_last().map_or(ids, |(_, before)| before) };
        let ids: Vec<Vec<u32>> = texts.map(|ids| of(ids).to_vec()).collect();
        let mut tracker = PrefixTracker::default();
        Self { tokens: ids.iter().map(|ids| tracker.add(ids)).sum(), ids }
    }
}

/// The prompt of a question to a role.
pub fn prompt(panel: &Panel, role: Role, chat: &Chat) -> Result<Prompt, llm::Error> {
    let counter = panel.llm(role).counter();
    let counter = counter.ok_or_else(|| llm::Error::Engine("this model does not count its tokens".into()))?;
    let ids = counter.prompt_ids(chat)?;
    let tokens = match &ids {
        Some(ids) => ids.len(),
        None => counter.count(chat)?,
    };
    Ok(Prompt { tokens, ids })
}

/// The tokens of an answer; none where it is unknown or the model cannot count them.
pub fn answer(panel: &Panel, role: Role, text: &str) -> usize {
    let counter = panel.llm(role).counter().filter(|_| !text.is_empty());
    counter.and_then(|counter| counter.count(&Chat::raw(text)).ok()).unwrap_or(0)
}

/// Cost of some calls, and the extremes among them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Without distinct tokens, which are those of all groups together.
    pub amount: Amount,
    /// All budgets of answers together.
    pub budgets: usize,
    pub largest_budget: usize,
    pub longest_prompt: usize,
    pub longest_call: usize,
    /// Bytes of the prompts as JSON.
    pub chat_bytes: usize,
    /// Calls that were not counted, but taken for as long as the others.
    pub uncounted: usize,
}

impl Tally {
    /// Counts one call.
    pub fn add(&mut self, prompt: usize, answer: usize, budget: usize) {
        self.amount.calls += 1;
        self.amount.prompt_tokens += prompt;
        self.amount.answer_tokens += answer;
        self.budgets += budget;
        self.largest_budget = self.largest_budget.max(budget);
        self.longest_prompt = self.longest_prompt.max(prompt);
        self.longest_call = self.longest_call.max(prompt + budget);
    }
}

impl Tally {
    /// Calls and tokens so many times; the longest stay as they are.
    pub fn scaled(self, times: [f64; 2]) -> Self {
        let amount = self.amount.scaled(times);
        let [budgets, chat_bytes] =
            [(self.budgets, times[0]), (self.chat_bytes, times[1])].map(|(n, times)| super::scaled(n, times));
        Self { amount, budgets, chat_bytes, ..self }
    }

    /// So many calls, of which those that were counted are a part.
    pub fn extrapolated(self, n_calls: usize) -> Self {
        let n_counted = self.amount.calls;
        let times = n_calls as f64 / n_counted.max(1) as f64;
        Self { uncounted: n_calls - n_counted, ..self.scaled([times, times]) }
    }
}

impl<'a> Sum<&'a Tally> for Tally {
    fn sum<I: Iterator<Item = &'a Tally>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |a, b| Self {
            amount: Amount {
                calls: a.amount.calls + b.amount.calls,
                prompt_tokens: a.amount.prompt_tokens + b.amount.prompt_tokens,
                distinct_tokens: None,
                answer_tokens: a.amount.answer_tokens + b.amount.answer_tokens,
            },
            budgets: a.budgets + b.budgets,
            largest_budget: a.largest_budget.max(b.largest_budget),
            longest_prompt: a.longest_prompt.max(b.longest_prompt),
            longest_call: a.longest_call.max(b.longest_call),
            chat_bytes: a.chat_bytes + b.chat_bytes,
            uncounted: a.uncounted + b.uncounted,
        })
    }
}

/// The prompts so far, by model: what they have in common counts once.
#[derive(Debug, Default)]
pub struct Distinct {
    /// One of the roles that a model plays stands for it.
    of_models: Vec<(Role, PrefixTracker)>,
    total: usize,
    is_hidden: bool,
}

impl Distinct {
    /// Enters a prompt and what is given behind it.
    pub fn enter(&mut self, panel: &Panel, role: Role, prompt: &Prompt, scored: &ScoredTexts) {
        let ids = prompt.ids.as_deref();
        self.is_hidden |= ids.is_none();
        let Some(ids) = ids.filter(|_| !self.is_hidden) else { return };
        let at = self.of_models.iter().position(|(other, _)| panel.is_one_model(*other, role));
        let at = at.unwrap_or_else(|| {
            self.of_models.push((role, PrefixTracker::default()));
            self.of_models.len() - 1
        });
        let tracker = &mut self.of_models[at].1;
        self.total += tracker.add(ids);
        for text in &scored.ids {
            self.total += tracker.add(&[ids, text].concat());
        }
    }

    /// Leaves out what was not entered: the total is not known.
    pub fn hide(&mut self) {
        self.is_hidden = true;
    }

    /// All tokens after beginnings that were new.
    pub fn total(&self) -> Option<usize> {
        (!self.is_hidden).then_some(self.total)
    }
}
