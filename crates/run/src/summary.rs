//! `summary.json`: systems side by side, and the cost of the run. It contains no significance tests.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    cautions::cautions,
    folder::json_lines,
    health::{Finding, HealthChecks, Question},
    judges::{Method, registry},
    llm::Usage,
    mqm::Severity,
    record::{Record, Status, UnitKey},
    signature::Signature,
};

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    pub signature: String,
    pub units: usize,
    /// Units with a verdict.
    pub scored: usize,
    /// Units that the run has not judged yet; none where it is finished.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unjudged: usize,
    /// Units by status.
    pub statuses: BTreeMap<Status, usize>,
    /// For each status without a verdict, the reason of the first unit that has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<Status, String>,
    /// Sorted by language pair and name: scores of different pairs are never pooled.
    pub systems: Vec<SystemSummary>,
    /// Common units for comparing the systems; `None` with fewer than two systems that have a verdict, and
    /// with several pairs, which have one each in `pairs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<Common>,
    /// Common units for comparing the systems of each language pair, where there are several pairs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pairs: BTreeMap<String, Option<Common>>,
    /// Cautions for readers of the scores ([`cautions`]), as sentences without full stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Health checks; those that amount to a warning are printed after the run.
    #[serde(default)]
    pub health: Vec<Finding>,
    pub cost: Cost,
}

/// Units that every system has a verdict on. A system without any verdict takes no unit from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Common {
    pub units: usize,
    /// Units with a verdict on some system but not on all.
    pub left_out: usize,
}

/// The outcome of a run for one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemSummary {
    pub system: String,
    /// The language pair; `None` in summaries of older versions, where the run had only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<String>,
    pub units: usize,
    pub scored: usize,
    /// Units without a verdict because there is no text to judge: they take nothing off the score.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub empty: usize,
    /// Units that are not translations, or of several segments with some that are not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untranslated: usize,
    /// Mean over the units that have a score; higher is better; `None` when none has.
    pub score: Option<f64>,
    /// Mean over the units that every system has a score on: the score that systems are compared by. `None`
    /// where there is no such unit, or nothing to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_score: Option<f64>,
    /// Mean of the units' direct assessments 0..=100, where the method requests them.
    pub quality_score: Option<f64>,
    /// Errors per unit with a verdict.
    pub critical: f64,
    pub major: f64,
    pub minor: f64,
    pub neutral: f64,
    /// The errors of each category; a top category includes those below it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub categories: BTreeMap<String, CategorySummary>,
}

/// For fields that are left out of JSON where they are 0.
pub fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// The errors of one category in a system.
///
/// Source: RUBRIC-MQM, Figure 6, which has the points by top category and by subcategory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CategorySummary {
    pub errors: usize,
    /// Sum of the errors' weights: points in RUBRIC-MQM, penalties elsewhere; lower is better. A unit's score
    /// may cap them or count only some.
    pub penalty: f64,
}

/// Calls to the model, and their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    pub calls: usize,
    pub usage: Usage,
    /// Sum over calls; calls that ran at the same time each count in full.
    pub call_seconds: f64,
    /// Wall time of the process that finished the run.
    pub wall_seconds: f64,
    /// Outcomes of the answers at each stage, where the method counts them: the number of confirmed errors,
    /// of unusable answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outcomes: BTreeMap<String, BTreeMap<String, usize>>,
    /// Number of calls of each stage in each round, from 1, in methods whose stages are named `STAGE@ROUND`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rounds: BTreeMap<String, BTreeMap<usize, usize>>,
}

