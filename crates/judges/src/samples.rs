//! Self-consistency for every method: one judge at several seeds, and the agreement of its verdicts. Beyond
//! the papers. Seeds are consecutive, not drawn, and each sample asks the judge's own questions.
//!
//! Sample `k` (from 0) is the verdict of a run at seed + k. Of N samples:
//! - a unit has a verdict when more than half of its samples have one; else it has the first sample's reason;
//! - [`Aggregate`] combines the verdicts. Scores are means, raw and quality scores too, over the samples that
//!   have a verdict and count, each with its weight;
//! - every span that any of them named is kept. Two name the same span when they mark the same side and their
//!   characters overlap by half of both together, or, without a place, have the same text. Its confidence is
//!   the agreement: the share of samples that name it. Its weight is the mean over all samples, 0 where one
//!   does not name it, so that weights still add up to the mean penalty. Severity and category are the most
//!   frequent ones; of equally frequent severities the milder, of categories the first named.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Panel, Protocol, Result, Verdict, setup::names};
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    segment::Segment,
};

/// Rule that combines the verdicts of several samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregate {
    /// All samples count alike.
    #[default]
    Mean,
    /// Samples whose scores are more than two standard deviations (of the population) from the mean are
    /// dropped. The others count by the reciprocal of their rank: the best score 1, the next 1/2, then 1/3.
    /// Source: Junczys-Dowmunt, "GEMBA V2: Ten Judgments Are Better Than One" (WMT 2025).
    ReciprocalRank,
    /// Minimum Bayes risk: the sample whose errors are most like those of the others on average, the first of
    /// equals. Its score and errors are the verdict, and the confidence of its spans is the agreement.
    /// Likeness: of the characters that either marks, major errors with 1 and minor ones with a half, the sum
    /// of the lesser marks by that of the greater; 1 where neither marks any. Source: Lyu and others,
    /// "Minimum Bayes Risk Decoding for Error Span Detection" (arXiv 2512.07540), whose measures of likeness
    /// are others.
    Mbr,
}

names!(Aggregate, "the aggregate of samples", {
    Mean => "mean",
    ReciprocalRank => "reciprocal-rank",
    Mbr => "mbr",
});

/// The samples of a judge.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// Number of seeds.
    pub n: usize,
    pub aggregate: Aggregate,
}

/// A judge's verdicts on a group at every seed, combined; its own verdicts for one. The samples run one after
/// the other: the later ones find their prompts in the prefix tree.
pub fn judge(
    protocol: &dyn Protocol,
    Samples { n, aggregate }: Samples,
    panel: &Panel,
    group: &[Segment],
) -> Vec<Result<Verdict>> {
    if n == 1 {
        return protocol.judge(panel, group);
    }
    let sample = |k: usize| {
        let seed = panel.sampling.seed.wrapping_add(k as u64);
        protocol.judge(&panel.at_seed(seed), group)
    };
    let mut samples: Vec<_> = (0..n).map(|k| sample(k).into_iter()).collect();
    let mut units = Vec::new();
    loop {
        let unit: Vec<_> = samples.iter_mut().filter_map(Iterator::next).collect();
        if unit.is_empty() {
            return units;
        }
        units.push(merge(unit, n, aggregate));
    }
}

/// The combined verdict of the samples of one unit.
fn merge(samples: Vec<Result<Verdict>>, n: usize, aggregate: Aggregate) -> Result<Verdict> {
    let first_error = samples.iter().find_map(|sample| sample.as_ref().err().cloned());
    let verdicts: Vec<Verdict> = samples.into_iter().flatten().collect();
    if let Some(error) = first_error.filter(|_| 2 * verdicts.len() <= n) {
        return Err(error);
    }
    Ok(match aggregate {
        Aggregate::Mean => mean(&verdicts, &vec![1.0; verdicts.len()]),
        Aggregate::ReciprocalRank => {
            let ranked_verdicts = ranked(verdicts);
            let weights: Vec<f64> = (1..=ranked_verdicts.len()).map(|rank| 1.0 / rank as f64).collect();
            mean(&ranked_verdicts, &weights)
        }
        Aggregate::Mbr => most_alike(&verdicts),
    })
}

