//! EAPrompt's latent weight: the weight of a major error, with 1 for a minor one, for which weighted counts
//! agree best with human scores. The errors of finished verdicts are counted and no model is run.

use serde::Serialize;

use super::correlation::Undefined;
use super::eval_set::EvalSet;
use super::scores::{Scores, SegmentScores};
use super::statistic::Statistic;
use super::verdicts::Verdict;
use super::{Advice, Error, Result};

/// The weights that are tried: 1 to 25 in halves. Below 1 a major error would cost less than a minor one; 25
/// is MQM's heaviest.
const HALVES: std::ops::RangeInclusive<u32> = 2..=50;

/// The weight that M-MAD and WMT use.
const USUAL: f64 = 5.0;

/// Result of the search for one run on one language pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latent {
    /// The smallest of the weights that agree best.
    pub w_major: f64,
    /// Agreement with that weight. Unit: the statistic's; higher is better.
    pub value: f64,
    /// Agreement with a weight of 5.
    pub at_five: f64,
    /// Mean agreement on each half of the segments (those of even and of odd number) with the weight of the
    /// other half; `None` where a half has no value.
    pub held_out: Option<f64>,
    pub statistic: String,
    /// Every weight that was tried and has a value, with it.
    pub curve: Vec<(f64, f64)>,
}

/// Tries every weight on the verdicts that have a score.
///
/// Critical errors count as major, neutral ones not at all.
///
/// # Errors
/// Outer: verdicts that do not fit the test set, or a statistic where lower is better. Inner: no weight has a
/// value.
pub fn search(
    name: &str,
    verdicts: &[Verdict],
    eval_set: &EvalSet,
    statistic: Statistic,
) -> Result<Result<Latent, Undefined>> {
    if statistic.lower_is_better() {
        return Err(Error::Unsuitable(format!(
            "no weight can be searched for with `{statistic}`, where lower is better; hint: seg:acc-eq@item"
        )));
    }
    if verdicts.iter().any(|verdict| verdict.seg.is_none()) {
        let reason = format!("`{name}` judged documents; the latent weight is searched on segments");
        return Err(Error::Advised { reason, advice: Advice::BySegment });
    }
    let measure = |w_major: f64, half: Option<usize>| -> Result<Result<f64, Undefined>> {
        let scores = Scores::new(name, Some(weighted(verdicts, eval_set, w_major)), None);
        let Some(aligned) = eval_set.segments(&scores, false)? else { return Ok(Err(Undefined::NoScores)) };
        let aligned = match half {
            Some(half) => {
                let segments: Vec<usize> = (0..aligned.n_segments).filter(|s| s % 2 == half).collect();
                aligned.select(&segments)
            }
            None => aligned,
        };
        let measured = if statistic.is_of_systems() {
            statistic.over_systems(&aligned.system_means())
        } else {
            statistic.over_segments(&aligned)
        };
        Ok(measured.map(|m| m.value))
    };
    let curve = |half: Option<usize>| -> Result<Vec<(f64, f64)>> {
        let mut curve = Vec::new();
        for w_major in HALVES.map(|halves| f64::from(halves) / 2.0) {
            curve.extend(measure(w_major, half)?.ok().map(|value| (w_major, value)));
        }
        Ok(curve)
    };
    let full = curve(None)?;
    let (Some((w_major, value)), Ok(at_five)) = (best(&full), measure(USUAL, None)?) else {
        return Ok(Err(Undefined::NoScores));
    };
    let halves = [curve(Some(0))?, curve(Some(1))?];
    let held_out = |fit: usize, test: usize| {
        let (w_major, _) = best(&halves[fit])?;
        halves[test].iter().find(|(w, _)| w.total_cmp(&w_major).is_eq()).map(|(_, value)| *value)
    };
    let held_out = held_out(0, 1).zip(held_out(1, 0)).map(|(a, b)| f64::midpoint(a, b));
    Ok(Ok(Latent { w_major, value, at_five, held_out, statistic: statistic.to_string(), curve: full }))
}

/// The greatest value, at the smallest weight that reaches it.
fn best(curve: &[(f64, f64)]) -> Option<(f64, f64)> {
    curve.iter().copied().rev().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Segment scores -(`w_major` * major + minor), for every segment that has a verdict.
fn weighted(verdicts: &[Verdict], eval_set: &EvalSet, w_major: f64) -> SegmentScores {
    let mut scores = SegmentScores::new();
    for verdict in verdicts.iter().filter(|v| v.status == "ok") {
        let Some(seg) = verdict.seg.filter(|seg| *seg < eval_set.testset.n_segments()) else { continue };
        let column =
            scores.entry(verdict.system.clone()).or_insert_with(|| vec![None; eval_set.testset.n_segments()]);
        let cost = |severity: &str| match severity {
            "critical" | "major" => w_major,
            "minor" => 1.0,
            _ => 0.0,
        };
        column[seg] = Some(0.0 - verdict.errors.iter().map(|e| cost(&e.severity)).sum::<f64>());
    }
    scores
}