impl Cost {
    /// Counts one call at a stage (`STAGE/PART@ROUND`) with what came of it.
    pub fn add(&mut self, stage: &str, outcome: Option<&str>, usage: &Usage, seconds: f64) {
        self.calls += 1;
        if let Some(outcome) = outcome {
            let stage = stage.split(['/', '@']).next().unwrap_or_default();
            let counts = self.outcomes.entry(stage.to_owned()).or_default();
            *counts.entry(outcome.to_owned()).or_default() += 1;
        }
        if let Some((stage, Ok(round))) = stage.split_once('@').map(|(stage, round)| (stage, round.parse())) {
            *self.rounds.entry(stage.to_owned()).or_default().entry(round).or_default() += 1;
        }
        self.call_seconds += seconds;
        self.usage += usage;
    }
}

impl SystemSummary {
    /// Share of units with a verdict, 0..=1.
    pub fn coverage(&self) -> f64 {
        if self.units == 0 { 0.0 } else { self.scored as f64 / self.units as f64 }
    }
}

/// Number of a system's units that are not translations, in a sentence without a full stop; `None` where all
/// of them are.
pub fn untranslated(system: &str, n: usize, of: usize, noun: &str) -> Option<String> {
    let are = if n == 1 { "is not a translation" } else { "are not translations" };
    (n > 0).then(|| format!("{system}: {n} of {of} {noun}s {are}; `warning` on each says why"))
}

impl Summary {
    /// A property of the method that the signature names; `None` where the method is unknown.
    pub fn of_method<T>(&self, property: impl FnOnce(&Method<'_>, &Signature) -> T) -> Option<T> {
        let signature: Signature = self.signature.parse().ok()?;
        registry::of_signature(&signature).map(|method| property(&method, &signature))
    }

    /// The noun for what a verdict is about.
    pub fn noun(&self) -> &'static str {
        self.signature.parse().map_or("segment", |signature: Signature| registry::unit_noun(&signature))
    }

    /// The systems of each language pair, with what they have in common.
    pub fn by_pair(&self) -> Vec<(String, Vec<SystemSummary>, Option<Common>)> {
        let one = |systems: &[SystemSummary]| {
            let pair = systems.first().and_then(|system| system.pair.clone()).unwrap_or_default();
            let common = self.pairs.get(&pair).copied().unwrap_or(self.common);
            (pair, systems.to_vec(), common)
        };
        self.systems.chunk_by(|a, b| a.pair == b.pair).map(one).collect()
    }

    /// Orders the systems; those that are not named come last, in their present order. The systems of a
    /// language pair stay together.
    #[must_use]
    pub fn in_order(mut self, systems: &[String]) -> Self {
        let places: HashMap<&str, usize> = systems.iter().map(String::as_str).zip(0..).collect();
        let place =
            |system: &SystemSummary| places.get(system.system.as_str()).copied().unwrap_or(usize::MAX);
        self.systems.sort_by_cached_key(|system| (system.pair.clone(), place(system)));
        self
    }

    /// Returns true if the systems may be ordered by their means, and for unknown methods.
    pub fn ranks_systems(&self) -> bool {
        self.of_method(|method, _| method.ranks_systems()).unwrap_or(true)
    }

    /// Meaning of the method's scores and marks, the scale of this run's raw scores first; empty for
    /// unknown methods.
    pub fn about_method(&self) -> Vec<String> {
        let about = self.of_method(|method, signature| method.about(registry::scale(method, signature)));
        about.unwrap_or_default()
    }

    /// Sums up records in the order of `verdicts.jsonl`; `questions` are some of the run's prompts.
    pub fn new(records: &[Record], signature: &Signature, questions: &[Question], cost: Cost) -> Self {
        let mut summing = Summing::new(questions);
        for record in records {
            summing.add(record);
        }
        summing.finish(signature, &[], cost)
    }
}

/// A summary in the making: records come one by one, in the order of `verdicts.jsonl`, and are not kept.
pub struct Summing<'a> {
    units: usize,
    planned: usize,
    statuses: BTreeMap<Status, usize>,
    reasons: BTreeMap<Status, String>,
    /// By language pair.
    pairs: BTreeMap<String, PairSums>,
    checks: HealthChecks<'a>,
}

