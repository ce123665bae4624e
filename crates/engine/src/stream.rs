//! An answer's stream of random numbers, a function of seed and prompt, not of the order of requests.

use tribunal_core::random;

/// A stream of random numbers, a function of seed and prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: u64, prompt: &[u32]) -> Self {
        Self(prompt.iter().fold(random::mix(seed), |state, &id| random::mix(state ^ u64::from(id))))
    }

    /// A uniform number in 0..1 for the token at `index`, the same at every call.
    pub fn uniform(self, index: usize) -> f64 {
        let bits = random::at(self.0, index as u64 + 1);
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
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
