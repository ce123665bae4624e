//! Rated translations by document: from an mt-metrics-eval folder, from the MQM TSV of raters, or from JSON lines. It
//! knows no prompt.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::Deserialize;

use super::{Error, io};
use crate::{
    mqm::{
        ErrorSpan, raters,
        ratings::{self, Marked, Ratings},
        weights::Weights,
    },
    segment::{
        Lang, Segment, lang,
        read::{self, TestSet, layout::Layout},
        trained::source_hash,
    },
};

/// A translated document: the segments of one system in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// As the input spells it: `en-de`.
    pub pair: String,
    pub system: String,
    pub doc: String,
    pub segments: Vec<Rated>,
}

/// A segment and what was marked in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    pub segment: Segment,
    /// `None` where nobody rated it.
    pub errors: Option<Vec<ErrorSpan>>,
}

impl Rated {
    /// The raters' score, or 0 where nobody rated it. Unit: MQM points, at most 0.
    #[must_use]
    pub fn score(&self, weights: &Weights) -> f64 {
        let mut errors = self.errors.clone().unwrap_or_default();
        weights.weigh(&mut errors);
        weights.score(&errors)
    }
}

/// A language pair as it was typed, and its languages.
pub type Pair = (String, Lang, Lang);

impl Document {
    /// What tells documents apart when they are split: all systems' translations of one text go together.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.pair, self.doc)
    }
}

/// The rated translations of these language pairs of a folder, references among the systems; of several raters of a
/// segment the first by name.
///
/// # Errors
/// A pair without ratings, texts that cannot be read, ratings that do not fit them.
pub fn testset(dir: &Path, pairs: &[Pair]) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    for pair in pairs {
        let files = rating_files(dir, &pair.0)?;
        let raters: Vec<Ratings> =
            files.iter().map(|path| ratings::read(path)).collect::<Result<_, _>>().map_err(of_ratings)?;
        let systems: BTreeSet<&String> = raters.iter().flat_map(BTreeMap::keys).collect();
        let choice = TestSet {
            dir: dir.into(),
            pair: pair.clone(),
            systems: Some(systems.into_iter().cloned().collect()),
            reference: None,
        };
        let texts = Texts { files: &files, raters: &raters };
        let segments = read::testset(&choice)?.segments;
        texts.check_lengths(&segments)?;
        let rated: Vec<Rated> =
            segments.into_iter().map(|segment| texts.rated(segment)).collect::<Result<_, _>>()?;
        documents.extend(by_document(&pair.0, rated));
    }
    Ok(documents)
}

/// Ratings with the files that they come from.
struct Texts<'a> {
    files: &'a [std::path::PathBuf],
    raters: &'a [Ratings],
}

impl Texts<'_> {
    /// Refuses ratings of another number of segments than the folder has.
    fn check_lengths(&self, segments: &[Segment]) -> Result<(), Error> {
        let most = segments.iter().map(|segment| segment.seg + 1).max().unwrap_or(0);
        for (file, ratings) in self.files.iter().zip(self.raters) {
            if let Some((system, lines)) = ratings.iter().find(|(_, lines)| lines.len() < most) {
                let n = lines.len();
                return Err(Error::Ratings(format!(
                    "`{}` rates {n} segments of `{system}`, but there are {most} in the texts; hint: the ratings \
                     belong to another version of the test set",
                    file.display()
                )));
            }
        }
        Ok(())
    }

    fn rated(&self, segment: Segment) -> Result<Rated, Error> {
        for (file, ratings) in self.files.iter().zip(self.raters) {
            let marked = ratings.get(&segment.system).and_then(|lines| lines.get(segment.seg)?.as_ref());
            let Some(marked) = marked else { continue };
            let errors = marked.iter().map(|marked| marked.located(&segment)).collect::<Result<_, _>>();
            let errors = errors.map_err(|reason| {
                Error::Ratings(format!(
                    "`{}`: segment {} of `{}`: {reason}; hint: the ratings belong to other texts",
                    file.display(),
                    segment.seg + 1,
                    segment.system
                ))
            })?;
            return Ok(Rated { segment, errors: Some(errors) });
        }
        Ok(Rated { segment, errors: None })
    }
}

fn rating_files(dir: &Path, pair: &str) -> Result<Vec<std::path::PathBuf>, Error> {
    let files: Vec<_> = Layout::new(dir, pair).ratings("mqm")?.into_iter().map(|(_, path)| path).collect();
    if files.is_empty() {
        return Err(Error::Ratings(format!(
            "`{}` has no MQM ratings of `{pair}`; hint: files are called `{pair}.mqm.RATER.seg.rating`",
            dir.join("human-scores").display()
        )));
    }
    Ok(files)
}

