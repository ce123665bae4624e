//! Scores of systems, and the readers of score files: `SYSTEM SCORE` lines, one column, JSONL. A line that
//! cannot be read is an error with its number; nothing is skipped and nothing is repaired.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tribunal_core::files::text;

use super::{Error, Result};

pub use jsonl::is_metricx;
use numbering::Numbered;
use units::UnitScores;

mod jsonl;
pub mod numbering;
mod table;
pub mod units;

/// Scores of each system's segments in test-set order; `None` where there is no score.
pub type SegmentScores = BTreeMap<String, Vec<Option<f64>>>;

/// One score for each system.
pub type SystemScores = BTreeMap<String, Option<f64>>;

/// Source of a system-level score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemScoreOrigin {
    /// Read from a system-level file.
    File,
    /// Mean over the system's scored segments.
    MeanOfSegments,
    /// Mean over scored documents, or groups of documents.
    MeanOfUnits,
    /// Computed over all segments at once, as BLEU is.
    Corpus,
}

/// The scores of one metric, or of the human raters, on one language pair.
///
/// Direction: higher is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    pub name: String,
    /// `None` when only system-level scores were given, or scores of documents.
    pub segments: Option<SegmentScores>,
    /// Scores of documents or of groups of documents, from a judge that saw them as one text.
    pub units: Option<UnitScores>,
    pub systems: SystemScores,
    pub system_origin: SystemScoreOrigin,
    /// Missing scores that got the metric's lowest one.
    pub n_filled: usize,
    /// Units that the system means leave out because some system has no score there; `None` where each
    /// system's mean is over its own.
    pub n_left_out: Option<usize>,
}

impl Scores {
    /// Scores from the contents of files. System scores that are not given are the means of the segment
    /// scores.
    pub fn new(
        name: impl Into<String>,
        segments: Option<SegmentScores>,
        systems: Option<SystemScores>,
    ) -> Self {
        let system_origin = match systems {
            Some(_) => SystemScoreOrigin::File,
            None => SystemScoreOrigin::MeanOfSegments,
        };
        let systems = systems.unwrap_or_else(|| segments.as_ref().map(mean_scores).unwrap_or_default());
        let (units, n_filled, n_left_out) = (None, 0, None);
        Self { name: name.into(), segments, units, systems, system_origin, n_filled, n_left_out }
    }

    /// Segment scores without system scores: these are means over the segments that every system has a score
    /// on.
    pub fn from_segments(name: impl Into<String>, segments: SegmentScores) -> Self {
        let (systems, n_left_out) = mean_on_common(&segments);
        Self { systems, n_left_out: Some(n_left_out), ..Self::new(name, Some(segments), None) }
    }

    /// Scores of documents: system scores are means over the documents that every system has a score on.
    pub fn from_units(name: impl Into<String>, units: UnitScores) -> Self {
        let (systems, n_left_out) = mean_on_common(&units.columns());
        let system_origin = SystemScoreOrigin::MeanOfUnits;
        let scores = Self::new(name, None, Some(systems));
        Self { units: Some(units), system_origin, n_left_out: Some(n_left_out), ..scores }
    }

    /// These scores, with the metric's lowest one wherever the raters scored and the metric did not. Means
    /// are recomputed.
    #[must_use]
    pub fn filled_with_lowest(mut self, gold: &Self) -> Self {
        let Some(rated) = &gold.segments else { return self };
        if let Some(mut units) = self.units.take() {
            let n_filled = units.fill_with_lowest(rated);
            return Self { n_filled, ..Self::from_units(self.name, units) };
        }
        let Some(columns) = &mut self.segments else { return self };
        let scores = columns.values().flatten().flatten();
        let Some(lowest) = scores.copied().min_by(f64::total_cmp) else { return self };
        for (system, column) in columns.iter_mut() {
            let Some(rated) = rated.get(system) else { continue };
            for (score, _) in column.iter_mut().zip(rated).filter(|(s, gold)| s.is_none() && gold.is_some()) {
                *score = Some(lowest);
                self.n_filled += 1;
            }
        }
        if self.n_left_out.is_some() {
            let (systems, n_left_out) = mean_on_common(columns);
            (self.systems, self.n_left_out) = (systems, Some(n_left_out));
        }
        self
    }

