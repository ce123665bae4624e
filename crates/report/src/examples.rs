//! The units that a text report shows: those with the most certain errors, or else the sources whose
//! translations differ most in score. Records are streamed. The layout of units is in `units`.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::run::{Record, Status, Summary};

/// Number of units that are shown; `tribunal show DIR SEGMENT`, `tribunal report` and `verdicts.jsonl` have
/// the others.
const SHOWN: usize = 3;

/// The place of a unit with a warning: before those with a certain mark.
const WARNED: f64 = 2.0;

/// Scores that differ by less are not shown side by side. Unit: MQM points, of which a minor error takes one.
const APART: f64 = 1.0;

/// Nor are those where the better translation has more than this share of the worse one's penalty: of long
/// texts with many errors each, small differences are large in points.
const SHARE: f64 = 0.5;

/// The units that a report shows.
#[derive(Debug, Default)]
pub struct ReportExamples {
    /// Marks of a lower confidence are counted and not shown. A mark without a confidence, of a rule or of a
    /// judge that names its errors, counts as certain. Unit: probability.
    pub(super) shows_from: f64,
    /// True if the method names errors; otherwise its scores are its whole verdict.
    pub(super) names_errors: bool,
    pub(super) units: usize,
    /// Units without a verdict.
    pub(super) unjudged: usize,
    /// Units with a mark, certain or not.
    marked: usize,
    /// Units with a certain mark or a warning.
    certain: usize,
    /// Marks that are not shown, and the units that have them.
    pub(super) doubtful: (usize, usize),
    first: Vec<Record>,
    /// With their greatest confidence, the greatest first.
    likeliest: Vec<(f64, Record)>,
    missing: Vec<Record>,
    /// By source.
    extremes: HashMap<u64, Extremes>,
    contrasts: Vec<Contrast>,
}

/// Two translations of one source.
#[derive(Debug)]
pub(super) struct Contrast {
    pub(super) better: Record,
    pub(super) worse: Record,
}

/// The lowest and the highest score that a translation of a source has, and where that source first came.
#[derive(Debug)]
struct Extremes {
    low: f64,
    high: f64,
    number: usize,
}

impl ReportExamples {
    /// Without any record.
    pub fn new(summary: &Summary) -> Self {
        let shows_from = summary.of_method(|method, _| method.shows_from).unwrap_or_default();
        Self { shows_from, names_errors: summary.signature.contains("|weights:"), ..Self::default() }
    }

    /// Adds the next record.
    pub fn add(&mut self, mut record: Record) {
        self.units += 1;
        self.names_errors |= !record.errors.is_empty();
        self.marked += usize::from(!record.errors.is_empty());
        if let Some(score) = record.score {
            let number = self.extremes.len();
            let none = Extremes { low: score, high: score, number };
            let extremes = self.extremes.entry(source_of(&record)).or_insert(none);
            (extremes.low, extremes.high) = (extremes.low.min(score), extremes.high.max(score));
        }
        if self.first.len() < SHOWN {
            self.first.push(record.clone());
        }
        if record.status != Status::Ok {
            self.unjudged += 1;
            if self.missing.len() < SHOWN {
                self.missing.push(record);
            }
            return;
        }
        let n_marks = record.errors.len();
        record.errors.retain(|error| error.confidence.is_none_or(|confidence| confidence >= self.shows_from));
        let n_doubtful = n_marks - record.errors.len();
        self.doubtful = (self.doubtful.0 + n_doubtful, self.doubtful.1 + usize::from(n_doubtful > 0));
        let chances = record.errors.iter().map(|error| error.confidence.unwrap_or(1.0));
        let chances = chances.chain(record.warning.as_ref().map(|_| WARNED));
        let Some(likeliest) = chances.max_by(f64::total_cmp) else { return };
        self.certain += 1;
        let at = self.likeliest.partition_point(|(other, _)| *other >= likeliest);
        if at < SHOWN {
            self.likeliest.insert(at, (likeliest, record));
            self.likeliest.truncate(SHOWN);
        }
    }

    /// Returns true if no mark is certain enough to be shown, so that the same records are to go through
    /// [`Self::contrast`] too.
    pub fn lacks_marks(&self) -> bool {
        self.names_errors && self.marked > 0 && self.certain == 0
    }

    /// Adds a record once more, after all have been added, for the sources whose translations are scored
    /// furthest apart.
    pub fn contrast(&mut self, record: Record) {
        if self.contrasts.is_empty() {
            self.extremes = furthest(std::mem::take(&mut self.extremes));
        }
        let Some(score) = record.score else { return };
        let source = source_of(&record);
        let Some(extremes) = self.extremes.get(&source) else { return };
        let is_low = score.total_cmp(&extremes.low).is_eq();
        if !is_low && score.total_cmp(&extremes.high).is_ne() {
            return;
        }
        match self.contrasts.iter_mut().find(|contrast| source_of(&contrast.better) == source) {
            None => self.contrasts.push(Contrast { better: record.clone(), worse: record }),
            Some(contrast) if is_low => contrast.worse = record,
            Some(contrast) => contrast.better = record,
        }
    }

    /// The records that are shown one by one.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        let (first, marked) = if self.names_errors { (0, SHOWN) } else { (SHOWN, 0) };
        let marked = self.likeliest.iter().map(|(_, record)| record).chain(&self.missing).take(marked);
        self.first.iter().take(first).chain(marked)
    }

    /// The pairs that are shown side by side, those that are furthest apart first.
    pub(super) fn contrasts(&self) -> Vec<&Contrast> {
        let mut all: Vec<&Contrast> = self.contrasts.iter().collect();
        let apart = |contrast: &Contrast| contrast.better.score.zip(contrast.worse.score).map(|(a, b)| a - b);
        all.sort_by(|a, b| apart(b).partial_cmp(&apart(a)).unwrap_or(std::cmp::Ordering::Equal));
        all
    }

    /// Units that would have been shown as well, were there room.
    pub(super) fn more(&self) -> usize {
        let all = if self.names_errors { self.certain + self.unjudged } else { self.units };
        all - self.records().count()
    }

    /// Units with a verdict and without any mark; `None` where a unit without one has said nothing.
    pub(super) fn unmarked(&self) -> Option<usize> {
        let unmarked = self.units - self.marked - self.unjudged;
        Some(unmarked).filter(|n| self.names_errors && *n > 0)
    }
}

/// The sources whose translations are furthest apart; of equal ones those that came first.
fn furthest(extremes: HashMap<u64, Extremes>) -> HashMap<u64, Extremes> {
    let apart = |extremes: &Extremes| extremes.high - extremes.low;
    let differ = |extremes: &Extremes| apart(extremes) >= APART && extremes.high >= SHARE * extremes.low;
    let mut all: Vec<_> = extremes.into_iter().filter(|(_, extremes)| differ(extremes)).collect();
    all.sort_by(|(_, a), (_, b)| apart(b).total_cmp(&apart(a)).then(a.number.cmp(&b.number)));
    all.truncate(SHOWN);
    all.into_iter().collect()
}

/// The source of a unit, whatever system translated it.
fn source_of(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Record { src_lang, tgt_lang, doc, seg, segs, source, .. } = record;
    (src_lang.to_string(), tgt_lang.to_string(), doc, seg, segs, source).hash(&mut hasher);
    hasher.finish()
}
