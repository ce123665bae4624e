//! A judge's scores and errors of translations, unit by unit: verdicts of a run or of raters, or the scores
//! of a file, in one form. Nothing is compared here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use tribunal_core::segment::numbered;

use super::{
    Error, Result,
    scores::{SegmentScores, numbering::Numbered},
    verdicts::{JudgedError, Verdict},
};

/// The judgements of one judge.
#[derive(Clone, Debug, Default)]
pub struct Judgements {
    /// The name of the judge, or the path of its judgements.
    pub name: String,
    pub systems: BTreeMap<String, Units>,
}

/// Units of a system.
pub type Units = BTreeMap<Unit, Judgement>;

/// A segment or a document, independent of the system that translated it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// Language pair; empty in score files.
    pub pair: String,
    /// `None` for documents.
    pub seg: Option<usize>,
    /// Empty in score files.
    pub doc: String,
    /// The segments of a document.
    pub segs: Vec<usize>,
}

/// A judge's score and errors of a translation.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub score: Option<f64>,
    /// True if there is no score because the translation is empty.
    pub is_empty: bool,
    /// The reason why the hypothesis is no translation; `None` where it is one.
    pub warning: Option<String>,
    pub source: String,
    pub hypothesis: String,
    pub errors: Vec<JudgedError>,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = if self.pair.is_empty() { String::new() } else { format!("{} ", self.pair) };
        match self.seg {
            Some(seg) => write!(f, "{pair}{}", numbered(seg)),
            None => write!(f, "{pair}document `{}`", self.doc),
        }
    }
}

impl Unit {
    fn new(verdict: &Verdict) -> Self {
        let (doc, segs) = (verdict.doc.clone(), verdict.segs.clone());
        Self { pair: verdict.pair(), seg: verdict.seg, doc, segs }
    }

    fn numbered(seg: usize) -> Self {
        Self { pair: String::new(), seg: Some(seg), doc: String::new(), segs: Vec::new() }
    }
}

impl Judgements {
    /// The judgements in a list of verdicts.
    ///
    /// # Errors
    /// Two verdicts on one translation.
    pub fn new(name: &str, verdicts: Vec<Verdict>) -> Result<Self> {
        let mut systems: BTreeMap<String, Units> = BTreeMap::new();
        for verdict in verdicts {
            let unit = Unit::new(&verdict);
            let judgement = Judgement {
                score: verdict.usable_score(),
                is_empty: verdict.status == "empty",
                warning: verdict.warning,
                source: verdict.source,
                hypothesis: verdict.hypothesis,
                errors: verdict.errors,
            };
            let units = systems.entry(verdict.system.clone()).or_default();
            if units.insert(unit.clone(), judgement).is_some() {
                let reason = format!("`{name}` has two verdicts on `{}`, {unit}", verdict.system);
                return Err(Error::Unsuitable(reason));
            }
        }
        Ok(Self { name: name.to_owned(), systems })
    }

    /// The scores of a file, segment by segment.
    pub fn of_columns(name: &str, columns: SegmentScores) -> Self {
        let numbered = |column: Vec<Option<f64>>| -> Units {
            let judgement = |score| Judgement { score, ..Judgement::default() };
            column
                .into_iter()
                .enumerate()
                .map(|(seg, score)| (Unit::numbered(seg), judgement(score)))
                .collect()
        };
        let systems = columns.into_iter().map(|(system, column)| (system, numbered(column))).collect();
        Self { name: name.to_owned(), systems }
    }

    /// Numbered scores, whose first segment has the number `first`, without the segments that have no line.
    pub fn of_numbers(name: &str, rows: &Numbered, first: usize) -> Self {
        let (mut of, numbers) = (Self::of_columns(name, rows.from(first)), rows.numbers());
        for units in of.systems.values_mut() {
            units.retain(|unit, _| unit.seg.is_some_and(|seg| numbers.contains(&(seg + first))));
        }
        of
    }

    /// True if every translation has a score.
    pub fn is_complete(&self) -> bool {
        self.systems.values().flat_map(BTreeMap::values).all(|judgement| judgement.score.is_some())
    }

    /// The language pairs of its units; the empty one in score files.
    pub fn pairs(&self) -> BTreeSet<&str> {
        self.systems.values().flat_map(BTreeMap::keys).map(|unit| unit.pair.as_str()).collect()
    }

    /// The units of one language pair.
    #[must_use]
    pub fn of_pair(&self, pair: &str) -> Self {
        let of = |units: &Units| {
            let units_of_pair = units.iter().filter(|(unit, _)| unit.pair == pair);
            units_of_pair.map(|(unit, judgement)| (unit.clone(), judgement.clone())).collect::<Units>()
        };
        let systems = self.systems.iter().map(|(system, units)| (system.clone(), of(units)));
        let systems = systems.filter(|(_, units)| !units.is_empty()).collect();
        Self { name: self.name.clone(), systems }
    }

    /// True if both judged at least one common translation.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.systems.iter().any(|(system, units)| {
            let others = other.systems.get(system);
            others.is_some_and(|others| units.keys().any(|unit| others.contains_key(unit)))
        })
    }

    /// The numbers of all segments.
    pub fn segments(&self) -> BTreeSet<usize> {
        self.systems.values().flat_map(BTreeMap::keys).filter_map(|unit| unit.seg).collect()
    }
}