/// The mean of verdicts, each with its weight.
fn mean(verdicts: &[Verdict], weights: &[f64]) -> Verdict {
    let weighted = || verdicts.iter().zip(weights);
    let total: f64 = weights.iter().sum();
    let mean = |value: fn(&Verdict) -> f64| {
        weighted().map(|(verdict, weight)| weight * value(verdict)).sum::<f64>() / total
    };
    let quality = weighted().filter_map(|(verdict, weight)| Some((weight * verdict.quality_score?, *weight)));
    let (quality, of_quality): (Vec<f64>, Vec<f64>) = quality.unzip();
    Verdict {
        score: mean(|verdict| verdict.score),
        raw: mean(|verdict| verdict.raw),
        quality_score: (!quality.is_empty())
            .then(|| quality.iter().sum::<f64>() / of_quality.iter().sum::<f64>()),
        interval: None,
        errors: spans(verdicts, weights),
        warning: verdicts.iter().find_map(|verdict| verdict.warning.clone()),
    }
}

/// The verdicts whose scores are within two standard deviations of their mean, the best first; at least three
/// in four are.
fn ranked(mut verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let n = verdicts.len() as f64;
    let mean = verdicts.iter().map(|verdict| verdict.score).sum::<f64>() / n;
    let off = |verdict: &Verdict| verdict.score - mean;
    let deviation = (verdicts.iter().map(|verdict| off(verdict).powi(2)).sum::<f64>() / n).sqrt();
    verdicts.retain(|verdict| off(verdict).abs() <= 2.0 * deviation);
    verdicts.sort_by(|a, b| b.score.total_cmp(&a.score));
    verdicts
}

/// The verdict whose errors are most like those of the others, with the agreement about each of its spans.
fn most_alike(verdicts: &[Verdict]) -> Verdict {
    let marks: Vec<Marks> = verdicts.iter().map(|verdict| marks(&verdict.errors)).collect();
    let alike = |idx: usize| marks.iter().map(|other| likeness(&marks[idx], other)).sum::<f64>();
    let mut best = (0, f64::NEG_INFINITY);
    for idx in 0..verdicts.len() {
        // Its likeness to itself is the greatest possible one.
        let sum = alike(idx);
        if sum > best.1 {
            best = (idx, sum);
        }
    }
    let mut verdict = verdicts[best.0].clone();
    for error in &mut verdict.errors {
        let names = |other: &&Verdict| other.errors.iter().any(|other| is_same(error, other));
        error.confidence = Some(verdicts.iter().filter(names).count() as f64 / verdicts.len() as f64);
    }
    Verdict { interval: None, ..verdict }
}

/// The marks of a verdict: each character by its side and place, or, without a place, by the span's text and
/// its place in it.
type Marks<'v> = BTreeMap<(Side, &'v str, usize), f64>;

fn marks(errors: &[ErrorSpan]) -> Marks<'_> {
    let mut marks = Marks::new();
    for error in errors {
        let mark: f64 = match error.severity {
            Severity::Critical | Severity::Major => 1.0,
            Severity::Minor => 0.5,
            Severity::Neutral => continue,
        };
        let (text, places) = match (error.start, error.end) {
            (Some(start), Some(end)) => ("", start..end),
            _ => (error.span.as_str(), 0..error.span.chars().count()),
        };
        for place in places {
            let marked = marks.entry((error.side, text, place)).or_insert(0.0);
            *marked = mark.max(*marked);
        }
    }
    marks
}

/// Range: 0 to 1, for verdicts that mark the same.
fn likeness(a: &Marks, b: &Marks) -> f64 {
    let of = |marks: &Marks, key| marks.get(key).copied().unwrap_or(0.0);
    let all = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
    let (lesser, greater) = all.fold((0.0, 0.0), |(lesser, greater), key| {
        let (a, b): (f64, f64) = (of(a, key), of(b, key));
        (lesser + a.min(b), greater + a.max(b))
    });
    if greater > 0.0 { lesser / greater } else { 1.0 }
}