    /// These scores, with means over each system's own units, regardless of gaps of others.
    #[must_use]
    pub fn each_on_its_own(mut self) -> Self {
        if self.n_left_out.take().is_some() {
            let columns = self.units.as_ref().map(UnitScores::columns).or_else(|| self.segments.clone());
            self.systems = columns.as_ref().map(mean_scores).unwrap_or_default();
        }
        self
    }

    /// These scores with their sign changed, for metrics where lower is better.
    #[must_use]
    pub fn negated(mut self) -> Self {
        for score in self.segments.iter_mut().flat_map(BTreeMap::values_mut).flatten().flatten() {
            *score = 0.0 - *score;
        }
        if let Some(units) = &mut self.units {
            units.negate();
        }
        for score in self.systems.values_mut().flatten() {
            *score = 0.0 - *score;
        }
        self
    }
}

/// The mean over each system's scored segments; `None` for a system without one.
pub fn mean_scores(segments: &SegmentScores) -> SystemScores {
    let mean = |scores: &Vec<Option<f64>>| {
        let scored: Vec<f64> = scores.iter().flatten().copied().collect();
        (!scored.is_empty()).then(|| super::correlation::mean(&scored))
    };
    segments.iter().map(|(system, scores)| (system.clone(), mean(scores))).collect()
}

/// The mean of each system over the units that every system has a score on, and how many units with some
/// score are left out. A system without any score has no mean and does not reduce the units of the others.
///
/// ```
/// use tribunal_meta::scores::{SegmentScores, mean_on_common};
/// let columns = SegmentScores::from([
///     ("a".to_owned(), vec![Some(1.0), Some(9.0), Some(3.0)]),
///     ("b".to_owned(), vec![Some(2.0), None, Some(4.0)]),
/// ]);
/// let (means, left_out) = mean_on_common(&columns);
/// assert_eq!((means["a"], means["b"], left_out), (Some(2.0), Some(3.0), 1));
/// ```
pub fn mean_on_common(columns: &SegmentScores) -> (SystemScores, usize) {
    let scored: Vec<&Vec<Option<f64>>> =
        columns.values().filter(|column| column.iter().any(Option::is_some)).collect();
    let n = scored.iter().map(|column| column.len()).max().unwrap_or(0);
    let has = |column: &Vec<Option<f64>>, unit: usize| column.get(unit).is_some_and(Option::is_some);
    let (common, partial): (Vec<usize>, Vec<usize>) =
        (0..n).partition(|unit| scored.iter().all(|column| has(column, *unit)));
    let n_left_out = partial.iter().filter(|unit| scored.iter().any(|column| has(column, **unit))).count();
    let common_scores = |column: &Vec<Option<f64>>| {
        common.iter().map(|unit| column.get(*unit).copied().flatten()).collect::<Vec<_>>()
    };
    let restricted: SegmentScores =
        columns.iter().map(|(system, column)| (system.clone(), common_scores(column))).collect();
    (mean_scores(&restricted), n_left_out)
}

/// Contents of one score file, not yet matched with a test set.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoreFile {
    /// `SYSTEM SCORE` lines, or JSONL without segment numbers: scores in file order.
    Named(SegmentScores),
    /// JSONL with segment numbers, from 0 or from 1.
    Numbered(Numbered),
    /// One column: the scores of a single system, which the file does not name.
    Column(Vec<Option<f64>>),
}

