//! Accuracy of the answers: accuracy, macro-F1, precision and recall of single labels, label distributions,
//! and the threshold between minor and major that fits best.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::answers::{Answer, SpanLabels, find, points};
use super::gold::Cue;
use super::labels::{self, NO_ERROR, NONE};
use tribunal_meta::{Advice, Error, Result};

/// Options for scoring answers.
#[derive(Clone, Debug, Default)]
pub struct ScoreOptions {
    /// Prompt scenario, `GEMBA`, `DR-100`, ...; it determines whether answers are on a scale.
    pub scenario: String,
    /// Use the labels that were recorded beside the answers instead of reading the answers.
    pub recorded: bool,
    /// The least points of a major error; `None` for the scenario's own.
    pub threshold: Option<u32>,
    /// Pair answers with cues by the marked spans, for answers whose ids were renumbered.
    pub realign: bool,
}

/// The scores of one scenario on one set.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub scenario: String,
    pub category: Agreement,
    pub severity: Agreement,
    /// Precision of `major`.
    pub major_precision: Option<f64>,
    pub mistranslation_precision: Option<f64>,
    pub no_error_recall: Option<f64>,
    /// Share of cues without an answer about the marked span. Range: 0 to 1.
    pub unanswered: f64,
    pub n: usize,
    /// Cues of the set to which there is no answer.
    pub cues_without_answer: usize,
    /// Least points of a major error, as used.
    pub threshold: Option<u32>,
    /// The threshold of greatest accuracy, when the answers are on a scale.
    pub best_threshold: Option<(u32, f64)>,
    /// Number of answers that name the marked span of their cue: by id, and as paired by `realign`.
    pub spans_named: (usize, usize),
}

/// Agreement on one kind of label.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Range: 0 to 1.
    pub accuracy: f64,
    /// Unweighted mean of the classes' F1. Range: 0 to 1.
    pub macro_f1: f64,
    /// Classes in the mean.
    pub n_classes: usize,
    /// Share of each predicted label, in percent.
    pub distribution: BTreeMap<String, f64>,
    /// By gold label, how often each label was predicted.
    pub confusion: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Agreement {
    /// The predicted labels of the cues with this gold label, in percent, the most frequent first; empty
    /// where no cue has it.
    ///
    /// Source: RUBRIC-MQM, Figure 2, of no-error.
    pub fn predicted_for(&self, gold: &str) -> Vec<(&str, f64)> {
        let Some(counts) = self.confusion.get(gold) else { return Vec::new() };
        let n = counts.values().sum::<usize>() as f64;
        let mut shares: Vec<(&str, f64)> =
            counts.iter().map(|(label, count)| (label.as_str(), 100.0 * *count as f64 / n)).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// Thresholds of Table 8; `None` for scenarios that answer with severities.
///
/// # Errors
/// An unknown scenario.
pub fn scenario_threshold(scenario: &str) -> Result<Option<u32>> {
    match scenario {
        "GEMBA" | "DC" | "DS" | "DCS" => Ok(None),
        "DR-4" | "DQ-4" => Ok(Some(3)),
        "DR-8" | "DQ-8" => Ok(Some(5)),
        "DR-100" => Ok(Some(52)),
        "DQ-100" => Ok(Some(34)),
        _ => Err(Error::Unsuitable(format!(
            "unknown scenario `{scenario}`; hint: GEMBA, DC, DS, DCS, DR-4, DR-8, DR-100, DQ-4, DQ-8, DQ-100"
        ))),
    }
}

/// Scores the answers against the set.
///
/// # Errors
/// An unknown scenario, an answer without a cue, two answers to one cue, gold labels that PROMPTCUE does not
/// have, or recorded labels that are requested but missing.
pub fn score(cues: &[Cue], answers: &[Answer], options: &ScoreOptions) -> Result<Report> {
    let scale = scenario_threshold(&options.scenario)?;
    let threshold = scale.map(|scale_threshold| options.threshold.unwrap_or(scale_threshold));
    let pairs = pair_up(cues, answers)?;
    let realigned = realigned(cues, answers);
    let named =
        |pairs: &[(&Cue, &Answer)]| pairs.iter().filter(|(cue, answer)| names_span(answer, cue)).count();
    let spans_named = (named(&pairs), named(&realigned));
    let pairs = if options.realign { realigned } else { pairs };
    let again = if options.recorded { scale.and(options.threshold) } else { threshold };
    let found: Result<Vec<SpanLabels>> =
        pairs.iter().map(|(cue, answer)| read_answer(cue, answer, options.recorded, again)).collect();
    let found = found?;
    let gold_categories = gold_labels(&pairs, |cue| labels::from_gold(&cue.category))?;
    let gold_severities = gold_labels(&pairs, |cue| labels::severity(&cue.severity))?;
    let categories: Vec<String> = found.iter().map(|found| found.category.clone()).collect();
    let severities: Vec<String> = found.iter().map(|found| found.severity.clone()).collect();
    let best_threshold = threshold.and_then(|_| search(&pairs, &gold_severities, &found));
    Ok(Report {
        scenario: options.scenario.clone(),
        category: agreement(&gold_categories, &collapsed(&gold_categories, &categories), &categories),
        severity: agreement(&gold_severities, &severities, &severities),
        major_precision: precision(&gold_severities, &severities, "major"),
        mistranslation_precision: precision(&gold_categories, &categories, "mistranslation"),
        no_error_recall: precision(&categories, &gold_categories, NO_ERROR),
        unanswered: categories.iter().filter(|label| *label == NONE).count() as f64
            / pairs.len().max(1) as f64,
        n: pairs.len(),
        cues_without_answer: cues.len() - pairs.len(),
        threshold: again,
        best_threshold,
        spans_named,
    })
}

/// Each answer with its cue. There are no more pairs than cues.
fn pair_up<'a>(cues: &'a [Cue], answers: &'a [Answer]) -> Result<Vec<(&'a Cue, &'a Answer)>> {
    let mut open: BTreeMap<usize, &Cue> = cues.iter().map(|cue| (cue.id, cue)).collect();
    let pair = |answer: &'a Answer| {
        let id = answer.id;
        let cue = open.remove(&id);
        cue.map(|cue| (cue, answer)).ok_or_else(|| {
            Error::Unsuitable(if cues.iter().any(|cue| cue.id == id) {
                format!("cue `{id}` has two answers; hint: give the answers of one run")
            } else {
                format!(
                    "an answer has the id `{id}`, which none of the {} cues has; hint: the answers may belong to another set",
                    cues.len()
                )
            })
        })
    };
    answers.iter().map(pair).collect()
}

