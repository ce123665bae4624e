//! Score files of a metric in the format of mt-metrics-eval and the metrics task: `LP/NAME-REF.seg.score`,
//! `.sys.score` and, where the test set has domains, `.domain.score`.
//!
//! Source: mt-metrics-eval, `README.md` and `data.py`: lines `SYSTEM<TAB>SCORE` in the test set's order with
//! `None` where there is no score, and `DOMAIN<TAB>SYSTEM<TAB>SCORE`, cut at any white space. Higher is
//! better. A line has no place for the run's signature, which stands in a file beside them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::PathBuf,
};

use super::{
    Error, Export, Job, TestSet, counted,
    names::{Names, unspaced},
    score_text,
};
use crate::run::Record;

/// The most lines of a file: a number of a segment that stands alone would otherwise have as many before it.
const MAX_LINES: usize = 50_000_000;

/// The scores of each system's segments, by number.
type Columns<'a> = BTreeMap<String, BTreeMap<usize, &'a Record>>;

/// Reason for changed names.
const NO_SPACE: &str = "lines of score files are cut at white space";

/// The files of every language pair in the run.
pub fn export(job: &Job<'_>) -> Result<Export, Error> {
    check_name(job.name, "metric", "-_+")?;
    check_name(job.reference, "reference", "_+.")?;
    let mut pairs: BTreeMap<String, Columns<'_>> = BTreeMap::new();
    let mut systems = Names::new("system", unspaced);
    for record in job.records {
        let pair = record.pair();
        add(pairs.entry(pair).or_default(), &mut systems, record)?;
    }
    let mut export = Export { notes: systems.notes(NO_SPACE), ..Export::default() };
    for (pair, columns) in &pairs {
        let test_set = job.test_sets.iter().find(|set| set.pair == *pair);
        let lp = test_set.map_or(pair, |set| &set.lp);
        let files = files(columns, test_set, lp, &mut export.notes)?;
        for (level, text) in files {
            let name = format!("{}-{}.{level}.score", job.name, job.reference);
            export.files.push((PathBuf::from(lp).join(name), text.into_bytes()));
        }
        if let Some(signature) = job.origin.signature {
            let name = format!("{}-{}.signature", job.name, job.reference);
            export.files.push((PathBuf::from(lp).join(name), format!("{signature}\n").into_bytes()));
        }
    }
    Ok(export)
}

/// A dot, a hyphen or a slash would be read as another part of the file's name.
fn check_name(name: &str, noun: &'static str, also: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_alphanumeric() || also.contains(c);
    if !name.is_empty() && name.chars().all(fits) {
        return Ok(());
    }
    Err(Error::Name { name: name.into(), noun })
}

fn add<'a>(columns: &mut Columns<'a>, systems: &mut Names, record: &'a Record) -> Result<(), Error> {
    let (system, doc) = (record.system.clone(), record.doc.clone());
    if system.is_empty() || system.contains(|c: char| c.is_control()) {
        return Err(Error::System { system });
    }
    let Some(seg) = record.seg else { return Err(Error::Document { system, doc }) };
    match columns.entry(systems.written(&system)?).or_default().insert(seg, record) {
        None => Ok(()),
        Some(other) => Err(Error::Numbering { system, seg, a: other.doc.clone(), b: doc }),
    }
}

fn files(
    columns: &Columns<'_>,
    test_set: Option<&TestSet>,
    lp: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<(&'static str, String)>, Error> {
    let last = columns.values().filter_map(|column| column.last_key_value().map(|(seg, _)| *seg)).max();
    let n = test_set.map_or_else(|| last.map_or(0, |seg| seg.saturating_add(1)), |set| set.domains.len());
    if n.saturating_mul(columns.len()) > MAX_LINES {
        return Err(Error::Lines { seg: last.unwrap_or(0), systems: columns.len(), most: MAX_LINES });
    }
    for (system, column) in columns {
        if let Some(&seg) = column.keys().find(|seg| **seg >= n) {
            return Err(Error::Beyond { system: system.clone(), seg, n, lp: lp.into() });
        }
    }
    let missing: usize =
        columns.values().map(|column| (0..n).filter(|seg| score(column, *seg).is_none()).count()).sum();
    if missing > 0 {
        notes.push(format!(
            "{lp}: `None` for {} without a score, which mt-metrics-eval refuses in a metric's files",
            counted(missing, "translation")
        ));
    }
    let common = common(columns, n);
    let left_out = (0..n).filter(|seg| !common.contains(seg)).count();
    match common.len() {
        0 => notes.push(format!("{lp}: no segment has a score of every system, so system scores are `None`")),
        n if left_out > 0 => notes.push(format!(
            "{lp}: system scores are means over the {} that every system has a score on",
            counted(n, "segment")
        )),
        _ => {}
    }
    let mut files = vec![("seg", segments(columns, n)), ("sys", systems(columns, &common))];
    match test_set {
        Some(set) => {
            let mut names = Names::new("domain", unspaced);
            files.push(("domain", domains(columns, &common, &set.domains, &mut names)?));
            notes.extend(names.notes(NO_SPACE));
        }
        None => notes.push(format!("{lp}: the test set's domains and length are not known, so the files end with the last segment that was judged; \
                 hint: `--testset DIR` names them")),
    }
    Ok(files)
}

fn score(column: &BTreeMap<usize, &Record>, seg: usize) -> Option<f64> {
    column.get(&seg).and_then(|record| record.score)
}

/// The segments that every system has a score on.
fn common(columns: &Columns<'_>, n: usize) -> BTreeSet<usize> {
    (0..n).filter(|seg| columns.values().all(|column| score(column, *seg).is_some())).collect()
}

fn segments(columns: &Columns<'_>, n: usize) -> String {
    let mut out = String::new();
    for (system, column) in columns {
        for seg in 0..n {
            let _ = writeln!(out, "{system}\t{}", score_text(score(column, seg)));
        }
    }
    out
}

fn systems(columns: &Columns<'_>, common: &BTreeSet<usize>) -> String {
    let line = |(system, column): (&String, &BTreeMap<usize, &Record>)| {
        format!("{system}\t{}\n", score_text(mean(column, common.iter().copied())))
    };
    columns.iter().map(line).collect()
}

fn domains(
    columns: &Columns<'_>,
    common: &BTreeSet<usize>,
    domains: &[String],
    names: &mut Names,
) -> Result<String, Error> {
    let distinct: BTreeSet<&String> = domains.iter().collect();
    let mut out = String::new();
    for domain in distinct {
        let written = names.written(domain)?;
        let segs: Vec<usize> = common.iter().copied().filter(|seg| domains[*seg] == *domain).collect();
        for (system, column) in columns {
            let _ = writeln!(out, "{written}\t{system}\t{}", score_text(mean(column, segs.iter().copied())));
        }
    }
    Ok(out)
}

fn mean(column: &BTreeMap<usize, &Record>, segs: impl Iterator<Item = usize>) -> Option<f64> {
    let scores: Vec<f64> = segs.filter_map(|seg| score(column, seg)).collect();
    (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
}
