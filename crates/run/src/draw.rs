//! Seeded shuffling, a function of its arguments alone.

use crate::{random, segment::Outline};

/// The languages of a segment: documents of other languages are other documents, whatever their name.
pub(crate) fn languages(segment: &Outline<'_>) -> String {
    format!("{}-{}", segment.src_lang, segment.tgt_lang)
}

/// Shuffles by a seed.
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    random::shuffle(items, |i| random::at(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ i, 1));
}