fn gold_labels(pairs: &[(&Cue, &Answer)], label: fn(&Cue) -> Option<&'static str>) -> Result<Vec<String>> {
    let cue_label = |(cue, _): &(&Cue, &Answer)| {
        label(cue).map(str::to_owned).ok_or_else(|| {
            let (id, category, severity) = (cue.id, &cue.category, &cue.severity);
            Error::Unsuitable(format!(
                "cue `{id}` has labels that PROMPTCUE does not know: `{category}`, `{severity}`"
            ))
        })
    };
    pairs.iter().map(cue_label).collect()
}

fn names_span(answer: &Answer, cue: &Cue) -> bool {
    let marked = cue.error_span.trim();
    !marked.is_empty() && answer.review.as_deref().is_some_and(|review| review.contains(marked))
}

/// Answers in order against cues in order; skipped are the cues that leave most answers naming the span of
/// their cue. This restores the pairing of answers that were renumbered.
fn realigned<'a>(cues: &'a [Cue], answers: &'a [Answer]) -> Vec<(&'a Cue, &'a Answer)> {
    let skips = cues.len().saturating_sub(answers.len());
    // best[k]: most spans named by the answers so far when k cues have been skipped.
    let mut best = vec![0_usize; skips + 1];
    let mut came_from: Vec<Vec<usize>> = Vec::with_capacity(answers.len());
    for (index, answer) in answers.iter().enumerate() {
        let mut from = Vec::with_capacity(skips + 1);
        let mut leader = 0;
        let before = best.clone();
        for skipped in 0..=skips {
            if before[skipped] > before[leader] {
                leader = skipped;
            }
            from.push(leader);
            best[skipped] = before[leader] + usize::from(names_span(answer, &cues[index + skipped]));
        }
        came_from.push(from);
    }
    let mut skipped = (0..=skips).rev().max_by_key(|skipped| best[*skipped]).unwrap_or(0);
    let mut pairs = Vec::with_capacity(answers.len());
    for (index, answer) in answers.iter().enumerate().rev() {
        pairs.push((&cues[index + skipped], answer));
        skipped = came_from[index][skipped];
    }
    pairs.reverse();
    pairs
}

