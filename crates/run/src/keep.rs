//! Selects the hardest sources of a run whose judge rates difficulty.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::Serialize;

use crate::{folder::json_lines, record::Record};

/// The files of the sources that are kept: their text, and a list with their difficulties.
pub const SOURCES: [&str; 2] = ["kept.txt", "kept.jsonl"];

/// Selection of the sources to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keep {
    /// This share of the rated sources, 0 to 100 percent, rounded up; of equally hard ones the first.
    Hardest(f64),
    /// Sources of this difficulty and above.
    From(f64),
}

/// Error for a text that does not select the sources to keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither a share nor a difficulty\nhint: `20%` keeps the hardest fifth of the sources, `7` those \
     rated 7 and above"
)]
pub struct KeepError(String);

/// One source that is kept: a line of `kept.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptSource {
    /// From 1: the line of the source file, or the segment's number in other inputs.
    pub line: usize,
    pub doc: String,
    pub difficulty: f64,
    pub source: String,
}

/// The sources that are kept, in the order of the input.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub sources: Vec<KeptSource>,
    pub rated: usize,
    /// Sources without a verdict; they are not kept.
    pub unrated: usize,
    /// Sources that are left out although they are as hard as some that are kept.
    pub tied: usize,
}

impl Keep {
    /// Chooses among the sources of these records, which stand in verdict order. A source that several
    /// systems translated counts once.
    pub fn choose(self, records: &[Record]) -> Kept {
        let (rated, unrated) = sources(records);
        let mut hardest_first: Vec<usize> = (0..rated.len()).collect();
        hardest_first.sort_by(|&a, &b| rated[b].difficulty.total_cmp(&rated[a].difficulty)); // stable
        let n = match self {
            Self::Hardest(percent) => (rated.len() as f64 * percent / 100.0).ceil() as usize,
            Self::From(least) => rated.iter().filter(|source| source.difficulty >= least).count(),
        };
        let (kept_sources, left) = hardest_first.split_at(n.min(rated.len()));
        let easiest = kept_sources.last().map(|&idx| rated[idx].difficulty);
        let tied = left.iter().filter(|&&idx| Some(rated[idx].difficulty) == easiest).count();
        let kept_sources: BTreeSet<usize> = kept_sources.iter().copied().collect();
        let n_rated = rated.len();
        let sources = rated.into_iter().enumerate().filter(|(idx, _)| kept_sources.contains(idx));
        Kept { sources: sources.map(|(_, source)| source).collect(), rated: n_rated, unrated, tied }
    }
}

/// The rated sources, each once, and the number of the others.
fn sources(records: &[Record]) -> (Vec<KeptSource>, usize) {
    let mut seen = BTreeSet::new();
    let mut unrated = BTreeSet::new();
    let mut rated = Vec::new();
    for record in records {
        let Some(seg) = record.seg else { continue };
        let id = (&record.doc, seg, &record.source);
        let Some(difficulty) = record.raw else {
            unrated.insert(id);
            continue;
        };
        if seen.insert(id) {
            let (doc, source) = (record.doc.clone(), record.source.clone());
            rated.push(KeptSource { line: seg + 1, doc, difficulty, source });
        }
    }
    let lines: BTreeSet<usize> = rated.iter().map(|source| source.line).collect();
    if lines.len() == rated.len() {
        // Numbered throughout: what the first system did not translate goes where it stood.
        rated.sort_by_key(|source| source.line);
    }
    (rated, unrated.difference(&seen).count())
}

impl Kept {
    /// The sources alone, one a line: line ends within a source become spaces.
    pub fn text(&self) -> String {
        let line = |source: &KeptSource| source.source.replace(['\n', '\r'], " ") + "\n";
        self.sources.iter().map(line).collect()
    }

