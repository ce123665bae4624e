//! A dry run: how many calls and tokens a run takes, at least, by expectation and at most. The least is what the
//! judge surely asks, noted and counted without a model. Where more depends on the answers, a few groups are really
//! judged. Memory and hours are for whoever knows the engine.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    Error, Options,
    draw::shuffle,
    groups::{self, Group},
};
use crate::{
    judges::{Call, Judge, Panel, Question, Role, in_parallel, method::Calls, rehearse},
    llm,
    segment::Segments,
};

mod computed;
mod tally;

pub use computed::Computed;
use tally::{Distinct, Given, Tally};

/// Groups that are judged to see what else a method asks.
const SAMPLED: usize = 5;

/// Answers that tell how long the others will be, where groups have fewer questions.
const ANSWERED: usize = 24;

/// Judging a sample goes on beyond the first groups only within this time.
const SAMPLE_TIME: Duration = Duration::from_secs(15);

/// Questions that are kept of each model, to measure its pace with.
const EXAMPLES: usize = 64;

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

/// What one model reads and writes in a whole run, as far as is known or expected.
#[derive(Clone, Debug)]
pub struct Load {
    /// One of the roles that the model plays.
    pub role: Role,
    pub calls: usize,
    /// What prompts have in common counted once, where the model shows its tokens.
    pub prompts: Computed,
    pub answer_tokens: usize,
    /// How many questions of a group wait for the model at a time, on the average over the time that the group takes.
    pub side_by_side: f64,
    /// Some of the questions. The groups that were judged have asked them, so the model knows their prompts.
    pub examples: Vec<Question>,
}

impl Load {
    fn new(role: Role) -> Self {
        let (prompts, examples) = (Computed::default(), Vec::new());
        Self { role, calls: 0, prompts, answer_tokens: 0, side_by_side: 0.0, examples }
    }
}

/// Plans as [`plan`] does, and also finds out how long answers are where their number is known: for an estimate of time.
/// A few groups are judged for it.
///
/// # Errors
/// As [`plan`].
pub fn foretell<S: Segments + ?Sized>(
    panel: &Panel,
    judge: &dyn Judge,
    calls: Calls,
    segments: &S,
    options: &Options,
) -> Result<(Plan, Vec<Load>), Error> {
    planned(panel, judge, calls, segments, options, Answers::Asked)
}

/// Whether answers are asked for only to see how many there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Asked,
    NotAsked,
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
    planned(panel, judge, calls, segments, options, Answers::NotAsked).map(|(plan, _)| plan)
}

fn planned<S: Segments + ?Sized>(
    panel: &Panel,
    judge: &dyn Judge,
    calls: Calls,
    segments: &S,
    options: &Options,
    answers: Answers,
) -> Result<(Plan, Vec<Load>), Error> {
    let all = groups::groups(segments, &options.selection, judge.group(), options.seed);
    let mine: Vec<&Group> =
        options.shard.choose(segments, &all).into_iter().map(|group| &all[group]).collect();
    let work = Work { panel, judge, segments, answers, counted: Mutex::default() };
    let of_groups = work.rehearsed(&mine)?;
    let least: Tally = of_groups.iter().sum();
    let units = mine.iter().map(|group| group.units(segments, judge.unit()).len()).sum::<usize>();
    let mut plan = Plan {
        segments: mine.iter().map(|group| group.members.len()).sum(),
        groups: mine.len(),
        units,
        least: Amount { distinct_tokens: work.lock().distinct.total(), ..least.amount },
        longest_prompt: least.longest_prompt,
        longest_call: least.longest_call,
        ..Plan::default()
    };
    // A question that follows a free answer is not among those that were noted.
    let is_cut = |tally: &Tally| (1..calls.least).contains(&tally.amount.calls);
    let is_fixed = calls.least == calls.most && !of_groups.iter().any(is_cut);
    if !is_fixed || answers == Answers::Asked {
        work.extrapolate(&mut plan, calls, &mine, &of_groups, options.seed)?;
    }
    if is_fixed {
        // What is asked is known; only the answers' lengths are not.
        let exact = |amount: Amount| Amount { answer_tokens: amount.answer_tokens, ..plan.least };
        plan.expected = plan.expected.map(exact);
        plan.most = Amount { answer_tokens: least.budgets, ..plan.least };
    }
    let loads = work.counted.into_inner().unwrap_or_else(PoisonError::into_inner).loads;
    Ok((plan, loads))
}

