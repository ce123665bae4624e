//! Two judges on the same translations, from their judgements: the translations that both judged, how
//! similarly they order them ([`super::compare`]), and how well the error spans of one match those of the
//! other.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Apart, SideBySide, compare};
use crate::{
    Error, Result,
    align::Aligned,
    judgements::{Judgement, Judgements, Unit},
    spans::{self, Overlap, located},
};

/// Number of translations kept of those that two judges differ on most.
const APART: usize = 10;

/// Two judges.
#[derive(Clone, Debug, Serialize)]
pub struct JudgePair {
    pub systems: Vec<String>,
    pub units: Vec<String>,
    #[serde(flatten)]
    pub found: SideBySide,
    /// Character F1 of the spans of one judge against those of the other; `None` where one of them marks none
    /// at all.
    pub spans: Option<f64>,
    /// The translations that they differ on most.
    #[serde(skip)]
    pub hypotheses: Vec<String>,
}

impl JudgePair {
    /// Compares two judges on the translations that both judged.
    ///
    /// # Errors
    /// Judges of different texts, or of systems and of segments; no translation that both have a score on.
    pub fn new(first: &Judgements, second: &Judgements) -> Result<Self> {
        same_level(first, second)?;
        let shared = shared(first, second)?;
        let systems: BTreeSet<&str> = shared.keys().map(|(system, _)| *system).collect();
        let systems: Vec<String> = systems.into_iter().map(str::to_owned).collect();
        let units: BTreeSet<&Unit> = shared.keys().map(|(_, unit)| *unit).collect();
        let units: Vec<&Unit> = units.into_iter().collect();
        let score = |pick: fn(&(&Judgement, &Judgement)) -> Option<f64>| -> Vec<Option<f64>> {
            let cells =
                systems.iter().flat_map(|system| units.iter().map(move |unit| (system.as_str(), *unit)));
            cells.map(|cell| shared.get(&cell).and_then(pick)).collect()
        };
        let scores = Aligned {
            n_segments: units.len(),
            gold: score(|(a, _)| a.score),
            metric: score(|(_, b)| b.score),
            systems: systems.clone(),
        };
        let Ok(mut found) = compare(&scores) else {
            return Err(Error::Unsuitable(format!(
                "there is no translation that both `{}` and `{}` have a score on",
                first.name, second.name
            )));
        };
        found.apart.retain(|apart| apart.distance() > 0.0);
        found.apart.truncate(APART);
        let text =
            |cell: &Apart| shared[&(systems[cell.system].as_str(), units[cell.unit])].0.hypothesis.clone();
        Ok(Self {
            hypotheses: found.apart.iter().map(text).collect(),
            units: units.iter().map(ToString::to_string).collect(),
            spans: spans_of(shared.values()),
            systems,
            found,
        })
    }

    /// [`JudgePair::new`], or `None` where no translation has scores of both.
    ///
    /// # Errors
    /// Judges of different texts, or of systems and of segments.
    pub fn of_shared(first: &Judgements, second: &Judgements) -> Result<Option<Self>> {
        let both_scored = |(a, b): &(&Judgement, &Judgement)| a.score.is_some() && b.score.is_some();
        let is_shared = shared(first, second)?.values().any(both_scored);
        is_shared.then(|| Self::new(first, second)).transpose()
    }

    /// The share of pairs of systems in the same order; `None` where there is no pair.
    pub fn same_order(&self) -> Option<f64> {
        let agreement = self.found.systems.agreement;
        (agreement.pairs > 0).then(|| agreement.agree as f64 / agreement.pairs as f64)
    }
}

/// Rejects scores of systems beside scores of segments: a single score of a system is not the score of its
/// first segment.
fn same_level(first: &Judgements, second: &Judgements) -> Result<()> {
    let most = |judge: &Judgements| judge.systems.values().map(BTreeMap::len).max().unwrap_or(0);
    let is_file = |judge: &Judgements| judge.pairs().iter().all(|pair| pair.is_empty());
    for (systems, segments) in [(first, second), (second, first)] {
        let n = most(segments);
        if is_file(systems) && is_file(segments) && systems.systems.len() > 1 && most(systems) == 1 && n > 1 {
            return Err(Error::Unsuitable(format!(
                "`{}` has one score for each system, and `{}` has {n}: scores of systems and of segments\nhint: compare \
                 files of one level, `.seg.score` with `.seg.score`",
                systems.name, segments.name
            )));
        }
    }
    Ok(())
}

/// Judgements of two judges, by system and unit.
type Shared<'a> = BTreeMap<(&'a str, &'a Unit), (&'a Judgement, &'a Judgement)>;

/// True if two texts differ at most in white space, which tables of annotations cannot hold.
fn same_text(a: &str, b: &str) -> bool {
    a == b || a.split_whitespace().eq(b.split_whitespace())
}

/// The translations that both judged, by system and unit.
fn shared<'a>(first: &'a Judgements, second: &'a Judgements) -> Result<Shared<'a>> {
    let mut shared = BTreeMap::new();
    for (system, units) in &first.systems {
        let Some(others) = second.systems.get(system) else { continue };
        for (unit, a) in units {
            let Some(b) = others.get(unit) else { continue };
            if !same_text(&a.hypothesis, &b.hypothesis) || !same_text(&a.source, &b.source) {
                return Err(Error::Unsuitable(format!(
                    "`{}` and `{}` judged different texts as {unit} of `{system}`; hint: judges are compared on the \
                     same input",
                    first.name, second.name
                )));
            }
            shared.insert((system.as_str(), unit), (a, b));
        }
    }
    Ok(shared)
}

fn spans_of<'a>(shared: impl Iterator<Item = &'a (&'a Judgement, &'a Judgement)>) -> Option<f64> {
    let mut overlap = Overlap::default();
    for (a, b) in shared.filter(|(a, b)| a.score.is_some() && b.score.is_some()) {
        overlap.add(&spans::characters(&located(&a.errors), &located(&b.errors)));
    }
    (overlap.predicted > 0.0 && overlap.gold > 0.0).then(|| overlap.score().f1)
}
