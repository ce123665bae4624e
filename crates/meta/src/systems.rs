//! Systems side by side, by one judge's scores: means with intervals, and paired tests against a baseline, on
//! the units that all systems have a score on or on each system's own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Advice, Error, Result,
    judgements::{Judgement, Judgements, Unit},
    significance::paired::{PairedTest, compare_systems, mean_interval},
};

/// Units that systems are compared on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coverage {
    /// Units that every system has a score on.
    #[default]
    Common,
    /// All units that a system has a score on; differences are over the units that both systems share.
    Each,
}

/// Options for comparing systems.
#[derive(Clone, Debug, Default)]
pub struct Options<'a> {
    /// The language pair of the units; `None` for all units.
    pub pair: Option<&'a str>,
    pub coverage: Coverage,
    /// The system that all others are compared with; `None`: the first. Of no effect in the input's order.
    pub baseline: Option<&'a str>,
    pub order: Order<'a>,
    pub resamples: usize,
    pub seed: u64,
}

/// The order of the systems.
#[derive(Clone, Debug, Default)]
pub enum Order<'a> {
    #[default]
    BestFirst,
    /// That of the input, for judges whose means do not rank systems: none is compared with another.
    Input(Vec<&'a str>),
}

/// A system's mean and its comparison with the baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub system: String,
    /// Over the compared units; higher is better.
    pub mean: f64,
    /// 95% bootstrap interval of the mean.
    pub interval: (f64, f64),
    /// Units that the mean is over.
    pub units: usize,
    /// Units with a score.
    pub scored: usize,
    /// Units without a score.
    pub missing: usize,
    /// Units without a score whose translation is empty.
    pub empty: usize,
    /// Units that are not translations.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub untranslated: usize,
    /// Units on which the system and the baseline differ.
    pub differing: usize,
    /// Paired test over the units that both have a score on; `None` for the baseline.
    pub against_baseline: Option<PairedTest>,
}

/// A system's scores by unit.
type Scored<'a> = BTreeMap<&'a Unit, f64>;

/// A comparison of systems on the units of one language pair, or of all.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// `None` where the means do not rank systems.
    pub baseline: Option<String>,
    pub rows: Vec<Compared>,
    /// Units that only some systems have a score on, where these are not compared ([`Coverage::Common`]).
    pub n_left_out: usize,
}

/// Compares the systems.
///
/// # Errors
/// Fewer than two systems, a system without a score, systems that share no unit, a baseline that is none of
/// them.
pub fn compare(judges: &[&Judgements], options: &Options<'_>) -> Result<Comparison> {
    let &Options { pair, resamples, seed, .. } = options;
    let (judge_scores, missing) = scores_by_system(judges, pair);
    check_comparable(&judge_scores)?;
    let (compared, n_left_out) = match options.coverage {
        Coverage::Each => (judge_scores.clone(), 0),
        Coverage::Common => restrict_to_common(&judge_scores)?,
    };
    let row = |(system, scores): (&&str, &Scored)| {
        let values: Vec<f64> = scores.values().copied().collect();
        let (mean, interval) = mean_interval(&values, resamples, seed);
        Compared {
            system: (*system).to_owned(),
            mean,
            interval,
            units: values.len(),
            scored: judge_scores[system].len(),
            missing: missing[system],
            empty: count_judgements(judges, pair, system, |judgement| judgement.is_empty),
            untranslated: count_judgements(judges, pair, system, |judgement| judgement.warning.is_some()),
            differing: 0,
            against_baseline: None,
        }
    };
    let mut rows: Vec<Compared> = compared.iter().map(row).collect();
    if let Order::Input(order) = &options.order {
        // Systems that the order does not name come last.
        rows.sort_by_key(|row| order.iter().position(|name| *name == row.system).unwrap_or(usize::MAX));
        return Ok(Comparison { baseline: None, rows, n_left_out });
    }
    rows.sort_by(|a, b| b.mean.total_cmp(&a.mean).then(a.system.cmp(&b.system)));
    let baseline = options.baseline.unwrap_or(&rows[0].system).to_owned();
    let Some(base) = compared.get(baseline.as_str()) else {
        let known: Vec<&str> = judge_scores.keys().copied().collect();
        let reason = format!("no system `{baseline}`; hint: there are {}", known.join(", "));
        return Err(Error::Unsuitable(reason));
    };
    for row in rows.iter_mut().filter(|row| row.system != baseline) {
        let scores = compared[row.system.as_str()].iter();
        let pairs: Vec<(f64, f64)> =
            scores.filter_map(|(unit, score)| Some((*score, *base.get(unit)?))).collect();
        row.differing = pairs.iter().filter(|(score, base)| score.total_cmp(base).is_ne()).count();
        let test = compare_systems(&pairs, resamples, seed).map_err(|_| {
            let reason =
                format!("`{}` and `{baseline}` share no scored unit\nhint: {NOTHING_SHARED}", row.system);
            Error::Unsuitable(reason)
        })?;
        row.against_baseline = Some(test);
    }
    Ok(Comparison { baseline: Some(baseline), rows, n_left_out })
}

