//! One language pair of an mt-metrics-eval folder: documents, texts, human and metric scores. It computes
//! nothing and never guesses which file is meant.
//!
//! Source: the layout of mt-metrics-eval's `EvalSet` (`data.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Error;
use super::scores::{self, ScoreFile, Scores, SegmentScores, line_error, read_text};

/// One language pair of a test set.
#[derive(Clone, Debug)]
pub struct TestSet {
    dir: PathBuf,
    /// Language pair as its files spell it, `en-de` or `en-de_DE`.
    pub lp: String,
    /// One entry per segment.
    pub places: Vec<Place>,
    /// Names of all translations, human ones among them, sorted.
    pub systems: Vec<String>,
    /// Names of the references, sorted.
    pub references: Vec<String>,
}

/// Where a segment comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
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

impl TestSet {
    /// Opens one language pair.
    ///
    /// # Errors
    /// A folder without that pair (the message names those that it has), or a file that cannot be read.
    pub fn open(dir: &Path, lp: &str) -> Result<Self, Error> {
        let docs = dir.join("documents").join(format!("{lp}.docs"));
        if !dir.join("documents").is_dir() {
            return Err(Error::NoTestSet(dir.into()));
        }
        if !docs.is_file() {
            return Err(Error::NoLanguagePair {
                dir: dir.into(),
                lp: lp.into(),
                known: known_pairs(dir).join(", "),
            });
        }
        Ok(Self {
            dir: dir.into(),
            lp: lp.into(),
            places: read_places(&docs)?,
            systems: text_names(&dir.join("system-outputs").join(lp), "")?,
            references: text_names(&dir.join("references"), &format!("{lp}."))?,
        })
    }

    #[must_use]
    pub fn n_segments(&self) -> usize {
        self.places.len()
    }

    /// Systems that are not references: what metrics are compared on unless humans are asked for.
    #[must_use]
    pub fn machine_systems(&self) -> BTreeSet<String> {
        self.systems.iter().filter(|system| !self.references.contains(system)).cloned().collect()
    }

    /// Human scores, `LP.NAME.LEVEL.score`.
    ///
    /// # Errors
    /// There are no such scores (the message names those that there are), or files do not fit the test set.
    pub fn human(&self, gold: &str) -> Result<Scores, Error> {
        let file = |level: &str| {
            let path = self.dir.join("human-scores").join(format!("{}.{gold}.{level}.score", self.lp));
            path.is_file().then_some(path)
        };
        let (seg, sys) = (file("seg"), file("sys"));
        if seg.is_none() && sys.is_none() {
            let known = self.known_gold().into_iter().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".into() } else { known };
            return Err(Error::NoGold { gold: gold.into(), lp: self.lp.clone(), known });
        }
        self.scores(gold, seg.as_deref(), sys.as_deref())
    }

