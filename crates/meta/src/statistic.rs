//! The statistics by name: the formula and the input of each. The formulas are in `correlation`, `pairs`,
//! `average`, `ties`, `agreement`, `spa` and `deviation`.

use std::{fmt, mem::discriminant, str::FromStr};

use schemars::JsonSchema;
use serde::Serialize;

use super::agreement::Agreement;
use super::align::{Aligned, AlignedSystems};
use super::average::{Averaged, Coefficient, Grouping, average, groups, pearson_of_differences};
use super::correlation::{Correlation, Undefined, kendall_b, pearson, spearman};
use super::coverage::{Basis, Unit};
use super::deviation::{Deviation, Normalisation, deviation};
use super::eval_set::EvalSet;
use super::pairs::kendall_like;
use super::scores::Scores;
use super::spa::soft_pairwise_accuracy;
use super::ties::TieTable;
use super::{Error, Result};

/// A statistic of one metric on one language pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// Pairwise accuracy of systems.
    Accuracy,
    SystemPearson,
    SystemSpearman,
    SystemKendall,
    /// Soft pairwise accuracy.
    Soft,
    /// A coefficient of segment scores, averaged over groups.
    Segment(Coefficient, Grouping),
    /// Accuracy with credit for ties at the fitted threshold.
    AccEq(Grouping),
    /// Pearson over within-segment differences.
    Differences,
    /// WMT20's Kendall-like statistic, at the threshold.
    KendallLike(f64),
    /// Mean absolute error.
    Mae(Normalisation),
    /// Mean squared error.
    Mse(Normalisation),
}

/// The value of a statistic, with its p-value, threshold and counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    pub value: f64,
    /// Two-sided p-value against no correlation (mean over groups), for the coefficients that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// The fitted tie threshold. Unit: the metric's scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Number of counted items: pairs of systems, systems, groups or cells, depending on the statistic.
    pub n: usize,
    /// Groups that the mean leaves out because one side was constant.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub n_undefined: usize,
    /// Rated segments left out because some system has no score there.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub n_dropped: usize,
}

impl Statistic {
    /// Computes the statistic for a metric of an evaluation set.
    ///
    /// # Errors
    /// Outer: scores that do not fit the human ones. Inner: the reason why the value is undefined.
    pub fn measure(
        self,
        eval_set: &EvalSet,
        metric: &Scores,
        humans: bool,
    ) -> Result<Result<Measured, Undefined>> {
        if self.is_of_systems() {
            return Ok(self.over_systems(&eval_set.system_scores(metric, humans)?));
        }
        let aligned = eval_set.segments(metric, humans)?;
        Ok(aligned.ok_or(Undefined::NoScores).and_then(|scores| self.over_segments(&scores)))
    }

    /// The systems and translations that [`Statistic::measure`] is computed from.
    ///
    /// # Errors
    /// Scores that do not fit the human ones.
    pub fn basis(self, eval_set: &EvalSet, metric: &Scores, humans: bool) -> Result<Basis> {
        if self.is_of_systems() {
            let systems = eval_set.system_scores(metric, humans)?.systems.len();
            return Ok(Basis { systems: vec![systems], ..Basis::default() });
        }
        let unit = if metric.units.is_some() { Unit::Document } else { Unit::Segment };
        Ok(match eval_set.segments(metric, humans)? {
            Some(scores) => Basis::from_units(&scores, unit),
            None => Basis { systems: vec![0], unit, ..Basis::default() },
        })
    }

    /// True if the statistic reads system scores only.
    pub fn is_of_systems(self) -> bool {
        matches!(self, Self::Accuracy | Self::SystemPearson | Self::SystemSpearman | Self::SystemKendall)
    }

    /// The statistic on system scores. A correlation needs three: over two it is always 1 or -1.
    ///
    /// # Errors
    /// The reason why it is undefined.
    pub fn over_systems(self, scores: &AlignedSystems) -> Result<Measured, Undefined> {
        let correlated = |result: Result<Correlation, Undefined>| {
            if scores.gold.len() == 2 {
                return Err(Undefined::TwoValues);
            }
            let found = result?;
            Ok(Measured { p: Some(found.p), ..Measured::new(found.value, scores.gold.len()) })
        };
        match self {
            Self::SystemPearson => correlated(pearson(&scores.gold, &scores.metric)),
            Self::SystemSpearman => correlated(spearman(&scores.gold, &scores.metric)),
            Self::SystemKendall => correlated(kendall_b(&scores.gold, &scores.metric)),
            _ => {
                let agreement = Agreement::from_systems(scores);
                Agreement::pooled([agreement]).map(|value| Measured::new(value, agreement.pairs as usize))
            }
        }
    }

