//! numpy's default generator: `SeedSequence` into PCG64 (XSL-RR 128/64), bit for bit. It is the only source
//! of randomness in this crate, and its seed is always given.
//!
//! Source: O'Neill, PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms, 2014;
//! numpy `bit_generator.pyx` and `pcg64.h`.

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// A stream of bits that equals `numpy.random.default_rng(seed)`.
///
/// ```
/// use tribunal_meta::pcg::Pcg64;
/// // numpy.random.default_rng(4).random(2, dtype=numpy.float32)
/// let mut random = Pcg64::new(4);
/// let first = [random.next_f32(), random.next_f32()];
/// assert_eq!(first, [0.726_442_75, 0.943_056_05]);
/// ```
#[derive(Clone, Debug)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    /// The high half of the last 64 bits, which the next 32-bit draw takes.
    half: Option<u32>,
}

impl Pcg64 {
    pub fn new(seed: u64) -> Self {
        let words = seed_sequence(seed);
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let increment = (wide(words[2], words[3]) << 1) | 1;
        let mut generator = Self { state: 0, increment, half: None };
        generator.step();
        generator.state = generator.state.wrapping_add(wide(words[0], words[1]));
        generator.step();
        generator
    }

    /// An independent stream for one unit of parallel work.
    pub fn stream(seed: u64, index: u64) -> Self {
        Self::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_add(1))
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = ((self.state >> 64) as u64) ^ (self.state as u64);
        folded.rotate_right((self.state >> 122) as u32)
    }

    pub fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let bits = self.next_u64();
        self.half = Some((bits >> 32) as u32);
        bits as u32
    }

    /// Uniform in [0, 1) with 24 bits.
    pub fn next_f32(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// Uniform in 0..n, without bias (Lemire's method).
    pub fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if (product as u64) >= n.wrapping_neg() % n {
                return (product >> 64) as usize;
            }
        }
    }

    /// Fisher-Yates, from the end.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_sequence(seed: u64) -> [u64; 4] {
    let entropy = [seed as u32, (seed >> 32) as u32];
    let used = if entropy[1] == 0 { 1 } else { 2 };
    let mut hash = 0x43b0_d7e5_u32;
    let mut hash_mix = |value: u32| {
        let mixed = value ^ hash;
        hash = hash.wrapping_mul(0x931e_8875);
        let mixed = mixed.wrapping_mul(hash);
        mixed ^ (mixed >> 16)
    };
    let mut pool = [0_u32; 4];
    for (slot, word) in pool.iter_mut().enumerate() {
        *word = hash_mix(if slot < used { entropy[slot] } else { 0 });
    }
    for from in 0..4 {
        for to in (0..4).filter(|to| *to != from) {
            let other = hash_mix(pool[from]);
            let mixed =
                0xca01_f9dd_u32.wrapping_mul(pool[to]).wrapping_sub(0x4973_f715_u32.wrapping_mul(other));
            pool[to] = mixed ^ (mixed >> 16);
        }
    }
    let mut hash = 0x8b51_f9dd_u32;
    let words: [u32; 8] = std::array::from_fn(|slot| {
        let mixed = pool[slot % 4] ^ hash;
        hash = hash.wrapping_mul(0x58f3_8ded);
        let mixed = mixed.wrapping_mul(hash);
        mixed ^ (mixed >> 16)
    });
    std::array::from_fn(|slot| u64::from(words[2 * slot]) | (u64::from(words[2 * slot + 1]) << 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bits_equal_numpy() {
        // numpy 2.4: default_rng(seed).integers(0, 2**64 - 1, 2, dtype=uint64, endpoint=True)
        let mut small = Pcg64::new(4);
        assert_eq!(
            [small.next_u64(), small.next_u64()],
            [17_396_314_626_642_683_726, 9_432_328_504_602_732_981]
        );
        let mut large = Pcg64::new((1 << 40) + 7);
        assert_eq!(
            [large.next_u64(), large.next_u64()],
            [15_307_346_044_642_009_514, 4_709_548_916_763_817_589]
        );
    }

    #[test]
    fn below_stays_below() {
        let mut random = Pcg64::new(1);
        let mut seen = [0_u32; 3];
        for _ in 0..3000 {
            seen[random.below(3)] += 1;
        }
        assert!(seen.iter().all(|count| (900..1100).contains(count)), "{seen:?}");
    }
}