/// All spans that any verdict names, in the order of their first naming. Each verdict counts with its weight.
fn spans(verdicts: &[Verdict], weights: &[f64]) -> Vec<ErrorSpan> {
    // The namings of each span with their verdicts.
    let mut clusters: Vec<Vec<(usize, &ErrorSpan)>> = Vec::new();
    for (idx, verdict) in verdicts.iter().enumerate() {
        for error in &verdict.errors {
            let same = |cluster: &&mut Vec<(usize, &ErrorSpan)>| {
                is_same(cluster[0].1, error) && cluster.iter().all(|(other, _)| *other != idx)
            };
            match clusters.iter_mut().find(same) {
                Some(cluster) => cluster.push((idx, error)),
                None => clusters.push(vec![(idx, error)]),
            }
        }
    }
    let n = verdicts.len() as f64;
    let total: f64 = weights.iter().sum();
    let summed = |cluster: Vec<(usize, &ErrorSpan)>| {
        let weight = cluster.iter().map(|(idx, error)| weights[*idx] * error.weight).sum::<f64>() / total;
        let namings: Vec<&ErrorSpan> = cluster.into_iter().map(|(_, error)| error).collect();
        ErrorSpan {
            severity: severity(&namings),
            category: category(&namings),
            weight,
            confidence: Some(namings.len() as f64 / n),
            ..namings[0].clone()
        }
    };
    clusters.into_iter().map(summed).collect()
}

/// True if two namings mean the same span.
fn is_same(a: &ErrorSpan, b: &ErrorSpan) -> bool {
    if a.side != b.side {
        return false;
    }
    let (Some(a_start), Some(a_end), Some(b_start), Some(b_end)) = (a.start, a.end, b.start, b.end) else {
        return a.start.is_none() && b.start.is_none() && a.span == b.span;
    };
    let shared = a_end.min(b_end).saturating_sub(a_start.max(b_start));
    let together = a_end.max(b_end) - a_start.min(b_start);
    2 * shared >= together
}

fn severity(namings: &[&ErrorSpan]) -> Severity {
    // Severities are ordered from worst to mildest, so that the last of the most frequent is the mildest.
    let count = |severity: Severity| namings.iter().filter(|error| error.severity == severity).count();
    Severity::ALL.into_iter().max_by_key(|severity| count(*severity)).unwrap_or(namings[0].severity)
}