/// Rated translations in a file: the MQM TSV of raters, or JSON lines in mt-metrics-eval's form for ratings that stand
/// alone: `source`, `hypothesis`, `errors` (`start`, `end`, `category`, `severity`, `is_source_error`), `src_lang`,
/// `tgt_lang`, `system_id`, `document_id`, `segment_id`.
///
/// # Errors
/// A file that cannot be read, a line that is none of this, errors outside their text.
pub fn file(path: &Path, pair: Option<&Pair>) -> Result<Vec<Document>, Error> {
    if raters::is_mqm_tsv(path) {
        let Some((name, src, tgt)) = pair else {
            return Err(Error::Ratings(format!(
                "`{}` does not name its languages; hint: add `-l en-de`",
                path.display()
            )));
        };
        let annotations = raters::read(path, &(src.clone(), tgt.clone()))?;
        let mut seen = BTreeSet::new();
        let first = annotations.into_iter().filter(|a| {
            let Segment { system, doc, seg, .. } = &a.segment;
            seen.insert((system.clone(), doc.clone(), *seg))
        });
        let mut rated: Vec<Rated> =
            first.map(|a| Rated { segment: a.segment, errors: Some(a.errors) }).collect();
        rated.sort_by(|a, b| (&a.segment.system, a.segment.seg).cmp(&(&b.segment.system, b.segment.seg)));
        return Ok(by_document(name, rated));
    }
    lines(path)
}

/// A line of a file.
#[derive(Deserialize)]
struct Line {
    source: String,
    #[serde(alias = "target")]
    hypothesis: String,
    errors: Vec<Marked>,
    #[serde(alias = "source_lang")]
    src_lang: String,
    #[serde(alias = "target_lang")]
    tgt_lang: String,
    #[serde(default, alias = "system")]
    system_id: String,
    #[serde(default, alias = "doc")]
    document_id: String,
    #[serde(default, alias = "seg_id")]
    segment_id: usize,
}

fn lines(path: &Path) -> Result<Vec<Document>, Error> {
    let text = std::fs::read_to_string(path).map_err(io(path))?;
    let mut of_pair: BTreeMap<String, Vec<Rated>> = BTreeMap::new();
    for (idx, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |reason: String| Error::Line { path: path.into(), line: idx + 1, reason };
        let line: Line = serde_json::from_str(line).map_err(|e| at(e.to_string()))?;
        let parse = |code: &str| Lang::parse(code).map_err(|e: lang::Error| at(e.to_string()));
        let (src_lang, tgt_lang) = (parse(&line.src_lang)?, parse(&line.tgt_lang)?);
        // A segment that names no document is one: equal sources are equal documents.
        let doc = if line.document_id.is_empty() { source_hash(&line.source) } else { line.document_id };
        let segment = Segment {
            system: line.system_id,
            doc,
            seg: line.segment_id,
            src_lang,
            tgt_lang,
            source: line.source,
            hypothesis: line.hypothesis,
            reference: None,
        };
        let errors = line.errors.iter().map(|marked| marked.located(&segment)).collect::<Result<_, _>>();
        let errors = Some(errors.map_err(at)?);
        let pair = format!("{}-{}", segment.src_lang, segment.tgt_lang);
        of_pair.entry(pair).or_default().push(Rated { segment, errors });
    }
    if of_pair.is_empty() {
        return Err(Error::Ratings(format!("`{}` holds no rated segment", path.display())));
    }
    Ok(of_pair.into_iter().flat_map(|(pair, rated)| by_document(&pair, rated)).collect())
}

/// Documents by system and name, their segments in the order in which they came.
fn by_document(pair: &str, rated: Vec<Rated>) -> Vec<Document> {
    let mut documents: BTreeMap<(String, String), Vec<Rated>> = BTreeMap::new();
    for rated in rated {
        let Segment { system, doc, seg, .. } = &rated.segment;
        let doc = if doc.is_empty() { format!("segment {:06}", seg + 1) } else { doc.clone() };
        documents.entry((system.clone(), doc)).or_default().push(rated);
    }
    let one = |((system, doc), segments)| Document { pair: pair.to_owned(), system, doc, segments };
    documents.into_iter().map(one).collect()
}

fn of_ratings(error: ratings::Error) -> Error {
    match error {
        ratings::Error::Io { path, source } => Error::Io { path, source },
        ratings::Error::Line { path, line, reason } => Error::Line { path, line, reason },
        error @ ratings::Error::Lengths { .. } => Error::Ratings(error.to_string()),
    }
}