/// Counts of a language pair.
#[derive(Default)]
struct PairSums {
    systems: BTreeMap<String, SystemSums>,
    shared: Shared,
}

impl PairSums {
    fn add(&mut self, record: &Record) {
        let sums = self.system(&record.system);
        sums.add(record);
        let number = sums.number;
        self.shared.add(number, record);
    }

    fn system(&mut self, name: &str) -> &mut SystemSums {
        let number = self.systems.len() as u32;
        let new = || SystemSums { number, ..SystemSums::default() };
        self.systems.entry(name.to_owned()).or_insert_with(new)
    }

    /// The systems, and their common units; `pair` distinguishes them.
    fn finish(self, pair: &str) -> (Vec<SystemSummary>, Option<Common>) {
        let common = self.shared.common();
        let means = self.shared.means(common.is_some());
        let summary = |(system, sums): (String, SystemSums)| {
            let common_score = means.get(&sums.number).and_then(Mean::value);
            SystemSummary { common_score, pair: Some(pair.to_owned()), ..sums.summary(system) }
        };
        (self.systems.into_iter().map(summary).collect(), common)
    }
}

impl<'a> Summing<'a> {
    /// A summary without any record; `questions` are some of the run's prompts.
    pub fn new(questions: &'a [Question]) -> Self {
        let (statuses, reasons, pairs) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { units: 0, planned: 0, statuses, reasons, pairs, checks: HealthChecks::new(questions) }
    }

    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        self.units += 1;
        *self.statuses.entry(record.status).or_default() += 1;
        if let Some(reason) = &record.reason {
            self.reasons.entry(record.status).or_insert_with(|| reason.clone());
        }
        self.pairs.entry(record.pair()).or_default().add(record);
        self.checks.add(record);
    }

    /// Counts the units selected for judging, including those without a verdict and systems without any
    /// verdict.
    pub fn plan(&mut self, units: &[UnitKey]) {
        for unit in units {
            let pair = format!("{}-{}", unit.src_lang, unit.tgt_lang);
            self.pairs.entry(pair).or_default().system(&unit.system).planned += 1;
        }
        self.planned += units.len();
    }

    /// The totals of all counts; `of_input` are the cautions about the judge on this input.
    pub fn finish(self, signature: &Signature, of_input: &[String], cost: Cost) -> Summary {
        let Self { units, planned, statuses, reasons, pairs, checks } = self;
        let several = pairs.len() > 1;
        let (mut systems, mut common, mut commons) = (Vec::new(), None, BTreeMap::new());
        for (pair, sums) in pairs {
            let (its_systems, its_common) = sums.finish(&pair);
            systems.extend(its_systems);
            if several {
                commons.insert(pair, its_common);
            } else {
                common = its_common;
            }
        }
        let names: BTreeSet<&str> = systems.iter().map(|system| system.system.as_str()).collect();
        Summary {
            cautions: cautions(signature, of_input, names.len()),
            signature: signature.to_string(),
            units: units.max(planned),
            unjudged: planned.saturating_sub(units),
            scored: statuses.get(&Status::Ok).copied().unwrap_or(0),
            statuses,
            reasons,
            systems,
            common,
            pairs: commons,
            health: checks.findings(best_score(signature)),
            cost,
        }
    }
}

/// The best score that a judge of this signature can give; `None` on an unbounded scale, and for unknown
/// methods.
fn best_score(signature: &Signature) -> Option<f64> {
    let [_, best] = registry::scale(&registry::of_signature(signature)?, signature).ends;
    best.is_finite().then_some(best)
}

/// A mean of values that come one by one.
#[derive(Clone, Copy, Debug)]
struct Mean {
    sum: f64,
    n: usize,
}

impl Default for Mean {
    fn default() -> Self {
        Self { sum: -0.0, n: 0 }
    }
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.n += 1;
    }

    fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}

