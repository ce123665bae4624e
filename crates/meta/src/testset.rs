//! One language pair of an mt-metrics-eval folder, or of MENT: documents, texts, human and metric scores.
//! File names are defined in `read/layout`; contents are checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use crate::segment::read::layout::{MetricName, Place};
use crate::segment::read::layout::{TestsetFiles, pairs, texts, texts_as_published};
use crate::segment::read::ment::{self as layout_of_ment, Ment};
use crate::segment::{Lang, lang};

use super::scores::numbering::Numbered;
use super::scores::{self, ScoreFile, Scores, SegmentScores};
use super::{Error, ment};

/// One language pair of a test set.
#[derive(Clone, Debug)]
pub struct TestSet {
    layout: TestsetFiles,
    /// The texts of MENT, which are in one file, or in files of other names.
    ment: Option<Ment>,
    /// Language pair in the spelling of its files, `en-de` or `en-de_DE`.
    pub lp: String,
    /// One entry per segment.
    pub places: Vec<Place>,
    /// Names of all translations, human ones among them, sorted.
    pub systems: Vec<String>,
    /// Names of the references, sorted.
    pub references: Vec<String>,
}

impl TestSet {
    /// Opens one language pair.
    ///
    /// # Errors
    /// A folder without that pair (the message names those that it has), or a file that cannot be read.
    pub fn open(dir: &Path, lp: &str) -> Result<Self, Error> {
        if let Some(ment) = Ment::open(dir, lp)? {
            return Ok(Self::of_ment(ment, lp));
        }
        let known: Vec<String> = pairs(dir).into_iter().chain(layout_of_ment::pairs(dir)).collect();
        if known.is_empty() {
            return Err(if dir.is_dir() {
                Error::NoTestSet(dir.into())
            } else {
                Error::NoFolder(dir.into())
            });
        }
        let layout = TestsetFiles::new(dir, lp);
        if !layout.docs().is_file() {
            return Err(Error::NoLanguagePair { dir: dir.into(), lp: lp.into(), known: known.join(", ") });
        }
        let (places, systems, references) = (layout.places()?, layout.systems()?, layout.references()?);
        Ok(Self { layout, ment: None, lp: lp.into(), places, systems, references })
    }

    fn of_ment(ment: Ment, lp: &str) -> Self {
        Self {
            layout: TestsetFiles::new(&ment.root, lp),
            lp: lp.into(),
            places: ment.places.clone(),
            systems: ment.outputs.keys().cloned().collect(),
            references: vec![layout_of_ment::REFERENCE.to_owned()],
            ment: Some(ment),
        }
    }

    /// Opens the pair of two languages in the spelling of the folder's files; `given` where they have no such
    /// pair.
    ///
    /// # Errors
    /// Those of [`TestSet::open`].
    pub fn of_languages(dir: &Path, (src, tgt): (&Lang, &Lang), fallback: &str) -> Result<Self, Error> {
        let is_same = |lp: &String| lang::parse_pair(lp).is_ok_and(|(a, b)| (&a, &b) == (src, tgt));
        let lp = pairs(dir).into_iter().chain(layout_of_ment::pairs(dir)).find(is_same);
        Self::open(dir, lp.as_deref().unwrap_or(fallback))
    }

    #[must_use]
    pub fn n_segments(&self) -> usize {
        self.places.len()
    }

    /// Systems that are not references: metrics are compared on these unless humans are requested.
    #[must_use]
    pub fn machine_systems(&self) -> BTreeSet<String> {
        self.systems.iter().filter(|system| !self.references.contains(system)).cloned().collect()
    }

