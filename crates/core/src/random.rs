//! `SplitMix64`: numbers that depend on seed and counter alone, so that draws are the same on every machine
//! and with any number of threads. Seeds are explicit. (`meta` has numpy's generator, whose draws it must
//! reproduce.)
//!
//! Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".

/// Increment of the state from one number to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number, so that neighbours have nothing in common.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The `counter`-th number after a seed; [`SplitMix`] draws those from 1 on.
#[inline]
pub fn at(seed: u64, counter: u64) -> u64 {
    mix(seed.wrapping_add(counter.wrapping_mul(STEP)))
}

/// A stream of numbers.
///
/// ```
/// use tribunal_core::random::{SplitMix, at};
/// // The first numbers of the reference implementation after the seed 1234567.
/// let mut random = SplitMix(1_234_567);
/// assert_eq!(random.draw(), 6_457_827_717_110_365_317);
/// assert_eq!(random.draw(), 3_203_168_211_198_807_973);
/// assert_eq!(at(1_234_567, 2), 3_203_168_211_198_807_973);
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// The next number as one below `n`, which is above 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }
}

/// Shuffles by Fisher and Yates: `draw` gives the number that moves the item at each place, from the last one
/// down.
pub fn shuffle<T>(items: &mut [T], mut draw: impl FnMut(u64) -> u64) {
    for i in (1..items.len()).rev() {
        items.swap(i, (draw(i as u64) % (i as u64 + 1)) as usize);
    }
}
