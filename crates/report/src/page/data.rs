//! Verdicts as data of the page: a row for each source with its translations, in each the verdicts of all
//! judges. Names of systems, documents and categories are stored once, and referred to by number.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Agreement, Error, Judge, pack};
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    run::{Record, Status},
    segment::numbered,
};

/// All rows, with the judges whose verdicts they hold.
#[derive(Debug)]
pub struct Data<'a> {
    judges: &'a [Judge],
    agreements: &'a [Agreement],
    domains: &'a BTreeMap<String, String>,
    pairs: Names<(String, String)>,
    docs: Names<String>,
    systems: Names<String>,
    categories: Names<String>,
    rows: Vec<Row<'a>>,
    /// (system, document, segment) -> its row.
    places: HashMap<(&'a str, &'a str, Option<usize>), usize>,
}

/// One source, with its translations.
#[derive(Debug, Serialize)]
struct Row<'a> {
    pair: usize,
    doc: usize,
    seg: Option<usize>,
    source: &'a str,
    cells: Vec<Cell<'a>>,
}

/// One translation, with the verdict of each judge.
#[derive(Debug, Serialize)]
struct Cell<'a> {
    system: usize,
    hypothesis: &'a str,
    verdicts: Vec<Option<Verdict<'a>>>,
}

#[derive(Debug, Serialize)]
struct Verdict<'a> {
    score: Option<f64>,
    quality: Option<f64>,
    /// An index into the statuses.
    status: usize,
    reason: Option<&'a str>,
    errors: Vec<Mark<'a>>,
    interval: Option<[f64; 2]>,
    warning: Option<&'a str>,
}

/// An error; category and severity by number.
#[derive(Debug, Serialize)]
struct Mark<'a> {
    span: &'a str,
    side: Side,
    start: Option<usize>,
    end: Option<usize>,
    category: usize,
    severity: usize,
    weight: f64,
    explanation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'a str>,
    confidence: Option<f64>,
    times: usize,
}

/// The statuses in the order of their numbers.
const STATUSES: [Status; 8] = [
    Status::Ok,
    Status::Unparsable,
    Status::Refused,
    Status::Truncated,
    Status::NoSignal,
    Status::TooLong,
    Status::Empty,
    Status::Failed,
];