    /// Human scores, `LP.NAME.LEVEL.score`.
    ///
    /// # Errors
    /// There are no such scores (the message names those that there are), or files do not fit the test set.
    pub fn human(&self, gold: &str) -> Result<Scores, Error> {
        if let Some(ment) = &self.ment {
            return self.human_of_ment(ment, gold);
        }
        let file = |level| Some(self.layout.human_scores(gold, level)).filter(|path| path.is_file());
        let (seg, sys) = (file("seg"), file("sys"));
        if seg.is_none() && sys.is_none() {
            let known = self.layout.human_names().into_iter().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".into() } else { known };
            return Err(Error::NoGold { gold: gold.into(), lp: self.lp.clone(), known });
        }
        // Raters seldom see the same segments of all systems.
        self.scores(gold, seg.as_deref(), sys.as_deref()).map(Scores::each_on_its_own)
    }

    fn human_of_ment(&self, ment: &Ment, gold: &str) -> Result<Scores, Error> {
        if gold != ment::GOLD {
            let known = ment::GOLD.to_owned();
            return Err(Error::NoGold { gold: gold.into(), lp: self.lp.clone(), known });
        }
        if !ment.rows.is_empty() {
            return Ok(Scores::new(gold, Some(ment::averages(ment)?), None));
        }
        let path = ment.path.join("human-scores").join(format!("{}.seg.score", self.lp));
        self.scores(gold, Some(&path), None)
    }

    /// Scores of single annotators under the name of a human score: the files `LP.NAME.RATER.seg.score`, or
    /// the ratings in `MENT.jsonl`.
    ///
    /// # Errors
    /// Files that do not fit the test set.
    pub fn annotators(&self, gold: &str) -> Result<BTreeMap<String, SegmentScores>, Error> {
        if let Some(ment) = &self.ment {
            return ment::annotators(ment);
        }
        let files = self.layout.rater_scores(gold)?.into_iter();
        files.map(|(name, path)| Ok((name, self.read_segments(&path)?))).collect()
    }

