//! Contents of a test set, and how much of it is rated: numbers of segments, documents, groups of five
//! documents and translations. No text is read.
//!
//! Source: M-MAD, Table 11; RATE, Table 2; FSP, Table 2 and Appendix B.3.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Result;
use super::scores::Scores;
use super::slices::By;
use super::testset::TestSet;

/// Documents in a group of FSP's `5doc`.
const FIVE: usize = 5;

/// Contents of a test set, or of one domain of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// `None` for the whole test set.
    pub domain: Option<String>,
    pub segments: usize,
    pub documents: usize,
    /// All that have translations, references among them.
    pub systems: Vec<String>,
    /// One for each system and unit; the last group of a system may be of fewer than five documents.
    pub translated: Counts,
    /// Counts of what the raters scored: documents with any rated segment, and groups of exactly five of
    /// them, drawn across systems.
    pub rated: Counts,
    /// Segments with a rated translation.
    pub rated_segments: usize,
}

/// Units of three sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub segments: usize,
    pub documents: usize,
    pub five_documents: usize,
}

impl Contents {
    /// The whole test set, then its domains in order, where there are several.
    ///
    /// # Errors
    /// None but those of [`By::slices`].
    pub fn from_testset(testset: &TestSet, gold: &Scores) -> Result<Vec<Self>> {
        let all: Vec<usize> = (0..testset.n_segments()).collect();
        let mut rows = vec![Self::of_part(testset, gold, (None, &all))];
        let domains = By::Domain.slices(testset)?;
        if domains.len() > 1 {
            let parts = domains.iter();
            rows.extend(parts.map(|(name, segs)| Self::of_part(testset, gold, (Some(name), segs))));
        }
        Ok(rows)
    }

    fn of_part(testset: &TestSet, gold: &Scores, (domain, segs): (Option<&String>, &[usize])) -> Self {
        let docs_of = |segs: &[usize]| {
            segs.iter().map(|seg| testset.places[*seg].doc.as_str()).collect::<BTreeSet<_>>().len()
        };
        let (documents, n_systems) = (docs_of(segs), testset.systems.len());
        let mut rated = Counts::default();
        let mut rated_segments = BTreeSet::new();
        for column in gold.segments.iter().flat_map(|columns| columns.values()) {
            let is_rated = |seg: &usize| column.get(*seg).is_some_and(Option::is_some);
            let of_system: Vec<usize> = segs.iter().copied().filter(is_rated).collect();
            rated.segments += of_system.len();
            rated.documents += docs_of(&of_system);
            rated_segments.extend(of_system);
        }
        rated.five_documents = rated.documents / FIVE;
        Self {
            domain: domain.cloned(),
            segments: segs.len(),
            documents,
            systems: testset.systems.clone(),
            translated: Counts {
                segments: segs.len() * n_systems,
                documents: documents * n_systems,
                five_documents: documents.div_ceil(FIVE) * n_systems,
            },
            rated,
            rated_segments: rated_segments.len(),
        }
    }
}