/// Reads a score file; `lp` selects the lines of a file that names languages.
///
/// # Errors
/// Unreadable files, and the first line without a system and score, with a space in the system's name, or
/// with a score that is not finite.
pub fn read(path: &Path, lp: Option<&str>) -> Result<ScoreFile> {
    let text = read_text(path)?;
    let first = text.lines().find(|line| !line.trim().is_empty()).ok_or_else(|| Error::Empty(path.into()))?;
    if first.trim_start().starts_with('{') {
        return jsonl::read(path, &text, lp);
    }
    if table::is_header(first) {
        return table::read(path, &text, lp).map(ScoreFile::Numbered);
    }
    if first.split_whitespace().count() == 1 {
        let column = lines(&text).map(|(number, line)| parse_score(path, number, line.trim()));
        return column.collect::<Result<_, _>>().map(ScoreFile::Column);
    }
    read_named(path, &text).map(ScoreFile::Named)
}

/// Reads a file of one score per system.
///
/// # Errors
/// Those of [`read`], and a system with more than one line.
pub fn read_systems(path: &Path) -> Result<SystemScores> {
    let mut systems = SystemScores::new();
    for (system, scores) in read_named(path, &read_text(path)?)? {
        let [score] = scores[..] else {
            return Err(Error::NotSystemLevel { path: path.into(), system, lines: scores.len() });
        };
        systems.insert(system, score);
    }
    Ok(systems)
}

fn read_named(path: &Path, text: &str) -> Result<SegmentScores> {
    let mut scores = SegmentScores::new();
    for (number, line) in lines(text) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [system, score] => {
                let score = parse_score(path, number, score)?;
                match scores.get_mut(system) {
                    Some(column) => column.push(score),
                    None => drop(scores.insert(system.to_owned(), vec![score])),
                }
            }
            [_, _, ..] => return Err(line_error(path, number, spaced_system(line))),
            _ => return Err(line_error(path, number, format!("`{line}` is not `SYSTEM SCORE`"))),
        }
    }
    Ok(scores)
}

fn spaced_system(line: &str) -> String {
    format!(
        "`{}` has more than two fields; hint: fields are split at white space, so a system's name cannot \
         contain a space",
        line.trim()
    )
}

/// Rejects a file of several language pairs where none is selected, and one without the selected pair.
/// `pairs` has the first line of each.
fn check_pairs(path: &Path, lp: Option<&str>, pairs: &BTreeMap<String, usize>) -> Result<()> {
    let names = || pairs.keys().cloned().collect::<Vec<_>>().join(", ");
    match (lp, pairs.values().min()) {
        (Some(lp), Some(line)) if !pairs.contains_key(lp) => {
            Err(line_error(path, *line, format!("the file has no score of `{lp}`, only of {}", names())))
        }
        (None, _) if pairs.len() > 1 => {
            let line = pairs.values().max().copied().unwrap_or(0);
            let reason =
                format!("the file has scores of several language pairs: {}; -l SRC-TGT selects one", names());
            Err(line_error(path, line, reason))
        }
        _ => Ok(()),
    }
}

fn parse_score(path: &Path, number: usize, text: &str) -> Result<Option<f64>> {
    if text == "None" {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(score) if score.is_finite() => Ok(Some(score + 0.0)),
        Ok(score) => Err(line_error(
            path,
            number,
            format!("the score `{score}` is not finite; hint: write `None` where there is no score"),
        )),
        Err(_) => Err(line_error(path, number, format!("`{text}` is not a score"))),
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim().is_empty())
}

/// The error of a line that cannot be read, from 1.
pub fn line_error(path: &Path, line: usize, reason: String) -> Error {
    Error::Line { path: path.into(), line, reason }
}

