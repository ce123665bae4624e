//! How many calls and tokens a run takes, at least and at the most: what the judge surely asks, noted and counted without
//! a model. What it takes indeed is for a [trial](super::trial) to find out.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    Error, RunConfig,
    groups::{self, Group},
    summary::Cost,
};
use crate::{
    judges::{Judge, Panel, Question, method::Calls, rehearse, rehearse_unanswered},
    llm,
    segment::{Segment, Segments},
};

mod tally;

use tally::{Distinct, Given, Tally};

/// What calls take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub calls: usize,
    /// As they are sent: what prompts have in common is counted each time.
    pub prompt_tokens: usize,
    /// What prompts to the same model have in common from their start counted once: what the prefix cache leaves to
    /// compute. `None` when a model does not show its tokens.
    pub distinct_tokens: Option<usize>,
    pub answer_tokens: usize,
}

/// What a run would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Segments in the groups, those that are only shown among them.
    pub segments: usize,
    pub groups: usize,
    pub units: usize,
    /// Exact: the questions that do not depend on an answer, each answered as shortly as its form allows.
    pub least: Amount,
    /// The method's limit of calls, each as long as the longest prompt and with the largest budget among those that the
    /// shortest answers lead to; where no call depends on an answer, the same calls as `least` with answers that use up
    /// their budgets.
    pub most: Amount,
    /// Whether no call depends on an answer.
    pub is_fixed: bool,
    /// Of the longest prompt among those that the shortest answers lead to.
    pub longest_prompt: usize,
    /// The most tokens that the prompt and the answer of one of these calls can take.
    pub longest_call: usize,
}

/// Plans this shard of a run of a judge that takes so many calls for a unit.
///
/// # Errors
/// [`Error::Count`] when a prompt cannot be rendered.
pub fn plan<S: Segments + ?Sized>(
    panel: &Panel,
    judge: &Judge,
    calls: Calls,
    segments: &S,
    config: &RunConfig,
) -> Result<Plan, Error> {
    let all = groups::groups(segments, &config.selection, judge.grouping, config.seed);
    let mine: Vec<&Group> =
        config.shard.choose(segments, &all).into_iter().map(|group| &all[group]).collect();
    let work = |rehearse| Work { panel, judge, segments, rehearse, distinct: Mutex::default() };
    let (of_groups, shortest) = work(rehearse).counted(&mine)?;
    let reached: Tally = of_groups.iter().sum();
    let units = mine.iter().map(|group| group.units(segments, judge.unit).len()).sum::<usize>();
    // A question that follows a free answer is not among those that were noted.
    let is_cut = |tally: &Tally| (1..calls.least).contains(&tally.amount.calls);
    let is_fixed = calls.least == calls.most && !of_groups.iter().any(is_cut);
    let (least, most) = if is_fixed {
        (shortest, Amount { answer_tokens: reached.budgets, ..shortest })
    } else {
        // The shortest answers need not lead to the fewest questions.
        let (_, least) = work(rehearse_unanswered).counted(&mine)?;
        let calls = (units * calls.most).max(reached.amount.calls);
        let most = Amount {
            calls,
            prompt_tokens: calls * reached.longest_prompt,
            distinct_tokens: None,
            answer_tokens: calls * reached.largest_budget,
        };
        (least, most)
    };
    Ok(Plan {
        segments: mine.iter().map(|group| group.members.len()).sum(),
        groups: mine.len(),
        units,
        least,
        most,
        is_fixed,
        longest_prompt: reached.longest_prompt,
        longest_call: reached.longest_call,
    })
}

/// The questions of a group.
type Rehearse = fn(&Judge, &Panel, &[Segment]) -> Vec<Question>;

/// Everything that counting needs.
struct Work<'a, S: ?Sized> {
    panel: &'a Panel,
    judge: &'a Judge,
    segments: &'a S,
    rehearse: Rehearse,
    distinct: Mutex<Distinct>,
}

