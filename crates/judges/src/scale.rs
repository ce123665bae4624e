//! Scales of scores: ends, unit, direction, and the words for them. No score is computed here.

use std::fmt;

use super::Direction;
use crate::{mqm::weights::Weights, signature::Signature};

/// The scale of a method's scores. A higher score is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub unit: Unit,
    /// The worst and the best score; infinite where scores are unbounded.
    pub ends: [f64; 2],
    /// The score of a non-translation: the worst score, or the cost of five errors of the worst severity
    /// where there is no worst one, as in WMT's MQM (25 points, and at most five errors). `None` if the
    /// method leaves it to the model.
    pub non_translation: Option<f64>,
    /// Verdicts have a direct assessment, 0 to 100, as their score or beside it.
    pub is_assessed: bool,
    /// [`Direction::Lower`] if a raw score is the negated score.
    pub raw: Direction,
}

/// The unit of a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// An assessment between two numbers.
    Rating,
    /// GEMBA's five classes, 0 to 4.
    Classes,
    /// Negative MQM penalty of the errors, divided by this number.
    Penalty(f64),
    /// Negative points of the errors (RUBRIC-MQM), divided by this number.
    Points(f64),
    /// MQM score as predicted for raters, without errors that add up to it.
    PredictedPenalty,
    /// Log-probability of a text in nats, per token.
    LogProbability,
    /// Log-probability of a whole text in nats.
    TextLogProbability,
    /// The difference of two log-probabilities, per token or of a whole text.
    LogProbabilityGain,
    /// Output of a model's score head, or its logistic function.
    HeadOutput,
    /// Score of a metric that was trained on human scores, which it scales to about 0 to 1.
    Metric,
    /// Difficulty of translating a source, negated. It does not rate translations.
    Difficulty,
}

/// A scale with the options under which it is in force, each with its values.
pub type ScaleOf = (&'static [(&'static str, &'static [&'static str])], Scale);

impl Scale {
    /// 0 to 100.
    pub const PERCENT: Self = Self { is_assessed: true, ..Self::rating(0.0, 100.0) };

    /// Penalties by MQM's weights.
    pub const PENALTY: Self = Self::open(Unit::Penalty(1.0), 25.0);

    /// `PENALTY` with a direct assessment beside the penalty.
    pub const PENALTY_AND_ASSESSMENT: Self = Self { is_assessed: true, ..Self::PENALTY };

    /// The penalty that an MQM rater is predicted to give.
    pub const PREDICTED: Self = Self { unit: Unit::PredictedPenalty, ..Self::PENALTY };

    /// A rating between two numbers.
    pub const fn rating(lowest: f64, highest: f64) -> Self {
        Self {
            unit: Unit::Rating,
            ends: [lowest, highest],
            non_translation: Some(lowest),
            is_assessed: false,
            raw: Direction::Higher,
        }
    }

    /// A rating whose raw numbers are between two ends, the better ones in a direction; from 0 to 100,
    /// upwards, it is a direct assessment.
    pub fn of_rating([lowest, highest]: [f64; 2], better: Direction) -> Self {
        match better {
            Direction::Higher if [lowest, highest] == Self::PERCENT.ends => Self::PERCENT,
            Direction::Higher => Self::rating(lowest, highest),
            Direction::Lower => Self::rating(0.0 - highest, 0.0 - lowest).negated(),
        }
    }

    /// The scale of a method in a file in its signature: `penalty`, `1..5`, or `5..1` where 1 is best.
    ///
    /// ```
    /// use tribunal_judges::{Direction, Scale};
    /// let rating = Scale::of_rating([1.0, 5.0], Direction::Lower);
    /// assert_eq!((rating.signature().as_str(), rating.ends), ("5..1", [-5.0, -1.0]));
    /// assert_eq!(Scale::signed_as("5..1"), Some(rating));
    /// assert_eq!(Scale::signed_as("0..100"), Some(Scale::PERCENT));
    /// ```
    pub fn signature(self) -> String {
        let [worst, best] = self.ends.map(|end| if self.raw == Direction::Lower { 0.0 - end } else { end });
        if self.unit == Unit::Rating { format!("{worst}..{best}") } else { "penalty".to_owned() }
    }

    /// The scale of [`Scale::signature`]; `None` for other texts.
    pub fn signed_as(text: &str) -> Option<Self> {
        if text == "penalty" {
            return Some(Self::PENALTY);
        }
        let (worst, best) = text.split_once("..")?;
        let [worst, best]: [f64; 2] = [worst.parse().ok()?, best.parse().ok()?];
        let is_upwards = worst < best;
        let better = if is_upwards { Direction::Higher } else { Direction::Lower };
        let is_scale = worst.is_finite() && best.is_finite() && (best - worst).abs() > 0.0;
        is_scale.then(|| Self::of_rating([worst.min(best), worst.max(best)], better))
    }

    /// The sum of points, at most `most` for an error.
    pub const fn points(most: f64) -> Self {
        Self::open(Unit::Points(1.0), 5.0 * most)
    }

    /// The mean of points, at most `most` for an error.
    pub const fn mean_points(most: f64) -> Self {
        Self { ends: [-most, 0.0], ..Self::open(Unit::Points(1.0), most) }
    }

    /// Scores at most 0, with this penalty for a non-translation.
    const fn open(unit: Unit, non_translation: f64) -> Self {
        Self {
            unit,
            ends: [f64::NEG_INFINITY, 0.0],
            non_translation: Some(-non_translation),
            is_assessed: false,
            raw: Direction::Higher,
        }
    }

    /// Scores in this unit, without one for a non-translation.
    pub const fn between(unit: Unit, ends: [f64; 2]) -> Self {
        Self { unit, ends, non_translation: None, is_assessed: false, raw: Direction::Higher }
    }