    /// The statistic on segment scores; system statistics are taken on the means of the compared cells.
    ///
    /// # Errors
    /// The reason why it is undefined.
    pub fn over_segments(self, scores: &Aligned) -> Result<Measured, Undefined> {
        match self {
            Self::Segment(coefficient, grouping) => {
                average(scores, grouping, coefficient).map(Measured::from)
            }
            Self::Differences => pearson_of_differences(scores).map(Measured::from),
            Self::AccEq(grouping) => {
                let table = TieTable::new(scores, grouping);
                let fit = table.calibrate(&table.whole())?;
                Ok(Measured { epsilon: Some(fit.epsilon), ..Measured::new(fit.accuracy, fit.n_groups) })
            }
            Self::Soft => {
                let soft = soft_pairwise_accuracy(scores)?;
                Ok(Measured { n_dropped: soft.n_dropped, ..Measured::new(soft.value, soft.n_pairs) })
            }
            Self::KendallLike(threshold) => {
                let (value, pairs) =
                    kendall_like(&groups(scores, Grouping::Item), threshold).ok_or(Undefined::NoPair)?;
                Ok(Measured::new(value, pairs as usize))
            }
            Self::Mae(normalisation) => deviation(scores, normalisation).map(|d| Measured::new(d.mae, d.n)),
            Self::Mse(normalisation) => {
                deviation(scores, normalisation).map(|Deviation { mse, n, .. }| Measured::new(mse, n))
            }
            _ => self.over_systems(&scores.system_means()),
        }
    }

    /// True if lower is better, as for errors; for correlations and accuracies higher is.
    pub fn lower_is_better(self) -> bool {
        matches!(self, Self::Mae(_) | Self::Mse(_))
    }

    /// The value on a scale of 0..1: accuracies unchanged, coefficients as (r + 1) / 2, as averaged by
    /// mt-metrics-eval.
    pub fn mapped(self, value: f64) -> f64 {
        if self.is_accuracy() { value } else { f64::midpoint(value, 1.0) }
    }

    /// True if the range is 0..1 without mapping.
    pub fn is_accuracy(self) -> bool {
        matches!(
            self,
            Self::Accuracy | Self::Soft | Self::AccEq(_) | Self::Segment(Coefficient::Acc23 { .. }, _)
        )
    }
}

impl Measured {
    pub(crate) fn new(value: f64, n: usize) -> Self {
        Self { value, p: None, epsilon: None, n, n_undefined: 0, n_dropped: 0 }
    }
}

impl From<Averaged> for Measured {
    fn from(averaged: Averaged) -> Self {
        let Averaged { value, p, n_groups, n_undefined } = averaged;
        Self { p, n_undefined, ..Self::new(value, n_groups) }
    }
}

const GROUPINGS: [(&str, Grouping); 3] =
    [("none", Grouping::None), ("sys", Grouping::Sys), ("item", Grouping::Item)];

const NORMALISATIONS: [(&str, Normalisation); 3] =
    [("raw", Normalisation::Raw), ("minmax", Normalisation::MinMax), ("mqm25", Normalisation::Mqm25)];

const COEFFICIENTS: [(&str, Coefficient); 6] = [
    ("pearson", Coefficient::Pearson),
    ("spearman", Coefficient::Spearman),
    ("kendall-b", Coefficient::KendallB),
    ("kendall-c", Coefficient::KendallC),
    ("tau23", Coefficient::Tau23 { epsilon: 0.0 }),
    ("acc23", Coefficient::Acc23 { epsilon: 0.0 }),
];

/// Statistics without options.
const PLAIN: [(&str, Statistic); 6] = [
    ("sys:accuracy", Statistic::Accuracy),
    ("sys:pearson", Statistic::SystemPearson),
    ("sys:spearman", Statistic::SystemSpearman),
    ("sys:kendall", Statistic::SystemKendall),
    ("sys:spa", Statistic::Soft),
    ("seg:pearson-diff", Statistic::Differences),
];