    /// Every metric of the folder.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn metrics(&self) -> Result<BTreeSet<MetricName>, Error> {
        metric_names(&self.dir.join("metric-scores").join(&self.lp))
    }

    /// Metrics of the folder that score without a reference and, on this or another language pair, with one.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn metrics_of_both_kinds(&self) -> Result<BTreeSet<String>, Error> {
        let dir = self.dir.join("metric-scores");
        let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
        for lp in if dir.is_dir() { names(&dir)? } else { Vec::new() } {
            for MetricName { name, reference } in metric_names(&dir.join(lp))? {
                let kind = if reference == "src" { &mut without } else { &mut with };
                kind.insert(name);
            }
        }
        Ok(with.intersection(&without).cloned().collect())
    }

    /// The scores of one of the folder's metrics.
    ///
    /// # Errors
    /// Files that do not fit the test set.
    pub fn metric(&self, metric: &MetricName) -> Result<Scores, Error> {
        let file = |level: &str| {
            let name = format!("{}-{}.{level}.score", metric.name, metric.reference);
            let path = self.dir.join("metric-scores").join(&self.lp).join(name);
            path.is_file().then_some(path)
        };
        self.scores(&metric.name, file("seg").as_deref(), file("sys").as_deref())
    }

    /// Scores from files outside the folder. The pattern may hold `{lp}`, `{level}` (`seg` and `sys`) and
    /// `{system}` (one column per system); runs are read by `units`.
    ///
    /// # Errors
    /// There is no file at the pattern, or one that does not fit the test set.
    pub fn scores_at(&self, name: &str, pattern: &str) -> Result<Scores, Error> {
        let pattern = pattern.replace("{lp}", &self.lp);
        if pattern.contains("{system}") {
            return self.columns_at(name, &pattern);
        }
        if !pattern.contains("{level}") {
            return self.scores_in_one_file(name, Path::new(&pattern));
        }
        let [seg, sys] = ["seg", "sys"].map(|level| PathBuf::from(pattern.replace("{level}", level)));
        let there = |path: &PathBuf| path.is_file();
        if !there(&seg) && !there(&sys) {
            return Err(Error::NoScores { name: name.into(), pattern });
        }
        let (seg, sys) = (Some(seg).filter(there), Some(sys).filter(there));
        self.scores(name, seg.as_deref(), sys.as_deref())
    }

    fn scores_in_one_file(&self, name: &str, path: &Path) -> Result<Scores, Error> {
        if !path.is_file() {
            return Err(Error::NoScores { name: name.into(), pattern: path.display().to_string() });
        }
        let one_a_system = match scores::read(path, Some(&self.lp))? {
            ScoreFile::Named(columns) => columns.values().all(|column| column.len() == 1),
            ScoreFile::Numbered(_) | ScoreFile::Column(_) => false,
        };
        if one_a_system && self.n_segments() > 1 {
            return self.scores(name, None, Some(path));
        }
        self.scores(name, Some(path), None)
    }

    fn columns_at(&self, name: &str, pattern: &str) -> Result<Scores, Error> {
        let mut segments = SegmentScores::new();
        for system in &self.systems {
            let path = PathBuf::from(pattern.replace("{system}", system));
            if !path.is_file() {
                continue;
            }
            let ScoreFile::Column(column) = scores::read(&path, Some(&self.lp))? else {
                return Err(Error::NotAColumn(path));
            };
            segments.insert(system.clone(), column);
            self.check_length(&path, &segments)?;
        }
        if segments.is_empty() {
            return Err(Error::NoScores { name: name.into(), pattern: pattern.into() });
        }
        Ok(Scores::new(name, Some(segments), None))
    }

    fn scores(&self, name: &str, seg: Option<&Path>, sys: Option<&Path>) -> Result<Scores, Error> {
        let segments = seg.map(|path| self.read_segments(path)).transpose()?;
        let systems = sys.map(scores::read_systems).transpose()?;
        Ok(Scores::new(name, segments, systems))
    }

    fn read_segments(&self, path: &Path) -> Result<SegmentScores, Error> {
        match scores::read(path, Some(&self.lp))? {
            ScoreFile::Column(_) => Err(Error::UnnamedColumn(path.into())),
            ScoreFile::Named(columns) => {
                self.check_length(path, &columns)?;
                Ok(columns)
            }
            ScoreFile::Numbered(mut columns) => {
                pad_to(&mut columns, self.n_segments());
                self.check_length(path, &columns)?;
                Ok(columns)
            }
        }
    }

    fn check_length(&self, path: &Path, columns: &SegmentScores) -> Result<(), Error> {
        let expected = self.n_segments();
        match columns.iter().find(|(_, column)| column.len() != expected) {
            None => Ok(()),
            Some((system, column)) => Err(Error::SegmentCount {
                path: path.into(),
                system: system.clone(),
                found: column.len(),
                expected,
            }),
        }
    }

    /// The source text of each segment.
    ///
    /// # Errors
    /// A file that cannot be read, or one of another length.
    pub fn sources(&self) -> Result<Vec<String>, Error> {
        self.text(&self.dir.join("sources").join(&self.lp), "source")
    }

    /// The text of a reference.
    ///
    /// # Errors
    /// As [`TestSet::sources`].
    pub fn reference(&self, name: &str) -> Result<Vec<String>, Error> {
        self.text(&self.dir.join("references").join(format!("{}.{name}", self.lp)), "target")
    }

    /// The translations of a system.
    ///
    /// # Errors
    /// As [`TestSet::sources`].
    pub fn output(&self, system: &str) -> Result<Vec<String>, Error> {
        self.text(&self.dir.join("system-outputs").join(&self.lp).join(system), "hypothesis")
    }

    fn text(&self, stem: &Path, field: &str) -> Result<Vec<String>, Error> {
        let with = |extension: &str| PathBuf::from(format!("{}.{extension}", stem.display()));
        let path = if with("txt").is_file() { with("txt") } else { with("jsonl") };
        let text = read_text(&path)?;
        let lines = if path.extension().is_some_and(|extension| extension == "jsonl") {
            json_texts(&path, &text, field)?
        } else {
            text.lines().map(|line| line.trim_end().to_owned()).collect()
        };
        if lines.len() != self.n_segments() {
            return Err(Error::LineCount { path, found: lines.len(), expected: self.n_segments() });
        }
        Ok(lines)
    }

    /// The rating files of a human score: `LP.NAME.RATER.seg.rating`, with their rater.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn rating_files(&self, gold: &str) -> Result<Vec<(String, PathBuf)>, Error> {
        let dir = self.dir.join("human-scores");
        let prefix = format!("{}.{gold}.", self.lp);
        let files = names(&dir)?.into_iter().filter_map(|file| {
            let middle = file.strip_prefix(&prefix)?.strip_suffix("seg.rating")?;
            Some((middle.trim_end_matches('.').to_owned(), dir.join(&file)))
        });
        Ok(files.collect())
    }

    fn known_gold(&self) -> BTreeSet<String> {
        let prefix = format!("{}.", self.lp);
        let files = names(&self.dir.join("human-scores")).unwrap_or_default();
        let gold = |file: &String| {
            let name = file.strip_prefix(&prefix)?;
            Some(name.strip_suffix(".seg.score").or_else(|| name.strip_suffix(".sys.score"))?.to_owned())
        };
        files.iter().filter_map(gold).collect()
    }
}

