//! Lengths of runs' answers, and the number of errors that they name in a second, from the calls of their
//! folders. Nothing is compared with raters.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{Error, number, or_dash};
use crate::{
    meta::{
        lengths::{Lengths, lengths},
        verdicts::{self, Verdict},
    },
    run::{calls, finish},
    table::Table,
};

/// The answers of one run, on all its language pairs.
#[derive(Clone, Debug, Serialize)]
pub struct Answers {
    pub name: String,
    /// The noun for what a verdict is about.
    pub unit: &'static str,
    /// All answers about a unit together.
    pub found: Option<Lengths>,
    /// Error spans of all verdicts.
    pub spans: usize,
    /// Of the spans marked in translations, the share that stands there once (FSP, B.5). Range: 0 to 1;
    /// `None` without one.
    pub unique: Option<f64>,
    /// Wall time of the process that finished the run.
    pub seconds: Option<f64>,
    /// Lengths of the answers of runs over segments to the segments of each unit, by the names of those runs:
    /// for judges of documents alone.
    pub by_segment: BTreeMap<String, Lengths>,
}

/// A run with the answer tokens of its verdicts.
struct Run {
    name: String,
    path: PathBuf,
    verdicts: Vec<Verdict>,
    tokens: Vec<usize>,
}

/// Unit of a call in `calls.jsonl`.
type Key = (String, String, Option<usize>);

/// Answer tokens by pair, system and segment.
type BySegment<'a> = BTreeMap<(String, &'a str, usize), usize>;

impl Answers {
    /// The lengths of some runs' answers.
    ///
    /// # Errors
    /// Folders whose verdicts or calls cannot be read.
    pub fn from_runs(runs: &[(String, PathBuf)]) -> Result<Vec<Self>, Error> {
        let runs: Vec<Run> =
            runs.iter().map(|(name, path)| Run::read(name, path)).collect::<Result<_, _>>()?;
        let by_segment: Vec<_> = runs
            .iter()
            .filter(|run| !run.is_of_documents())
            .map(|run| (&run.name, run.of_segments()))
            .collect();
        Ok(runs.iter().map(|run| run.answers(&by_segment)).collect())
    }

    /// Error spans a second.
    pub fn speed(&self) -> Option<f64> {
        self.seconds.filter(|seconds| *seconds > 0.0).map(|seconds| self.spans as f64 / seconds)
    }
}

impl Run {
    fn read(name: &str, path: &Path) -> Result<Self, Error> {
        let verdicts = verdicts::read(path)?;
        let mut of_key: BTreeMap<Key, usize> = BTreeMap::new();
        let unreadable = |source| Error::Calls { path: path.into(), source };
        for call in calls::read(path).map_err(unreadable)? {
            let call = call.map_err(unreadable)?;
            *of_key.entry((call.system, call.doc, call.seg)).or_default() += call.usage.generated;
        }
        let key = |verdict: &Verdict| (verdict.system.clone(), verdict.doc.clone(), verdict.seg);
        let tokens = verdicts.iter().map(|verdict| of_key.get(&key(verdict)).copied().unwrap_or(0)).collect();
        Ok(Self { name: name.into(), path: path.into(), verdicts, tokens })
    }

    fn is_of_documents(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.seg.is_none())
    }

    fn of_segments(&self) -> BySegment<'_> {
        let verdicts = self.verdicts.iter().zip(&self.tokens);
        verdicts.filter_map(|(v, tokens)| Some(((v.pair(), v.system.as_str(), v.seg?), *tokens))).collect()
    }

    fn unique(&self) -> Option<f64> {
        let marked = |verdict: &'_ Verdict| {
            let spans =
                verdict.errors.iter().filter(|error| error.side == "target" && !error.span.is_empty());
            spans.map(|error| verdict.hypothesis.matches(&error.span).count() == 1).collect::<Vec<_>>()
        };
        let unique: Vec<bool> = self.verdicts.iter().flat_map(marked).collect();
        let n = unique.iter().filter(|is_unique| **is_unique).count();
        (!unique.is_empty()).then(|| n as f64 / unique.len() as f64)
    }

    fn answers(&self, by_segment: &[(&String, BySegment<'_>)]) -> Answers {
        let expected = |of: &BySegment<'_>| {
            let of_unit = |verdict: &Verdict| -> Option<usize> {
                let (pair, system) = (verdict.pair(), verdict.system.as_str());
                verdict.segs.iter().map(|seg| of.get(&(pair.clone(), system, *seg)).copied()).sum()
            };
            let known = self.verdicts.iter().filter(|verdict| !verdict.segs.is_empty());
            lengths(&known.filter_map(of_unit).collect::<Vec<_>>())
        };
        let by_segment = if self.is_of_documents() { by_segment } else { &[] };
        let by_segment = by_segment.iter().filter_map(|(name, of)| Some(((*name).clone(), expected(of)?)));
        let summary = finish::read_summary(&self.path);
        Answers {
            name: self.name.clone(),
            unit: match &summary {
                Some(summary) => summary.noun(),
                None if self.is_of_documents() => "document",
                None => "segment",
            },
            found: lengths(&self.tokens),
            spans: self.verdicts.iter().map(|verdict| verdict.errors.len()).sum(),
            unique: self.unique(),
            // The time in the summary; `None` without one.
            seconds: summary.map(|summary| summary.cost.wall_seconds),
            by_segment: by_segment.collect(),
        }
    }
}

/// A row for each run, and below each run over documents the answers of the runs over segments to the same
/// segments.
pub fn table(runs: &[Answers]) -> Table {
    let mut table = Table::headed(
        "run | unit | n | mean tokens | median | 99% | longest | error spans | standing once | seconds | spans a second",
    );
    let lengths = |found: Option<&Lengths>| match found {
        Some(Lengths { n, mean, median, p99, longest }) => {
            [n.to_string(), number(*mean), median.to_string(), p99.to_string(), longest.to_string()]
        }
        None => std::array::from_fn(|_| "-".to_owned()),
    };
    for run in runs {
        let name = [run.name.clone(), run.unit.to_owned()];
        let cells = [run.spans.to_string(), or_dash(run.unique), or_dash(run.seconds), or_dash(run.speed())];
        table.row(name.into_iter().chain(lengths(run.found.as_ref())).chain(cells));
        for (other, found) in &run.by_segment {
            let name = [format!("{other}, joined as in {}", run.name), run.unit.to_owned()];
            let cells = std::array::from_fn::<_, 4, _>(|_| String::new());
            table.row(name.into_iter().chain(lengths(Some(found))).chain(cells));
        }
    }
    table
}