/// Checks that there are several systems, each with a score.
fn check_comparable(scored: &BTreeMap<&str, Scored<'_>>) -> Result<()> {
    if scored.len() < 2 {
        let reason = "only one system to compare; hint: give several files, or a run over several systems";
        return Err(Error::Unsuitable(reason.into()));
    }
    match scored.iter().find(|(_, scores)| scores.is_empty()) {
        Some((system, _)) => Err(Error::Unsuitable(format!(
            "system `{system}` has no score at all\nhint: `tribunal show RUN` says why its verdicts are missing"
        ))),
        None => Ok(()),
    }
}

/// Number of a system's judgements that fulfil a condition.
fn count_judgements(
    judges: &[&Judgements],
    pair: Option<&str>,
    system: &str,
    is_counted: fn(&Judgement) -> bool,
) -> usize {
    let units = judges.iter().filter_map(|judge| judge.systems.get(system)).flatten();
    units
        .filter(|(unit, judgement)| is_counted(judgement) && pair.is_none_or(|pair| unit.pair == pair))
        .count()
}

/// The scores of every system, and the number of its units without one.
fn scores_by_system<'a>(
    judges: &[&'a Judgements],
    pair: Option<&str>,
) -> (BTreeMap<&'a str, Scored<'a>>, BTreeMap<&'a str, usize>) {
    let (mut scores, mut missing) = (BTreeMap::new(), BTreeMap::new());
    for (system, units) in judges.iter().flat_map(|judge| &judge.systems) {
        let units: Vec<_> =
            units.iter().filter(|(unit, _)| pair.is_none_or(|pair| unit.pair == pair)).collect();
        if units.is_empty() {
            continue;
        }
        let scored: &mut Scored = scores.entry(system.as_str()).or_default();
        let before = scored.len();
        scored.extend(units.iter().filter_map(|(unit, judgement)| Some((*unit, judgement.score?))));
        *missing.entry(system.as_str()).or_default() += units.len() - (scored.len() - before);
    }
    (scores, missing)
}

/// Remedy where systems share no unit.
const NOTHING_SHARED: &str = "systems are compared on the same segments: judge them together, or give each the same \
                              `doc` and `seg_id`; leave out a system that has no score there";

/// The units that every system has a score on, and the number that only some systems have one on.
fn restrict_to_common<'a>(
    scored: &BTreeMap<&'a str, Scored<'a>>,
) -> Result<(BTreeMap<&'a str, Scored<'a>>, usize)> {
    let mut counts: BTreeMap<&Unit, usize> = BTreeMap::new();
    for unit in scored.values().flat_map(BTreeMap::keys) {
        *counts.entry(unit).or_default() += 1;
    }
    let n_units = counts.len();
    let is_shared = counts.values().any(|n| *n > 1);
    counts.retain(|_, n| *n == scored.len());
    if counts.is_empty() {
        let reason = "there is no unit that all systems have a score on";
        return Err(if is_shared && scored.len() > 2 {
            Error::Advised { reason: reason.into(), advice: Advice::EachPair }
        } else {
            Error::Unsuitable(format!("{reason}\nhint: {NOTHING_SHARED}"))
        });
    }
    let restricted = scored.iter().map(|(system, scores)| {
        let common = scores.iter().filter(|(unit, _)| counts.contains_key(*unit));
        (*system, common.map(|(unit, score)| (*unit, *score)).collect())
    });
    Ok((restricted.collect(), n_units - counts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_that_the_order_does_not_name_come_last() {
        let scores = ["a", "b", "c"].map(|system| (system.to_owned(), vec![Some(1.0), Some(2.0)]));
        let judge = Judgements::of_columns("judge", scores.into());
        let options = Options { order: Order::Input(vec!["c", "b"]), resamples: 1, ..Options::default() };
        let Comparison { baseline, rows, .. } = compare(&[&judge], &options).unwrap();
        assert_eq!(rows.iter().map(|row| row.system.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
        assert!(baseline.is_none() && rows.iter().all(|row| row.against_baseline.is_none()));
    }
}
