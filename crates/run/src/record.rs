//! One line of `journal.jsonl` and `verdicts.jsonl`: a unit and the verdict on it. It holds no times and no
//! cache counts, so that its bytes never change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::judges::{Direction, Scale};

use crate::{
    judges::{self, Judge, Unit, Verdict},
    mqm::ErrorSpan,
    segment::{Lang, Outline, Segment, joined},
};

/// A unit with its verdict, or with the reason why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    pub system: String,
    /// The document; several are joined by `+`; empty if the input names none.
    pub doc: String,
    /// `None` when the unit is a document or more.
    pub seg: Option<usize>,
    /// The segments of a unit that is a document or more, in the order in which its text joins them; empty
    /// where `seg` identifies it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segs: Vec<usize>,
    pub src_lang: Lang,
    pub tgt_lang: Lang,
    pub source: String,
    pub hypothesis: String,
    /// Higher is better; `None` unless `status` is `ok`.
    pub score: Option<f64>,
    /// The method's own scale and sign.
    pub raw: Option<f64>,
    /// The direction of `raw`; a higher `score` is always better.
    pub direction: Direction,
    /// Direct assessment 0..=100 where the method requests one; higher is better.
    pub quality_score: Option<f64>,
    /// Range of raters' scores for nine in ten such translations, where the method provides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    pub errors: Vec<ErrorSpan>,
    pub status: Status,
    pub reason: Option<String>,
    /// Reason for caution about the score: the unit, or a part of it, is not a translation, or was cut. In
    /// words, without a full stop; `None` for most units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Number of the model's calls for this unit.
    pub n_calls: usize,
}

/// Status of a unit: judged, or the reason for a missing verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ok,
    Unparsable,
    Refused,
    Truncated,
    /// A form made the answer, not the model.
    NoSignal,
    TooLong,
    /// There is no text to judge; a retry would not change that.
    Empty,
    /// The engine or the judge failed; judged again when the run is resumed.
    Failed,
}

impl Status {
    /// The name in records and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unparsable => "unparsable",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::NoSignal => "no_signal",
            Self::TooLong => "too_long",
            Self::Empty => "empty",
            Self::Failed => "failed",
        }
    }
}

impl Status {
    /// Returns true if the model's answer is at fault, so that another answer might do.
    pub fn is_of_the_answer(self) -> bool {
        matches!(self, Self::Unparsable | Self::Refused | Self::Truncated | Self::NoSignal)
    }
}

impl From<&judges::Error> for Status {
    fn from(error: &judges::Error) -> Self {
        match error {
            judges::Error::Unparsable(_) => Self::Unparsable,
            judges::Error::Refused(_) => Self::Refused,
            judges::Error::Truncated(_) | judges::Error::Reasoning(_) => Self::Truncated,
            judges::Error::NoSignal(_) => Self::NoSignal,
            judges::Error::TooLong(_) => Self::TooLong,
            judges::Error::Empty(_) => Self::Empty,
            judges::Error::Failed(_) => Self::Failed,
        }
    }
}

/// Key of a verdict's unit, unique within a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitKey {
    pub system: String,
    pub src_lang: String,
    pub tgt_lang: String,
    pub doc: String,
    pub seg: Option<usize>,
}

impl UnitKey {
    /// The units of a group, in order.
    pub fn of_group(group: &[Segment], unit: Unit) -> Vec<Self> {
        Self::of_outlines(group.iter().map(Segment::outline), unit)
    }

    /// The units of a group, from outlines without the segments' texts.
    pub fn of_outlines<'a>(group: impl Iterator<Item = Outline<'a>> + Clone, unit: Unit) -> Vec<Self> {
        match (unit, group.clone().next()) {
            (_, None) => Vec::new(),
            (Unit::Segment, _) => group.map(|segment| Self::of_outline(&segment)).collect(),
            (Unit::Group, Some(first)) => {
                vec![Self { doc: doc_names(group), seg: None, ..Self::of_outline(&first) }]
            }
        }
    }

    /// The unit that is one segment.
    pub fn of_segment(segment: &Segment) -> Self {
        Self::of_outline(&segment.outline())
    }

    /// The key of a segment, from an outline without its texts.
    pub fn of_outline(segment: &Outline<'_>) -> Self {
        Self {
            system: segment.system.to_owned(),
            src_lang: segment.src_lang.to_string(),
            tgt_lang: segment.tgt_lang.to_string(),
            doc: segment.doc.to_owned(),
            seg: Some(segment.seg),
        }
    }
}

