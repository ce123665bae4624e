//! Detection of error-free segments: how well the decision "this translation needs no correction" agrees with
//! the raters', at a threshold that was calibrated on other documents. No file is read.
//!
//! Source: WMT26's evaluation task, Task 3 (Detection of Error-Free Segments): a score of at least 85 and no
//! error span; Matthews' correlation is primary, precision and recall are secondary.

use serde::Serialize;

use super::align::Aligned;
use super::correlation::{Undefined, mean};
use super::pcg::Pcg64;
use crate::mqm::ratings::Ratings;

/// The least human score of an error-free translation, on the scale of ESA and DA, 0 to 100.
pub const LEAST_SCORE: f64 = 85.0;

/// Random halves of the documents.
const SPLITS: u64 = 20;

/// MCCs nearer than this are the same.
const TOLERANCE: f64 = 1e-12;

/// Decisions against labels; counts add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decisions {
    pub true_positive: usize,
    pub false_positive: usize,
    pub false_negative: usize,
    pub true_negative: usize,
}

/// Agreement of decisions with labels. Higher is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Matthews' correlation. Range: -1 to 1; 0 is chance.
    pub mcc: f64,
    /// Share of right ones among the translations called error-free. Range: 0 to 1; 0 where none is called
    /// so, as in scikit-learn.
    pub precision: f64,
    /// Share of the error-free translations that are called error-free. Range: 0 to 1; 0 where there is none.
    pub recall: f64,
}

impl Decisions {
    /// Adds a decision.
    pub fn add(&mut self, label: bool, decision: bool) {
        match (label, decision) {
            (true, true) => self.true_positive += 1,
            (false, true) => self.false_positive += 1,
            (true, false) => self.false_negative += 1,
            (false, false) => self.true_negative += 1,
        }
    }

    /// Matthews' correlation, the Pearson correlation of labels and decisions; 0 where all labels or all
    /// decisions are the same.
    ///
    /// Source: Matthews 1975; `sklearn.metrics.matthews_corrcoef`.
    ///
    /// ```
    /// use tribunal_meta::error_free::Decisions;
    /// let mut decisions = Decisions::default();
    /// for (label, decision) in [(true, true), (true, true), (false, true), (false, false)] {
    ///     decisions.add(label, decision);
    /// }
    /// // (2 * 1 - 1 * 0) / sqrt(3 * 2 * 2 * 1).
    /// assert!((decisions.mcc() - 2.0 / 12_f64.sqrt()).abs() < 1e-15);
    /// assert_eq!(Decisions { true_positive: 3, ..Decisions::default() }.mcc(), 0.0);
    /// ```
    pub fn mcc(&self) -> f64 {
        let [tp, fp, fn_, tn] =
            [self.true_positive, self.false_positive, self.false_negative, self.true_negative]
                .map(|n| n as f64);
        let product = (tp + fp) * (tp + fn_) * (tn + fp) * (tn + fn_);
        if product == 0.0 { 0.0 } else { (tp * tn - fp * fn_) / product.sqrt() }
    }

    /// MCC, precision and recall.
    pub fn agreement(&self) -> Agreement {
        let share = |part: usize, others: usize| {
            if part + others == 0 { 0.0 } else { part as f64 / (part + others) as f64 }
        };
        Agreement {
            mcc: self.mcc(),
            precision: share(self.true_positive, self.false_positive),
            recall: share(self.true_positive, self.false_negative),
        }
    }
}

/// A scored translation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub score: f64,
    /// True if the raters found it error-free.
    pub label: bool,
    /// The number of its document; documents are held out wholly.
    pub document: usize,
}

