//! Bounds on a run's calls and tokens: the questions that are certain are recorded and counted without a
//! model. A [trial](crate::trial) estimates the actual numbers.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    calls::CallRetention,
    draw::shuffle,
    error::Error,
    groups::{self, Group},
    judges::{Judge, Panel, RehearsedQuestion, method::Calls, rehearse, rehearse_unanswered},
    llm, parallel,
    segment::{Segment, Segments},
    summary::Cost,
    task::RunConfig,
};

mod disk;
mod tally;

use tally::{Distinct, ScoredTexts, Tally};

/// Cost of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub calls: usize,
    /// Tokens of the prompts as sent: common beginnings are counted each time.
    pub prompt_tokens: usize,
    /// Tokens of the prompts with common beginnings to the same model counted once: the part that the prefix
    /// cache leaves to compute. `None` when a model does not show its tokens.
    pub distinct_tokens: Option<usize>,
    pub answer_tokens: usize,
}

/// Bounds on the cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    /// Segments in the groups, those that are only shown among them.
    pub segments: usize,
    pub groups: usize,
    /// Groups whose questions were counted; where these are not all, amounts are scaled from them to all.
    pub counted: usize,
    pub units: usize,
    /// Bytes of the sources and translations that are judged.
    pub text_bytes: usize,
    /// Bytes of `input.jsonl`, which has the segments that are not judged, too.
    pub input_bytes: usize,
    /// Exact where all groups were counted: the questions that do not depend on an answer, each answered as
    /// shortly as its form allows.
    pub least: Amount,
    /// The method's limit of calls, each as long as the longest prompt and with the largest budget among
    /// those that the shortest answers lead to; where no call depends on an answer, the same calls as `least`
    /// with answers that use up their budgets.
    pub most: Amount,
    /// True if no call depends on an answer.
    pub is_fixed: bool,
    /// Tokens of the longest prompt among those that the shortest answers lead to.
    pub longest_prompt: usize,
    /// The most tokens that the prompt and the answer of one of these calls can take.
    pub longest_call: usize,
    /// Bytes of a prompt in `calls.jsonl` for each of its tokens.
    pub prompt_bytes: f64,
    /// Questions of counted groups whose tokens are extrapolated from other questions of the group.
    pub uncounted: usize,
}

/// Limits of counting questions.
pub struct Counting<'a> {
    pub config: &'a RunConfig,
    /// After this time no more are counted than have been, one question at least; `None` counts all.
    pub time: Option<Duration>,
    /// Called with the number of counted groups, and of all.
    pub shown: &'a (dyn Fn(usize, usize) + Sync),
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
    plan_within(panel, judge, calls, segments, &Counting { config, time: None, shown: &|_, _| {} })
}

/// Plans from as many groups as can be counted in some time.
///
/// # Errors
/// The errors of [`plan`].
pub fn plan_within<S: Segments + ?Sized>(
    panel: &Panel,
    judge: &Judge,
    calls: Calls,
    segments: &S,
    counting: &Counting<'_>,
) -> Result<Plan, Error> {
    let config = counting.config;
    let all = groups::groups(segments, &config.selection, judge.grouping, config.seed);
    let all = groups::each_apart(all, judge);
    let mine: Vec<&Group> =
        config.shard.choose(segments, &all).into_iter().map(|group| &all[group]).collect();
    let work = |rehearse| Work { panel, judge, segments, rehearse, distinct: Mutex::default() };
    let answered = work(rehearse);
    // A group that is begun in time is counted whole, unless it takes that time again.
    let end = || counting.time.map(|time| Instant::now() + 2 * time);
    let (at, of_groups): (Vec<usize>, Vec<Tally>) =
        answered.rehearsed(&mine, counting, end())?.into_iter().unzip();
    let counted: Vec<&Group> = at.into_iter().map(|at| mine[at]).collect();
    let units = answered.n_units(&mine);
    let times = (counted.len() < mine.len()).then(|| answered.shares(&mine, &counted));
    let reached = answered.sum(&of_groups, times);
    // A question that follows a free answer is not among those that were noted.
    let is_cut = |tally: &Tally| (1..calls.least).contains(&tally.amount.calls);
    let is_fixed = calls.least == calls.most && !of_groups.iter().any(is_cut);
    let (least, most) = if is_fixed {
        (reached.amount, Amount { answer_tokens: reached.budgets, ..reached.amount })
    } else {
        // The shortest answers need not lead to the fewest questions.
        let unanswered = work(rehearse_unanswered);
        let all_groups = Counting { config, time: None, shown: &|_, _| {} };
        let tallies = unanswered.rehearsed(&counted, &all_groups, end())?.into_iter().map(|(_, tally)| tally);
        let least = unanswered.sum(&tallies.collect::<Vec<_>>(), times).amount;
        let calls = (units * calls.most).max(reached.amount.calls);
        let most = Amount {
            calls,
            prompt_tokens: calls * reached.longest_prompt,
            distinct_tokens: None,
            answer_tokens: calls * reached.largest_budget,
        };
        (least, most)
    };
    let judged = |group: &&Group| group.judged.iter().map(|&at| group.members[at]).collect::<Vec<_>>();
    let n_bytes = |idx| segments.outline(idx).n_bytes;
    let text_bytes = mine.iter().flat_map(judged).map(n_bytes).sum();
    Ok(Plan {
        segments: mine.iter().flat_map(|group| group.members.iter()).collect::<HashSet<_>>().len(),
        groups: mine.len(),
        counted: counted.len(),
        units,
        text_bytes,
        input_bytes: (0..segments.n_segments()).map(|idx| disk::SEGMENT + n_bytes(idx)).sum(),
        least,
        most,
        is_fixed,
        longest_prompt: reached.longest_prompt,
        longest_call: reached.longest_call,
        prompt_bytes: reached.chat_bytes as f64 / reached.amount.prompt_tokens.max(1) as f64,
        uncounted: reached.uncounted,
    })
}

