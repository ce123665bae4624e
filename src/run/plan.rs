//! A dry run: how many calls and tokens a run takes, at least, by expectation and at most. The least is what the
//! judge surely asks, noted and counted without a model. Where more depends on the answers, a few groups are really
//! judged. Memory and hours are for whoever knows the engine.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    Error, Options,
    draw::shuffle,
    groups::{self, Group},
};
use crate::{
    judges::{Call, Judge, Panel, in_parallel, method::Calls, rehearse},
    llm,
    segment::Segments,
};

mod tally;

use tally::{Distinct, Tally};

/// Groups that are judged to see what else a method asks.
const SAMPLED: usize = 5;

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
    /// From groups that were judged; `None` when no call depends on an answer.
    pub expected: Option<Amount>,
    /// The number of those groups.
    pub judged: usize,
    /// The method's limit of calls, each as long as the longest prompt and with the largest budget that were seen;
    /// where no call depends on an answer, the same calls as `least` with answers that use up their budgets.
    pub most: Amount,
    /// Of the longest prompt that was seen.
    pub longest_prompt: usize,
    /// The most tokens that the prompt and the answer of one call that was seen can take.
    pub longest_call: usize,
}

/// Plans this shard of a run of a judge that takes so many calls for a unit.
///
/// # Errors
/// [`Error::Count`] when a prompt cannot be rendered.
pub fn plan<S: Segments + ?Sized>(
    panel: &Panel,
    judge: &dyn Judge,
    calls: Calls,
    segments: &S,
    options: &Options,
) -> Result<Plan, Error> {
    let all = groups::groups(segments, &options.selection, judge.group(), options.seed);
    let mine: Vec<&Group> =
        options.shard.choose(segments, &all).into_iter().map(|group| &all[group]).collect();
    let work = Work { panel, judge, segments, distinct: Mutex::default() };
    let of_groups = work.rehearsed(&mine)?;
    let least: Tally = of_groups.iter().sum();
    let units = mine.iter().map(|group| group.units(segments, judge.unit()).len()).sum::<usize>();
    let mut plan = Plan {
        segments: mine.iter().map(|group| group.members.len()).sum(),
        groups: mine.len(),
        units,
        least: Amount { distinct_tokens: work.distinct(), ..least.amount },
        longest_prompt: least.longest_prompt,
        longest_call: least.longest_call,
        ..Plan::default()
    };
    // A question that follows a free answer is not among those that were noted.
    let is_cut = |tally: &Tally| (1..calls.least).contains(&tally.amount.calls);
    if calls.least == calls.most && !of_groups.iter().any(is_cut) {
        plan.most = Amount { answer_tokens: least.budgets, ..plan.least };
        return Ok(plan);
    }
    work.extrapolate(&mut plan, calls, &mine, &of_groups, options.seed)?;
    Ok(plan)
}

/// Everything that counting needs.
struct Work<'a, S: ?Sized> {
    panel: &'a Panel,
    judge: &'a dyn Judge,
    segments: &'a S,
    distinct: Mutex<Distinct>,
}

