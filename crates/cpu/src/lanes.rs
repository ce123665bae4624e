//! Sixteen f32 lanes with one meaning on every instruction set: the same operations, fused where they say so,
//! in the same order, so that a kernel written over [`Lanes`] gives the same bits on AVX-512, AVX2, NEON and
//! plain Rust.

use half::{bf16, f16};

/// Lanes of one vector.
pub const WIDTH: usize = 16;

/// Sixteen floats. Every operation works lane by lane.
pub trait Lanes: Copy {
    fn splat(x: f32) -> Self;
    fn load(x: &[f32; WIDTH]) -> Self;
    fn store(self, out: &mut [f32; WIDTH]);
    fn load_f16(x: &[f16; WIDTH]) -> Self;
    #[must_use]
    fn add(self, other: Self) -> Self;
    #[must_use]
    fn sub(self, other: Self) -> Self;
    #[must_use]
    fn mul(self, other: Self) -> Self;
    #[must_use]
    fn div(self, other: Self) -> Self;
    /// `self * by + plus`, rounded once.
    #[must_use]
    fn mul_add(self, by: Self, plus: Self) -> Self;
    /// The larger; `other` where either is NaN, or both are zeros.
    #[must_use]
    fn max(self, other: Self) -> Self;
    /// The lane's bits, as an integer, shifted left by 23 and added to `self`'s bits: `self * 2^n` when the
    /// low bits of `shift` hold n.
    #[must_use]
    fn scale_exponent(self, shift: Self) -> Self;
    /// `self` where `test >= bound`, else 0.
    #[must_use]
    fn keep_at_least(self, test: Self, bound: Self) -> Self;

    /// Rows of activations, and queries, whose sums of sixteen lanes fit the registers beside their operands.
    const ROWS: usize = 4;
    /// True if the sums of that many rows with two vectors at once fit the registers.
    const MANY: bool = false;
    /// True if the product of bf16 pairs is one instruction. If it is not, pairs are multiplied as floats in
    /// the order in which they are added: of each pair the second first.
    const PAIRED: bool = false;
    /// Sixteen pairs of bf16.
    type Pairs: Copy;
    /// One pair of queries or weights: one word where products take pairs, else two floats.
    type Pair: Copy;
    fn load_pairs(x: &[[bf16; 2]; WIDTH]) -> Self::Pairs;
    /// The second halves of sixteen pairs, and the first ones.
    fn load_swapped(x: &[[bf16; 2]; WIDTH]) -> [Self; 2];
    fn pair(x: [bf16; 2]) -> Self::Pair;
    /// Words of f32 as the pairs in them.
    fn pairs(words: &[f32]) -> &[Self::Pair];
    fn pairs_mut(words: &mut [f32]) -> &mut [Self::Pair];
    fn splat_pair(x: Self::Pair) -> Self::Pairs;
    /// `self` plus the second product of each pair of pairs, then the first; each product is fused with its
    /// sum, which may take a subnormal number as zero.
    #[must_use]
    fn add_pairs(self, x: Self::Pairs, y: Self::Pairs) -> Self;
    /// Rounds lanes to the nearest bf16, to even; stores them as eight pairs and returns them. Of a NaN, the
    /// lower half is zero, as in the products of bf16.
    #[must_use]
    fn store_pairs(self, out: &mut [Self::Pair]) -> Self;
}

/// Operations of [`Lanes`] that are one function of registers: `$each` applies it to all of a vector.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! register_by_register {
    ($each:ident: $($name:ident($($other:ident),*) = $operation:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, $($other: Self),*) -> Self {
            $each!($operation, self $(, $other)*)
        }
    )*};
}

/// Pairs as operands of float products: their second halves, then their first ones.
macro_rules! pairs_as_floats {
    () => {
        type Pairs = [Self; 2];
        type Pair = [f32; 2];
        #[inline(always)]
        fn load_pairs(x: &[[bf16; 2]; WIDTH]) -> [Self; 2] {
            Self::load_swapped(x)
        }
        #[inline(always)]
        fn pair(x: [bf16; 2]) -> [f32; 2] {
            [widened(x[1]), widened(x[0])]
        }
        #[inline(always)]
        fn pairs(words: &[f32]) -> &[[f32; 2]] {
            words.as_chunks().0
        }
        #[inline(always)]
        fn pairs_mut(words: &mut [f32]) -> &mut [[f32; 2]] {
            words.as_chunks_mut().0
        }
        #[inline(always)]
        fn splat_pair(x: [f32; 2]) -> [Self; 2] {
            [Self::splat(x[0]), Self::splat(x[1])]
        }
        #[inline(always)]
        fn add_pairs(self, x: [Self; 2], y: [Self; 2]) -> Self {
            x[1].mul_add(y[1], x[0].mul_add(y[0], self))
        }
    };
}

