//! A trial of a run: a few groups are judged to estimate the rest. They are judged as the run would,
//! into its folder, and the run goes on from there. It counts no question beforehand ([`super::plan`] does).

use std::time::{Duration, Instant};

use super::{Error, RunConfig, Share, Task, plan::Amount};

/// The growth of each round over the previous one, until a round has as many concurrent groups as the machine
/// takes.
const GROWTH: usize = 4;

/// Result of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// Groups of this process's share.
    pub groups: usize,
    /// Groups that this trial has judged.
    pub judged: usize,
    /// Groups that are in the run folder now.
    pub kept: usize,
    /// Cost of all groups if the others are like those. Without the count of tokens that prompts share;
    /// `None` when there were no calls.
    pub expected: Option<Amount>,
    /// Time of the remaining groups, at the pace of the last round. `None` when no group was judged.
    pub seconds_left: Option<f64>,
    /// True if the last round was stopped before its groups were judged.
    pub is_cut: bool,
}

impl Task<'_> {
    /// Judges a few groups of a run within about this time, or one if a single one takes longer. `distinct`
    /// are the tokens of all prompts, common beginnings counted once, if available: the uncomputed part of
    /// them predicts the remaining time better than the length of the texts. Cancelling the configuration's
    /// `stop` ends the trial with the groups judged until then.
    ///
    /// # Errors
    /// The errors of [`Task::run`], except [`Error::Interrupted`].
    pub fn trial(&self, config: &RunConfig, time: Duration, distinct: Option<usize>) -> Result<Trial, Error> {
        let share = Share::of(self, config);
        let work = share.work(self, config);
        let size = |groups: &[usize]| groups.iter().map(|&group| work.estimate(group)).sum::<usize>() as f64;
        let mut trial = Trial { groups: share.mine.len(), ..Trial::default() };
        let (start, mut n, mut seconds_each) = (Instant::now(), 1, None);
        // The last round's groups and seconds; tokens computed before it, and now.
        let (mut round, mut of_round, mut computed) = (Vec::new(), 0.0, 0);
        let mut before;
        let left = loop {
            let begun = self.begin(&share, config)?;
            let is_left = |group: &usize| !begun.done.groups.contains(group);
            let (left, done): (Vec<usize>, Vec<usize>) = share.mine.iter().partition(|group| is_left(group));
            let judged: Vec<usize> = round.iter().copied().filter(|group| !is_left(group)).collect();
            if !judged.is_empty() {
                seconds_each = Some(of_round / size(&judged).max(1.0));
            }
            trial.judged += judged.len();
            trial.kept = done.len();
            let units = |groups: &[usize]| share.n_units(groups.iter()) as f64;
            let factors =
                [units(&share.mine) / units(&done).max(1.0), size(&share.mine) / size(&done).max(1.0)];
            trial.expected = Amount::of_all(&begun.done.sums.cost, factors);
            (before, computed) = (computed, begun.done.sums.cost.usage.computed);
            let took = start.elapsed();
            let is_time = seconds_each.is_none_or(|each: f64| {
                took.as_secs_f64() + each * size(&left[..n.min(left.len())]) < time.as_secs_f64()
            });
            if left.is_empty() || !is_time || trial.is_cut {
                break left;
            }
            round = left[..n.min(left.len())].to_vec();
            match work.run_all(&round, (begun.journal, begun.done), config) {
                Ok(_) => {}
                Err(Error::Interrupted(_)) => trial.is_cut = true,
                Err(error) => return Err(error),
            }
            of_round = start.elapsed().saturating_sub(took).as_secs_f64();
            n *= GROWTH;
        };
        let of_tokens = |all: usize| {
            let round = computed.checked_sub(before).filter(|n| *n > 0)?;
            Some(of_round * all.saturating_sub(computed) as f64 / round as f64)
        };
        trial.seconds_left = match seconds_each {
            _ if left.is_empty() => Some(0.0),
            Some(each) => Some(distinct.and_then(of_tokens).unwrap_or(each * size(&left))),
            None => None,
        };
        Ok(trial)
    }
}