fn by_name<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name of a variant, whatever its fields are.
fn name_of<T>(names: &[(&'static str, T)], value: &T) -> &'static str {
    let is_same = |(_, named): &&(&'static str, T)| discriminant(named) == discriminant(value);
    names.iter().find(is_same).map_or("", |(name, _)| name)
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KendallLike(threshold) => write!(f, "seg:kendall-like@{threshold}"),
            Self::AccEq(grouping) => write!(f, "seg:acc-eq@{}", name_of(&GROUPINGS, grouping)),
            Self::Segment(coefficient, grouping) => {
                let coefficient = name_of(&COEFFICIENTS, coefficient);
                write!(f, "seg:{coefficient}@{}", name_of(&GROUPINGS, grouping))
            }
            Self::Mae(normalisation) => write!(f, "seg:mae@{}", name_of(&NORMALISATIONS, normalisation)),
            Self::Mse(normalisation) => write!(f, "seg:mse@{}", name_of(&NORMALISATIONS, normalisation)),
            plain => f.write_str(name_of(&PLAIN, plain)),
        }
    }
}

impl FromStr for Statistic {
    type Err = Error;

    /// Reads `LEVEL:NAME[@GROUPING]`; the grouping is `none` unless given, `item` for acc-eq.
    fn from_str(text: &str) -> Result<Self> {
        let (name, option) = text.split_once('@').map_or((text, None), |(name, option)| (name, Some(option)));
        let grouping = |default| by_name(&GROUPINGS, option.unwrap_or(default));
        let normalisation = || by_name(&NORMALISATIONS, option.unwrap_or("minmax"));
        let found = match name {
            // The papers call it acc-t once its threshold of ties is chosen.
            "seg:acc-eq" | "seg:acc-t" => grouping("item").map(Self::AccEq),
            "seg:mae" => normalisation().map(Self::Mae),
            "seg:mse" => normalisation().map(Self::Mse),
            "seg:kendall-like" => option.unwrap_or("0").parse().ok().map(Self::KendallLike),
            _ => by_name(&PLAIN, name).or_else(|| {
                let coefficient = by_name(&COEFFICIENTS, name.strip_prefix("seg:")?)?;
                Some(Self::Segment(coefficient, grouping("none")?))
            }),
        };
        found.ok_or_else(|| unknown(text))
    }
}

/// Names of statistics in mt-metrics-eval and papers, each with its name here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("acc-t", "`seg:acc-eq`"),
    ("acc-eq", "`seg:acc-eq`"),
    ("acc*-eq", "`seg:acc-eq`"),
    ("kendallwithtiesopt", "`seg:acc-eq`"),
    ("kendall-with-ties-opt", "`seg:acc-eq`"),
    ("acc23", "`seg:acc23`"),
    ("tau23", "`seg:tau23`"),
    ("accuracy", "`sys:accuracy`"),
    ("pce", "`sys:accuracy`"),
    ("spa", "`sys:spa`"),
    ("sys-spa", "`sys:spa`"),
    ("sys-pce", "`sys:spa`"),
    ("pearson", "`sys:pearson` of systems, `seg:pearson` of segments"),
    ("spearman", "`sys:spearman` of systems, `seg:spearman` of segments"),
    ("kendall", "`sys:kendall` of systems, `seg:kendall-b` of segments"),
    ("seg:kendall", "`seg:kendall-b`, or `seg:kendall-c`"),
    ("kendall-like", "`seg:kendall-like@THRESHOLD`"),
    ("kendalllike", "`seg:kendall-like@THRESHOLD`"),
    ("kendall-variants", "`seg:kendall-b`, or `seg:kendall-c`"),
    ("mae", "`seg:mae`"),
    ("mse", "`seg:mse`"),
];

fn unknown(text: &str) -> Error {
    let name = text.trim().to_lowercase().replace('_', "-");
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(other, _)| *other == name) {
        return Error::Unsuitable(format!("unknown statistic `{text}`: tribunal's is {ours}"));
    }
    Error::Unsuitable(format!(
        "unknown statistic `{text}`; hint: sys:{{accuracy,pearson,spearman,kendall,spa}}, \
         seg:{{pearson,spearman,kendall-b,kendall-c,tau23,acc23,acc-eq}}@{{none,sys,item}}, seg:pearson-diff, \
         seg:kendall-like@THRESHOLD, seg:{{mae,mse}}@{{raw,minmax,mqm25}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in [
            "sys:accuracy",
            "sys:pearson",
            "sys:spearman",
            "sys:kendall",
            "sys:spa",
            "seg:pearson@none",
            "seg:spearman@sys",
            "seg:kendall-b@item",
            "seg:kendall-c@none",
            "seg:tau23@item",
            "seg:acc23@item",
            "seg:acc-eq@item",
            "seg:pearson-diff",
            "seg:kendall-like@25",
            "seg:mae@minmax",
            "seg:mse@mqm25",
        ] {
            assert_eq!(name.parse::<Statistic>().unwrap().to_string(), name);
        }
        assert!("seg:pearson@doc".parse::<Statistic>().is_err());
        assert!("pearson".parse::<Statistic>().is_err());
    }
}
