//! `summary.json`: systems side by side, and what the run cost. It says nothing about significance.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    health::{self, Asked, Finding},
    record::{Record, Status},
};
use crate::{llm::Usage, mqm::Severity, segment::Lang, signature::Signature};

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub signature: String,
    pub units: usize,
    /// Units with a verdict.
    pub scored: usize,
    /// Units by status.
    pub statuses: BTreeMap<Status, usize>,
    /// Sorted by name.
    pub systems: Vec<SystemSummary>,
    /// What the systems can be compared on; `None` with fewer than two systems that have a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<Common>,
    /// Signs that the judge is not judging; those that amount to a warning are printed after the run.
    #[serde(default)]
    pub health: Vec<Finding>,
    pub cost: Cost,
}

/// Units that every system has a verdict on. A system without any verdict takes no unit from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Common {
    pub units: usize,
    /// Units with a verdict on some system but not on all.
    pub left_out: usize,
}

/// The outcome of a run for one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemSummary {
    pub system: String,
    pub units: usize,
    pub scored: usize,
    /// Mean over the units that have a score; higher is better; `None` when none has.
    pub score: Option<f64>,
    /// Mean over the units that every system has a score on: what systems are compared by. `None` where there is
    /// no such unit, or nothing to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_score: Option<f64>,
    /// Mean of the units' direct assessments 0..=100, where the method asks for them.
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

/// The errors of one category in a system.
///
/// Source: RUBRIC-MQM, Figure 6, which has the points by top category and by subcategory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CategorySummary {
    pub errors: usize,
    /// Sum of the errors' weights: points in RUBRIC-MQM, penalties elsewhere; lower is better. A unit's score
    /// may cap them or count only some.
    pub penalty: f64,
}

/// What the model was asked, and how long it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub calls: usize,
    pub usage: Usage,
    /// Sum over calls; calls that ran at the same time each count in full.
    pub call_seconds: f64,
    /// Of the process that finished the run.
    pub wall_seconds: f64,
    /// What became of the answers at each stage, where the method counts that: how many errors were confirmed, how
    /// many answers could not be used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outcomes: BTreeMap<String, BTreeMap<String, usize>>,
    /// How often each stage was asked in each round, from 1, in methods whose stages are named `STAGE@ROUND`.
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
        self.spend(usage, seconds);
    }

    fn spend(&mut self, usage: &Usage, seconds: f64) {
        self.call_seconds += seconds;
        let sum = &mut self.usage;
        sum.computed += usage.computed;
        sum.cached += usage.cached;
        sum.distinct += usage.distinct;
        sum.generated += usage.generated;
        sum.forced += usage.forced;
        sum.drafted += usage.drafted;
        sum.accepted += usage.accepted;
    }

    /// Prompt tokens computed, divided by the distinct ones: 1 is perfect, and anything above was computed again.
    /// `None` without prompts, or if the model does not count distinct tokens.
    #[must_use]
    pub fn recomputed(&self) -> Option<f64> {
        let Usage { computed, distinct, .. } = self.usage;
        (distinct > 0).then(|| computed as f64 / distinct as f64)
    }

    /// The same without what depends on the machine and on how the run went: times, and which tokens were computed,
    /// cached, forced or guessed ahead. The tokens of prompts (as if all computed) and answers stay.
    #[must_use]
    pub fn without_times(self) -> Self {
        let usage =
            Usage { computed: self.usage.prompt(), generated: self.usage.generated, ..Usage::default() };
        Self { usage, call_seconds: 0.0, wall_seconds: 0.0, ..self }
    }
}

impl SystemSummary {
    /// Share of units with a verdict, 0..=1.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        if self.units == 0 { 0.0 } else { self.scored as f64 / self.units as f64 }
    }
}

impl Summary {
    /// Sums up records in the order of `verdicts.jsonl`; `questions` are some of those that were asked.
    #[must_use]
    pub fn of(records: &[Record], signature: &Signature, questions: &[Asked], cost: Cost) -> Self {
        let mut of_system: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
        let mut statuses: BTreeMap<Status, usize> = BTreeMap::new();
        for record in records {
            of_system.entry(&record.system).or_default().push(record);
            *statuses.entry(record.status).or_default() += 1;
        }
        let shared = Shared::of(&of_system);
        Self {
            signature: signature.to_string(),
            units: records.len(),
            scored: statuses.get(&Status::Ok).copied().unwrap_or(0),
            statuses,
            systems: of_system
                .into_iter()
                .map(|(system, records)| SystemSummary {
                    common_score: shared.as_ref().and_then(|shared| shared.mean(&records)),
                    ..system_summary(system, &records)
                })
                .collect(),
            common: shared.map(|shared| shared.common),
            health: health::findings(records, questions),
            cost,
        }
    }
}

/// A unit, whatever system it is of.
type Place<'a> = (&'a Lang, &'a Lang, &'a str, Option<usize>, &'a [usize]);

/// What the systems of a run share.
struct Shared<'a> {
    places: BTreeSet<Place<'a>>,
    common: Common,
}

