//! The files of one language pair in an mt-metrics-eval folder: their names, a listing, and the lines of
//! those that hold texts. It reads no scores, and never guesses which file is meant.
//!
//! Source: the layout of mt-metrics-eval's `EvalSet` (`data.py`).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Error, Result, text};
use crate::files::json;

/// mt-metrics-eval's placeholder for a missing translation.
pub const NO_TRANSLATION: &str = "[No translation supplied]";

/// One language pair of a folder.
#[derive(Clone, Debug)]
pub struct TestsetFiles {
    dir: PathBuf,
    /// The pair as spelled in file names, `en-de` or `en-de_DE`.
    lp: String,
}

/// Domain and document of a segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Empty where the line names none.
    pub domain: String,
    pub doc: String,
}

/// A metric's files in the folder: `NAME-REF.LEVEL.score`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricName {
    pub name: String,
    /// `src` for a reference-free metric.
    pub reference: String,
}

impl TestsetFiles {
    pub fn new(dir: impl Into<PathBuf>, lp: impl Into<String>) -> Self {
        Self { dir: dir.into(), lp: lp.into() }
    }

    /// Another language pair of the same folder.
    #[must_use]
    pub fn other_pair(&self, lp: String) -> Self {
        Self { lp, ..self.clone() }
    }

    /// Path of the file that names the documents of the segments.
    pub fn docs(&self) -> PathBuf {
        self.dir.join("documents").join(format!("{}.docs", self.lp))
    }

    pub fn source(&self) -> PathBuf {
        self.text("sources", &self.lp)
    }

    pub fn reference(&self, name: &str) -> PathBuf {
        self.text("references", &format!("{}.{name}", self.lp))
    }

    pub fn output(&self, system: &str) -> PathBuf {
        self.text("system-outputs", &format!("{}/{system}", self.lp))
    }

    /// Plain text; JSON lines if there is nothing else.
    fn text(&self, folder: &str, stem: &str) -> PathBuf {
        let with = |ending: &str| self.dir.join(folder).join(format!("{stem}.{ending}"));
        let plain = with("txt");
        if plain.is_file() {
            plain
        } else {
            Some(with("jsonl")).filter(|json| json.is_file()).unwrap_or(plain)
        }
    }

