//! Rated translations by document, from an mt-metrics-eval folder or the MQM TSV of raters; [`super::lines`]
//! reads them from JSON lines. It contains no prompts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{Error, Result};
use crate::{
    mqm::{
        ErrorSpan, raters,
        ratings::{self, Ratings},
        weights::Weights,
    },
    segment::{
        Lang, Segment,
        read::{
            self, TestSet,
            layout::{self, TestsetFiles},
        },
    },
};

/// A translated document: the segments of one system in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Language pair as spelled in the input: `en-de`.
    pub pair: String,
    pub system: String,
    pub doc: String,
    /// Corpus whose scale the ratings are on: the name of the file, or of the set that its lines name; empty
    /// where there is one.
    pub corpus: String,
    pub segments: Vec<Rated>,
}

/// A segment and its human ratings.
#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    pub segment: Segment,
    /// The errors that each rater marked.
    pub opinions: Vec<Opinion>,
    /// A direct assessment, where there are no errors. Unit: standard deviations of the rater; higher is
    /// better.
    pub assessment: Option<f64>,
    /// Number of consecutive segments that were joined into this one.
    pub n_joined: usize,
}

/// Annotation of one rater.
#[derive(Clone, Debug, PartialEq)]
pub struct Opinion {
    /// Empty where the input has one nameless rater.
    pub rater: String,
    pub errors: Vec<ErrorSpan>,
}

impl Opinion {
    /// Unit: MQM points, at most 0.
    pub fn score(&self, weights: &Weights) -> f64 {
        let mut errors = self.errors.clone();
        weights.weigh(&mut errors);
        weights.score(&errors)
    }
}

impl Rated {
    /// A segment with what one nameless rater marked; `None` if it is not rated.
    pub fn by_one(segment: Segment, errors: Option<Vec<ErrorSpan>>) -> Self {
        let opinions = errors.into_iter().map(|errors| Opinion { rater: String::new(), errors }).collect();
        Self { segment, opinions, assessment: None, n_joined: 1 }
    }

    /// The errors that the first rater marked; `None` without a rater.
    pub fn errors(&self) -> Option<&Vec<ErrorSpan>> {
        self.opinions.first().map(|opinion| &opinion.errors)
    }

    /// The mean of the raters' scores. Unit: MQM points, at most 0; 0 also for a segment that has no rater,
    /// whose `opinions` are empty.
    pub fn score(&self, weights: &Weights) -> f64 {
        let sum: f64 = self.opinions.iter().map(|opinion| opinion.score(weights)).sum();
        sum / self.opinions.len().max(1) as f64
    }
}

/// A language pair as it was typed, and its languages.
pub type Pair = (String, Lang, Lang);

impl Document {
    /// Name of a document in splits: all systems' translations of one text go together.
    pub fn name(&self) -> String {
        format!("{}/{}", self.pair, self.doc)
    }
}

/// The rated translations of these language pairs of a folder, references among the systems; of several
/// raters of a segment the first by name.
///
/// # Errors
/// A pair without ratings, texts that cannot be read, ratings that do not fit them.
pub fn testset(dir: &Path, pairs: &[Pair]) -> Result<Vec<Document>> {
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
        let texts = RatingFiles { files: &files, raters: &raters };
        let segments = read::testset(&choice)?.segments;
        texts.check_lengths(&segments)?;
        let rated: Vec<Rated> =
            segments.into_iter().map(|segment| texts.rated(segment)).collect::<Result<_, _>>()?;
        documents.extend(by_document(&pair.0, "", rated));
    }
    Ok(documents)
}

/// All sources of a folder in the layout of mt-metrics-eval, of every language pair.
///
/// # Errors
/// Sources that cannot be read, or none.
pub fn sources(dir: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for pair in layout::pairs(dir) {
        all.extend(layout::texts(&TestsetFiles::new(dir, pair).source(), "source")?);
    }
    all.retain(|source| !source.trim().is_empty());
    if all.is_empty() {
        return Err(Error::Ratings(format!(
            "`{}` has no sources; hint: files are called `sources/PAIR.txt`",
            dir.display()
        )));
    }
    Ok(all)
}

/// Ratings with the files that they come from.
struct RatingFiles<'a> {
    files: &'a [std::path::PathBuf],
    raters: &'a [Ratings],
}

impl RatingFiles<'_> {
    /// Checks that the ratings have as many segments as the folder.
    fn check_lengths(&self, segments: &[Segment]) -> Result<()> {
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

    fn rated(&self, segment: Segment) -> Result<Rated> {
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
            return Ok(Rated::by_one(segment, Some(errors)));
        }
        Ok(Rated::by_one(segment, None))
    }
}

fn rating_files(dir: &Path, pair: &str) -> Result<Vec<std::path::PathBuf>> {
    let files: Vec<_> =
        TestsetFiles::new(dir, pair).ratings("mqm")?.into_iter().map(|(_, path)| path).collect();
    if files.is_empty() {
        return Err(Error::Ratings(format!(
            "`{}` has no MQM ratings of `{pair}`; hint: files are called `{pair}.mqm.RATER.seg.rating`",
            dir.join("human-scores").display()
        )));
    }
    Ok(files)
}

/// Rated translations in the MQM TSV of raters; of several raters of a segment the first in the file.
///
/// # Errors
/// A file that cannot be read, a line that is none of this, no language pair.
pub fn mqm_tsv(path: &Path, pair: Option<&Pair>) -> Result<Vec<Document>> {
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
    let mut rated: Vec<Rated> = first.map(|a| Rated::by_one(a.segment, Some(a.errors))).collect();
    rated.sort_by(|a, b| (&a.segment.system, a.segment.seg).cmp(&(&b.segment.system, b.segment.seg)));
    Ok(by_document(name, "", rated))
}

/// Documents by system and name, their segments in the order in which they came.
pub(super) fn by_document(pair: &str, corpus: &str, rated: Vec<Rated>) -> Vec<Document> {
    let mut documents: BTreeMap<(String, String), Vec<Rated>> = BTreeMap::new();
    for rated in rated {
        let Segment { system, doc, seg, .. } = &rated.segment;
        let doc = if doc.is_empty() { format!("segment {:06}", seg + 1) } else { doc.clone() };
        documents.entry((system.clone(), doc)).or_default().push(rated);
    }
    let one = |((system, doc), segments)| Document {
        pair: pair.to_owned(),
        system,
        doc,
        corpus: corpus.to_owned(),
        segments,
    };
    documents.into_iter().map(one).collect()
}

fn of_ratings(error: ratings::Error) -> Error {
    match error {
        ratings::Error::Io { path, source } => Error::Io { path, source },
        ratings::Error::Line { path, line, reason } => Error::Line { path, line, reason },
        error @ ratings::Error::Lengths { .. } => Error::Ratings(error.to_string()),
    }
}