/// The documents of a group, joined by `+`; a segment without a document is named by its number.
fn doc_names<'a>(group: impl Iterator<Item = Outline<'a>>) -> String {
    let mut names: Vec<String> = Vec::new();
    for segment in group {
        let name = if segment.doc.is_empty() { segment.seg.to_string() } else { segment.doc.to_owned() };
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    names.join("+")
}

impl Record {
    /// The language pair: `en-de`.
    pub fn pair(&self) -> String {
        format!("{}-{}", self.src_lang, self.tgt_lang)
    }

    /// The unit that the record is about.
    pub fn key(&self) -> UnitKey {
        UnitKey {
            system: self.system.clone(),
            src_lang: self.src_lang.to_string(),
            tgt_lang: self.tgt_lang.to_string(),
            doc: self.doc.clone(),
            seg: self.seg,
        }
    }

    /// The records of a group from its judge's verdicts: one for each unit, however many the judge returned,
    /// or for each of the `wanted` segments.
    pub fn of_group(
        group: &[Segment],
        judge: &Judge,
        verdicts: Vec<Result<Verdict, judges::Error>>,
        n_calls: &[usize],
        positions: &[usize],
    ) -> Vec<Self> {
        let unit = judge.unit;
        let keys = UnitKey::of_group(group, unit);
        let verdicts = one_for_each(keys.len(), verdicts);
        let texts = |i: usize| match unit {
            Unit::Segment => (group[i].source.clone(), group[i].hypothesis.clone()),
            Unit::Group => joined(group),
        };
        let segs: Vec<usize> = match unit {
            Unit::Segment => Vec::new(),
            Unit::Group => group.iter().map(|segment| segment.seg).collect(),
        };
        let units = keys.into_iter().zip(verdicts).enumerate();
        units
            .filter(|(i, _)| unit == Unit::Group || positions.contains(i))
            .map(|(i, (key, verdict))| {
                let about = if unit == Unit::Group { group } else { &group[i..=i] };
                let warning = judge.warnings(about).pop().flatten();
                let (source, hypothesis) = texts(i);
                let blank = Self {
                    system: key.system,
                    doc: key.doc,
                    seg: key.seg,
                    segs: segs.clone(),
                    src_lang: group[i].src_lang.clone(),
                    tgt_lang: group[i].tgt_lang.clone(),
                    source,
                    hypothesis,
                    score: None,
                    raw: None,
                    direction: judge.direction,
                    quality_score: None,
                    interval: None,
                    errors: Vec::new(),
                    status: Status::Ok,
                    reason: None,
                    warning,
                    n_calls: n_calls.get(i).copied().unwrap_or(0),
                };
                blank.with_verdict(verdict)
            })
            .collect()
    }

    /// Returns true if the unit, or a part of it, is not a translation.
    pub fn is_untranslated(&self) -> bool {
        self.warning.as_deref().is_some_and(|warning| warning != judges::comet::CUT)
    }

    /// The score's interval in words, ` (90%: -12.0 to -0.5)`; empty without one.
    pub fn interval_text(&self) -> String {
        self.interval.map_or_else(String::new, |[low, high]| format!(" (90%: {low:.1} to {high:.1})"))
    }

    fn with_verdict(self, verdict: Result<Verdict, judges::Error>) -> Self {
        match verdict {
            Ok(v) if v.score.is_finite() && v.raw.is_finite() => Self {
                // Adding 0 turns -0, which would be printed as such, into 0.
                score: Some(v.score + 0.0),
                raw: Some(v.raw + 0.0),
                quality_score: v.quality_score.filter(|q| q.is_finite()),
                interval: v.interval.filter(|ends| ends.iter().all(|end| end.is_finite())),
                errors: v.errors,
                warning: self.warning.or(v.warning),
                ..self
            },
            Ok(v) => self.with_verdict(Err(judges::Error::Failed(format!(
                "the score is not a number: `{}`",
                v.score
            )))),
            Err(error) => Self { status: Status::from(&error), reason: Some(error.to_string()), ..self },
        }
    }
}

fn one_for_each(
    n: usize,
    verdicts: Vec<Result<Verdict, judges::Error>>,
) -> Vec<Result<Verdict, judges::Error>> {
    if verdicts.len() == n {
        return verdicts;
    }
    let reason = format!("the judge gave {} verdicts for {n} units", verdicts.len());
    vec![Err(judges::Error::Failed(reason)); n]
}
