//! Where an answer's random numbers come from: the seed and the prompt, not the order of requests. It sees no logits.

/// Where a request's random numbers come from: the seed and the prompt, not the order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    #[must_use]
    pub fn new(seed: u64, prompt: &[u32]) -> Self {
        Self(prompt.iter().fold(mix(seed), |state, &id| mix(state ^ u64::from(id))))
    }

    /// A uniform number in 0..1 for the token at `index`, the same whenever it is asked for.
    #[must_use]
    pub fn uniform(self, index: usize) -> f64 {
        let bits = mix(self.0.wrapping_add((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The finaliser of `SplitMix64`.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniform_and_depend_on_seed_prompt_and_place() {
        let stream = Stream::new(7, &[1, 2]);
        let mean = (0..4000).map(|i| stream.uniform(i)).sum::<f64>() / 4000.0;
        assert!((mean - 0.5).abs() < 0.02, "the mean of 4000 numbers is {mean}");
        assert_eq!(stream.uniform(5).to_bits(), Stream::new(7, &[1, 2]).uniform(5).to_bits());
        for other in [Stream::new(8, &[1, 2]), Stream::new(7, &[2, 1])] {
            assert_ne!(stream.uniform(5).to_bits(), other.uniform(5).to_bits());
        }
    }
}
