//! Suspicious scores of metrics: a flipped sign, sums for means, fillers. Nothing is corrected.

use crate::Result;
use crate::align::AlignedSystems;
use crate::correlation::pearson;
use crate::eval_set::EvalSet;
use crate::scores::{Scores, SystemScoreOrigin};
use crate::statistic::Statistic;

/// A suspicion about the scores of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    pub message: String,
    /// Negated scores would agree with the human ones.
    pub is_flipped: bool,
}

/// The suspicions about one metric, on all that it scored, as a publication about it would count.
///
/// # Errors
/// Scores that do not fit the human ones.
pub fn suspicions(eval_set: &EvalSet, metric: &Scores) -> Result<Vec<Suspicion>> {
    let found = [flipped_sign(eval_set, metric)?, summed_systems(eval_set, metric), filler(eval_set, metric)];
    let found = found.into_iter().enumerate();
    let suspicion =
        |(i, message): (usize, Option<String>)| Some(Suspicion { message: message?, is_flipped: i == 0 });
    Ok(found.filter_map(suspicion).collect())
}

fn flipped_sign(eval_set: &EvalSet, metric: &Scores) -> Result<Option<String>> {
    let level = |r: f64, level: &str| {
        (r < -0.3).then(|| format!("Pearson is {r:.3} at {level} level; is lower better?"))
    };
    if let Some(segments) = eval_set.own_segments(metric)? {
        let (gold, scores): (Vec<f64>, Vec<f64>) =
            segments.gold.iter().zip(&segments.metric).filter_map(|(g, m)| Some(((*g)?, (*m)?))).unzip();
        if let Some(message) = pearson(&gold, &scores).ok().and_then(|r| level(r.value, "segment")) {
            return Ok(Some(message));
        }
    }
    let systems = AlignedSystems::new(&eval_set.gold, metric, &eval_set.machine)?;
    Ok(Statistic::SystemPearson.over_systems(&systems).ok().and_then(|r| level(r.value, "system")))
}

/// System scores that are sums, where systems have unequal coverage: otherwise they rank like means.
fn summed_systems(eval_set: &EvalSet, metric: &Scores) -> Option<String> {
    if metric.system_origin == SystemScoreOrigin::MeanOfSegments {
        return None;
    }
    let segments = metric.segments.as_ref()?;
    let mut counts = Vec::new();
    for system in &eval_set.machine {
        let scores: Vec<f64> = segments.get(system)?.iter().flatten().copied().collect();
        let (sum, official) = (scores.iter().sum::<f64>(), metric.systems.get(system).copied().flatten()?);
        let is_sum = (sum - official).abs() <= 1e-6 * sum.abs().max(1.0);
        if !is_sum || scores.len() < 2 || official == 0.0 {
            return None;
        }
        counts.push(scores.len());
    }
    let (least, most) = (counts.iter().min()?, counts.iter().max()?);
    (least < most).then(|| {
        format!(
            "system scores are sums over {least} to {most} segments, so they grow with a system's segments"
        )
    })
}

/// Finds a filler that is part of means: one value at nearly all segments that no rater scored, and hardly
/// anywhere else. Elsewhere such segments are left out.
fn filler(eval_set: &EvalSet, metric: &Scores) -> Option<String> {
    if metric.system_origin != SystemScoreOrigin::MeanOfSegments {
        return None;
    }
    let (gold, scores) = (eval_set.gold.segments.as_ref()?, metric.segments.as_ref()?);
    let mut unrated = Vec::new();
    let mut rated = Vec::new();
    for system in &eval_set.machine {
        for (gold, score) in gold.get(system)?.iter().zip(scores.get(system)?) {
            if let Some(score) = score {
                if gold.is_some() { rated.push(*score) } else { unrated.push(*score) }
            }
        }
    }
    let value = *unrated.first()?;
    let share =
        |scores: &[f64]| scores.iter().filter(|score| **score == value).count() as f64 / scores.len() as f64;
    let filled = unrated.len() >= 10 && share(&unrated) > 0.99 && share(&rated) < 0.5;
    filled.then(|| {
        format!(
            "{} segments without a human score all have {value}: fillers, which the means of systems include",
            unrated.len()
        )
    })
}