    /// Every metric of the folder.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn metrics(&self) -> Result<BTreeSet<MetricName>, Error> {
        Ok(self.layout.metrics()?)
    }

    /// Metrics of the folder that score without a reference and, on this or another language pair, with one.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn metrics_of_both_kinds(&self) -> Result<BTreeSet<String>, Error> {
        let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
        for lp in self.layout.scored_pairs()? {
            for MetricName { name, reference } in self.layout.other_pair(lp).metrics()? {
                let kind = if reference == "src" { &mut without } else { &mut with };
                kind.insert(name);
            }
        }
        Ok(with.intersection(&without).cloned().collect())
    }

    /// Paths of the segment scores of the folder's metrics of this name, short or in full.
    #[must_use]
    pub fn metric_files(&self, name: &str) -> Vec<PathBuf> {
        let full = |metric: &MetricName| format!("{}-{}", metric.name, metric.reference);
        let is_meant = |metric: &MetricName| metric.name == name || full(metric) == name;
        let meant = self.metrics().unwrap_or_default().into_iter().filter(is_meant);
        meant.map(|metric| self.layout.metric_scores(&metric, "seg")).collect()
    }

    /// The scores of one of the folder's metrics.
    ///
    /// # Errors
    /// Files that do not fit the test set.
    pub fn metric(&self, metric: &MetricName) -> Result<Scores, Error> {
        let file = |level| Some(self.layout.metric_scores(metric, level)).filter(|path| path.is_file());
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
        let exists = |path: &PathBuf| path.is_file();
        if !exists(&seg) && !exists(&sys) {
            return Err(Error::NoScores { name: name.into(), pattern });
        }
        let (seg, sys) = (Some(seg).filter(exists), Some(sys).filter(exists));
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
            let column = match scores::read(&path, Some(&self.lp))? {
                ScoreFile::Column(column) => column,
                ScoreFile::Numbered(rows) if rows.is_column() => {
                    self.numbered(&path, &rows)?.remove("").unwrap_or_default()
                }
                ScoreFile::Named(_) | ScoreFile::Numbered(_) => return Err(Error::NotAColumn(path)),
            };
            segments.insert(system.clone(), column);
            self.check_length(&path, &segments)?;
        }
        if segments.is_empty() {
            return Err(Error::NoScores { name: name.into(), pattern: pattern.into() });
        }
        Ok(Scores::from_segments(name, segments))
    }

    fn scores(&self, name: &str, seg: Option<&Path>, sys: Option<&Path>) -> Result<Scores, Error> {
        let segments = seg.map(|path| self.read_segments(path)).transpose()?;
        let systems = sys.map(scores::read_systems).transpose()?;
        Ok(match (segments, systems) {
            (Some(segments), None) => Scores::from_segments(name, segments),
            (segments, systems) => Scores::new(name, segments, systems),
        })
    }

    fn read_segments(&self, path: &Path) -> Result<SegmentScores, Error> {
        match scores::read(path, Some(&self.lp))? {
            ScoreFile::Column(_) => Err(Error::UnnamedColumn(path.into())),
            ScoreFile::Numbered(rows) if rows.is_column() => Err(Error::UnnamedColumn(path.into())),
            ScoreFile::Named(columns) => {
                self.check_length(path, &columns)?;
                Ok(columns)
            }
            ScoreFile::Numbered(rows) => {
                let columns = self.numbered(path, &rows)?;
                self.check_length(path, &columns)?;
                Ok(columns)
            }
        }
    }

    /// Scores by segment number, in order. Lines may be missing, those of the last segments too.
    fn numbered(&self, path: &Path, rows: &Numbered) -> Result<SegmentScores, Error> {
        let mut columns = rows.in_testset(path, self.n_segments())?;
        for column in columns.values_mut().filter(|column| column.len() < self.n_segments()) {
            column.resize(self.n_segments(), None);
        }
        Ok(columns)
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
        match &self.ment {
            Some(ment) => Ok(ment.sources.clone()),
            None => self.text(&self.layout.source(), "source"),
        }
    }

    /// The text of a reference.
    ///
    /// # Errors
    /// Those of [`TestSet::sources`].
    pub fn reference(&self, name: &str) -> Result<Vec<String>, Error> {
        match &self.ment {
            Some(ment) => Ok(ment.references.clone()),
            None => self.text(&self.layout.reference(name), "target"),
        }
    }

    /// The text of `reference` with the byte-order mark that the file may have, as the test set's own metrics
    /// read it.
    ///
    /// # Errors
    /// Those of [`TestSet::sources`].
    pub fn published_reference(&self, name: &str) -> Result<Vec<String>, Error> {
        if self.ment.is_some() {
            return self.reference(name);
        }
        let path = self.layout.reference(name);
        self.whole(&path, texts_as_published(&path, "target")?)
    }

    /// The translations of a system with a byte-order mark, as the test set's own metrics read them.
    ///
    /// # Errors
    /// Those of [`TestSet::sources`].
    pub fn published_output(&self, system: &str) -> Result<Vec<String>, Error> {
        if self.ment.is_some() {
            return self.output(system);
        }
        let path = self.layout.output(system);
        self.whole(&path, texts_as_published(&path, "hypothesis")?)
    }

    /// The translations of a system.
    ///
    /// # Errors
    /// Those of [`TestSet::sources`].
    pub fn output(&self, system: &str) -> Result<Vec<String>, Error> {
        match &self.ment {
            Some(ment) => Ok(ment.outputs.get(system).cloned().unwrap_or_default()),
            None => self.text(&self.layout.output(system), "hypothesis"),
        }
    }

    fn text(&self, path: &Path, field: &'static str) -> Result<Vec<String>, Error> {
        self.whole(path, texts(path, field)?)
    }

    /// A file's lines, if there is one for each segment.
    fn whole(&self, path: &Path, lines: Vec<String>) -> Result<Vec<String>, Error> {
        if lines.len() != self.n_segments() {
            let (found, expected) = (lines.len(), self.n_segments());
            return Err(Error::LineCount { path: path.into(), found, expected });
        }
        Ok(lines)
    }

    /// The rating files of a human score: `LP.NAME.RATER.seg.rating`, with their rater.
    ///
    /// # Errors
    /// An unreadable folder.
    pub fn rating_files(&self, gold: &str) -> Result<Vec<(String, PathBuf)>, Error> {
        Ok(self.layout.ratings(gold)?)
    }
}