impl<'a> Shared<'a> {
    fn of(of_system: &BTreeMap<&str, Vec<&'a Record>>) -> Option<Self> {
        let scored = |records: &Vec<&'a Record>| -> BTreeSet<Place<'a>> {
            records.iter().filter(|r| r.score.is_some()).map(|r| place(r)).collect()
        };
        let mut systems = of_system.values().map(scored).filter(|places| !places.is_empty());
        let mut places = systems.next()?;
        let mut all = places.clone();
        let mut n = 1;
        for of_one in systems {
            places.retain(|place| of_one.contains(place));
            all.extend(of_one);
            n += 1;
        }
        let common = Common { units: places.len(), left_out: all.len() - places.len() };
        (n > 1).then_some(Self { places, common })
    }

    fn mean(&self, records: &[&Record]) -> Option<f64> {
        let there = records.iter().filter(|r| self.places.contains(&place(r)));
        mean(&there.filter_map(|r| r.score).collect::<Vec<_>>())
    }
}

fn place(record: &Record) -> Place<'_> {
    (&record.src_lang, &record.tgt_lang, &record.doc, record.seg, &record.segs)
}

fn system_summary(system: &str, records: &[&Record]) -> SystemSummary {
    let scores: Vec<f64> = records.iter().filter_map(|r| r.score).collect();
    let quality: Vec<f64> = records.iter().filter_map(|r| r.quality_score).collect();
    let per_unit = |severity: Severity| {
        let errors = records.iter().flat_map(|r| &r.errors).filter(|e| e.severity == severity).count();
        errors as f64 / scores.len().max(1) as f64
    };
    SystemSummary {
        system: system.into(),
        units: records.len(),
        scored: scores.len(),
        score: mean(&scores),
        common_score: None,
        quality_score: mean(&quality),
        critical: per_unit(Severity::Critical),
        major: per_unit(Severity::Major),
        minor: per_unit(Severity::Minor),
        neutral: per_unit(Severity::Neutral),
        categories: categories(records),
    }
}

/// Sums by path and by top category.
fn categories(records: &[&Record]) -> BTreeMap<String, CategorySummary> {
    let mut sums: BTreeMap<String, CategorySummary> = BTreeMap::new();
    for error in records.iter().flat_map(|record| &record.errors) {
        let top = error.category.split_once('/').map(|(top, _)| top);
        for category in top.into_iter().chain([error.category.as_str()]) {
            let sum = sums.entry(category.to_owned()).or_default();
            sum.errors += 1;
            sum.penalty += error.weight;
        }
    }
    sums
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_round() {
        let mut cost = Cost::default();
        for stage in ["core@1", "search@1", "core@2", "annotate", "odd@x"] {
            cost.add(stage, None, &Usage::default(), 1.0);
        }
        assert_eq!((cost.calls, cost.call_seconds.to_bits()), (5, 5f64.to_bits()));
        let rounds = serde_json::to_string(&cost.rounds).unwrap();
        assert_eq!(rounds, r#"{"core":{"1":1,"2":1},"search":{"1":1}}"#);
    }

    #[test]
    fn outcomes_are_counted_by_stage() {
        let mut cost = Cost::default();
        for outcome in [Some("confirmed"), None, Some("dropped"), Some("confirmed")] {
            cost.add("compare/accuracy/addition", outcome, &Usage::default(), 1.0);
        }
        let outcomes = serde_json::to_string(&cost.outcomes).unwrap();
        assert_eq!(outcomes, r#"{"compare":{"confirmed":2,"dropped":1}}"#);
    }

    fn records(scores: &[(&str, usize, Option<f64>)]) -> Vec<Record> {
        let lang = |code: &str| Lang::parse(code).unwrap();
        let record = |(system, seg, score): &(&str, usize, Option<f64>)| Record {
            system: (*system).into(),
            doc: "d".into(),
            seg: Some(*seg),
            segs: Vec::new(),
            src_lang: lang("en"),
            tgt_lang: lang("de"),
            source: String::new(),
            hypothesis: String::new(),
            score: *score,
            raw: *score,
            direction: crate::judges::Direction::Higher,
            quality_score: None,
            errors: Vec::new(),
            status: if score.is_some() { Status::Ok } else { Status::Truncated },
            reason: None,
            n_calls: 1,
        };
        scores.iter().map(record).collect()
    }

    #[test]
    fn systems_are_compared_where_all_have_a_verdict() {
        // b lost the segment that is hard for both; on its own it would be better than a. c has nothing at all.
        let records = records(&[
            ("a", 0, Some(-1.0)),
            ("a", 1, Some(-9.0)),
            ("b", 0, Some(-2.0)),
            ("b", 1, None),
            ("c", 0, None),
        ]);
        let summary = Summary::of(&records, &Signature::new(), &[], Cost::default());
        assert_eq!(summary.common, Some(Common { units: 1, left_out: 1 }));
        let scores: Vec<_> = summary.systems.iter().map(|s| (s.score, s.common_score)).collect();
        assert_eq!(scores, [(Some(-5.0), Some(-1.0)), (Some(-2.0), Some(-2.0)), (None, None)]);
        let alone = Summary::of(&records[..2], &Signature::new(), &[], Cost::default());
        assert_eq!((alone.common, alone.systems[0].common_score), (None, None));
    }
}