/// The labels in an answer. Where labels are recorded, a requested threshold is applied to the points again.
fn read_answer(cue: &Cue, answer: &Answer, recorded: bool, threshold: Option<u32>) -> Result<SpanLabels> {
    let review = answer.review.as_deref().unwrap_or_default();
    if !recorded {
        return Ok(find(review, &cue.error_span, threshold));
    }
    if answer.category.is_none() && answer.severity.is_none() {
        let reason = format!("no labels are recorded beside answer `{}`", answer.id);
        return Err(Error::Advised { reason, advice: Advice::ReadAnswers });
    }
    let mut severity = labels::recorded(answer.severity.as_deref());
    if let (Some(threshold), "major" | "minor", Some(points)) =
        (threshold, severity.as_str(), points(review, &cue.error_span))
    {
        severity = if points >= threshold { "major".to_owned() } else { "minor".to_owned() };
    }
    Ok(SpanLabels { category: labels::recorded(answer.category.as_deref()), severity })
}

/// The threshold of greatest accuracy of severity; of equal ones the smallest.
fn search(pairs: &[(&Cue, &Answer)], gold: &[String], found: &[SpanLabels]) -> Option<(u32, f64)> {
    let points: Vec<Option<u32>> = pairs
        .iter()
        .map(|(cue, answer)| points(answer.review.as_deref().unwrap_or_default(), &cue.error_span))
        .collect();
    let accuracy = |threshold: u32| {
        let right = gold.iter().zip(found).zip(&points).filter(|((gold, found), points)| {
            let severity = match (found.severity.as_str(), points) {
                ("major" | "minor", Some(points)) if *points >= threshold => "major",
                ("major" | "minor", Some(_)) => "minor",
                (severity, _) => severity,
            };
            severity == gold.as_str()
        });
        right.count() as f64 / gold.len().max(1) as f64
    };
    (1..=100).map(|threshold| (threshold, accuracy(threshold))).rev().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// On sets of mistranslation and no-error alone, all other predictions are one class, `other`.
fn collapsed(gold: &[String], predicted: &[String]) -> Vec<String> {
    let two_way = gold.iter().all(|label| label == "mistranslation" || label == NO_ERROR);
    let one = |label: &String| {
        let is_counted = !two_way || label == "mistranslation" || label == NO_ERROR;
        if is_counted { label.clone() } else { "other".to_owned() }
    };
    predicted.iter().map(one).collect()
}

/// Accuracy and macro-F1 over the labels that occur on either side; distribution and confusion are those of
/// `shown`, the predictions before any are taken together.
///
/// ```
/// use tribunal_replication::promptcue::score::agreement;
/// let labels = |labels: &[&str]| labels.iter().map(|l| l.to_string()).collect::<Vec<_>>();
/// let (gold, predicted) = (labels(&["a", "a", "b", "b"]), labels(&["a", "b", "b", "c"]));
/// let found = agreement(&gold, &predicted, &predicted);
/// // F1: a 2/3, b 2/4, c 0.
/// assert_eq!(found.accuracy, 0.5);
/// assert!((found.macro_f1 - (2.0 / 3.0 + 0.5) / 3.0).abs() < 1e-15);
/// ```
pub fn agreement(gold: &[String], predicted: &[String], shown: &[String]) -> Agreement {
    let classes: BTreeSet<&String> = gold.iter().chain(predicted).collect();
    let count = |labels: &[String], class: &String| labels.iter().filter(|label| *label == class).count();
    let both =
        |class: &String| gold.iter().zip(predicted).filter(|(g, p)| *g == class && *p == class).count();
    let f1 =
        |class: &&String| 2.0 * both(class) as f64 / (count(gold, class) + count(predicted, class)) as f64;
    let n = gold.len().max(1) as f64;
    let kinds: BTreeSet<&String> = shown.iter().collect();
    let mut confusion: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for (gold, shown) in gold.iter().zip(shown) {
        *confusion.entry(gold.clone()).or_default().entry(shown.clone()).or_default() += 1;
    }
    Agreement {
        accuracy: gold.iter().zip(predicted).filter(|(g, p)| g == p).count() as f64 / n,
        macro_f1: classes.iter().map(f1).sum::<f64>() / classes.len().max(1) as f64,
        n_classes: classes.len(),
        distribution: kinds
            .into_iter()
            .map(|kind| (kind.clone(), 100.0 * count(shown, kind) as f64 / n))
            .collect(),
        confusion,
    }
}

/// Of the predictions of a label, the share that is right; recall with the sides exchanged.
fn precision(gold: &[String], predicted: &[String], label: &str) -> Option<f64> {
    let n_predicted = predicted.iter().filter(|p| *p == label).count();
    let right = gold.iter().zip(predicted).filter(|(g, p)| *p == label && *g == label).count();
    (n_predicted > 0).then(|| right as f64 / n_predicted as f64)
}