/// Words of f32 that a pair takes.
#[must_use]
pub const fn pair_words<L: Lanes>() -> usize {
    if L::PAIRED { 1 } else { 2 }
}

/// A storage type of the KV cache, and its products with queries and weights: one by one in f32, or two
/// neighbours in one product of bf16 pairs.
pub trait Stored: Copy + Default + Send + Sync {
    /// The part of the cache for one lane of a product: a number, or a pair.
    type Cell: Copy;
    /// The part of queries and of weights for one lane of a product; they are stored in words of f32.
    type Unit<L: Lanes>: Copy;
    /// Numbers in a cell and in a unit; in the cache they lie side by side.
    const UNIT: usize;
    /// A register of units.
    type Units<L: Lanes>: Copy;
    fn narrow(x: f32) -> Self;
    /// A block's cells, a register of them at a time.
    fn cells(block: &[Self]) -> &[[Self::Cell; WIDTH]];
    /// Words for so many numbers.
    fn words<L: Lanes>(numbers: usize) -> usize;
    fn view<L: Lanes>(words: &[f32]) -> &[Self::Unit<L>];
    fn view_mut<L: Lanes>(words: &mut [f32]) -> &mut [Self::Unit<L>];
    /// Appends queries as units.
    fn units<L: Lanes>(queries: &[f32], out: &mut Vec<f32>);
    fn load<L: Lanes>(x: &[Self::Cell; WIDTH]) -> Self::Units<L>;
    /// A register of cells as vectors of floats, one for each number of a unit, in the order in which they
    /// are added.
    fn widen<L: Lanes>(x: &[Self::Cell; WIDTH], out: &mut [[f32; WIDTH]]);
    fn splat<L: Lanes>(x: Self::Unit<L>) -> Self::Units<L>;
    /// `sum` plus the products, lane by lane.
    fn add<L: Lanes>(sum: L, x: Self::Units<L>, y: Self::Units<L>) -> L;
    /// The softmax weights of sixteen keys, e to the power of `x`: stores them and returns the stored values.
    fn softmax<L: Lanes>(x: L, weights: &mut [Self::Unit<L>]) -> L;
}

/// Numbers that are multiplied one by one in f32.
macro_rules! one_by_one {
    ($stored:ty, $load:ident, $narrow:expr) => {
        impl Stored for $stored {
            type Cell = Self;
            type Unit<L: Lanes> = f32;
            const UNIT: usize = 1;
            type Units<L: Lanes> = L;
            #[inline(always)]
            fn narrow(x: f32) -> Self {
                $narrow(x)
            }
            #[inline(always)]
            fn cells(block: &[Self]) -> &[[Self; WIDTH]] {
                block.as_chunks().0
            }
            fn words<L: Lanes>(numbers: usize) -> usize {
                numbers
            }
            #[inline(always)]
            fn view<L: Lanes>(words: &[f32]) -> &[f32] {
                words
            }
            #[inline(always)]
            fn view_mut<L: Lanes>(words: &mut [f32]) -> &mut [f32] {
                words
            }
            fn units<L: Lanes>(queries: &[f32], out: &mut Vec<f32>) {
                out.extend_from_slice(queries);
            }
            #[inline(always)]
            fn load<L: Lanes>(x: &[Self; WIDTH]) -> L {
                L::$load(x)
            }
            #[inline(always)]
            fn widen<L: Lanes>(x: &[Self; WIDTH], out: &mut [[f32; WIDTH]]) {
                L::$load(x).store(&mut out[0]);
            }
            #[inline(always)]
            fn splat<L: Lanes>(x: f32) -> L {
                L::splat(x)
            }
            #[inline(always)]
            fn add<L: Lanes>(sum: L, x: L, y: L) -> L {
                x.mul_add(y, sum)
            }
            #[inline(always)]
            fn softmax<L: Lanes>(x: L, weights: &mut [f32]) -> L {
                let weight = exp(x);
                weight.store(weights.first_chunk_mut().expect("sixteen weights"));
                weight
            }
        }
    };
}

one_by_one!(f32, load, std::convert::identity);
one_by_one!(f16, load_f16, Self::from_f32);

