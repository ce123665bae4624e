//! The statistics of one judge on the page: means with intervals, paired tests of all systems, ranks. Each is
//! a function of `meta`; the units that they are over are selected here.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    meta::significance::{
        paired::{compare_systems, mean_interval},
        ranks::assign_ranks,
    },
    mqm::Severity,
    run::{Record, Status},
};

use super::{PairTest, Slice, Standing};

/// Significance level of differences between systems.
const ALPHA: f64 = 0.05;

/// More systems than this are not compared with each other: pairs grow with the square of systems, and no
/// reader follows thousands of them.
pub const MAX_COMPARED: usize = 200;

/// Statistics of a judge's systems: on each language pair, and below it on each of its domains where
/// documents have one.
pub fn slices(
    records: &[Record],
    domains: &BTreeMap<String, String>,
    resamples: usize,
    seed: u64,
) -> Vec<Slice> {
    let mut parts: BTreeMap<(String, String), BTreeMap<Option<String>, Vec<Record>>> = BTreeMap::new();
    for record in records {
        let pair = (record.src_lang.to_string(), record.tgt_lang.to_string());
        let by_domain = parts.entry(pair).or_default();
        by_domain.entry(None).or_default().push(record.clone());
        if let Some(domain) = domains.get(&record.doc) {
            by_domain.entry(Some(domain.clone())).or_default().push(record.clone());
        }
    }
    let mut slices = Vec::new();
    for (pair, by_domain) in parts {
        for (domain, records) in by_domain {
            slices.push(Slice { domain, ..of(&pair, &records, resamples, seed) });
        }
    }
    slices
}

/// A unit, whatever system translated it.
type Unit<'a> = (String, &'a str, Option<usize>);

type Scores<'a> = BTreeMap<Unit<'a>, f64>;

/// Over the units that every system has a score on; over each system's own where there is no such unit.
fn of(pair: &(String, String), records: &[Record], resamples: usize, seed: u64) -> Slice {
    let mut by_system: BTreeMap<&str, Scores<'_>> = BTreeMap::new();
    for record in records {
        let unit = (record.pair(), record.doc.as_str(), record.seg);
        let scores = by_system.entry(&record.system).or_default();
        if let Some(score) = record.score {
            scores.insert(unit, score);
        }
    }
    let scored = || by_system.values().filter(|scores| !scores.is_empty());
    let mut shared: BTreeSet<&Unit<'_>> = scored().next().into_iter().flat_map(BTreeMap::keys).collect();
    for scores in scored() {
        shared.retain(|unit| scores.contains_key(*unit));
    }
    let common = Some(shared.len()).filter(|n| *n > 0);
    let compared: BTreeMap<&str, Scores<'_>> = (by_system.iter())
        .map(|(system, scores)| {
            let compared = scores.iter().filter(|(unit, _)| common.is_none() || shared.contains(unit));
            (*system, compared.map(|(unit, score)| (unit.clone(), *score)).collect())
        })
        .collect();
    let are_compared = compared.len() <= MAX_COMPARED;
    let contests = if are_compared { contests(&compared, resamples, seed) } else { Vec::new() };
    let mut judged: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        judged.entry(&record.system).or_default().push(record);
    }
    let mut standings: Vec<Standing> = compared
        .iter()
        .map(|(system, scores)| standing(system, scores, &judged[system], resamples, seed))
        .collect();
    if are_compared {
        rank(&mut standings, &contests);
    } else {
        standings.sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(std::cmp::Ordering::Equal));
    }
    Slice { pair: pair.clone(), domain: None, standings, contests, common }
}

/// A system's place; `mine` are all verdicts on it.
fn standing(system: &str, scores: &Scores<'_>, mine: &[&Record], resamples: usize, seed: u64) -> Standing {
    let values: Vec<f64> = scores.values().copied().collect();
    let interval = (!values.is_empty()).then(|| mean_interval(&values, resamples, seed));
    let with_verdict = mine.iter().filter(|record| record.score.is_some()).count();
    let per_unit = |severity: Severity| {
        let errors = mine.iter().flat_map(|record| &record.errors).filter(|error| error.severity == severity);
        errors.map(|error| error.times).sum::<usize>() as f64 / with_verdict.max(1) as f64
    };
    Standing {
        system: system.to_owned(),
        score: interval.map(|(mean, _)| mean),
        low: interval.map(|(_, (low, _))| low),
        high: interval.map(|(_, (_, high))| high),
        rank: None,
        units: mine.len(),
        missing: mine.len() - with_verdict,
        empty: mine.iter().filter(|record| record.status == Status::Empty).count(),
        severities: Severity::ALL.map(per_unit),
    }
}

fn contests(compared: &BTreeMap<&str, Scores<'_>>, resamples: usize, seed: u64) -> Vec<PairTest> {
    let systems: Vec<(&&str, &Scores<'_>)> = compared.iter().collect();
    let mut contests = Vec::new();
    for (idx, (a, scores)) in systems.iter().enumerate() {
        for (b, others) in &systems[idx + 1..] {
            let both: Vec<(f64, f64)> =
                scores.iter().filter_map(|(unit, score)| Some((*score, *others.get(unit)?))).collect();
            // Undefined where the two share no unit.
            let Ok(test) = compare_systems(&both, resamples, seed) else { continue };
            let counted = |order: std::cmp::Ordering| {
                both.iter().filter(|(first, second)| first.total_cmp(second) == order).count()
            };
            contests.push(PairTest {
                a: (**a).to_owned(),
                b: (**b).to_owned(),
                wins: counted(std::cmp::Ordering::Greater),
                ties: counted(std::cmp::Ordering::Equal),
                losses: counted(std::cmp::Ordering::Less),
                difference: test.difference,
                p: test.randomization_p,
            });
        }
    }
    contests
}

/// Sorts systems from the best to the worst and gives them the ranks of their clusters.
fn rank(standings: &mut [Standing], contests: &[PairTest]) {
    let means: Vec<(String, f64)> =
        standings.iter().filter_map(|s| Some((s.system.clone(), s.score?))).collect();
    let ordered = |contest: &PairTest| {
        let (a, b) = (contest.a.clone(), contest.b.clone());
        (if contest.difference >= 0.0 { (a, b) } else { (b, a) }, contest.p)
    };
    let ranked = assign_ranks(&means, &contests.iter().map(ordered).collect(), ALPHA);
    for standing in standings.iter_mut() {
        standing.rank = ranked.iter().find(|one| one.name == standing.system).map(|one| one.rank);
    }
    let place =
        |standing: &Standing| ranked.iter().position(|one| one.name == standing.system).unwrap_or(usize::MAX);
    standings.sort_by_key(place);
}
