//! What is drawn by a seed, and from which pairs of languages. It depends on nothing but its arguments.

use crate::segment::Outline;

/// The languages of a segment: documents of other languages are other documents, whatever their name.
pub(super) fn languages(segment: &Outline<'_>) -> String {
    format!("{}-{}", segment.src_lang, segment.tgt_lang)
}

/// The Fisher-Yates shuffle, with a counter-based generator.
pub(super) fn shuffle<T>(items: &mut [T], seed: u64) {
    for i in (1..items.len()).rev() {
        let at = split_mix(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ i as u64) % (i as u64 + 1);
        items.swap(i, at as usize);
    }
}

/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
fn split_mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