/// The threshold of greatest MCC: scores above it are called error-free. It lies halfway between two scores
/// that occur, and is minus infinity where calling everything error-free is best; of several the lowest.
///
/// ```
/// use tribunal_meta::error_free::{Cell, calibrate};
/// let cells = [(60.0, false), (70.0, false), (90.0, true), (95.0, true)];
/// let cells = cells.map(|(score, label)| Cell { score, label, document: 0 });
/// assert_eq!(calibrate(&cells), (80.0, 1.0));
/// ```
pub fn calibrate(cells: &[Cell]) -> (f64, f64) {
    let mut sorted = cells.to_vec();
    sorted.sort_by(|a, b| a.score.total_cmp(&b.score));
    let mut decisions = Decisions::default();
    for cell in cells {
        decisions.add(cell.label, true);
    }
    let mut best = (f64::NEG_INFINITY, decisions.mcc());
    for run in sorted.chunk_by(|a, b| a.score == b.score) {
        for cell in run {
            if cell.label {
                decisions.true_positive -= 1;
            } else {
                decisions.false_positive -= 1;
            }
            decisions.add(cell.label, false);
        }
        let n = decisions.false_negative + decisions.true_negative;
        if let Some(above) = sorted.get(n) {
            let mcc = decisions.mcc();
            if mcc > best.1 + TOLERANCE {
                best = (f64::midpoint(run[0].score, above.score), mcc);
            }
        }
    }
    best
}

/// Decisions at a threshold.
pub fn at(cells: &[Cell], threshold: f64) -> Decisions {
    let mut decisions = Decisions::default();
    for cell in cells {
        decisions.add(cell.label, cell.score > threshold);
    }
    decisions
}

/// Detection of error-free segments by one metric on one language pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorFree {
    /// Rated and scored translations.
    pub n: usize,
    /// Of these, error-free ones.
    pub error_free: usize,
    /// Raters whose errors the labels rest on; 0 where they rest on scores alone.
    pub n_raters: usize,
    /// At the threshold of the other half of the documents: decisions of both halves together, the mean of 20
    /// random splits.
    pub held_out: Agreement,
    /// The threshold of greatest MCC on all translations: scores above it. `None`: everything is called
    /// error-free.
    pub threshold: Option<f64>,
    /// MCC at this threshold.
    pub in_sample: f64,
    /// MCC of calling error-free the translations that the judge names no error in; `None` without named
    /// errors.
    pub no_span: Option<f64>,
    /// MCC of the decision that is submitted to the task: no error and a score of at least [`LEAST_SCORE`];
    /// `None` without named errors, and where scores are penalties.
    pub submitted: Option<f64>,
}

/// Calibrates, holds out, and measures.
///
/// # Errors
/// Fewer than two cells, labels that are all the same, a single document.
pub fn examine(cells: &[Cell], seed: u64) -> Result<ErrorFree, Undefined> {
    let error_free = cells.iter().filter(|cell| cell.label).count();
    if cells.len() < 2 {
        return Err(Undefined::TooFew);
    }
    if error_free == 0 || error_free == cells.len() {
        return Err(Undefined::ConstantGold);
    }
    if cells.iter().all(|cell| cell.document == cells[0].document) {
        return Err(Undefined::OneDocument);
    }
    let (threshold, in_sample) = calibrate(cells);
    let splits: Vec<Agreement> =
        (0..SPLITS).map(|index| split(cells, &mut Pcg64::stream(seed, index)).agreement()).collect();
    let held_out = |pick: fn(&Agreement) -> f64| mean(&splits.iter().map(pick).collect::<Vec<_>>());
    Ok(ErrorFree {
        n: cells.len(),
        error_free,
        n_raters: 0,
        held_out: Agreement {
            mcc: held_out(|agreement| agreement.mcc),
            precision: held_out(|agreement| agreement.precision),
            recall: held_out(|agreement| agreement.recall),
        },
        threshold: threshold.is_finite().then_some(threshold),
        in_sample,
        no_span: None,
        submitted: None,
    })
}

fn split(cells: &[Cell], random: &mut Pcg64) -> Decisions {
    let mut documents: Vec<usize> = cells.iter().map(|cell| cell.document).collect();
    documents.sort_unstable();
    documents.dedup();
    random.shuffle(&mut documents);
    let is_first: std::collections::BTreeSet<usize> = documents.iter().step_by(2).copied().collect();
    let (first, second): (Vec<Cell>, Vec<Cell>) =
        cells.iter().partition(|cell| is_first.contains(&cell.document));
    let [a, b] = [at(&first, calibrate(&second).0), at(&second, calibrate(&first).0)];
    Decisions {
        true_positive: a.true_positive + b.true_positive,
        false_positive: a.false_positive + b.false_positive,
        false_negative: a.false_negative + b.false_negative,
        true_negative: a.true_negative + b.true_negative,
    }
}