/// The questions of a group, with their shortest answers as far as these are found until a time.
type Rehearse = fn(&Judge, &Panel, &[Segment], Option<Instant>) -> Vec<RehearsedQuestion>;

fn scaled(n: usize, times: f64) -> usize {
    (n as f64 * times).round() as usize
}

/// Context of counting.
struct Work<'a, S: ?Sized> {
    panel: &'a Panel,
    judge: &'a Judge,
    segments: &'a S,
    rehearse: Rehearse,
    distinct: Mutex<Distinct>,
}

impl<S: Segments + ?Sized> Work<'_, S> {
    /// The questions of the counted groups together, or a multiple of them.
    fn sum(self, of_groups: &[Tally], times: Option<[f64; 2]>) -> Tally {
        let mut sum: Tally = of_groups.iter().sum();
        let distinct = self.distinct.into_inner();
        sum.amount.distinct_tokens = distinct.total();
        times.map_or(sum, |times| sum.scaled(times))
    }

    fn n_units(&self, groups: &[&Group]) -> usize {
        groups.iter().map(|group| group.units(self.segments, self.judge.unit).len()).sum()
    }

    /// Ratios of all groups to some of them: of units, and of estimated tokens.
    fn shares(&self, all: &[&Group], some: &[&Group]) -> [f64; 2] {
        let tokens = |groups: &[&Group]| {
            groups.iter().map(|group| groups::estimated_tokens(self.segments, group)).sum::<usize>()
        };
        let share = |all: usize, some: usize| all as f64 / some.max(1) as f64;
        [share(self.n_units(all), self.n_units(some)), share(tokens(all), tokens(some))]
    }

    /// The certain questions of each group, with its place among all, counted on all cores. Where there is
    /// time for some alone, these are drawn by the seed.
    fn rehearsed(
        &self,
        groups: &[&Group],
        counting: &Counting<'_>,
        end: Option<Instant>,
    ) -> Result<Vec<(usize, Tally)>, Error> {
        let mut order: Vec<usize> = (0..groups.len()).collect();
        if counting.time.is_some() {
            shuffle(&mut order, counting.config.seed);
        }
        let (begun, next, done) = (Instant::now(), AtomicUsize::new(0), AtomicUsize::new(0));
        let is_time = || counting.time.is_none_or(|time| begun.elapsed() < time);
        let count = || {
            let mut tallies = Vec::new();
            while is_time() || done.load(Ordering::Relaxed) == 0 {
                let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                tallies.push((at, self.rehearse(groups[at], end)?));
                (counting.shown)(done.fetch_add(1, Ordering::Relaxed) + 1, groups.len());
            }
            Ok(tallies)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let counted: Result<Vec<Vec<_>>, Error> = parallel::on_threads(threads, count).into_iter().collect();
        let mut tallies = counted?.concat();
        tallies.sort_by_key(|(at, _)| *at);
        Ok(tallies)
    }

    /// Counts a group's questions until a time, one at least.
    fn rehearse(&self, group: &Group, end: Option<Instant>) -> Result<Tally, Error> {
        let members = group.read(self.segments)?;
        let mut tally = Tally::default();
        let questions = (self.rehearse)(self.judge, &self.panel.wanting(&group.judged), &members, end);
        let n_questions = questions.len();
        for (n_counted, question) in questions.into_iter().enumerate() {
            if n_counted > 0 && end.is_some_and(|end| Instant::now() >= end) {
                self.distinct.lock().hide();
                return Ok(tally.extrapolated(n_questions));
            }
            let prompt = tally::prompt(self.panel, question.role, &question.chat)
                .map_err(|reason| self.count_error(group, &reason))?;
            let shortest = question.shortest.as_deref();
            let answer = tally::answer(self.panel, question.role, shortest.unwrap_or_default());
            // A budget may be too small for any answer.
            let answer = answer.min(question.max_tokens);
            let scored = ScoredTexts::new(self.panel, &question);
            tally.add(prompt.tokens + scored.tokens, answer, question.max_tokens);
            tally.chat_bytes += disk::bytes(&question.chat);
            let mut distinct = self.distinct.lock();
            distinct.enter(self.panel, question.role, &prompt, &scored);
        }
        Ok(tally)
    }

    fn count_error(&self, group: &Group, reason: &llm::Error) -> Error {
        let first = self.segments.outline(group.members[0]);
        Error::Count { system: first.system.to_owned(), seg: first.seg, reason: reason.to_string() }
    }
}