/// Counts of a system.
#[derive(Default)]
struct SystemSums {
    /// In the order in which the systems came.
    number: u32,
    units: usize,
    planned: usize,
    empty: usize,
    untranslated: usize,
    score: Mean,
    quality: Mean,
    severities: BTreeMap<Severity, usize>,
    categories: BTreeMap<String, CategorySummary>,
}

impl SystemSums {
    fn add(&mut self, record: &Record) {
        self.units += 1;
        self.empty += usize::from(record.status == Status::Empty);
        self.untranslated += usize::from(record.is_untranslated());
        record.score.into_iter().for_each(|score| self.score.add(score));
        record.quality_score.into_iter().for_each(|quality| self.quality.add(quality));
        for error in &record.errors {
            *self.severities.entry(error.severity).or_default() += 1;
            let top = error.category.split_once('/').map(|(top, _)| top);
            // By path and by top category.
            for category in top.into_iter().chain([error.category.as_str()]) {
                let sum = self.categories.entry(category.to_owned()).or_default();
                sum.errors += 1;
                sum.penalty += error.weight;
            }
        }
    }

    fn summary(self, system: String) -> SystemSummary {
        let per_unit = |severity: Severity| {
            let errors = self.severities.get(&severity).copied().unwrap_or(0);
            errors as f64 / self.score.n.max(1) as f64
        };
        SystemSummary {
            system,
            pair: None,
            units: self.units.max(self.planned),
            scored: self.score.n,
            empty: self.empty,
            untranslated: self.untranslated,
            score: self.score.value(),
            common_score: None,
            quality_score: self.quality.value(),
            critical: per_unit(Severity::Critical),
            major: per_unit(Severity::Major),
            minor: per_unit(Severity::Minor),
            neutral: per_unit(Severity::Neutral),
            categories: self.categories,
        }
    }
}

/// Units shared by the systems of a run.
#[derive(Default)]
struct Shared {
    /// Units, whatever system they are of, by a hash of what they are.
    places: HashMap<u128, u32>,
    /// Number of systems with a score on each of them.
    n_scored: Vec<u32>,
    /// System, place and score of each unit with one, in order.
    scores: Vec<(u32, u32, f64)>,
    systems: BTreeSet<u32>,
}

impl Shared {
    fn add(&mut self, system: u32, record: &Record) {
        let Some(score) = record.score else { return };
        let next = self.places.len() as u32;
        let place = *self.places.entry(place(record)).or_insert(next);
        if place == next {
            self.n_scored.push(0);
        }
        self.n_scored[place as usize] += 1;
        self.scores.push((system, place, score));
        self.systems.insert(system);
    }

    /// Returns true if every system with a score has one here.
    fn has_all(&self, place: u32) -> bool {
        self.n_scored[place as usize] as usize == self.systems.len()
    }

    fn common(&self) -> Option<Common> {
        let units = (0..self.n_scored.len() as u32).filter(|&place| self.has_all(place)).count();
        (self.systems.len() > 1).then(|| Common { units, left_out: self.n_scored.len() - units })
    }

    /// Each system's mean over the units that all have, where there is something to compare.
    fn means(&self, compared: bool) -> BTreeMap<u32, Mean> {
        let mut means: BTreeMap<u32, Mean> = BTreeMap::new();
        for &(system, place, score) in self.scores.iter().filter(|_| compared) {
            if self.has_all(place) {
                means.entry(system).or_default().add(score);
            }
        }
        means
    }
}

/// A unit, whatever system it is of.
fn place(record: &Record) -> u128 {
    let Record { src_lang, tgt_lang, doc, seg, segs, .. } = record;
    let digest = Sha256::digest(json_lines(&[(src_lang, tgt_lang, doc, seg, segs)]));
    digest[..16].iter().fold(0, |id, &byte| id << 8 | u128::from(byte))
}

#[cfg(test)]
mod tests;
