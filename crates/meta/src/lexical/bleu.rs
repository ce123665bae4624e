//! BLEU from counts that add up over segments.

use super::ngrams;
use super::tokenize::Tokenizer;

const MAX_ORDER: usize = 4;

/// BLEU with sacreBLEU's defaults, but for the tokenizer.
#[derive(Clone, Copy, Debug)]
pub struct Bleu(pub Tokenizer);

/// N-gram counts and lengths of a segment; segments add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BleuCounts {
    matches: [u64; MAX_ORDER],
    totals: [u64; MAX_ORDER],
    hypothesis: u64,
    reference: u64,
}

impl Bleu {
    /// Score of one segment, with orders that the hypothesis is too short for left out. Range: 0 to 100.
    ///
    /// ```
    /// use tribunal_meta::lexical::{Bleu, Tokenizer};
    /// let bleu = Bleu(Tokenizer::V13a);
    /// assert!((bleu.sentence("the cat", "the cat") - 100.0).abs() < 1e-9);
    /// // One of two words, no pair of words: the second precision is smoothed to 1/2.
    /// assert!((bleu.sentence("the dog", "the cat") - 50.0).abs() < 1e-9);
    /// ```
    pub fn sentence(self, hypothesis: &str, reference: &str) -> f64 {
        self.count(hypothesis, reference).score(true)
    }

    /// Score of a system: counts are summed before precisions are taken.
    pub fn corpus<'a>(self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> f64 {
        let mut sum = BleuCounts::default();
        for (hypothesis, reference) in pairs {
            sum.add(&self.count(hypothesis, reference));
        }
        sum.score(false)
    }

    /// The counts of one segment.
    pub fn count(self, hypothesis: &str, reference: &str) -> BleuCounts {
        let (tokens, reference) = (self.0.tokens(hypothesis), self.0.tokens(reference));
        let lengths = [&tokens, &reference].map(|tokens| tokens.len() as u64);
        let mut counts =
            BleuCounts { hypothesis: lengths[0], reference: lengths[1], ..BleuCounts::default() };
        for order in 1..=MAX_ORDER {
            let reference_ngrams = ngrams(&reference, order);
            for (ngram, count) in ngrams(&tokens, order) {
                let limit = reference_ngrams.get(ngram).copied().unwrap_or(0);
                counts.matches[order - 1] += count.min(limit);
                counts.totals[order - 1] += count;
            }
        }
        counts
    }
}

impl BleuCounts {
    pub fn add(&mut self, other: &Self) {
        for order in 0..MAX_ORDER {
            self.matches[order] += other.matches[order];
            self.totals[order] += other.totals[order];
        }
        self.hypothesis += other.hypothesis;
        self.reference += other.reference;
    }

    /// BLEU with exponential smoothing. With `effective_order`, only orders that the hypothesis reaches
    /// count.
    fn score(&self, effective_order: bool) -> f64 {
        if self.matches.iter().all(|count| *count == 0) {
            return 0.0;
        }
        let mut precisions = [0.0; MAX_ORDER];
        let mut orders = MAX_ORDER;
        let mut smoothing = 1.0;
        for (order, precision) in precisions.iter_mut().enumerate() {
            let total = self.totals[order] as f64;
            if self.totals[order] == 0 {
                break;
            }
            if effective_order {
                orders = order + 1;
            }
            *precision = if self.matches[order] == 0 {
                smoothing *= 2.0;
                100.0 / (smoothing * total)
            } else {
                100.0 * self.matches[order] as f64 / total
            };
        }
        if precisions[..orders].contains(&0.0) {
            return 0.0;
        }
        let logs: f64 = precisions[..orders].iter().map(|p| p.ln()).sum();
        self.brevity_penalty() * (logs / orders as f64).exp()
    }

    fn brevity_penalty(&self) -> f64 {
        match self.hypothesis {
            0 => 0.0,
            hypothesis if hypothesis < self.reference => {
                (1.0 - self.reference as f64 / hypothesis as f64).exp()
            }
            _ => 1.0,
        }
    }
}
