//! Random numbers by seed and counter, independent of threads and history, so that resumed training has the
//! same draws.

use crate::random::{self, mix};

/// The `counter`-th number of a stream; streams of different names are different.
pub fn bits(seed: u64, stream: u64, counter: u64) -> u64 {
    random::at(mix(seed ^ mix(stream)), counter)
}

/// A number from 0 up to 1.
pub fn unit(seed: u64, stream: u64, counter: u64) -> f32 {
    (bits(seed, stream, counter) >> 40) as f32 / (1_u64 << 24) as f32
}

/// Shuffles by Fisher and Yates.
pub fn shuffle<T>(seed: u64, stream: u64, items: &mut [T]) {
    random::shuffle(items, |i| bits(seed, stream, i));
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