/// Smaller numbers are zero in a cache of bf16 and in queries to it (2^-40), so that no product is subnormal.
const FLUSHED: f32 = 9.094_947e-13;

/// The exponent of the faintest softmax weight against a cache of bf16, relative to the split's heaviest.
const FAINTEST: f32 = -45.0;

impl Stored for bf16 {
    type Cell = [Self; 2];
    type Unit<L: Lanes> = L::Pair;
    const UNIT: usize = 2;
    type Units<L: Lanes> = L::Pairs;
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        nearest_bf16(if x.abs() < FLUSHED { 0.0 } else { x })
    }
    #[inline(always)]
    fn cells(block: &[Self]) -> &[[[Self; 2]; WIDTH]] {
        block.as_chunks().0.as_chunks().0
    }
    fn words<L: Lanes>(numbers: usize) -> usize {
        numbers / Self::UNIT * pair_words::<L>()
    }
    #[inline(always)]
    fn view<L: Lanes>(words: &[f32]) -> &[L::Pair] {
        L::pairs(words)
    }
    #[inline(always)]
    fn view_mut<L: Lanes>(words: &mut [f32]) -> &mut [L::Pair] {
        L::pairs_mut(words)
    }
    #[inline(always)]
    fn units<L: Lanes>(queries: &[f32], out: &mut Vec<f32>) {
        let first = out.len();
        out.resize(first + Self::words::<L>(queries.len()), 0.0);
        for (unit, &[one, two]) in L::pairs_mut(&mut out[first..]).iter_mut().zip(queries.as_chunks::<2>().0)
        {
            *unit = L::pair([Self::narrow(one), Self::narrow(two)]);
        }
    }
    #[inline(always)]
    fn load<L: Lanes>(x: &[[Self; 2]; WIDTH]) -> L::Pairs {
        L::load_pairs(x)
    }
    #[inline(always)]
    fn widen<L: Lanes>(x: &[[Self; 2]; WIDTH], out: &mut [[f32; WIDTH]]) {
        let [second, first] = L::load_swapped(x);
        second.store(&mut out[0]);
        first.store(&mut out[1]);
    }
    #[inline(always)]
    fn splat<L: Lanes>(x: L::Pair) -> L::Pairs {
        L::splat_pair(x)
    }
    #[inline(always)]
    fn add<L: Lanes>(sum: L, x: L::Pairs, y: L::Pairs) -> L {
        sum.add_pairs(x, y)
    }
    #[inline(always)]
    fn softmax<L: Lanes>(x: L, weights: &mut [L::Pair]) -> L {
        coarse_exp(x, FAINTEST).store_pairs(weights)
    }
}

/// A polynomial by Horner's rule, the highest coefficient first. The loop has an explicit counter: with an
/// array's own iterator it stays a loop in the machine code.
#[inline(always)]
pub fn polynomial<L: Lanes, const N: usize>(x: L, coefficients: [f32; N]) -> L {
    let mut sum = L::splat(coefficients[0]);
    let mut i = 1;
    while i < N {
        sum = sum.mul_add(x, L::splat(coefficients[i]));
        i += 1;
    }
    sum
}

/// e to the power of each lane; arguments are at most 0, those under -87 give 0, NaN gives NaN. Relative
/// error under 2e-7.
#[inline(always)]
pub fn exp<L: Lanes>(x: L) -> L {
    // 1.5 * 2^23: adding it rounds to a whole number, which is then in the low bits.
    let magic = L::splat(12_582_912.0);
    let shifted = x.mul_add(L::splat(std::f32::consts::LOG2_E), magic);
    let n = shifted.sub(magic);
    let r = n.mul_add(L::splat(-0.693_359_4), x);
    let r = n.mul_add(L::splat(2.121_944_4e-4), r);
    let p =
        polynomial(r, [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5]);
    let p = p.mul_add(r.mul(r), r).add(L::splat(1.0));
    power(p.scale_exponent(shifted), x, -87.0)
}

/// e to the power of each lane, for results that are rounded to bf16: relative error under 5e-5. Arguments
/// are at most 0; those under `least`, which is above -87, give 0; NaN gives NaN.
#[inline(always)]
pub fn coarse_exp<L: Lanes>(x: L, least: f32) -> L {
    let magic = L::splat(12_582_912.0);
    let log2_e = L::splat(std::f32::consts::LOG2_E);
    let shifted = x.mul_add(log2_e, magic);
    let n = shifted.sub(magic);
    let r = x.mul_add(log2_e, n.mul(L::splat(-1.0)));
    // Powers of ln 2 over factorials.
    let p = polynomial(r, [9.618_129e-3, 5.550_411e-2, 0.240_226_5, std::f32::consts::LN_2, 1.0]);
    power(p.scale_exponent(shifted), x, least)
}

