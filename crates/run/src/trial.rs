//! A trial of a run: a few groups are judged to estimate the rest. They are judged as the run would,
//! into its folder, and the run goes on from there. It counts no question beforehand ([`crate::plan`] does).

use std::time::{Duration, Instant};

use crate::{
    error::Error,
    plan::Amount,
    task::{RunConfig, Task},
};

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
    pub n_kept: usize,
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
        let mut trial = Trial::default();
        let (start, mut n, mut seconds_each) = (Instant::now(), 1, None);
        // The last round's groups and seconds; tokens computed before it, and now.
        let (mut round, mut of_round, mut computed): (Vec<usize>, _, _) = (Vec::new(), 0.0, 0);
        let mut before;
        let work_left = loop {
            let mut run = self.open(config)?;
            let (complete, left) = run.by_state();
            let layout = &run.layout;
            let size = |groups: &[usize]| layout.estimate(groups) as f64;
            let judged: Vec<usize> = round.iter().copied().filter(|group| complete.contains(group)).collect();
            if !judged.is_empty() {
                seconds_each = Some(of_round / size(&judged).max(1.0));
            }
            trial.groups = run.share.len();
            trial.judged += judged.len();
            trial.n_kept = complete.len();
            let cost = &run.resumed.sums.cost;
            let units = |groups: &[usize]| layout.n_units(groups) as f64;
            let factors =
                [units(&run.share) / units(&complete).max(1.0), size(&run.share) / size(&complete).max(1.0)];
            trial.expected = Amount::of_all(cost, factors);
            (before, computed) = (computed, cost.usage.computed);
            let took = start.elapsed();
            round = left[..n.min(left.len())].to_vec();
            let is_time = seconds_each
                .is_none_or(|each: f64| took.as_secs_f64() + each * size(&round) < time.as_secs_f64());
            if left.is_empty() || !is_time || trial.is_cut {
                break size(&left);
            }
            match run.judge_groups(round.clone()) {
                Ok(()) => {}
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
            _ if trial.n_kept == trial.groups => Some(0.0),
            Some(each) => Some(distinct.and_then(of_tokens).unwrap_or(each * work_left)),
            None => None,
        };
        Ok(trial)
    }
}
