//! The confidences of a validation set, and the thresholds at a percentile of them (Appendix D).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    HiMate,
    calibration::{Threshold, pair, percentile},
};
use crate::{
    Error, Panel, in_parallel,
    segment::{Segment, trained},
};

/// Confidences of the segments of a language pair.
#[derive(Clone, Debug, Default)]
pub struct Confidences {
    /// Segments with usable answers.
    pub segments: usize,
    /// Log-probabilities with the subtypes' paths.
    values: Vec<(String, f64)>,
    /// Short hashes of the sources of these segments.
    sources: BTreeSet<String>,
}

/// The confidences of some segments by language pair, `jobs` segments at a time; `failed` is called for
/// segments without usable answers.
pub fn measure(
    judge: &HiMate,
    panel: &Panel,
    segments: &[Segment],
    jobs: usize,
    mut failed: impl FnMut(&Segment, &Error),
) -> BTreeMap<String, Confidences> {
    let mut of_pairs: BTreeMap<String, Confidences> = BTreeMap::new();
    for some in segments.chunks(jobs.max(1)) {
        let measured = in_parallel(some, |_, segment| judge.confidences(&panel.fresh(), segment));
        for (segment, confidences) in some.iter().zip(measured) {
            let of_pair = of_pairs.entry(pair(segment)).or_default();
            match confidences {
                Ok(confidences) => {
                    of_pair.segments += 1;
                    of_pair.sources.extend(trained::short_hashes(&segment.source));
                    of_pair.values.extend(confidences);
                }
                Err(error) => failed(segment, &error),
            }
        }
    }
    of_pairs
}

impl Confidences {
    /// The threshold for all subtypes, then those of the subtypes that found errors, in order of their paths;
    /// empty without a confidence. `fitted` has the settings that they hold for, and the percentile.
    pub fn thresholds(&self, fitted: &Threshold) -> Vec<Threshold> {
        let mut of_subtypes: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (subtype, confidence) in &self.values {
            of_subtypes.entry("").or_default().push(*confidence);
            of_subtypes.entry(subtype).or_default().push(*confidence);
        }
        let threshold = |(subtype, values): (&str, Vec<f64>)| {
            Some(Threshold {
                subtype: subtype.into(),
                segments: self.segments,
                answers: values.len(),
                value: percentile(&values, fitted.percentile)?,
                // Once for the pair.
                sources: if subtype.is_empty() { self.sources.iter().cloned().collect() } else { Vec::new() },
                ..fitted.clone()
            })
        };
        of_subtypes.into_iter().filter_map(threshold).collect()
    }
}
