//! Self-consistency for every method: the same judge at several seeds, and what its verdicts have in common.
//! Beyond the papers. It draws no seed itself and asks nothing that the judge would not ask.
//!
//! Sample `k` (from 0) is the verdict of a run at seed + k. Of N samples:
//! - a unit has a verdict when more than half of its samples have one; else it has the first sample's reason;
//! - score, raw score and quality score are means over the samples that have a verdict;
//! - every span that any of them named is kept. Two name the same span when they mark the same side and their
//!   characters overlap by half of both together, or, without a place, have the same text. Its confidence is
//!   the agreement: the share of samples that name it. Its weight is the mean over all samples, 0 where one does
//!   not name it, so that weights still add up to the mean penalty. Severity and category are the most frequent
//!   ones; of equally frequent severities the milder, of categories the first named.

use std::collections::BTreeMap;

use super::{Error, Panel, Protocol, Verdict};
use crate::{
    mqm::{ErrorSpan, Severity},
    segment::Segment,
};

/// What a judge says of a group, asked at `n` seeds; what it says itself for one. One sample comes after the other: the
/// later ones find their prompts in the prefix tree.
pub fn judge(
    protocol: &dyn Protocol,
    n: usize,
    panel: &Panel,
    group: &[Segment],
) -> Vec<Result<Verdict, Error>> {
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
        units.push(merge(unit, n));
    }
}

/// What the samples of one unit come to.
fn merge(samples: Vec<Result<Verdict, Error>>, n: usize) -> Result<Verdict, Error> {
    let first_error = samples.iter().find_map(|sample| sample.as_ref().err().cloned());
    let verdicts: Vec<Verdict> = samples.into_iter().flatten().collect();
    if let Some(error) = first_error.filter(|_| 2 * verdicts.len() <= n) {
        return Err(error);
    }
    let mean = |value: fn(&Verdict) -> f64| verdicts.iter().map(value).sum::<f64>() / verdicts.len() as f64;
    let quality: Vec<f64> = verdicts.iter().filter_map(|verdict| verdict.quality_score).collect();
    Ok(Verdict {
        score: mean(|verdict| verdict.score),
        raw: mean(|verdict| verdict.raw),
        quality_score: (!quality.is_empty()).then(|| quality.iter().sum::<f64>() / quality.len() as f64),
        interval: None,
        errors: spans(&verdicts),
    })
}

/// All spans that any verdict names, in the order of their first naming.
fn spans(verdicts: &[Verdict]) -> Vec<ErrorSpan> {
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
    let summed = |cluster: Vec<(usize, &ErrorSpan)>| {
        let namings: Vec<&ErrorSpan> = cluster.into_iter().map(|(_, error)| error).collect();
        ErrorSpan {
            severity: severity(&namings),
            category: category(&namings),
            weight: namings.iter().map(|error| error.weight).sum::<f64>() / n,
            confidence: Some(namings.len() as f64 / n),
            ..namings[0].clone()
        }
    };
    clusters.into_iter().map(summed).collect()
}

/// Whether two namings mean the same span.
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
            Err(Error::Truncated(7)),
            Ok(verdict(-5.0, &[(grammar, "gone", Major)])),
        ];
        let merged = merge(samples, 5).unwrap();
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
        let errors = spans(&two);
        assert_eq!(
            (errors[0].severity, errors[0].category.as_str()),
            (Minor, &*ErrorSpan::new("a/b", "", Minor).category)
        );
    }

    #[test]
    fn half_of_the_samples_are_not_enough() {
        let samples = |n_good: usize| {
            let good = (0..n_good).map(|_| Ok(verdict(-1.0, &[])));
            let bad = (n_good..4).map(|_| Err(Error::Refused("no".into())));
            bad.chain(good).collect::<Vec<_>>()
        };
        assert!(matches!(merge(samples(2), 4), Err(Error::Refused(_))));
        assert!(merge(samples(3), 4).is_ok());
    }
}
