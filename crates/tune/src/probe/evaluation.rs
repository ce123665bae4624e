//! Training and evaluation data of a fit: the readable translations of a split with corrupted versions of
//! them, and the figures on held-out documents. It fits nothing.

use std::collections::BTreeMap;

use super::{Subject, is_usable, seen};
use crate::{
    Result,
    agreement::{Figures, HeldOutAgreement},
    corruption::{self, Corrupted},
    judges::{
        Verdict,
        probe::{self, fit::Fit},
    },
    rated::{Document, Rated},
    readings::Readings,
    segment::Segment,
    split::Split,
};

/// Corrupted versions of the translations that are fitted on, and of a quarter as many of those held out.
pub fn corrupted(split: &Split, most: usize, seed: u64) -> [Vec<Corrupted<'_>>; 2] {
    let of = |documents, most| corruption::versions(documents, most, seed);
    [of(&split.train, most), of(&split.held_out, most.div_ceil(4))]
}

/// Reads a split's translations and their corrupted versions. `read` returns which of some translations could
/// be read; the others, or those whose version could not be read, are taken out of the split, and handed to
/// `left_out`.
///
/// # Errors
/// The errors of `read`.
pub fn read_split<E>(
    split: &mut Split,
    most_corrupted: usize,
    seed: u64,
    read: impl Fn(&[&Segment]) -> Result<Vec<bool>, E>,
    left_out: impl Fn(&[Segment]),
) -> Result<(), E> {
    loop {
        let versions = corrupted(split, most_corrupted, seed);
        let translations = usable(&split.train).chain(usable(&split.held_out));
        let translations = translations.map(|rated| (&rated.segment, &rated.segment));
        let versions = versions.iter().flatten().map(|one| (&one.rated.segment, &one.segment));
        let (originals, segments): (Vec<&Segment>, Vec<&Segment>) = translations.chain(versions).unzip();
        let is_read = read(&segments)?;
        let unread = originals.into_iter().zip(is_read).filter(|(_, is_read)| !is_read);
        let unread: Vec<Segment> = unread.map(|(original, _)| original.clone()).collect();
        if unread.is_empty() {
            return Ok(());
        }
        left_out(&unread);
        for document in split.train.iter_mut().chain(&mut split.held_out) {
            document.segments.retain(|rated| !unread.contains(&rated.segment));
        }
    }
}

fn usable(documents: &[Document]) -> impl Iterator<Item = &Rated> {
    documents.iter().flat_map(|document| &document.segments).filter(|rated| is_usable(rated))
}

/// Agreement of a fit with the raters of held-out documents, and the share of corrupted translations that it
/// finds worse.
///
/// # Errors
/// Readings that cannot be read.
pub fn figures(
    fit: &Fit,
    held_out: &[Document],
    corrupted: &[Corrupted<'_>],
    readings: &mut Readings,
    subject: &Subject<'_>,
) -> Result<Figures> {
    let mut of_pairs: BTreeMap<String, HeldOutAgreement> = BTreeMap::new();
    let mut verdict = |segment: &Segment| -> Result<Verdict> {
        let reading = readings.of(subject.prompts, segment)?;
        Ok(probe::verdict(fit, subject.weights, segment, &seen(fit, &reading, segment)))
    };
    for rated in usable(held_out).filter(|rated| rated.assessment.is_none()) {
        let of_pair = of_pairs.entry(probe::pair(&rated.segment)).or_default();
        of_pair.add(rated, &verdict(&rated.segment)?, subject.weights);
    }
    for one in corrupted {
        let (was, is) = (verdict(&one.rated.segment)?, verdict(&one.segment)?);
        of_pairs.entry(probe::pair(&one.segment)).or_default().add_corrupted(one.kind, was.score, is.score);
    }
    Ok(of_pairs.into_iter().map(|(pair, of_pair)| (pair, of_pair.figures())).collect())
}