    /// The names of all translations, human ones among them, sorted.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn systems(&self) -> Result<Vec<String>> {
        text_names(&self.dir.join("system-outputs").join(&self.lp), "")
    }

    /// The names of the references, sorted; none where there is no such folder.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn references(&self) -> Result<Vec<String>> {
        let dir = self.dir.join("references");
        if dir.is_dir() { text_names(&dir, &format!("{}.", self.lp)) } else { Ok(Vec::new()) }
    }

    /// The file of the raters' scores of a level, `seg` or `sys`.
    pub fn human_scores(&self, gold: &str, level: &str) -> PathBuf {
        self.dir.join("human-scores").join(format!("{}.{gold}.{level}.score", self.lp))
    }

    /// The names of the raters' scores; none where there is no such folder.
    pub fn human_names(&self) -> BTreeSet<String> {
        let prefix = format!("{}.", self.lp);
        let files = names(&self.dir.join("human-scores")).unwrap_or_default();
        files.iter().filter_map(|file| Some(score_stem(file)?.strip_prefix(&prefix)?.to_owned())).collect()
    }

    /// The segments, from 0, that raters scored of some system: for MQM, or else for any human scores.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn rated(&self) -> Result<BTreeSet<usize>, Error> {
        let mut names = self.human_names();
        if names.contains("mqm") {
            names.retain(|name| name == "mqm");
        }
        let mut rated = BTreeSet::new();
        for path in names.iter().map(|name| self.human_scores(name, "seg")).filter(|path| path.is_file()) {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for line in text::lines(&path)? {
                let Some((system, score)) = line.split_once(char::is_whitespace) else { continue };
                let seg = counts.entry(system.to_owned()).or_default();
                if score.trim() != "None" {
                    rated.insert(*seg);
                }
                *seg += 1;
            }
        }
        Ok(rated)
    }

    /// Ratings of single raters, `LP.GOLD.RATER.seg.rating`: the raters and their files, sorted.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn ratings(&self, gold: &str) -> Result<Vec<(String, PathBuf)>> {
        self.by_rater(gold, "seg.rating")
    }

    /// The segment scores of single raters, `LP.GOLD.RATER.seg.score`: the raters and their files, sorted.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn rater_scores(&self, gold: &str) -> Result<Vec<(String, PathBuf)>> {
        let files = self.by_rater(gold, "seg.score")?.into_iter();
        Ok(files.filter(|(rater, _)| !rater.is_empty()).collect())
    }

    fn by_rater(&self, gold: &str, ending: &str) -> Result<Vec<(String, PathBuf)>> {
        let dir = self.dir.join("human-scores");
        if !dir.is_dir() {
            return Ok(Vec::new());
        }
        let prefix = format!("{}.{gold}.", self.lp);
        let files = names(&dir)?.into_iter().filter_map(|file| {
            let rater = file.strip_prefix(&prefix)?.strip_suffix(ending)?;
            Some((rater.trim_end_matches('.').to_owned(), dir.join(&file)))
        });
        Ok(files.collect())
    }

    /// The folder's metrics for this language pair; empty if there is no such folder.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn metrics(&self) -> Result<BTreeSet<MetricName>> {
        let dir = self.dir.join("metric-scores").join(&self.lp);
        let files = if dir.is_dir() { names(&dir)? } else { Vec::new() };
        let metrics = files.iter().filter_map(|file| {
            let (name, reference) = score_stem(file)?.rsplit_once('-')?;
            Some(MetricName { name: name.into(), reference: reference.into() })
        });
        Ok(metrics.collect())
    }

    /// The file of a metric's scores of a level, `seg` or `sys`.
    pub fn metric_scores(&self, MetricName { name, reference }: &MetricName, level: &str) -> PathBuf {
        let folder = self.dir.join("metric-scores").join(&self.lp);
        folder.join(format!("{name}-{reference}.{level}.score"))
    }

    /// The language pairs that metrics have scores for, sorted.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn scored_pairs(&self) -> Result<Vec<String>> {
        let dir = self.dir.join("metric-scores");
        if dir.is_dir() { names(&dir) } else { Ok(Vec::new()) }
    }

    /// The domain and document of each segment.
    ///
    /// # Errors
    /// [`Error::Missing`] for a line without any, [`Error::Scattered`] for a document in two parts.
    pub fn places(&self) -> Result<Vec<Place>> {
        places(&self.docs())
    }
}

/// The domain and document on each line: `DOMAIN DOC`, or `DOC`. A document's name may hold spaces where a
/// domain stands before it: of `news my trip`, and of `news<TAB>my trip`, it is `my trip`.
///
/// # Errors
/// The errors of [`TestsetFiles::places`].
pub fn places(path: &Path) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = Vec::new();
    let mut ended = std::collections::BTreeMap::new();
    for (idx, line) in text::lines(path)?.iter().enumerate() {
        let line = line.trim();
        let separator = |c: char| if line.contains('\t') { c == '\t' } else { c.is_whitespace() };
        let (domain, doc) = line.split_once(separator).unwrap_or(("", line));
        let (domain, doc) = (domain.trim(), doc.trim());
        if doc.is_empty() {
            return Err(Error::Missing {
                path: path.into(),
                line: idx + 1,
                field: "doc",
                hint: String::new(),
            });
        }
        let last = ended.insert(doc.to_owned(), idx + 1);
        if let Some(ended) = last.filter(|ended| *ended != idx) {
            return Err(Error::Scattered { path: path.into(), line: idx + 1, doc: doc.into(), ended });
        }
        places.push(Place { domain: domain.into(), doc: doc.into() });
    }
    Ok(places)
}