fn category(namings: &[&ErrorSpan]) -> String {
    let mut counts: BTreeMap<&str, (usize, std::cmp::Reverse<usize>)> = BTreeMap::new();
    for (idx, error) in namings.iter().enumerate() {
        counts.entry(&error.category).or_insert((0, std::cmp::Reverse(idx))).0 += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or_else(String::new, |(category, _)| category.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqm::{self, Repeats, weights};

    fn verdict(score: f64, spans: &[(&str, &str, Severity)]) -> Verdict {
        let errors =
            spans.iter().map(|(category, span, severity)| ErrorSpan::new(category, *span, *severity));
        let gemba = weights::find("gemba").unwrap();
        let (source, target) = ("the old bank", "die alte Bank am Fluss");
        let (errors, _) = mqm::assess(errors.collect(), source, target, Repeats::Merged, gemba);
        Verdict { raw: -score, ..Verdict::new(score, errors) }
    }

    #[test]
    fn spans_and_their_agreement() {
        use Severity::{Critical, Major, Minor};
        let (lost, grammar) = ("accuracy/omission", "fluency/grammar");
        let samples = vec![
            Ok(verdict(-6.0, &[("accuracy/mistranslation", "alte Bank", Major), (grammar, "am", Minor)])),
            Ok(verdict(-1.0, &[("style/awkward", "die alte Bank", Minor)])),
            Ok(verdict(
                -30.0,
                &[(lost, "old", Critical), ("style/awkward", "alte Bank", Minor), (grammar, "gone", Major)],
            )),
            Err(crate::Error::Truncated(7)),
            Ok(verdict(-5.0, &[(grammar, "gone", Major)])),
        ];
        let merged = merge(samples, 5, Aggregate::Mean).unwrap();
        assert_eq!((merged.score.to_bits(), merged.raw.to_bits()), ((-10.5f64).to_bits(), 10.5f64.to_bits()));
        let shown: Vec<String> = merged
            .errors
            .iter()
            .map(|e| {
                format!(
                    "{} {} `{}` weight {} agreement {}",
                    e.severity,
                    e.category,
                    e.span,
                    e.weight,
                    e.confidence.unwrap()
                )
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        minor style/awkward `alte Bank` weight 1.75 agreement 0.75
        minor fluency/grammar `am` weight 0.25 agreement 0.25
        critical accuracy/omission `old` weight 6.25 agreement 0.25
        major fluency/grammar `gone` weight 2.5 agreement 0.5
        ");
        let sum: f64 = merged.errors.iter().map(|e| e.weight).sum();
        assert!((sum - 10.75).abs() < 1e-12, "the mean of what the errors weigh");
    }

    #[test]
    fn ties_of_severity_and_category() {
        use Severity::{Critical, Minor};
        let two = [verdict(0.0, &[("a/b", "alte", Critical)]), verdict(0.0, &[("c/d", "alte", Minor)])];
        let errors = spans(&two, &[1.0; 2]);
        assert_eq!(
            (errors[0].severity, errors[0].category.as_str()),
            (Minor, &*ErrorSpan::new("a/b", "", Minor).category)
        );
    }

    #[test]
    fn half_of_the_samples_are_not_enough() {
        let samples = |n_good: usize| {
            let good = (0..n_good).map(|_| Ok(verdict(-1.0, &[])));
            let bad = (n_good..4).map(|_| Err(crate::Error::Refused("no".into())));
            bad.chain(good).collect::<Vec<_>>()
        };
        for &aggregate in Aggregate::ALL {
            assert!(matches!(merge(samples(2), 4, aggregate), Err(crate::Error::Refused(_))));
            assert!(merge(samples(3), 4, aggregate).is_ok());
        }
    }

    /// Source: the example of GEMBA V2's appendix, whose result is -8.50.
    #[test]
    fn ten_judgments_by_their_ranks() {
        let scores = [-50.0, -11.0, -6.0, -6.0, -11.0, -6.0, -6.0, -55.0, -6.0, -11.0];
        let samples = scores.map(|score| Ok(verdict(score, &[])));
        let merged = merge(samples.into(), 10, Aggregate::ReciprocalRank).unwrap();
        assert!((merged.score + 8.50).abs() < 0.005, "{}", merged.score);
        assert!((merged.raw - 8.50).abs() < 0.005, "{}", merged.raw);
        let alike = vec![Ok(verdict(-0.1, &[])), Ok(verdict(-0.1, &[])), Ok(verdict(-0.1, &[]))];
        let merged = merge(alike, 3, Aggregate::ReciprocalRank).unwrap();
        assert!((merged.score + 0.1).abs() < 1e-12);
    }

    #[test]
    fn weights_of_spans_add_up_to_the_penalty_by_rank() {
        let samples = vec![
            Ok(verdict(-5.0, &[("accuracy/mistranslation", "Bank", Severity::Major)])),
            Ok(verdict(-1.0, &[("style/awkward", "Bank", Severity::Minor)])),
            Ok(verdict(0.0, &[])),
        ];
        let merged = merge(samples, 3, Aggregate::ReciprocalRank).unwrap();
        // (0 + 1/2 + 5/3) / (1 + 1/2 + 1/3)
        assert!((merged.score + 13.0 / 11.0).abs() < 1e-12, "{}", merged.score);
        let sum: f64 = merged.errors.iter().map(|e| e.weight).sum();
        assert!((sum - 13.0 / 11.0).abs() < 1e-12, "{sum}");
        assert_eq!(merged.errors[0].confidence, Some(2.0 / 3.0));
    }

    #[test]
    fn the_sample_that_is_most_like_the_others() {
        use Severity::{Major, Minor};
        let (wrong, awkward) = ("accuracy/mistranslation", "style/awkward");
        let samples = vec![
            Ok(verdict(0.0, &[])),
            Ok(verdict(-5.0, &[(wrong, "alte Bank", Major)])),
            Ok(verdict(-6.0, &[(wrong, "Bank", Major), (awkward, "am", Minor)])),
            Ok(verdict(-5.0, &[(wrong, "Bank", Major)])),
            Ok(verdict(-1.0, &[(wrong, "gone", Minor)])),
        ];
        // The fourth is like the second by 4/9 and like the third by 4/5; the third like the second by 4/10.
        let chosen = merge(samples, 5, Aggregate::Mbr).unwrap();
        assert_eq!((chosen.score.to_bits(), chosen.errors.len()), ((-5.0f64).to_bits(), 1));
        assert_eq!((chosen.errors[0].span.as_str(), chosen.errors[0].confidence), ("Bank", Some(0.4)));
        let none = [0, 1, 0].map(|n| Ok(verdict(-f64::from(n), &[("a/b", "am", Minor)][..n as usize])));
        assert!(merge(none.into(), 3, Aggregate::Mbr).unwrap().errors.is_empty(), "most mark nothing");
        let n_marks = |span| marks(&verdict(0.0, &[("a/b", span, Minor)]).errors).len();
        assert_eq!((n_marks("am"), n_marks("nowhere")), (2, 7));
    }
}