/// `power`, which is e to the power of `x` from `least` on; 0 below. No power is less than an `x` that is at
/// most 0, so that the larger of both is the power, and NaN where `x` is.
#[inline(always)]
fn power<L: Lanes>(power: L, x: L, least: f32) -> L {
    power.keep_at_least(x, L::splat(least)).max(x)
}

/// 1 / (1 + e^-x) of each lane.
#[inline(always)]
pub fn sigmoid<L: Lanes>(x: L) -> L {
    let zero = L::splat(0.0);
    let e = exp(zero.sub(x).max(x).mul(L::splat(-1.0)));
    let above = L::splat(1.0).div(e.add(L::splat(1.0)));
    let below = e.mul(above);
    above.keep_at_least(x, zero).add(below.sub(below.keep_at_least(x, zero)))
}

/// `x = cap tanh(x / cap)`, accurate to about 1e-7 times the cap.
#[inline(always)]
pub fn softcap<L: Lanes>(x: &mut [f32], cap: f32) {
    let (chunks, tail) = x.as_chunks_mut::<WIDTH>();
    for lanes in chunks {
        capped(L::load(lanes), cap).store(lanes);
    }
    let mut last = [0.0; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    capped(L::load(&last), cap).store(&mut last);
    tail.copy_from_slice(&last[..tail.len()]);
}

/// tanh y is 2 sigmoid(2 y) - 1. Infinite scores have no order: x is added, times 0, so that they become NaN.
#[inline(always)]
fn capped<L: Lanes>(x: L, cap: f32) -> L {
    let both = sigmoid(x.div(L::splat(0.5 * cap)));
    x.mul_add(L::splat(0.0), both.mul(L::splat(2.0)).sub(L::splat(1.0)).mul(L::splat(cap)))
}

/// The sum of sixteen lanes, as a fixed tree.
#[inline(always)]
pub fn sum<L: Lanes>(x: L) -> f32 {
    fold(x, |a, b| a + b)
}

/// The largest of sixteen lanes.
#[inline(always)]
pub fn largest<L: Lanes>(x: L) -> f32 {
    fold(x, f32::max)
}

#[inline(always)]
fn fold<L: Lanes>(x: L, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; WIDTH];
    x.store(&mut lanes);
    let mut width = WIDTH / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = f(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Lanes in plain Rust.
#[derive(Clone, Copy)]
pub struct Portable([f32; WIDTH]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Lanes for Portable {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; WIDTH])
    }
    #[inline(always)]
    fn load(x: &[f32; WIDTH]) -> Self {
        Self(*x)
    }
    #[inline(always)]
    fn store(self, out: &mut [f32; WIDTH]) {
        *out = self.0;
    }
    #[inline(always)]
    fn load_f16(x: &[f16; WIDTH]) -> Self {
        Self(x.map(f16::to_f32))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, by: Self, plus: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(by.0[i], plus.0[i])))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn scale_exponent(self, shift: Self) -> Self {
        self.zip(shift, |a, s| f32::from_bits(a.to_bits().wrapping_add(s.to_bits() << 23)))
    }
    #[inline(always)]
    fn keep_at_least(self, test: Self, bound: Self) -> Self {
        Self(std::array::from_fn(|i| if test.0[i] >= bound.0[i] { self.0[i] } else { 0.0 }))
    }
    pairs_as_floats!();
    #[inline(always)]
    fn load_swapped(x: &[[bf16; 2]; WIDTH]) -> [Self; 2] {
        let halves = |half: usize| Self(x.map(|pair| widened(pair[half])));
        [halves(1), halves(0)]
    }
    #[inline(always)]
    fn store_pairs(self, out: &mut [[f32; 2]]) -> Self {
        let rounded = self.0.map(nearest_bf16);
        for (out, pair) in out.iter_mut().zip(rounded.as_chunks::<2>().0) {
            *out = Self::pair(*pair);
        }
        Self(rounded.map(widened))
    }
}

/// Rounds to nearest even, without a branch.
#[must_use]
#[inline(always)]
pub fn nearest_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    bf16::from_bits(if x.is_nan() { quiet } else { rounded } as u16)
}

#[inline(always)]
fn widened(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512, Avx512Floats};

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;