/// Language pairs of a test set, sorted.
#[must_use]
pub fn known_pairs(dir: &Path) -> Vec<String> {
    let files = names(&dir.join("documents")).unwrap_or_default();
    files.iter().filter_map(|file| file.strip_suffix(".docs").map(str::to_owned)).collect()
}

fn metric_names(dir: &Path) -> Result<BTreeSet<MetricName>, Error> {
    let files = if dir.is_dir() { names(dir)? } else { Vec::new() };
    let metrics = files.iter().filter_map(|file| {
        let stem = file.strip_suffix(".seg.score").or_else(|| file.strip_suffix(".sys.score"))?;
        let (name, reference) = stem.rsplit_once('-')?;
        Some(MetricName { name: name.into(), reference: reference.into() })
    });
    Ok(metrics.collect())
}

/// Lines that number their segments may leave out the last ones.
fn pad_to(columns: &mut SegmentScores, length: usize) {
    for column in columns.values_mut().filter(|column| column.len() < length) {
        column.resize(length, None);
    }
}

fn read_places(path: &Path) -> Result<Vec<Place>, Error> {
    let mut places: Vec<Place> = Vec::new();
    let mut begun: BTreeSet<Place> = BTreeSet::new();
    for (index, line) in read_text(path)?.lines().enumerate() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [domain, doc] = fields[..] else {
            return Err(line_error(path, index + 1, format!("`{line}` is not `DOMAIN DOCUMENT`")));
        };
        let place = Place { domain: domain.into(), doc: doc.into() };
        if places.last() != Some(&place) && !begun.insert(place.clone()) {
            return Err(line_error(
                path,
                index + 1,
                format!(
                    "document `{doc}` starts a second time; hint: the lines of a document must follow each other"
                ),
            ));
        }
        places.push(place);
    }
    Ok(places)
}

fn json_texts(path: &Path, text: &str, field: &str) -> Result<Vec<String>, Error> {
    #[derive(Deserialize)]
    struct Row(BTreeMap<String, serde_json::Value>);
    let parse = |(index, line): (usize, &str)| {
        let Row(row) =
            serde_json::from_str(line).map_err(|error| line_error(path, index + 1, error.to_string()))?;
        let value = row.get(field).and_then(serde_json::Value::as_str);
        value.map(str::to_owned).ok_or_else(|| line_error(path, index + 1, format!("no field `{field}`")))
    };
    text.lines().enumerate().map(parse).collect()
}

fn text_names(dir: &Path, prefix: &str) -> Result<Vec<String>, Error> {
    let files = names(dir)?;
    let stems = files.iter().filter_map(|file| {
        let stem = file.strip_suffix(".txt").or_else(|| file.strip_suffix(".jsonl"))?;
        Some(stem.strip_prefix(prefix)?.to_owned())
    });
    Ok(stems.collect())
}

/// File names of a folder, sorted, because two machines need not list them in the same order.
fn names(dir: &Path) -> Result<Vec<String>, Error> {
    let read = |source| Error::Read { path: dir.into(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(read)? {
        names.push(entry.map_err(read)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