impl<S: Segments + ?Sized> Work<'_, S> {
    /// What each group surely asks, counted on all cores.
    fn rehearsed(&self, groups: &[&Group]) -> Result<Vec<Tally>, Error> {
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
        for question in rehearse(self.judge, &self.panel.wanting(&group.wanted), &members) {
            let prompt = tally::prompt(self.panel, question.role, &question.chat)
                .map_err(|reason| self.count_error(group, &reason))?;
            let shortest = question.shortest.as_deref();
            let answer = tally::answer(self.panel, question.role, shortest.unwrap_or_default());
            self.lock().enter(self.panel, question.role, prompt.ids.as_deref());
            tally.add(prompt.tokens, answer, question.max_tokens);
        }
        Ok(tally)
    }

    /// What is expected and the most, from a few groups that are judged. Groups that ask nothing are not drawn.
    fn extrapolate(
        &self,
        plan: &mut Plan,
        calls: Calls,
        groups: &[&Group],
        least: &[Tally],
        seed: u64,
    ) -> Result<(), Error> {
        let mut drawn: Vec<usize> = (0..groups.len()).filter(|&at| least[at].amount.calls > 0).collect();
        let n_asking = drawn.len();
        shuffle(&mut drawn, seed);
        drawn.truncate(SAMPLED);
        let (judged, new) = self.judged(groups, &drawn)?;
        let surely: Tally = drawn.iter().map(|&at| &least[at]).sum();
        plan.judged = drawn.len();
        plan.longest_prompt = plan.longest_prompt.max(judged.longest_prompt);
        plan.longest_call = plan.longest_call.max(judged.longest_call);
        let more = new.map(|of_some| of_all(&of_some, n_asking));
        let expected = scaled(&plan.least, &surely.amount, &judged.amount, more);
        plan.expected = Some(expected);
        let budget = least.iter().map(|tally| tally.largest_budget).max().unwrap_or(0);
        let n_calls = (plan.units * calls.most).max(plan.least.calls).max(expected.calls);
        plan.most = Amount {
            calls: n_calls,
            prompt_tokens: n_calls * plan.longest_prompt,
            distinct_tokens: None,
            answer_tokens: n_calls * budget.max(judged.largest_budget),
        };
        Ok(())
    }

    /// Judges the groups at these places and counts what they took: all calls, and the tokens of each group's prompts
    /// that neither the rehearsal nor an earlier group has brought.
    fn judged(&self, groups: &[&Group], drawn: &[usize]) -> Result<(Tally, Option<Vec<usize>>), Error> {
        let calls = in_parallel(drawn, |_, &at| {
            let panel = self.panel.fresh().wanting(&groups[at].wanted);
            // What it says of the segments is for the run to find out.
            drop(self.judge.judge(&panel, &groups[at].read(self.segments)?));
            Ok(panel.take_calls())
        });
        let calls: Vec<Vec<Call>> = calls.into_iter().collect::<Result<_, Error>>()?;
        let (mut tally, mut new_of_groups) = (Tally::default(), Vec::new());
        for (calls, &at) in calls.iter().zip(drawn) {
            let mut new_of_group = Some(0);
            for call in calls {
                let prompt = tally::prompt(self.panel, call.role, &call.chat)
                    .map_err(|reason| self.count_error(groups[at], &reason))?;
                let new = self.lock().enter(self.panel, call.role, prompt.ids.as_deref());
                new_of_group = new_of_group.zip(new).map(|(sum, n)| sum + n);
                let answer = call.reply.usage.generated.max(call.reply.tokens.len());
                tally.add(prompt.tokens, answer, answer);
            }
            new_of_groups.push(new_of_group);
        }
        Ok((tally, new_of_groups.into_iter().collect()))
    }

    fn count_error(&self, group: &Group, reason: &llm::Error) -> Error {
        let first = self.segments.outline(group.members[0]);
        Error::Count { system: first.system.to_owned(), seg: first.seg, reason: reason.to_string() }
    }

    fn distinct(&self) -> Option<usize> {
        self.lock().total()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Distinct> {
        self.distinct.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all groups take, when some took `judged` and surely take `some` of `all`; `more` are the distinct tokens
/// beyond the sure ones.
fn scaled(all: &Amount, some: &Amount, judged: &Amount, more: Option<usize>) -> Amount {
    let by = |all: usize, some: usize, judged: usize| {
        (all as f64 / some.max(1) as f64 * judged as f64).round() as usize
    };
    Amount {
        calls: by(all.calls, some.calls, judged.calls),
        prompt_tokens: by(all.prompt_tokens, some.prompt_tokens, judged.prompt_tokens),
        distinct_tokens: all.distinct_tokens.zip(more).map(|(n, more)| n + more),
        answer_tokens: by(all.calls, some.calls, judged.answer_tokens),
    }
}

/// New tokens of all groups from those of some: the first one's hold what all groups share, the others' do not.
fn of_all(of_some: &[usize], n_groups: usize) -> usize {
    let Some((first, rest)) = of_some.split_first() else { return 0 };
    let each =
        if rest.is_empty() { *first as f64 } else { rest.iter().sum::<usize>() as f64 / rest.len() as f64 };
    first + (each * n_groups.saturating_sub(1) as f64).round() as usize
}

impl Plan {
    /// What holds of the whole run, as names and values.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("segments", self.segments.to_string()),
            ("groups judged together", self.groups.to_string()),
            ("verdicts", self.units.to_string()),
            ("longest prompt, tokens", self.longest_prompt.to_string()),
            ("longest prompt and answer, tokens", self.longest_call.to_string()),
        ]
    }

    /// The amounts under their names, one row for each kind.
    #[must_use]
    pub fn amounts(&self) -> Vec<Vec<String>> {
        let columns: Vec<(&str, Amount)> =
            [("least", Some(self.least)), ("expected", self.expected), ("most", Some(self.most))]
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
        if self.expected.is_none() {
            return vec!["no call depends on an answer; at most every answer uses up its budget".into()];
        }
        let Self { judged, groups, .. } = self;
        vec![
            "least: the calls that depend on no answer, with the shortest answers".into(),
            format!("expected: what {judged} of {groups} groups took, drawn by the seed and judged for this, scaled to all"),
            "most: the method's limit of calls, each with the longest prompt and the largest answer budget seen".into(),
        ]
    }
}
