//! Several annotators of the same translations: how well each agrees with the others, and which of them agree
//! with no other one. It compares translation by translation; the parent compares segments that are rated for
//! every system.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::correlation::{Undefined, kendall_b, mean, pearson};
use crate::reliability::alpha;
use crate::scores::SegmentScores;

/// The fewest shared translations for a comparison of two annotators.
pub const FEWEST_SHARED: usize = 10;

/// Level of significance at which two annotators agree.
pub const ALPHA: f64 = 0.05;

/// One annotator's scores of translations.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotator {
    pub name: String,
    pub scores: SegmentScores,
}

/// Two annotators over the translations that both rated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    pub first: String,
    pub second: String,
    pub shared: usize,
    /// Range: -1 to 1, higher is better.
    pub pearson: Result<f64, Undefined>,
    /// Tau-b. Range: -1 to 1, higher is better.
    pub kendall: Result<f64, Undefined>,
    /// One-sided p-value of tau-b against no or negative agreement; `None` where it is undefined.
    pub p: Option<f64>,
}

/// An annotator's agreement with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// With some other annotator, tau-b is above 0 at p < 0.05.
    Agrees,
    /// With none of those with whom [`FEWEST_SHARED`] translations or more are shared.
    DisagreesWithAll,
    /// There is no such annotator.
    NotCompared,
}

/// One annotator among the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Member {
    pub name: String,
    /// Translations that were rated.
    pub rated: usize,
    pub mean: f64,
    /// Translations that another one rated, too.
    pub shared: usize,
    /// Pearson with the mean of the others' scores of the same translation: human agreement, to compare
    /// metrics with.
    pub with_others: Result<f64, Undefined>,
    pub standing: Standing,
}

/// All annotators of one language pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Several {
    /// Krippendorff's alpha of scores as intervals.
    pub alpha: Result<f64, Undefined>,
    pub members: Vec<Member>,
    /// Pairs that share a translation.
    pub pairs: Vec<Pair>,
}

type Column<'a> = BTreeMap<(&'a str, usize), f64>;

fn column(annotator: &Annotator) -> Column<'_> {
    let cells = annotator.scores.iter().flat_map(|(system, scores)| {
        scores.iter().enumerate().filter_map(|(seg, score)| Some(((system.as_str(), seg), (*score)?)))
    });
    cells.collect()
}

impl Several {
    /// Compares annotators with each other.
    ///
    /// ```
    /// use tribunal_meta::annotators::several::{Annotator, Several, Standing};
    /// let annotator = |name: &str, scores: [f64; 12]| Annotator {
    ///     name: name.into(),
    ///     scores: [("A".to_owned(), scores.map(Some).to_vec())].into(),
    /// };
    /// let rising = std::array::from_fn(|at| at as f64);
    /// let falling = rising.map(|score: f64| -score);
    /// let all = Several::new(&[annotator("a", rising), annotator("b", rising), annotator("c", falling)]);
    /// let standings: Vec<Standing> = all.members.iter().map(|member| member.standing).collect();
    /// assert_eq!(standings, [Standing::Agrees, Standing::Agrees, Standing::DisagreesWithAll]);
    /// ```
    pub fn new(annotators: &[Annotator]) -> Self {
        let columns: Vec<Column> = annotators.iter().map(column).collect();
        let mut pairs = Vec::new();
        for (idx, first) in annotators.iter().enumerate() {
            for (second, column) in annotators.iter().zip(&columns).skip(idx + 1) {
                pairs.extend(pair((&first.name, &columns[idx]), (&second.name, column)));
            }
        }
        let members = (0..annotators.len()).map(|idx| member(&annotators[idx].name, idx, &columns, &pairs));
        Self { alpha: alpha(&by_cell(&columns)), members: members.collect(), pairs }
    }

    /// True if an annotator disagrees with all others.
    pub fn disagrees(&self, name: &str) -> bool {
        self.members.iter().any(|one| one.name == name && one.standing == Standing::DisagreesWithAll)
    }
}

fn by_cell(columns: &[Column]) -> Vec<Vec<f64>> {
    let mut cells: BTreeMap<(&str, usize), Vec<f64>> = BTreeMap::new();
    for (cell, score) in columns.iter().flatten() {
        cells.entry(*cell).or_default().push(*score);
    }
    cells.into_values().collect()
}

fn pair((first, a): (&str, &Column), (second, b): (&str, &Column)) -> Option<Pair> {
    let shared = a.iter().filter_map(|(cell, score)| Some((*score, *b.get(cell)?)));
    let (x, y): (Vec<f64>, Vec<f64>) = shared.unzip();
    if x.is_empty() {
        return None;
    }
    let tau = kendall_b(&x, &y);
    let one_sided = |value: f64, p: f64| if value > 0.0 { p / 2.0 } else { 1.0 - p / 2.0 };
    Some(Pair {
        first: first.to_owned(),
        second: second.to_owned(),
        shared: x.len(),
        pearson: pearson(&x, &y).map(|r| r.value),
        p: tau.as_ref().ok().map(|tau| one_sided(tau.value, tau.p)),
        kendall: tau.map(|tau| tau.value),
    })
}

fn member(name: &str, idx: usize, columns: &[Column], pairs: &[Pair]) -> Member {
    let column = &columns[idx];
    let (mut scores, mut others) = (Vec::new(), Vec::new());
    for (cell, score) in column {
        let of_cell = columns.iter().enumerate().filter(|(other, _)| *other != idx);
        let of_cell: Vec<f64> = of_cell.filter_map(|(_, column)| column.get(cell).copied()).collect();
        if !of_cell.is_empty() {
            scores.push(*score);
            others.push(mean(&of_cell));
        }
    }
    let is_its = |pair: &&Pair| (pair.first == name || pair.second == name) && pair.shared >= FEWEST_SHARED;
    let compared: Vec<&Pair> = pairs.iter().filter(is_its).collect();
    let standing = if compared.is_empty() {
        Standing::NotCompared
    } else if compared.iter().any(|pair| pair.p.is_some_and(|p| p < ALPHA)) {
        Standing::Agrees
    } else {
        Standing::DisagreesWithAll
    };
    Member {
        name: name.to_owned(),
        rated: column.len(),
        mean: mean(&column.values().copied().collect::<Vec<_>>()),
        shared: scores.len(),
        with_others: pearson(&scores, &others).map(|r| r.value),
        standing,
    }
}

/// The mean of the scores that each translation has from any annotator.
pub fn means(annotators: &[Annotator]) -> SegmentScores {
    let mut means = SegmentScores::new();
    let systems = annotators.iter().flat_map(|annotator| annotator.scores.keys());
    for system in systems {
        if means.contains_key(system) {
            continue;
        }
        let columns: Vec<_> = annotators.iter().filter_map(|one| one.scores.get(system)).collect();
        let n_segments = columns.iter().map(|column| column.len()).max().unwrap_or(0);
        let cell = |seg: usize| {
            let scores: Vec<f64> =
                columns.iter().filter_map(|column| column.get(seg).copied().flatten()).collect();
            (!scores.is_empty()).then(|| mean(&scores))
        };
        means.insert(system.clone(), (0..n_segments).map(cell).collect());
    }
    means
}