/// The text of a file.
///
/// # Errors
/// [`Error::Read`].
pub fn read_text(path: &Path) -> Result<String> {
    text::read(path).map_err(|source| Error::Read { path: PathBuf::from(path), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_of_metricx_are_higher_for_the_better() {
        check(
            "{\"source\":\"a\",\"hypothesis\":\"b\",\"system_id\":\"A\",\"prediction\":1.5}\n\
             {\"system_id\":\"A\",\"prediction\":0.0}\n",
            Ok(ScoreFile::Named([("A".to_owned(), vec![Some(-1.5), Some(0.0)])].into())),
        );
        let dir = tempfile::tempdir().unwrap();
        let is_its = |text: &str| {
            let path = dir.path().join("x.jsonl");
            std::fs::write(&path, text).unwrap();
            is_metricx(&path)
        };
        assert!(is_its("\n{\"prediction\": 3}\n"));
        assert!(
            !is_its("{\"prediction\": 3, \"score\": 1}\n") && !is_its("{\"score\": 1}\n") && !is_its("A 1\n")
        );
    }

    fn check(text: &str, expected: Result<ScoreFile, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.score");
        std::fs::write(&path, text).unwrap();
        match (read(&path, Some("en-de")), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "`{error}` lacks `{part}`");
            }
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    fn named(columns: &[(&str, &[Option<f64>])]) -> ScoreFile {
        ScoreFile::Named(columns.iter().map(|(name, scores)| ((*name).to_owned(), scores.to_vec())).collect())
    }

    type Column<'a> = (&'a str, &'a [(usize, Option<f64>)]);

    fn numbered(line: usize, columns: &[Column<'_>]) -> ScoreFile {
        let scores =
            columns.iter().map(|(name, scores)| ((*name).to_owned(), scores.iter().copied().collect()));
        ScoreFile::Numbered(Numbered::new(line, scores.collect()))
    }

    #[test]
    fn system_score_lines() {
        check("A\t1\nB 2.5\nA None\n", Ok(named(&[("A", &[Some(1.0), None]), ("B", &[Some(2.5)])])));
    }

    #[test]
    fn one_column() {
        check("1\nNone\n-3\n", Ok(ScoreFile::Column(vec![Some(1.0), None, Some(-3.0)])));
    }

    #[test]
    fn verdict_lines_stand_by_their_segment() {
        check(
            "{\"system\":\"A\",\"seg\":1,\"score\":-5.0,\"status\":\"ok\",\"src_lang\":\"en\",\"tgt_lang\":\"de\"}\n\
             {\"system\":\"A\",\"seg\":0,\"score\":null,\"status\":\"refused\"}\n\
             {\"system\":\"A\",\"seg\":0,\"score\":1,\"src_lang\":\"zh\",\"tgt_lang\":\"en\"}\n",
            Ok(numbered(1, &[("A", &[(0, None), (1, Some(-5.0))])])),
        );
        check("{\"system\":\"A\",\"score\":2}\n", Ok(named(&[("A", &[Some(2.0)])])));
    }

    #[test]
    fn a_score_of_a_document_is_not_one_of_a_segment() {
        check("{\"system\":\"A\",\"seg\":null,\"score\":1}\n", Err("x.score:1: `seg` is null"));
        check(
            "{\"system\":\"A\",\"seg\":0,\"score\":1}\n{\"system\":\"A\",\"score\":1}\n",
            Err("x.score:2: some lines have a segment number"),
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        check("\u{feff}A 1\r\nA 2\r\n", Ok(named(&[("A", &[Some(1.0), Some(2.0)])])));
    }

    #[test]
    fn numbers_and_names_may_be_written_as_data_frames_write_them() {
        let lines = "{\"system\":7,\"seg_id\":0.0,\"score\":1}\n{\"system\":7.0,\"segment_id\":\"1.0\",\"score\":2}\n";
        check(lines, Ok(numbered(1, &[("7", &[(0, Some(1.0)), (1, Some(2.0))])])));
        check("{\"system\":\"A\",\"seg\":0.5,\"score\":1}\n", Err("`0.5` is not a whole number from 0"));
    }

    #[test]
    fn bad_lines_name_themselves() {
        check("A 1\nBig System 2\n", Err("x.score:2: `Big System 2` has more than two fields"));
        check("A 1\nA NaN\n", Err("x.score:2: the score `NaN` is not finite"));
        check("A 1\nA x\n", Err("x.score:2: `x` is not a score"));
        check("A 1\nA\n", Err("x.score:2: `A` is not `SYSTEM SCORE`"));
        check("", Err("is empty"));
        check(
            "{\"system\":\"A\",\"seg\":0,\"score\":1}\n{\"system\":\"A\",\"seg\":0,\"score\":2}\n",
            Err("second score"),
        );
    }
}
