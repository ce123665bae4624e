//! JSON lines with a score each: those of this program, of other tools, and of `MetricX`. The numbers of
//! segments are interpreted in `numbering`.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::Path;

use serde::Deserialize;
use tribunal_core::files::json;

use super::numbering::Numbered;
use super::{ScoreFile, check_pairs, line_error, lines};
use crate::Result;
use crate::segment::numbers;

/// Reads scores; where lines name languages, those of one pair.
///
/// # Errors
/// Those of [`super::read`].
pub(super) fn read(path: &Path, text: &str, lp: Option<&str>) -> Result<ScoreFile> {
    let mut scores: BTreeMap<String, BTreeMap<usize, Option<f64>>> = BTreeMap::new();
    let (mut named, mut numbered, mut first) = (false, None, 0);
    let mut pairs = BTreeMap::new();
    for (number, line) in lines(text) {
        let row: JsonScore = json::parse(line).map_err(|reason| line_error(path, number, reason))?;
        let row = row.of_metricx();
        if let Some(pair) = row.pair() {
            pairs.entry(pair.clone()).or_insert(number);
            if lp.is_some_and(|lp| lp != pair) {
                continue;
            }
        }
        let is_numbered = !matches!(row.seg, Seg::Unsaid);
        if *numbered.get_or_insert(is_numbered) != is_numbered {
            let reason = "some lines have a segment number (`seg`) and others have none".to_owned();
            return Err(line_error(path, number, reason));
        }
        named |= row.system.is_some();
        first = if first == 0 { number } else { first };
        let column = scores.entry(row.system.clone().unwrap_or_default()).or_default();
        let seg = match row.seg {
            Seg::Unsaid => column.len(),
            Seg::Number(seg) => seg,
            Seg::Null => return Err(line_error(path, number, document_score())),
        };
        if row.score.is_none() && row.status.as_deref() == Some("ok") {
            return Err(line_error(path, number, "status `ok` without a score".to_owned()));
        }
        if column.insert(seg, row.score).is_some() && (lp.is_some() || pairs.len() < 2) {
            return Err(line_error(path, number, format!("segment `{seg}` has a second score")));
        }
    }
    check_pairs(path, lp, &pairs)?;
    let rows = Numbered::new(first, scores);
    Ok(match (named, numbered) {
        (_, Some(true)) => ScoreFile::Numbered(rows),
        (true, _) => ScoreFile::Named(rows.from(0)),
        (false, _) => ScoreFile::Column(rows.from(0).remove("").unwrap_or_default()),
    })
}

/// True if a file is JSONL of `MetricX`, whose `prediction` is negated when it is read, since lower is
/// better.
pub fn is_metricx(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut lines = std::io::BufReader::new(file).lines().map_while(Result::ok);
    let first = lines.find(|line| !line.trim().is_empty()).unwrap_or_default();
    let row = json::parse::<JsonScore>(first.trim_start_matches('\u{feff}'));
    row.is_ok_and(|row| row.score.is_none() && row.prediction.is_some())
}

fn document_score() -> String {
    "`seg` is null: this score belongs to a document, not to a segment; hint: give the run folder, which says \
     which segments the document has"
        .to_owned()
}

#[derive(Deserialize)]
struct JsonScore {
    #[serde(default, deserialize_with = "optional_name")]
    system: Option<String>,
    #[serde(default, alias = "seg_id", alias = "segment_id")]
    seg: Seg,
    score: Option<f64>,
    status: Option<String>,
    src_lang: Option<String>,
    tgt_lang: Option<String>,
    /// `MetricX`'s score: errors, 0 to 25, lower is better.
    prediction: Option<f64>,
    system_id: Option<String>,
}

impl JsonScore {
    /// The language pair that a line names.
    fn pair(&self) -> Option<String> {
        Some(format!("{}-{}", self.src_lang.as_ref()?, self.tgt_lang.as_ref()?))
    }

    /// A line of `MetricX` with our field names, its score negated so that higher is better.
    fn of_metricx(self) -> Self {
        let score = self.score.or_else(|| self.prediction.map(|errors| 0.0 - errors));
        Self { system: self.system.or_else(|| self.system_id.clone()), score, ..self }
    }
}

/// The segment number of a line.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "serde_json::Value")]
enum Seg {
    /// No field: the order of the lines counts.
    #[default]
    Unsaid,
    /// `null`: the score does not belong to a segment.
    Null,
    Number(usize),
}

impl TryFrom<serde_json::Value> for Seg {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        if value.is_null() {
            return Ok(Self::Null);
        }
        let wrong = || format!("the segment number `{value}` is not a whole number from 0");
        numbers::whole(&value).map(Self::Number).ok_or_else(wrong)
    }
}

fn optional_name<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(numbers::name(&serde_json::Value::deserialize(from)?))
}
