//! Pairwise accuracy: the share of all pairs of systems that the metric ranks as the raters do. Pairs are not
//! filtered by significance, and nothing is rounded.

use serde::Serialize;

use super::align::AlignedSystems;
use super::correlation::Undefined;

/// Agreements and pairs, kept as counts so that they can be pooled over language pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    pub agree: u64,
    pub pairs: u64,
}

impl Agreement {
    /// Counts pairs whose difference has the same sign on both sides; a tie agrees only with a tie.
    ///
    /// Source: Kocmi et al., To Ship or Not to Ship, 2021; mt-metrics-eval `stats.Agreement`.
    ///
    /// ```
    /// use tribunal_meta::agreement::Agreement;
    /// // Pairs (1,2), (1,3) agree; 2 and 3 are tied for the metric only.
    /// let agreement = Agreement::new(&[1.0, 2.0, 3.0], &[0.1, 0.5, 0.5]);
    /// assert_eq!((agreement.agree, agreement.pairs), (2, 3));
    /// ```
    pub fn new(gold: &[f64], metric: &[f64]) -> Self {
        let mut agreement = Self::default();
        for i in 0..gold.len() {
            for j in i + 1..gold.len() {
                agreement.pairs += 1;
                let same = sign(gold[i] - gold[j]) == sign(metric[i] - metric[j]);
                agreement.agree += u64::from(same);
            }
        }
        agreement
    }

    /// [`Agreement::new`] on aligned systems.
    pub fn from_systems(systems: &AlignedSystems) -> Self {
        Self::new(&systems.gold, &systems.metric)
    }

    /// All agreements over all pairs, pooled: not the mean of the language pairs' accuracies.
    ///
    /// # Errors
    /// There is no pair.
    pub fn pooled(parts: impl IntoIterator<Item = Self>) -> Result<f64, Undefined> {
        let (agree, pairs) =
            parts.into_iter().fold((0, 0), |sum, part| (sum.0 + part.agree, sum.1 + part.pairs));
        if pairs == 0 { Err(Undefined::NoPair) } else { Ok(agree as f64 / pairs as f64) }
    }
}

fn sign(difference: f64) -> i8 {
    i8::from(difference > 0.0) - i8::from(difference < 0.0)
}