impl<S: Segments + ?Sized> Work<'_, S> {
    /// What each group asks, and all of them together.
    fn counted(self, groups: &[&Group]) -> Result<(Vec<Tally>, Amount), Error> {
        let of_groups = self.of_groups(groups)?;
        let sum: Tally = of_groups.iter().sum();
        let distinct = self.distinct.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((of_groups, Amount { distinct_tokens: distinct.total(), ..sum.amount }))
    }

    /// What each group asks, counted on all cores.
    fn of_groups(&self, groups: &[&Group]) -> Result<Vec<Tally>, Error> {
        let next = AtomicUsize::new(0);
        let count = || {
            let mut tallies = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(group) = groups.get(at) else { return Ok(tallies) };
                tallies.push((at, self.rehearse(group)?));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut tallies = std::thread::scope(|scope| {
            let counters: Vec<_> = (0..threads).map(|_| scope.spawn(count)).collect();
            let counted =
                counters.into_iter().map(|c| c.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            counted.collect::<Result<Vec<Vec<_>>, Error>>()
        })?
        .concat();
        tallies.sort_by_key(|(at, _)| *at);
        Ok(tallies.into_iter().map(|(_, tally)| tally).collect())
    }

    fn rehearse(&self, group: &Group) -> Result<Tally, Error> {
        let members = group.read(self.segments)?;
        let mut tally = Tally::default();
        for question in (self.rehearse)(self.judge, &self.panel.wanting(&group.wanted), &members) {
            let prompt = tally::prompt(self.panel, question.role, &question.chat)
                .map_err(|reason| self.count_error(group, &reason))?;
            let shortest = question.shortest.as_deref();
            let answer = tally::answer(self.panel, question.role, shortest.unwrap_or_default());
            // A budget may be too small for any answer.
            let answer = answer.min(question.max_tokens);
            let given = Given::of(self.panel, &question);
            tally.add(prompt.tokens + given.tokens, answer, question.max_tokens);
            let mut distinct = self.distinct.lock().unwrap_or_else(PoisonError::into_inner);
            distinct.enter(self.panel, question.role, &prompt, &given);
        }
        Ok(tally)
    }

    fn count_error(&self, group: &Group, reason: &llm::Error) -> Error {
        let first = self.segments.outline(group.members[0]);
        Error::Count { system: first.system.to_owned(), seg: first.seg, reason: reason.to_string() }
    }
}

impl Amount {
    /// What some calls took, calls and tokens so many times. `None` when there were none.
    #[must_use]
    pub fn of_all(cost: &Cost, [calls, tokens]: [f64; 2]) -> Option<Self> {
        let scaled = |n: usize| (n as f64 * tokens).round() as usize;
        (cost.calls > 0).then(|| Self {
            calls: (cost.calls as f64 * calls).round() as usize,
            prompt_tokens: scaled(cost.usage.prompt()),
            distinct_tokens: None,
            answer_tokens: scaled(cost.usage.generated),
        })
    }
}

impl Plan {
    /// What to expect of a run of which a trial was scaled to the whole: at least what it surely takes. Where questions
    /// were asked again, or quote long answers, it can be more than `most`, which then rises to it.
    pub fn expect(&mut self, scaled: Amount) -> Amount {
        let Self { least, most, .. } = self;
        if self.is_fixed {
            let answer_tokens = scaled.answer_tokens.max(least.answer_tokens).min(most.answer_tokens);
            return Amount { answer_tokens, ..*least };
        }
        let expected = Amount {
            calls: scaled.calls.max(least.calls),
            prompt_tokens: scaled.prompt_tokens.max(least.prompt_tokens),
            distinct_tokens: scaled.distinct_tokens,
            answer_tokens: scaled.answer_tokens.max(least.answer_tokens),
        };
        most.calls = most.calls.max(expected.calls);
        most.prompt_tokens = most.prompt_tokens.max(expected.prompt_tokens);
        most.answer_tokens = most.answer_tokens.max(expected.answer_tokens);
        expected
    }

    /// What holds of the whole run, as names and values.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("translations", self.segments.to_string()),
            ("groups judged together", self.groups.to_string()),
            ("verdicts", self.units.to_string()),
            ("longest prompt, tokens", self.longest_prompt.to_string()),
            ("longest prompt and answer, tokens", self.longest_call.to_string()),
        ]
    }

    /// The amounts under their names, one row for each kind; `expected` where a trial has told.
    #[must_use]
    pub fn amounts(&self, expected: Option<Amount>) -> Vec<Vec<String>> {
        let columns: Vec<(&str, Amount)> =
            [("least", Some(self.least)), ("expected", expected), ("most", Some(self.most))]
                .into_iter()
                .filter_map(|(name, amount)| Some((name, amount?)))
                .collect();
        let row = |name: &str, value: &dyn Fn(&Amount) -> Option<usize>| {
            let cells = columns.iter().map(|(_, amount)| value(amount).map_or("-".into(), |n| n.to_string()));
            std::iter::once(name.to_owned()).chain(cells).collect::<Vec<String>>()
        };
        let head = std::iter::once(String::new()).chain(columns.iter().map(|(name, _)| (*name).to_owned()));
        vec![
            head.collect(),
            row("model calls", &|amount| Some(amount.calls)),
            row("prompt tokens, as sent", &|amount| Some(amount.prompt_tokens)),
            row("prompt tokens, shared ones once", &|amount| amount.distinct_tokens),
            row("answer tokens", &|amount| Some(amount.answer_tokens)),
        ]
    }

    /// How the amounts were found.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        if self.is_fixed {
            return vec![
                "every call is known, since none depends on an answer; answers: least as short as can be, most as long as their \
                 budgets"
                    .into(),
            ];
        }
        vec![
            "least: the calls that depend on no answer, with the shortest answers".into(),
            "most: the method's limit of calls, each with the longest prompt and the largest answer budget of those that \
             the shortest answers lead to; questions that quote earlier answers can be longer, and those whose answers \
             cannot be used are asked again"
                .into(),
        ]
    }
}
