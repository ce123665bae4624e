//! Numbers drawn by seed and counter: what is drawn depends on neither threads nor the past, so that training that was
//! killed goes on with the same draws.
//!
//! Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".

/// The `counter`-th number of a stream; streams of different names are different.
#[must_use]
pub fn bits(seed: u64, stream: u64, counter: u64) -> u64 {
    mixed(mixed(seed ^ mixed(stream)).wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number from 0 up to 1.
#[must_use]
pub fn unit(seed: u64, stream: u64, counter: u64) -> f32 {
    (bits(seed, stream, counter) >> 40) as f32 / (1_u64 << 24) as f32
}

/// Shuffles by Fisher and Yates.
pub fn shuffle<T>(seed: u64, stream: u64, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        let at = bits(seed, stream, i as u64) % (i as u64 + 1);
        items.swap(i, at as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_depend_on_seed_and_stream() {
        let mean = |seed, stream| (0..10_000).map(|i| unit(seed, stream, i)).sum::<f32>() / 10_000.0;
        assert!((mean(1, 2) - 0.5).abs() < 0.01, "{}", mean(1, 2));
        assert_ne!(bits(1, 2, 3), bits(1, 3, 3));
        assert_ne!(bits(1, 2, 3), bits(2, 2, 3));
        let mut items: Vec<usize> = (0..50).collect();
        shuffle(7, 0, &mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
