//! The fields of a run's verdicts that meta-evaluation reads: scores, errors, status.

use std::path::Path;

use serde::Deserialize;
use tribunal_core::files::{self, json, text};

use super::scores::{line_error, read_text};
use super::{Error, Result};

mod placed;

pub use placed::{Placement, placed};

/// One line of `verdicts.jsonl`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Verdict {
    pub system: String,
    pub doc: String,
    /// Position in the test set; `None` for a verdict on a document or a group of documents.
    pub seg: Option<usize>,
    /// The segments of a document or a group, in the order in which its text joins them.
    #[serde(default)]
    pub segs: Vec<usize>,
    pub src_lang: String,
    pub tgt_lang: String,
    #[serde(default)]
    pub source: String,
    pub hypothesis: String,
    pub score: Option<f64>,
    /// The method's score before it is put into the direction and range of `score`.
    #[serde(default)]
    pub raw: Option<f64>,
    #[serde(default)]
    pub errors: Vec<JudgedError>,
    pub status: String,
    /// The reason why the hypothesis is no translation; `None` where it is one.
    #[serde(default)]
    pub warning: Option<String>,
}

/// An error named by a judge.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct JudgedError {
    pub span: String,
    pub side: String,
    pub start: Option<usize>,
    pub end: Option<usize>,
    pub category: String,
    pub severity: String,
}

impl Verdict {
    /// The score, where there is a verdict.
    pub fn usable_score(&self) -> Option<f64> {
        self.score.filter(|_| self.status == "ok")
    }

    /// The language pair, as `en-de`.
    pub fn pair(&self) -> String {
        format!("{}-{}", self.src_lang, self.tgt_lang)
    }

    /// The unit in words: `segment 3`, or "document `news-7`".
    pub fn what(&self) -> String {
        self.seg.map_or_else(
            || format!("document `{}`", self.doc),
            |seg| format!("segment {} (id {seg})", seg + 1),
        )
    }
}

/// Reads the verdicts of a run folder, or of a file.
///
/// # Errors
/// An unreadable file or line.
pub fn read(path: &Path) -> Result<Vec<Verdict>> {
    // A folder may be another user's: links in it are not followed, and pipes not opened.
    let in_folder = path.is_dir().then(|| path.join("verdicts.jsonl"));
    let text = match &in_folder {
        Some(path) => files::read_own(path)
            .and_then(text::of_bytes)
            .map_err(|source| Error::Read { path: path.clone(), source })?,
        None => read_text(path)?,
    };
    let path = in_folder.as_deref().unwrap_or(path);
    let row = |(index, line): (usize, &str)| {
        json::parse(line).map_err(|reason| line_error(path, index + 1, reason))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(row).collect()
}

/// True if a path is a run folder, or a file whose first line is a verdict.
pub fn is_run(path: &Path) -> bool {
    if path.is_dir() {
        return true;
    }
    let Ok(text) = text::read(path) else { return false };
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str::<Verdict>(first).is_ok()
}

/// Reads the verdicts of a run on one language pair.
///
/// # Errors
/// Those of [`read`], and a run that judged other pairs only.
pub fn for_pair(path: &Path, lp: &str) -> Result<Vec<Verdict>> {
    on_pair(path, read(path)?, lp)
}

/// The verdicts on one language pair.
///
/// # Errors
/// Verdicts on other pairs only.
pub fn on_pair(path: &Path, mut verdicts: Vec<Verdict>, lp: &str) -> Result<Vec<Verdict>> {
    let mut judged: Vec<String> = verdicts.iter().map(Verdict::pair).collect();
    verdicts.retain(|verdict| verdict.pair() == lp);
    if verdicts.is_empty() {
        judged.sort();
        judged.dedup();
        let judged = if judged.is_empty() { "nothing".into() } else { judged.join(", ") };
        return Err(Error::Unsuitable(format!(
            "`{}` has no verdict on `{lp}`; hint: it judged {judged}",
            path.display()
        )));
    }
    Ok(verdicts)
}