    /// This scale with raw scores for which lower is better.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self { raw: Direction::Lower, ..self }
    }

    /// The scale of penalties with these weights, and with EAPrompt's weight of a major error where it is
    /// signed.
    #[must_use]
    pub fn signed(self, signature: &Signature, weights: Option<&Weights>) -> Self {
        if !matches!(self.unit, Unit::Penalty(_) | Unit::PredictedPenalty) {
            return self;
        }
        let by = self.points_by();
        let w_major = signature.get("w-major").and_then(|weight| weight.parse::<f64>().ok());
        let non_translation = match (w_major, weights) {
            (Some(w_major), _) => 5.0 * w_major.max(1.0),
            (None, Some(weights)) => weights.non_translation(),
            (None, None) => return self,
        };
        let cap = weights.and_then(|weights| weights.cap).filter(|_| self.unit != Unit::PredictedPenalty);
        Self {
            ends: [cap.map_or(f64::NEG_INFINITY, |cap| -cap / by), self.ends[1]],
            non_translation: self.non_translation.map(|_| -non_translation / by),
            ..self
        }
    }

    /// A score as a number from 0 to 100, by a map that keeps the order of all scores: linear where the scale
    /// has two ends, hyperbolic where it has not, so that no score is cut off. Of a mean log-probability, the
    /// probability.
    ///
    /// ```
    /// use tribunal_judges::Scale;
    /// assert_eq!(Scale::PERCENT.percent(71.5), 71.5);
    /// assert_eq!(Scale::rating(1.0, 5.0).percent(4.0), 75.0);
    /// assert_eq!([0.0, -25.0, -75.0].map(|score| Scale::PENALTY.percent(score)), [100.0, 50.0, 25.0]);
    /// ```
    pub fn percent(self, score: f64) -> f64 {
        let [lowest, highest] = self.ends;
        let half = self.half();
        match (self.unit, lowest.is_finite(), highest.is_finite()) {
            (Unit::LogProbability, ..) => 100.0 * score.min(0.0).exp(),
            // The factor first: of 0 to 100 it is 1, and changes no score.
            (_, true, _) => ((score - lowest) * (100.0 / (highest - lowest))).clamp(0.0, 100.0),
            (_, false, true) => 100.0 * half / (half + (highest - score).max(0.0)),
            (_, false, false) => 50.0 + 50.0 * score / (half + score.abs()),
        }
    }

    /// The rule of [`Self::percent`] in words; `None` for scores of 0 to 100, which are unchanged.
    pub fn percent_rule(self) -> Option<String> {
        let ([lowest, highest], half) = (self.ends, self.half());
        Some(match (self.unit, lowest.is_finite(), highest.is_finite()) {
            (Unit::LogProbability, ..) => "a score s is written as 100 * exp(s)".to_owned(),
            (_, true, _) if self == Self::PERCENT => return None,
            (_, true, _) => format!("scores from {lowest} to {highest} are written as 0 to 100"),
            (_, false, true) => format!("a score s is written as 100 * {half} / ({half} - s)"),
            (_, false, false) => format!("a score s is written as 50 + 50 * s / ({half} + |s|)"),
        })
    }

    /// The distance from the best score at which half of it is left: that of a non-translation.
    fn half(self) -> f64 {
        let default = if self.unit == Unit::Metric { 1.0 } else { 25.0 };
        self.non_translation.map_or(default, f64::abs)
    }

    /// Points of an error per point of the score.
    pub fn points_by(self) -> f64 {
        match self.unit {
            Unit::Penalty(by) | Unit::Points(by) => by,
            _ => 1.0,
        }
    }

    /// True if scores are the errors' negated sum, so that an error's weight is on the scale of the score.
    pub fn sums_errors(self) -> bool {
        matches!(self.unit, Unit::Penalty(_) | Unit::Points(_))
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [lowest, highest] = self.ends;
        let ends = match (lowest.is_finite(), highest == 0.0) {
            (true, _) => format!("{lowest} to {highest}"),
            (false, true) => "0 is best".to_owned(),
            (false, false) => "unbounded".to_owned(),
        };
        let over = |by: f64| if by > 1.0 { format!(" over {by}") } else { String::new() };
        match self.unit {
            Unit::Rating => write!(f, "{ends}, higher is better"),
            Unit::Classes => {
                write!(
                    f,
                    "{lowest} (no meaning preserved) to {highest} (perfect translation), higher is better"
                )
            }
            Unit::Penalty(by) => write!(f, "negative penalty{}, {ends}, higher is better", over(by)),
            Unit::Points(by) => write!(f, "negative points{}, {ends}, higher is better", over(by)),
            Unit::PredictedPenalty => {
                f.write_str("MQM penalty as raters would give it, at most 0; higher is better")
            }
            Unit::LogProbability => f.write_str("log-probability per token in nats; higher is better"),
            Unit::TextLogProbability => f.write_str("log-probability of the text in nats; higher is better"),
            Unit::LogProbabilityGain => {
                f.write_str("log-probability in nats, less that of the text alone; higher is better")
            }
            Unit::HeadOutput if lowest.is_finite() => {
                write!(f, "logistic function of the score head's output, {ends}; higher is better")
            }
            Unit::HeadOutput => f.write_str("output of the model's score head, unbounded; higher is better"),
            Unit::Metric => f.write_str("score of the metric, usually between 0 and 1; higher is better"),
            Unit::Difficulty => write!(f, "negative difficulty, {ends}, higher is easier"),
        }?;
        if self.raw == Direction::Lower { f.write_str("; raw scores without the minus") } else { Ok(()) }
    }
}