    /// The sources with their lines and difficulties, one JSON object a line.
    pub fn jsonl(&self) -> Vec<u8> {
        json_lines(&self.sources)
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kept {} of {} sources", self.sources.len(), self.rated + self.unrated)?;
        let easiest = self.sources.iter().map(|source| source.difficulty).min_by(f64::total_cmp);
        if let Some(easiest) = easiest {
            write!(f, ", of difficulty {easiest} and above")?;
            if self.tied > 0 {
                write!(f, "; {} more of difficulty {easiest} are left out", self.tied)?;
            }
        }
        if self.unrated > 0 {
            write!(f, "; {} without a verdict are left out", self.unrated)?;
        }
        Ok(())
    }
}

impl FromStr for Keep {
    type Err = KeepError;

    fn from_str(text: &str) -> Result<Self, KeepError> {
        let wrong = || KeepError(text.into());
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        match text.trim().strip_suffix('%') {
            Some(share) => number(share).filter(|p| *p > 0.0 && *p <= 100.0).map(Self::Hardest),
            None => number(text).map(Self::From),
        }
        .ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Status, judges::Direction, segment::Lang};

    fn record(system: &str, seg: usize, difficulty: Option<f64>) -> Record {
        Record {
            system: system.into(),
            doc: String::new(),
            seg: Some(seg),
            segs: Vec::new(),
            src_lang: Lang::parse("en").unwrap(),
            tgt_lang: Lang::parse("de").unwrap(),
            source: format!("source\n{seg}"),
            hypothesis: String::new(),
            score: difficulty.map(|value| -value),
            raw: difficulty,
            direction: Direction::Lower,
            quality_score: None,
            interval: None,
            warning: None,
            errors: Vec::new(),
            status: if difficulty.is_some() { Status::Ok } else { Status::Unparsable },
            reason: None,
            n_calls: 1,
        }
    }

    fn check(keep: &str, expected: &[usize], said: &str) {
        let difficulties = [Some(3.0), Some(8.0), None, Some(8.0), Some(5.0), Some(9.0), Some(8.0)];
        let records: Vec<Record> = difficulties.iter().enumerate().map(|(i, d)| record("a", i, *d)).collect();
        let kept = keep.parse::<Keep>().unwrap().choose(&records);
        assert_eq!(kept.sources.iter().map(|kept| kept.line).collect::<Vec<_>>(), expected, "{keep}");
        assert_eq!(kept.to_string(), said, "{keep}");
    }

    #[test]
    fn shares_and_thresholds() {
        check(
            "50%",
            &[2, 4, 6],
            "kept 3 of 7 sources, of difficulty 8 and above; 1 more of difficulty 8 are left out; 1 without a \
             verdict are left out",
        );
        check("1%", &[6], "kept 1 of 7 sources, of difficulty 9 and above; 1 without a verdict are left out");
        check(
            "100%",
            &[1, 2, 4, 5, 6, 7],
            "kept 6 of 7 sources, of difficulty 3 and above; 1 without a verdict are left out",
        );
        check(
            "8",
            &[2, 4, 6, 7],
            "kept 4 of 7 sources, of difficulty 8 and above; 1 without a verdict are left out",
        );
        check("9.5", &[], "kept 0 of 7 sources; 1 without a verdict are left out");
        for wrong in ["", "0%", "101%", "-5%", "top", "%", "nan"] {
            assert!(wrong.parse::<Keep>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_source_counts_once_and_stands_where_it_stood() {
        let records = [
            record("a", 0, Some(4.0)),
            record("a", 2, Some(4.0)),
            record("b", 1, Some(4.0)),
            record("b", 2, Some(4.0)),
        ];
        let kept = Keep::Hardest(100.0).choose(&records);
        assert_eq!((kept.text().as_str(), kept.rated), ("source 0\nsource 1\nsource 2\n", 3));
        let line = r#"{"line":1,"doc":"","difficulty":4.0,"source":"source\n0"}"#;
        assert!(String::from_utf8(kept.jsonl()).unwrap().starts_with(line));
    }
}
