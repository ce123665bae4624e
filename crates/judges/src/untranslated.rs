//! Treatment of segments that are not translations: under `strict` they get the verdict of a non-translation
//! without a model call; under `paper` and `code` the model's verdict stays, with a warning. They are
//! recognised by [`tribunal_core::segment::untranslated`].
//!
//! A verdict on a document or more is about several segments: it is that of a non-translation where no
//! segment of it is translated, and else the model's, with a warning that names the first segment that is
//! not.

use super::{
    Direction, Error, Judge, Panel, Result, Unit, Verdict, samples,
    scale::Scale,
    setup::{LanguageCheck, Preset, Settings},
};
use crate::{
    mqm::{ErrorSpan, Severity, weights::Weights},
    segment::{
        Segment, joined, numbered,
        untranslated::{self, Untranslated},
    },
};

/// The version of the check for non-translations, for the signature: another one changes scores.
pub const VERSION: &str = "check-2";

/// A judge's rule for segments that are not translations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rule {
    /// No check.
    #[default]
    Ignored,
    /// Warns of them.
    Warned,
    /// Gives them the verdict of a non-translation.
    Scored { score: f64, scale: Scale, weight: f64 },
}

impl Rule {
    /// The rule of a method with this scale and these weights.
    pub fn of(settings: &Settings, scale: Scale, weights: &Weights) -> Self {
        let weight = weights.penalty(Severity::Critical, "non-translation");
        match (settings.language_check, settings.preset, scale.non_translation) {
            (LanguageCheck::Off, ..) => Self::Ignored,
            (_, _, None) | (_, Preset::Paper | Preset::Code, _) => Self::Warned,
            (LanguageCheck::On, Preset::Strict, Some(score)) => Self::Scored { score, scale, weight },
        }
    }

    /// The verdict on a text that is not a translation, for this reason; `None` where the model has to be
    /// asked.
    fn verdict(self, hypothesis: &str, reason: &str) -> Option<Verdict> {
        let Self::Scored { score, scale, weight } = self else { return None };
        let error = ErrorSpan {
            start: Some(0),
            end: Some(hypothesis.chars().count()),
            weight: if scale.sums_errors() { 0.0 - score } else { weight },
            ..ErrorSpan::new("non-translation", hypothesis, Severity::Critical).explained(reason)
        };
        let quality_score = scale.is_assessed.then_some(0.0);
        let raw = if scale.raw == Direction::Lower { 0.0 - score } else { score };
        Some(Verdict { raw, quality_score, ..Verdict::new(score, vec![error]) })
    }
}

/// Judges a group without asking a model about what is not a translation.
pub(super) fn judge(judge: &Judge, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
    let mut settled = settled(judge, panel, group);
    if settled.iter().all(Option::is_none) {
        return samples::judge(judge.protocol(), judge.samples, panel, group);
    }
    let left: Vec<usize> =
        (0..settled.len()).filter(|&at| settled[at].is_none() && panel.wants(at)).collect();
    let judged = if left.is_empty() {
        settled.iter().map(|_| Err(Error::Failed("no verdict was wanted".into()))).collect()
    } else {
        samples::judge(judge.protocol(), judge.samples, &panel.wanting(&left), group)
    };
    let verdicts = judged.into_iter().zip(settled.iter_mut().map(Option::take));
    verdicts.map(|(judged, settled)| settled.map_or(judged, Ok)).collect()
}

/// The verdicts of a group's units that need no model, if they are needed.
fn settled(judge: &Judge, panel: &Panel, group: &[Segment]) -> Vec<Option<Verdict>> {
    let rule = judge.untranslated;
    let verdict = |(at, segment): (usize, &Segment)| {
        let found = if panel.wants(at) { untranslated::of(segment) } else { None };
        rule.verdict(&segment.hypothesis, &found?.reason(&segment.tgt_lang))
    };
    match (rule, judge.unit) {
        (Rule::Ignored | Rule::Warned, Unit::Segment) => group.iter().map(|_| None).collect(),
        (Rule::Ignored | Rule::Warned, Unit::Group) => vec![None],
        (Rule::Scored { .. }, Unit::Segment) => group.iter().enumerate().map(verdict).collect(),
        (Rule::Scored { .. }, Unit::Group) => vec![whole(rule, group)],
    }
}

/// The verdict on a group of which no segment is translated.
fn whole(rule: Rule, group: &[Segment]) -> Option<Verdict> {
    let translations = group.iter().filter(|segment| !segment.hypothesis.trim().is_empty());
    let all: Option<Vec<(&Segment, Untranslated)>> =
        translations.map(|segment| Some((segment, untranslated::of(segment)?))).collect();
    let (first, why) = *all?.first()?;
    rule.verdict(&joined(group).1, &why.reason(&first.tgt_lang))
}

fn found(group: &[Segment]) -> impl Iterator<Item = Option<Untranslated>> {
    group.iter().map(untranslated::of)
}

/// Warnings about the scores of a group's units, in words without a full stop.
pub(super) fn warnings(judge: &Judge, group: &[Segment]) -> Vec<Option<String>> {
    let is_scored = matches!(judge.untranslated, Rule::Scored { .. });
    let score = if is_scored { "" } else { "; the score is the model's" };
    let warning = |(segment, found): (&Segment, Option<Untranslated>)| {
        Some(format!("not a translation: {}{score}", found?.reason(&segment.tgt_lang)))
    };
    match (judge.untranslated, judge.unit) {
        (Rule::Ignored, Unit::Segment) => group.iter().map(|_| None).collect(),
        (Rule::Ignored, Unit::Group) => vec![None],
        (_, Unit::Segment) => group.iter().zip(found(group)).map(warning).collect(),
        (_, Unit::Group) => vec![of_group(group, is_scored)],
    }
}

fn of_group(group: &[Segment], is_scored: bool) -> Option<String> {
    let all: Vec<(&Segment, Untranslated)> =
        group.iter().zip(found(group)).filter_map(|(segment, found)| Some((segment, found?))).collect();
    let (first, why) = all.first()?;
    let n = group.iter().filter(|segment| !segment.hypothesis.trim().is_empty()).count();
    let (seg, reason) = (numbered(first.seg), why.reason(&first.tgt_lang));
    let score = if is_scored && all.len() == n { "" } else { "; the score is the model's" };
    let are = if all.len() == 1 { "is not a translation" } else { "are not translations" };
    Some(format!("{} of {n} segments {are}, first {seg}: {reason}{score}", all.len()))
}