impl Amount {
    /// A cost scaled by a factor: calls and tokens. `None` when there were none.
    pub fn of_all(cost: &Cost, times: [f64; 2]) -> Option<Self> {
        let took = Self {
            calls: cost.calls,
            prompt_tokens: cost.usage.prompt(),
            distinct_tokens: None,
            answer_tokens: cost.usage.generated,
        };
        (cost.calls > 0).then(|| took.scaled(times))
    }

    /// Calls and tokens so many times.
    fn scaled(self, [calls, tokens]: [f64; 2]) -> Self {
        let Self { calls: n, prompt_tokens, distinct_tokens, answer_tokens } = self;
        Self {
            calls: scaled(n, calls),
            prompt_tokens: scaled(prompt_tokens, tokens),
            distinct_tokens: distinct_tokens.map(|n| scaled(n, tokens)),
            answer_tokens: scaled(answer_tokens, tokens),
        }
    }
}

impl Plan {
    /// Expected cost of a run whose trial was scaled to the whole: at least the certain cost. Where questions
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

    /// Expected cost without a trial: so many calls for a unit, each with the average prompt of the calls
    /// that are certain and an answer of so many tokens, within the bounds. `answer`: tokens of an answer
    /// about texts of any length, and for each 1,000 bytes of source and translation.
    pub fn usual(&self, calls: usize, answer: [usize; 2]) -> Amount {
        let of_text = answer[1] as f64 / 1000.0 * self.text_bytes as f64 / self.units.max(1) as f64;
        let answer_tokens = answer[0] as f64 + of_text;
        let Self { least, most, .. } = self;
        let n = (self.units * calls).clamp(least.calls, most.calls.max(least.calls));
        let share = n as f64 / least.calls.max(1) as f64;
        let answers = most.answer_tokens.max(least.answer_tokens);
        Amount {
            calls: n,
            answer_tokens: scaled(n, answer_tokens).clamp(least.answer_tokens, answers),
            ..least.scaled([share, share])
        }
    }

    /// Bytes of the finished run folder.
    pub fn disk(&self, amount: Amount, retention: CallRetention) -> u64 {
        let Self { units, text_bytes, input_bytes, .. } = *self;
        let Amount { calls, answer_tokens, .. } = amount;
        let prompts = self.prompt_bytes * amount.prompt_tokens as f64;
        let contents =
            disk::Contents { calls, prompts, answer_tokens, units, texts: text_bytes, input: input_bytes };
        contents.bytes(retention)
    }

    /// Properties of the whole run, as names and values.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("translations", self.segments.to_string()),
            ("groups judged together", self.groups.to_string()),
            ("verdicts", self.units.to_string()),
            ("longest prompt, tokens", self.longest_prompt.to_string()),
            ("longest prompt and answer, tokens", self.longest_call.to_string()),
        ]
    }

    /// The amounts under their names, one row for each kind; `expected` after a trial.
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

    /// Notes on how the amounts were computed.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        if self.is_fixed {
            notes.push(
                "every call is known, since none depends on an answer; answers: least as short as can be, most as long as their \
                 budgets"
                    .into(),
            );
        } else {
            notes.push("least: the calls that depend on no answer, with the shortest answers".into());
            notes.push(
                "most: the method's limit of calls, each with the longest prompt and the largest answer budget of those that \
                 the shortest answers lead to; questions that quote earlier answers can be longer, and those whose answers \
                 cannot be used are asked again"
                    .into(),
            );
        }
        if self.uncounted > 0 {
            notes.push(format!(
                "{} prompts of long groups were not counted in the time there was: their tokens are extrapolated from the \
                 others of the group",
                self.uncounted
            ));
        }
        if self.counted < self.groups {
            notes.push(format!(
                "the prompts of {} of {} groups, drawn by the seed, were counted in the time there was: least and most are \
                 extrapolated from these to all",
                self.counted, self.groups
            ));
        }
        notes
    }
}