/// Everything that counting needs.
struct Work<'a, S: ?Sized> {
    panel: &'a Panel,
    judge: &'a dyn Judge,
    segments: &'a S,
    answers: Answers,
    counted: Mutex<Counted>,
}

/// What has been counted so far.
#[derive(Default)]
struct Counted {
    distinct: Distinct,
    /// By the number of the model.
    loads: Vec<Load>,
}

impl Counted {
    /// Enters a prompt and what is given behind it; what of it is new, `None` where the model does not show its tokens.
    fn enter(
        &mut self,
        panel: &Panel,
        role: Role,
        prompt: &tally::Prompt,
        given: &Given,
    ) -> (usize, Option<Computed>) {
        let (model, new) = self.distinct.enter(panel, role, prompt, given);
        if model == self.loads.len() {
            self.loads.push(Load::new(role));
        }
        (model, new)
    }
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
            let given = Given::of(self.panel, &question);
            let tokens = prompt.tokens + given.tokens;
            tally.add(tokens, answer, question.max_tokens);
            let mut counted = self.lock();
            let (model, new) = counted.enter(self.panel, question.role, &prompt, &given);
            let load = &mut counted.loads[model];
            load.calls += 1;
            load.prompts += new.unwrap_or_else(|| Computed::last(tokens, tokens));
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
        let judged = self.judged(groups, &mut drawn, least)?;
        let surely: Tally = drawn.iter().map(|&at| &least[at]).sum();
        let all: Tally = judged.iter().map(|group| &group.tally).sum();
        plan.judged = drawn.len();
        plan.longest_prompt = plan.longest_prompt.max(all.longest_prompt);
        plan.longest_call = plan.longest_call.max(all.longest_call);
        let news: Option<Vec<Computed>> = judged.iter().map(|group| group.new).collect();
        let more = news.map(|of_some| Computed::of_all(&of_some, n_asking).tokens);
        let expected = scaled(&plan.least, &surely.amount, &all.amount, more);
        plan.expected = Some(expected);
        let factor = plan.least.calls as f64 / surely.amount.calls.max(1) as f64;
        for (model, load) in self.lock().loads.iter_mut().enumerate() {
            let of_model: Vec<Spent> = judged.iter().map(|group| group.of_model(model)).collect();
            let sum = |value: fn(&Spent) -> usize| of_model.iter().map(value).sum::<usize>() as f64 * factor;
            let new: Vec<Computed> = of_model.iter().map(|spent| spent.new).collect();
            load.calls = sum(|spent| spent.calls).round() as usize;
            load.answer_tokens = sum(|spent| spent.answered).round() as usize;
            load.prompts += Computed::of_all(&new, n_asking);
            let side_by_side: f64 = of_model.iter().map(|spent| spent.side_by_side).sum();
            load.side_by_side = side_by_side / of_model.len().max(1) as f64;
        }
        if self.answers == Answers::Asked {
            self.keep_examples(drawn.iter().map(|&at| groups[at]))?;
        }
        let budget = least.iter().map(|tally| tally.largest_budget).max().unwrap_or(0);
        let n_calls = (plan.units * calls.most).max(plan.least.calls).max(expected.calls);
        plan.most = Amount {
            calls: n_calls,
            prompt_tokens: n_calls * plan.longest_prompt,
            distinct_tokens: None,
            answer_tokens: n_calls * budget.max(all.largest_budget),
        };
        Ok(())
    }

    /// Keeps what groups that were judged surely ask, to measure the models' pace with.
    fn keep_examples<'g>(&self, judged: impl Iterator<Item = &'g Group>) -> Result<(), Error> {
        for group in judged {
            let members = group.read(self.segments)?;
            for question in rehearse(self.judge, &self.panel.wanting(&group.wanted), &members) {
                let mut counted = self.lock();
                let mut loads = counted.loads.iter_mut();
                let of_model = loads.find(|load| self.panel.is_one_model(load.role, question.role));
                if let Some(load) = of_model.filter(|load| load.examples.len() < EXAMPLES) {
                    load.examples.push(question);
                }
            }
        }
        Ok(())
    }

    /// Judges the first of the drawn groups, and as many more as tell how long answers are if that takes no time; the
    /// others are taken out.
    fn judged(
        &self,
        groups: &[&Group],
        drawn: &mut Vec<usize>,
        least: &[Tally],
    ) -> Result<Vec<Judged>, Error> {
        let start = Instant::now();
        let first = SAMPLED.min(drawn.len());
        let mut judged = self.judge_some(groups, &drawn[..first])?;
        let mut n_more = 0;
        let mut n_asked: usize = drawn[..first].iter().map(|&at| least[at].amount.calls).sum();
        let enough = if self.answers == Answers::Asked { ANSWERED } else { 0 };
        while n_asked < enough && first + n_more < drawn.len() && start.elapsed() < SAMPLE_TIME {
            n_asked += least[drawn[first + n_more]].amount.calls;
            n_more += 1;
        }
        judged.extend(self.judge_some(groups, &drawn[first..first + n_more])?);
        drawn.truncate(first + n_more);
        Ok(judged)
    }

    /// Judges the groups at these places and counts what they took: all calls, and the tokens of each group's prompts
    /// that neither the rehearsal nor an earlier group has brought.
    fn judge_some(&self, groups: &[&Group], places: &[usize]) -> Result<Vec<Judged>, Error> {
        let calls = in_parallel(places, |_, &at| {
            let panel = self.panel.fresh().wanting(&groups[at].wanted);
            let members = groups[at].read(self.segments)?;
            let start = Instant::now();
            // What it says of the segments is for the run to find out.
            drop(self.judge.judge(&panel, &members));
            Ok((panel.take_calls(), start.elapsed().as_secs_f64()))
        });
        let calls: Vec<(Vec<Call>, f64)> = calls.into_iter().collect::<Result<_, Error>>()?;
        calls
            .iter()
            .zip(places)
            .map(|((calls, taken), &at)| self.counted(groups[at], calls, *taken))
            .collect()
    }

    /// Counts the calls of a group that was judged in so many seconds.
    fn counted(&self, group: &Group, calls: &[Call], seconds: f64) -> Result<Judged, Error> {
        let mut judged = Judged { new: Some(Computed::default()), ..Judged::default() };
        for call in calls {
            let prompt = tally::prompt(self.panel, call.role, &call.chat)
                .map_err(|reason| self.count_error(group, &reason))?;
            let given = Given::weighed(call);
            let tokens = prompt.tokens + given.tokens;
            let (model, new) = self.lock().enter(self.panel, call.role, &prompt, &given);
            judged.new = judged.new.zip(new).map(|(sum, new)| [sum, new].into_iter().sum());
            let answer = call.reply.usage.generated.max(call.reply.tokens.len());
            judged.tally.add(tokens, answer, answer);
            let spent = judged.of_models.entry(model).or_default();
            spent.calls += 1;
            spent.new += new.unwrap_or_else(|| Computed::last(tokens, tokens));
            spent.answered += answer;
            spent.side_by_side += call.seconds / seconds.max(1e-9);
        }
        Ok(judged)
    }

    fn count_error(&self, group: &Group, reason: &llm::Error) -> Error {
        let first = self.segments.outline(group.members[0]);
        Error::Count { system: first.system.to_owned(), seg: first.seg, reason: reason.to_string() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a group took that was judged.
#[derive(Default)]
struct Judged {
    tally: Tally,
    /// New tokens of its prompts.
    new: Option<Computed>,
    of_models: BTreeMap<usize, Spent>,
}

impl Judged {
    fn of_model(&self, model: usize) -> Spent {
        self.of_models.get(&model).copied().unwrap_or_default()
    }
}

/// What a group took of one model.
#[derive(Clone, Copy, Default)]
struct Spent {
    calls: usize,
    new: Computed,
    answered: usize,
    /// As in [`Load`].
    side_by_side: f64,
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
        if self.most.calls == self.least.calls {
            return vec![
                "calls and prompts are exact: no call depends on an answer".into(),
                format!(
                    "answers: least as short as can be; expected from {judged} of {groups} groups, judged for this"
                ),
            ];
        }
        vec![
            "least: the calls that depend on no answer, with the shortest answers".into(),
            format!("expected: what {judged} of {groups} groups took, drawn by the seed and judged for this, scaled to all"),
            "most: the method's limit of calls, each with the longest prompt and the largest answer budget seen".into(),
        ]
    }
}