impl<'a> Data<'a> {
    /// Puts the judges' verdicts side by side; `domains` are those of documents, where they are known.
    ///
    /// # Errors
    /// [`Error::OtherText`] for two judges of different translations.
    pub fn new(
        judges: &'a [Judge],
        agreements: &'a [Agreement],
        domains: &'a BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let mut data = Self {
            judges,
            agreements,
            domains,
            pairs: Names::default(),
            docs: Names::default(),
            systems: Names::default(),
            categories: Names::default(),
            rows: Vec::new(),
            places: HashMap::new(),
        };
        // Systems stand in the order of the input if a judge's run has one.
        let records = judges.iter().flat_map(|judge| &judge.records);
        let systems: BTreeSet<&String> = records.map(|record| &record.system).collect();
        for system in judges.iter().flat_map(|judge| &judge.systems).filter(|system| systems.contains(system))
        {
            data.systems.number(system.clone());
        }
        let mut rows: HashMap<_, usize> = HashMap::new();
        for (number, judge) in judges.iter().enumerate() {
            for record in &judge.records {
                let (pair, doc) = data.row_of(record);
                let source = plain(&record.source);
                let at = *rows.entry((pair, doc, record.seg, source)).or_insert_with(|| {
                    data.rows.push(Row {
                        pair,
                        doc,
                        seg: record.seg,
                        source: &record.source,
                        cells: Vec::new(),
                    });
                    data.rows.len() - 1
                });
                data.add(at, number, record)?;
            }
        }
        data.sort();
        Ok(data)
    }

    /// The noun for what the verdicts are about.
    pub fn noun(&self) -> &'static str {
        self.judges.first().map_or("segment", |judge| judge.noun)
    }

    fn row_of(&mut self, record: &Record) -> (usize, usize) {
        let pair = (record.src_lang.code().to_owned(), record.tgt_lang.code().to_owned());
        (self.pairs.number(pair), self.docs.number(record.doc.clone()))
    }

    fn add(&mut self, row: usize, judge: usize, record: &'a Record) -> Result<(), Error> {
        let system = self.systems.number(record.system.clone());
        let verdict = self.verdict(record);
        let cells = &mut self.rows[row].cells;
        let at = cells.iter().position(|cell| cell.system == system).unwrap_or_else(|| {
            let verdicts = self.judges.iter().map(|_| None).collect();
            cells.push(Cell { system, hypothesis: &record.hypothesis, verdicts });
            cells.len() - 1
        });
        if cells[at].hypothesis != record.hypothesis
            && plain(cells[at].hypothesis) != plain(&record.hypothesis)
        {
            let first = cells[at].verdicts.iter().position(Option::is_some).unwrap_or(0);
            let seg = record.seg.map_or_else(String::new, |seg| format!(" {}", numbered(seg)));
            return Err(Error::OtherText {
                first: self.judges[first].name.clone(),
                second: self.judges[judge].name.clone(),
                system: record.system.clone(),
                place: format!("{}{seg}", record.doc).trim().to_owned(),
            });
        }
        cells[at].verdicts[judge] = Some(verdict);
        Ok(())
    }

    fn verdict(&mut self, record: &'a Record) -> Verdict<'a> {
        let errors = record.errors.iter().map(|error| self.mark(error)).collect();
        let status = STATUSES.iter().position(|status| *status == record.status).unwrap_or(0);
        let Record { score, quality_score, reason, interval, warning, .. } = record;
        Verdict {
            score: *score,
            quality: *quality_score,
            status,
            reason: reason.as_deref(),
            errors,
            interval: *interval,
            warning: warning.as_deref(),
        }
    }

    fn mark(&mut self, error: &'a ErrorSpan) -> Mark<'a> {
        Mark {
            span: &error.span,
            side: error.side,
            start: error.start,
            end: error.end,
            category: self.categories.number(error.category.clone()),
            severity: Severity::ALL.iter().position(|severity| *severity == error.severity).unwrap_or(0),
            weight: error.weight,
            explanation: error.explanation.as_deref(),
            suggestion: error.suggestion.as_deref(),
            confidence: error.confidence,
            times: error.times,
        }
    }

    /// Documents stay together, in the order in which the first judge has them, and so do systems.
    fn sort(&mut self) {
        self.rows.sort_by_key(|row| (row.pair, row.doc, row.seg));
        for row in &mut self.rows {
            row.cells.sort_by_key(|cell| cell.system);
        }
        let mut places = HashMap::new();
        let mut of: HashMap<(usize, usize, Option<usize>, usize), usize> = HashMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            for cell in &row.cells {
                of.entry((row.pair, row.doc, row.seg, cell.system)).or_insert(at);
            }
        }
        for record in self.judges.iter().flat_map(|judge| &judge.records) {
            let pair = (record.src_lang.code().to_owned(), record.tgt_lang.code().to_owned());
            let key = (
                self.pairs.numbers[&pair],
                self.docs.numbers[&record.doc],
                record.seg,
                self.systems.numbers[&record.system],
            );
            if let Some(at) = of.get(&key) {
                places.insert((record.system.as_str(), record.doc.as_str(), record.seg), *at);
            }
        }
        self.places = places;
    }

    /// The row of a unit, and the number of its system.
    pub fn place(&self, system: &str, doc: &str, seg: Option<usize>) -> Option<(usize, usize)> {
        Some((*self.places.get(&(system, doc, seg))?, *self.systems.numbers.get(system)?))
    }

    /// Total length of all sources and translations. Unit: bytes.
    pub fn n_text_bytes(&self) -> usize {
        let of_cells = |row: &Row<'_>| row.cells.iter().map(|cell| cell.hypothesis.len()).sum::<usize>();
        self.rows.iter().map(|row| row.source.len() + of_cells(row)).sum()
    }

    /// Number of sources.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// Number of their translations, one for each system at most.
    pub fn n_translations(&self) -> usize {
        self.rows.iter().map(|row| row.cells.len()).sum()
    }

    fn domains(&self) -> Vec<String> {
        let domain = |doc: &String| self.domains.get(doc).cloned().unwrap_or_default();
        if self.domains.is_empty() { Vec::new() } else { self.docs.all.iter().map(domain).collect() }
    }

    /// The value of the element `data`.
    pub(super) fn packed(&self, block: Option<usize>, talked: &[usize]) -> String {
        let judges: Vec<Value> = (self.judges.iter())
            .map(|judge| {
                json!({
                    "name": judge.name, "human": judge.human, "signature": judge.signature, "warning": judge.warning,
                    "citation": judge.citation,
                    "warnings": judge.warnings, "about": judge.about,
                    "cautions": judge.cautions, "ranking": judge.ranking, "marks": judge.marks, "slices": judge.slices,
                })
            })
            .collect();
        pack::packed(&Whole {
            unit: self.noun(),
            judges,
            agreements: self.agreements,
            pairs: &self.pairs.all,
            docs: &self.docs.all,
            domains: self.domains(),
            systems: &self.systems.all,
            categories: &self.categories.all,
            statuses: STATUSES.map(Status::name),
            block,
            talked,
            rows: &self.rows,
        })
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    unit: &'a str,
    judges: Vec<Value>,
    agreements: &'a [Agreement],
    pairs: &'a [(String, String)],
    docs: &'a [String],
    /// Of each document; empty where no domain is known.
    domains: Vec<String>,
    systems: &'a [String],
    categories: &'a [String],
    statuses: [&'static str; 8],
    /// Rows in a block of conversations.
    block: Option<usize>,
    /// The judges with conversations.
    talked: &'a [usize],
    rows: &'a [Row<'a>],
}

/// Names in the order in which they were met, each with its number.
#[derive(Debug)]
struct Names<T> {
    all: Vec<T>,
    numbers: BTreeMap<T, usize>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: BTreeMap::new() }
    }
}

impl<T: Clone + Ord> Names<T> {
    fn number(&mut self, name: T) -> usize {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        self.all.push(name.clone());
        self.numbers.insert(name, self.all.len() - 1);
        self.all.len() - 1
    }
}

/// A text without what tables of annotations lose: which white space stands between its words.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
