//! Lexical baselines, BLEU and chrF, equal to sacreBLEU's. They measure surface overlap and serve as
//! baselines.
//!
//! Source: sacreBLEU 2.6 `metrics/bleu.py`, `metrics/chrf.py`; Post, A Call for Clarity in Reporting BLEU
//! Scores, 2018; Popović, chrF, 2015.

pub mod baseline;
pub mod bleu;
pub mod chrf;
pub mod tokenize;

pub use bleu::{Bleu, BleuCounts};
pub use chrf::{Chrf, ChrfCounts};
pub use tokenize::Tokenizer;

use std::collections::HashMap;
use std::hash::Hash;

/// Number of occurrences of each n-gram.
fn ngrams<T: Eq + Hash>(items: &[T], order: usize) -> HashMap<&[T], u64> {
    let mut counts = HashMap::new();
    for window in items.windows(order) {
        *counts.entry(window).or_insert(0) += 1;
    }
    counts
}