/// Labels of the rated translations, true for error-free: a score of at least [`LEAST_SCORE`] and no span by
/// any rater. Where scores are penalties (none above 0) spans alone decide, and without ratings a score of 0.
/// Shape: that of `scores.gold`; `None` where a translation is not rated.
pub fn labels(scores: &Aligned, ratings: &[Ratings]) -> Vec<Option<bool>> {
    let is_penalty = scores.gold.iter().flatten().all(|score| *score <= 0.0);
    let least = match (is_penalty, ratings.is_empty()) {
        (false, _) => LEAST_SCORE,
        (true, true) => 0.0,
        (true, false) => f64::NEG_INFINITY,
    };
    let label = |(at, score): (usize, &Option<f64>)| {
        let (system, seg) = (&scores.systems[at / scores.n_segments], at % scores.n_segments);
        let marked = |rater: &Ratings| rater.get(system)?.get(seg)?.as_ref().map(|errors| !errors.is_empty());
        Some((*score)? >= least && !ratings.iter().filter_map(marked).any(|is_marked| is_marked))
    };
    scores.gold.iter().enumerate().map(label).collect()
}

/// The translations that a metric scored, with their labels; `documents` has the document of each segment.
pub fn cells(scores: &Aligned, labels: &[Option<bool>], documents: &[usize]) -> Vec<Cell> {
    let cell = |(at, label): (usize, &Option<bool>)| {
        let document = documents.get(at % scores.n_segments).copied().unwrap_or_default();
        Some(Cell { score: scores.metric[at]?, label: (*label)?, document })
    };
    labels.iter().enumerate().filter_map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqm::ratings::RatedError;

    fn aligned(gold: &[Option<f64>]) -> Aligned {
        Aligned {
            systems: vec!["A".into()],
            n_segments: gold.len(),
            gold: gold.to_vec(),
            metric: vec![Some(1.0); gold.len()],
        }
    }

    fn marked() -> Vec<RatedError> {
        vec![serde_json::from_str(r#"{"start":0,"end":1}"#).unwrap()]
    }

    #[test]
    fn a_score_of_85_and_no_span_is_error_free() {
        let ratings =
            Ratings::from([("A".to_owned(), vec![Some(vec![]), Some(marked()), Some(vec![]), None, None])]);
        let scores = aligned(&[Some(85.0), Some(99.0), Some(84.0), Some(90.0), None]);
        let expected = [Some(true), Some(false), Some(false), Some(true), None];
        assert_eq!(labels(&scores, std::slice::from_ref(&ratings)), expected);
        // One rater's mark is enough: the second rater marks an error.
        let second = Ratings::from([("A".to_owned(), vec![Some(marked()), None, None, None, None])]);
        assert_eq!(labels(&scores, &[ratings, second])[0], Some(false));
    }

    #[test]
    fn penalties_have_no_least_score() {
        let scores = aligned(&[Some(0.0), Some(-0.1)]);
        assert_eq!(labels(&scores, &[]), [Some(true), Some(false)]);
        let unmarked = Ratings::from([("A".to_owned(), vec![Some(vec![]), Some(vec![])])]);
        assert_eq!(labels(&scores, &[unmarked]), [Some(true), Some(true)]);
    }

    #[test]
    fn held_out_is_worse_than_in_sample_for_chance() {
        let mut random = Pcg64::stream(3, 0);
        let mut places: Vec<usize> = (0..60).collect();
        random.shuffle(&mut places);
        let cells: Vec<Cell> = places
            .iter()
            .enumerate()
            .map(|(at, place)| Cell { score: *place as f64, label: at % 4 == 0, document: at / 3 })
            .collect();
        let found = examine(&cells, 0).unwrap();
        assert!(found.held_out.mcc < found.in_sample && found.in_sample > 0.0, "{found:?}");
        assert_eq!((found.n, found.error_free), (60, 15));
        let same: Vec<Cell> = cells.iter().map(|cell| Cell { label: true, ..*cell }).collect();
        assert_eq!(examine(&same, 0), Err(Undefined::ConstantGold));
        let one: Vec<Cell> = cells.iter().map(|cell| Cell { document: 3, ..*cell }).collect();
        assert_eq!(examine(&one, 0), Err(Undefined::OneDocument));
    }
}