/// The texts of a file, one a segment: its lines, or this field of JSON lines.
///
/// # Errors
/// A file that cannot be read, [`Error::Json`], [`Error::Missing`].
pub fn texts(path: &Path, field: &'static str) -> Result<Vec<String>> {
    let lines = text::lines(path)?;
    if path.extension().is_none_or(|ending| ending != "jsonl") {
        return Ok(lines);
    }
    let one = |(idx, text): (usize, &String)| {
        let (path, line) = (path.to_path_buf(), idx + 1);
        match json::parse::<Value>(text) {
            Err(reason) => Err(Error::Json { path, line, reason }),
            Ok(row) => match row.get(field).and_then(Value::as_str) {
                Some(text) => Ok(text.to_owned()),
                None => Err(Error::Missing { path, line, field, hint: String::new() }),
            },
        }
    };
    lines.iter().enumerate().map(one).collect()
}

/// Reads texts with their byte-order mark where the file has one: WMT's own metrics were computed over such
/// texts as they are.
///
/// # Errors
/// The errors of [`texts`].
pub fn texts_as_published(path: &Path, field: &'static str) -> Result<Vec<String>> {
    let mut all = texts(path, field)?;
    if let Some(first) = all.first_mut().filter(|_| text::is_marked(path)) {
        first.insert(0, '\u{feff}');
    }
    Ok(all)
}

/// The language pairs of a folder, as its files spell them, sorted; none where it is no test set.
pub fn pairs(dir: &Path) -> Vec<String> {
    let files = names(&dir.join("documents")).unwrap_or_default();
    files.iter().filter_map(|file| file.strip_suffix(".docs").map(str::to_owned)).collect()
}

/// The language pairs that raters marked errors of under this name, sorted.
///
/// # Errors
/// An unreadable folder.
pub fn rated_pairs(dir: &Path, gold: &str) -> Result<BTreeSet<String>> {
    let middle = format!(".{gold}.");
    let pair = |file: &String| {
        let (pair, suffix) = file.split_once(&middle)?;
        suffix.ends_with("seg.rating").then(|| pair.to_owned())
    };
    Ok(names(&dir.join("human-scores"))?.iter().filter_map(pair).collect())
}

/// The test sets in a folder that is none itself, as a hint; `None` without any.
#[must_use]
pub fn inside(dir: &Path) -> Option<String> {
    let is_set =
        |name: &String| ["sources", "documents"].iter().any(|part| dir.join(name).join(part).is_dir());
    let sets = names(dir).unwrap_or_default().into_iter().filter(is_set);
    let sets: Vec<String> = sets.map(|name| format!("`{}`", dir.join(name).display())).collect();
    (!sets.is_empty()).then(|| format!("it holds test sets: {}", sets.join(", ")))
}

fn score_stem(file: &str) -> Option<&str> {
    file.strip_suffix(".seg.score").or_else(|| file.strip_suffix(".sys.score"))
}

/// The names of a folder's texts that begin with `prefix`, without it and their endings, sorted.
///
/// # Errors
/// An unreadable folder.
pub fn text_names(dir: &Path, prefix: &str) -> Result<Vec<String>> {
    let files = names(dir)?;
    let stems = files.iter().filter_map(|file| {
        let stem = file.strip_suffix(".txt").or_else(|| file.strip_suffix(".jsonl"))?;
        Some(stem.strip_prefix(prefix)?.to_owned())
    });
    let mut stems: Vec<String> = stems.collect();
    stems.dedup();
    Ok(stems)
}

/// File names of a folder, sorted, because two machines need not list them in the same order; without those
/// that begin with a dot, among them the `._NAME` that macOS puts beside each file of an archive or a foreign
/// disk.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
    let io = |source| Error::Io { path: dir.into(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
