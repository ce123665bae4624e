//! Results are right and have the same bytes on every instruction set, in any batch and with any number of
//! threads.

use half::f16;
use proptest::prelude::*;
use tribunal_core::random::SplitMix;

mod bits;
mod candle;
mod experts;
mod numbers;
mod seeded;

use super::{Activations, Error, Format, Input, Isa, Job, Packed, coding, multiply, softmax};

const BOTH: [Activations; 2] = [Activations::Q8, Activations::Float];

/// Seeded, so that a failure can be repeated.
struct Random(SplitMix);

impl Random {
    fn new(seed: u64) -> Self {
        Self(SplitMix(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number in -1..1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Activations: mostly small, now and then an outlier.
    fn rows(&mut self, m: usize, k: usize) -> Vec<f32> {
        (0..m * k)
            .map(|_| if self.next().is_multiple_of(97) { 40.0 * self.unit() } else { self.unit() })
            .collect()
    }

    /// Any blocks of a format, all codes and all integer scales included; `f16` scales are plausible.
    fn blocks(&mut self, format: Format, n: usize, k: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..n * format.row_bytes(k)).map(|_| self.next() as u8).collect();
        let places: &[usize] = match format {
            Format::F32 | Format::Bf16 | Format::F16 | Format::F8E4M3 | Format::Mxfp4 => &[],
            Format::Q8_0 | Format::Q4_0 | Format::Q5_0 | Format::Iq4Nl | Format::Iq4Xs | Format::U4 => &[0],
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
            Format::Q6K => &[208],
            Format::Q3K => &[108],
            Format::Q2K => &[80, 82],
        };
        for block in bytes.chunks_exact_mut(format.block_bytes()) {
            match format {
                Format::F32 => block.copy_from_slice(&self.unit().to_le_bytes()),
                Format::Bf16 => block.copy_from_slice(&half::bf16::from_f32(self.unit()).to_le_bytes()),
                Format::F16 => block.copy_from_slice(&f16::from_f32(self.unit()).to_le_bytes()),
                Format::F8E4M3 => self.eight_bit_floats(block),
                Format::Mxfp4 => block[0] = 115 + (self.next() % 8) as u8,
                _ => places.iter().for_each(|&at| {
                    block[at..at + 2].copy_from_slice(&f16::from_f32(0.02 * self.unit()).to_le_bytes());
                }),
            }
        }
        bytes
    }

    /// A scale, and codes of which none is NaN.
    fn eight_bit_floats(&mut self, block: &mut [u8]) {
        block[..4].copy_from_slice(&(0.02 * self.unit()).to_le_bytes());
        block[4..].iter_mut().filter(|code| **code & 0x7f == 0x7f).for_each(|code| *code ^= 1);
    }

    fn packed(&mut self, format: Format, n: usize, k: usize) -> Packed {
        let bytes = self.blocks(format, n, k);
        Packed::pack(format, n, k, &bytes).unwrap()
    }
}

fn product(weights: &Packed, x: &[f32], activations: Activations, isa: Isa) -> Vec<u32> {
    let m = x.len() / weights.k();
    let mut out = vec![f32::NAN; m * weights.n()];
    weights.matmul(x, m, &mut out, activations, isa);
    out.into_iter().map(f32::to_bits).collect()
}

fn on_threads<T: Send>(n: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap().install(work)
}

/// The values that 8-bit activations represent, from the rule alone: symmetric, per 32, nearest even.
fn rounded(x: &[f32]) -> Vec<f64> {
    x.chunks(32)
        .flat_map(|block| {
            let largest = block.iter().fold(0f32, |largest, x| largest.max(x.abs()));
            let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
            block.iter().map(move |x| f64::from((x * inverse).round_ties_even()) * f64::from(largest / 127.0))
        })
        .collect()
}

/// The product in double precision, and the sum of its terms' magnitudes (the reference for rounding).
fn reference(weights: &Packed, x: &[f32], activations: Activations) -> Vec<(f64, f64)> {
    let k = weights.k();
    let coded: Vec<f64> = match (activations, weights.format()) {
        (Activations::Float, _) | (_, Format::F32 | Format::F16 | Format::F8E4M3 | Format::Q2K) => {
            x.iter().map(|&x| f64::from(x)).collect()
        }
        (_, Format::Bf16) => x.iter().map(|&x| half::bf16::from_f32(x).to_f64()).collect(),
        _ => rounded(x),
    };
    let mut row = vec![0.0; k];
    let mut out = vec![(0.0, 0.0); x.len() / k * weights.n()];
    for o in 0..weights.n() {
        weights.dequantize_row(o, &mut row);
        for (r, x) in coded.chunks(k).enumerate() {
            let terms = || x.iter().zip(&row).map(|(x, &w)| x * f64::from(w));
            out[r * weights.n() + o] = (terms().sum(), terms().map(f64::abs).sum());
        }
    }
    out
}

#[test]
fn products_are_those_of_the_dequantized_weights() {
    for format in Format::ALL {
        for (n, k, m) in [(16, 256, 1), (37, 512, 3), (1, 256, 17), (64, 1024, 9)] {
            let mut random = Random::new(n as u64);
            let (weights, x) = (random.packed(format, n, k), random.rows(m, k));
            for (activations, isa) in BOTH.into_iter().flat_map(|a| Isa::available().map(move |t| (a, t))) {
                let got = product(&weights, &x, activations, isa);
                for (got, (want, magnitude)) in got.into_iter().zip(reference(&weights, &x, activations)) {
                    let got = f64::from(f32::from_bits(got));
                    let close = (got - want).abs() <= 3e-6 * magnitude + 1e-30;
                    assert!(close, "{format:?} {activations:?} {isa:?} [{m}, {n}, {k}]: {got} for {want}");
                }
            }
        }
    }
}

#[test]
fn eight_bits_stay_near_exact_activations() {
    for format in Format::ALL {
        let mut random = Random::new(7);
        let (weights, x) = (random.packed(format, 64, 2048), random.rows(4, 2048));
        let [fast, exact] = BOTH.map(|mode| product(&weights, &x, mode, Isa::detect()));
        let pairs = || fast.iter().zip(&exact).map(|(&a, &b)| (f32::from_bits(a), f32::from_bits(b)));
        let error: f32 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
        let size: f32 = pairs().map(|(_, b)| b * b).sum();
        let relative = (error / size).sqrt();
        // One outlier of 40 in a block costs its neighbours most of their bits.
        assert!(relative < 0.02, "{format:?}: relative error {relative}");
    }
}

/// Instruction sets, threads, batch and position of a row: all must give the bits of the row alone.
fn check_invariance(format: Format, n: usize, k: usize, m: usize, seed: u64) {
    let mut random = Random::new(seed);
    let (weights, x) = (random.packed(format, n, k), random.rows(m, k));
    for activations in BOTH {
        let alone: Vec<u32> =
            x.chunks(k).flat_map(|row| product(&weights, row, activations, Isa::detect())).collect();
        for threads in [1, 2] {
            let batch = on_threads(threads, || product(&weights, &x, activations, Isa::detect()));
            assert!(batch == alone, "{format:?} {activations:?} [{m}, {n}, {k}] on {threads} threads");
        }
        for isa in Isa::available() {
            let batch = product(&weights, &x, activations, isa);
            assert!(batch == alone, "{format:?} {activations:?} [{m}, {n}, {k}] {isa:?}");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    for format in Format::ALL {
        let k = 3 * format.block().max(32);
        for m in [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 31, 33, 64] {
            check_invariance(format, 40, k, m, m as u64);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_shape_keeps_its_bits(format in 0..Format::ALL.len(), n in 1..70usize, blocks in 1..7usize, m in 1..40usize, seed: u64) {
        let format = Format::ALL[format];
        check_invariance(format, n, blocks * format.block().max(32), m, seed);
    }
}

#[test]
fn floats_take_any_k() {
    for format in [Format::F32, Format::F16, Format::Bf16] {
        for k in [1, 2, 3, 31, 257, 576] {
            check_invariance(format, 17, k, 5, k as u64);
        }
    }
}

#[test]
fn layers_that_share_an_input_give_what_each_gives_alone() {
    let mut random = Random::new(3);
    let formats = [Format::Q4K, Format::Q6K, Format::Q8_0, Format::Q5_0];
    let layers: Vec<Packed> =
        formats.into_iter().zip([48, 16, 100, 7]).map(|(f, n)| random.packed(f, n, 512)).collect();
    let x = random.rows(6, 512);
    let mut outs: Vec<Vec<f32>> = layers.iter().map(|layer| vec![f32::NAN; 6 * layer.n()]).collect();
    let isa = Isa::detect();
    let input = Input::new(&x, 6, 512, coding(Format::Q4K, Activations::Q8), isa);
    let mut jobs: Vec<Job> =
        layers.iter().zip(&mut outs).map(|(weights, out)| Job { weights, out }).collect();
    on_threads(2, || multiply(&mut jobs, &input));
    for (layer, out) in layers.iter().zip(outs) {
        let bits: Vec<u32> = out.into_iter().map(f32::to_bits).collect();
        assert!(bits == product(layer, &x, Activations::Q8, isa), "{:?}", layer.format());
    }
}

/// The largest codes, activations and integer scales: no instruction set may saturate or wrap.
#[test]
fn extremes_are_exact() {
    for format in Format::ALL.into_iter().filter(|format| format.block() > 1) {
        for (byte, value) in [(0xff, 1.0), (0xff, -1.0), (0x00, 1.0), (0x80, -1.0), (0x7f, 1.0), (0x80, 1.0)]
        {
            let (n, k) = (16, 512);
            let mut bytes = vec![byte; n * format.row_bytes(k)];
            let one = f16::ONE.to_le_bytes();
            for block in bytes.chunks_exact_mut(format.block_bytes()) {
                match format {
                    Format::Q6K => block[208..].copy_from_slice(&one),
                    Format::Q3K => block[108..].copy_from_slice(&one),
                    Format::Mxfp4 => block[0] = 128,
                    Format::Q2K => {
                        block[80..82].copy_from_slice(&one);
                        block[82..].copy_from_slice(&one);
                    }
                    Format::F8E4M3 => {
                        block[..4].copy_from_slice(&1f32.to_le_bytes());
                        block[4..].iter_mut().for_each(|code| *code &= !1);
                    }
                    Format::Q8_0
                    | Format::Q4_0
                    | Format::Q5_0
                    | Format::Iq4Nl
                    | Format::Iq4Xs
                    | Format::U4 => {
                        block[..2].copy_from_slice(&one);
                    }
                    _ => [block[..2].copy_from_slice(&one), block[2..4].copy_from_slice(&one)]
                        .into_iter()
                        .collect(),
                }
            }
            let weights = Packed::pack(format, n, k, &bytes).unwrap();
            let x = vec![127.0 * value; k];
            let (want, _) = reference(&weights, &x, Activations::Q8)[0];
            for isa in Isa::available() {
                let got = product(&weights, &x, Activations::Q8, isa);
                let exact =
                    got.iter().all(|&got| (f64::from(f32::from_bits(got)) - want).abs() <= 1e-6 * want.abs());
                assert!(
                    exact,
                    "{format:?} {isa:?} bytes {byte:#x} by {value}: {} for {want}",
                    f32::from_bits(got[0])
                );
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_so_in_its_row() {
    let mut random = Random::new(5);
    for format in Format::ALL {
        let weights = random.packed(format, 16, 256);
        let mut x = random.rows(3, 256);
        let clean = product(&weights, &x, Activations::Q8, Isa::detect());
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            x[256 + 40] = bad;
            for isa in Isa::available() {
                let got = product(&weights, &x, Activations::Q8, isa);
                assert!(
                    got[..16] == clean[..16] && got[32..] == clean[32..],
                    "{format:?} {isa:?}: a neighbour moved"
                );
                let row = &got[16..32];
                assert!(
                    row.iter().all(|&bits| !f32::from_bits(bits).is_finite()),
                    "{format:?} {isa:?} {bad}"
                );
            }
        }
    }
}

#[test]
fn tiny_and_zero_activations_are_zero() {
    let weights = Random::new(1).packed(Format::Q8_0, 16, 64);
    for value in [0.0, 1e-44] {
        let got = product(&weights, &[value; 64], Activations::Q8, Isa::detect());
        assert!(got.iter().all(|&bits| f32::from_bits(bits) == 0.0));
    }
}

#[test]
fn a_softcap_is_a_tanh_and_keeps_what_is_not_a_number() {
    let x: Vec<f32> = (-200..=200).map(|i| i as f32 * 0.7).collect();
    for isa in Isa::available() {
        let mut capped = x.clone();
        softmax::softcap(isa, &mut capped, 30.0);
        for (x, y) in x.iter().zip(&capped) {
            let expected = 30.0 * (f64::from(*x) / 30.0).tanh();
            assert!((f64::from(*y) - expected).abs() < 1e-5, "{isa:?}: {y} for {expected}");
        }
        let mut none = [1.0, f32::NAN];
        softmax::softcap(isa, &mut none, 30.0);
        assert!(none[0].is_finite() && none[1].is_nan(), "{isa:?}");
    }
}

#[test]
fn memory_is_that_of_the_file() {
    for format in Format::ALL {
        let packed = Random::new(1).packed(format, 128, 1024);
        let file = 128 * format.row_bytes(1024);
        let percent = match format {
            Format::Q3K => 133,
            Format::Iq4Xs => 108,
            // Scales of two bytes for one.
            Format::Mxfp4 => 106,
            _ => 105,
        };
        assert!(packed.bytes() * 100 <= file * percent, "{format:?}: {} bytes for {file}", packed.bytes());
    }
}

#[test]
fn shapes_that_cannot_be_are_named() {
    let check =
        |error: Result<Packed, Error>, message: &str| assert_eq!(error.unwrap_err().to_string(), message);
    check(
        Packed::pack(Format::Q4K, 1, 128, &[]),
        "rows of `128` values do not divide into `Q4K` blocks of `256`",
    );
    check(
        Packed::pack(Format::Q8_0, 2, 32, &[0; 67]),
        "`67` bytes for a `Q8_0` matrix [2, 32], which takes `68`",
    );
}

#[test]
fn empty_inputs_are_no_error() {
    let packed = Random::new(1).packed(Format::Q8_0, 16, 32);
    packed.matmul(&[], 0, &mut [], Activations::Q8, Isa::detect());
    let nothing = Packed::pack(Format::Q8_0, 0, 32, &[]).unwrap();
    nothing.matmul(&[1.0; 32], 1, &mut [], Activations::Q8, Isa::detect());
}

#[test]
fn every_half_is_widened_exactly() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let packed = Packed::pack(Format::F16, 1, 1 << 16, &bytes).unwrap();
    let mut row = vec![0.0; 1 << 16];
    packed.dequantize_row(0, &mut row);
    for (bits, got) in (0..=u16::MAX).zip(row) {
        let want = f16::from_bits(bits).to_f32();
        assert!(
            got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
            "{bits:#x}: {got} for {want}"
        );
    }
}

/// Longer than any stretch of `k` that the schedule takes at a time, with more rows than one group.
#[test]
fn long_rows_keep_their_bits() {
    for format in [Format::Q4K, Format::Q6K, Format::Bf16] {
        check_invariance(format, 17, 2560, 130, 11);
    }
}
