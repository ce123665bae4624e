//! The judges of a page: their verdicts with statistics, distinct names, and the agreement of each two. It
//! reads no files.

use std::collections::{BTreeMap, BTreeSet};

use super::{Agreement, Judge, Ranking, statistics};
use crate::{
    meta::{
        Error,
        judgements::Judgements,
        side_by_side::{JudgePair, SideBySide},
    },
    run::{Record, summary::untranslated},
};

/// Options of a page's statistics.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a> {
    /// The domain of each document; empty where the page has no domains.
    pub domains: &'a BTreeMap<String, String>,
    pub resamples: usize,
    pub seed: u64,
}

impl Judge {
    /// Verdicts with their statistics, and the noun for their units, without facts about the judge.
    pub fn new(name: String, records: Vec<Record>, noun: &'static str, how: Statistics<'_>) -> Self {
        let slices = statistics::slices(&records, how.domains, how.resamples, how.seed);
        Self {
            name,
            noun,
            human: false,
            signature: None,
            citation: None,
            warning: None,
            warnings: warnings(&records, noun),
            about: Vec::new(),
            cautions: Vec::new(),
            ranking: Ranking::ByMean,
            systems: Vec::new(),
            marks: true,
            records,
            slices,
        }
    }

    /// The number of its systems on the language pair where there are most.
    pub fn n_systems(&self) -> usize {
        self.slices.iter().map(|slice| slice.standings.len()).max().unwrap_or(0)
    }
}

/// Warnings about each system's translations.
fn warnings(records: &[Record], noun: &str) -> Vec<String> {
    let mut systems: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for record in records {
        let (untranslated, all) = systems.entry(&record.system).or_default();
        *untranslated += usize::from(record.is_untranslated());
        *all += 1;
    }
    systems.into_iter().filter_map(|(system, (n, of))| untranslated(system, n, of, noun)).collect()
}

/// Adds other names to those that several judges have: their folders', in the judges' order.
pub fn distinguish(judges: &mut [Judge], others: &[String]) {
    let names: Vec<String> = judges.iter().map(|judge| judge.name.clone()).collect();
    for (judge, other) in judges.iter_mut().zip(others) {
        if names.iter().filter(|name| **name == judge.name).count() > 1 && judge.name != *other {
            judge.name = format!("{} ({other})", judge.name);
        }
    }
}

/// Agreement of each two judges, where they share translations of a language pair.
///
/// # Errors
/// Judges of different texts for the same source.
pub fn agreements(judgements: &[Judgements]) -> Result<Vec<Agreement>, Error> {
    let mut agreements = Vec::new();
    for (second, b) in judgements.iter().enumerate() {
        for (first, a) in judgements[..second].iter().enumerate().filter(|(_, a)| a.overlaps(b)) {
            for pair in a.pairs() {
                let Some(judges) = JudgePair::of_shared(&a.of_pair(pair), &b.of_pair(pair))? else {
                    continue;
                };
                let (same_order, pair) = (judges.same_order(), pair.to_owned());
                let JudgePair { found: SideBySide { n: units, kendall, .. }, spans: span_f1, .. } = judges;
                let kendall = kendall.ok();
                agreements.push(Agreement { first, second, pair, units, kendall, same_order, span_f1 });
            }
        }
    }
    Ok(agreements)
}

/// The title of a page: what was judged, and by how many.
pub fn title(judges: &[Judge]) -> String {
    if judges.is_empty() {
        return "Verdicts".into();
    }
    let records = || judges.iter().flat_map(|judge| &judge.records);
    let pairs: BTreeSet<String> = records().map(|r| format!("{}–{}", r.src_lang, r.tgt_lang)).collect();
    let n_human = judges.iter().filter(|judge| judge.human).count();
    let models = match judges.len() - n_human {
        0 => None,
        1 => judges.iter().find(|judge| !judge.human).map(|judge| judge.name.clone()),
        several => Some(format!("{several} judges")),
    };
    let by: Vec<String> = models.into_iter().chain((n_human > 0).then(|| "human raters".into())).collect();
    let n_systems = records().map(|record| &record.system).collect::<BTreeSet<_>>().len();
    let systems = if n_systems == 1 { "1 system".into() } else { format!("{n_systems} systems") };
    let pairs = pairs.into_iter().collect::<Vec<_>>().join(", ");
    format!("{pairs}: {systems}, judged by {}", by.join(" and "))
}
