//! On this card, every kernel that can compute a product has the bits of the plain one, including those that
//! no model uses; a row alone has the bits of the row in a batch; and they are near the product of the
//! weights' values.

use half::{bf16, f16};
use tribunal_cuda::{
    Gpu,
    products::{Kind, TILES, Way},
};
use tribunal_engine::Device;
use tribunal_model::weights::{Format, values};

use super::gpu;

/// A number between -1 and 1 for each call.
struct Noise(u32);

impl Noise {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    fn number(&mut self) -> f32 {
        self.bits() as f32 / (1_u32 << 23) as f32 - 1.0
    }

    /// Blocks of a file with every code; their `f16` scales are a model's.
    fn rows(&mut self, format: Format, n: usize, k: usize) -> Vec<u8> {
        if format == Format::Bf16 {
            return (0..n * k).flat_map(|_| bf16::from_f32(self.number()).to_le_bytes()).collect();
        }
        let mut bytes: Vec<u8> = (0..n * format.row_bytes(k)).map(|_| self.bits() as u8).collect();
        let halves: &[usize] = match format {
            Format::Q4K | Format::Q4_1 | Format::Q5_1 | Format::Q5K => &[0, 2],
            Format::Q6K => &[208],
            _ => &[0],
        };
        for block in bytes.chunks_exact_mut(format.block_bytes()) {
            match format {
                Format::Mxfp4 => {
                    block[0] = 115 + block[0] % 8;
                    continue;
                }
                Format::F8E4M3 => {
                    block[..4].copy_from_slice(&(0.01 * self.number()).to_le_bytes());
                    continue;
                }
                _ => {}
            }
            for &at in halves {
                block[at..at + 2].copy_from_slice(&f16::from_f32(0.01 * self.number()).to_le_bytes());
            }
        }
        bytes
    }
}

/// The largest distance from the product in `f64`, in parts of the sum of absolute values.
fn worst(x: &[u16], weights: &[f32], k: usize, y: &[f32]) -> f64 {
    let n = weights.len() / k;
    let mut worst = 0.0_f64;
    for (output, row) in weights.chunks_exact(k).enumerate() {
        for (token, x) in x.chunks_exact(k).enumerate() {
            let products = x.iter().zip(row).map(|(x, w)| f64::from(bf16::from_bits(*x)) * f64::from(*w));
            let (sum, size) = products.fold((0.0, 0.0), |(sum, size), part| (sum + part, size + part.abs()));
            worst = worst.max((sum - f64::from(y[token * n + output])).abs() / size);
        }
    }
    worst
}

fn check(gpu: &Gpu, kind: Kind, format: Format, [m, n, k]: [usize; 3]) {
    let mut noise = Noise(7);
    let rows = noise.rows(format, n, k);
    let x: Vec<u16> = (0..m * k).map(|_| bf16::from_f32(noise.number()).to_bits()).collect();
    let is_rounded = matches!(Way::new(format, true), Way::Packed(of, _) if of == kind);
    let round = |value: f32| if is_rounded { bf16::from_f32(value).to_f32() } else { value };
    let weights: Vec<f32> = values(format, &rows).into_iter().map(round).collect();
    let laid_out = Way::new(format, true).laid_out(format, k, &rows);
    let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<u32>>();
    let all = gpu.products(kind, &x, &laid_out, [m, n, k]).unwrap();
    let of_kind = TILES.iter().filter(|tile| tile.kind == kind);
    let whole = of_kind.filter(|tile| all.iter().any(|(name, _)| *name == tile.whole)).count();
    assert!(whole >= 5, "{kind:?}: {whole} kernels");
    let (plain, expected) = &all[0];
    // A tensor core cuts each step's sum off at 2^-23 of its largest part; here are at most 144 steps.
    let apart = worst(&x, &weights, k, expected);
    assert!(apart < 2e-5, "{plain} [{m}, {n}, {k}] is {apart} apart");
    for (name, y) in &all {
        assert!(bits(y) == bits(expected), "{name} [{m}, {n}, {k}] has other bits than {plain}, on {gpu:?}");
    }
    let row = m / 2;
    for (name, y) in &gpu.products(kind, &x[row * k..(row + 1) * k], &laid_out, [1, n, k]).unwrap() {
        let alone = bits(y) == bits(&expected[row * n..(row + 1) * n]);
        assert!(alone, "{name} [1, {n}, {k}]: a row alone has other bits than in a batch, on {gpu:?}");
    }
}

#[test]
fn every_kernel_of_a_product_has_the_same_bits() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let [n, k] = [72, 2304];
    assert!(gpu.k_slice(n, k) < k, "more than one slice");
    for (kind, format) in [
        (Kind::Bf16, Format::Bf16),
        (Kind::Q8_0, Format::Q8_0),
        (Kind::Mxfp4, Format::Mxfp4),
        (Kind::Q4K, Format::Q4K),
        (Kind::Q6K, Format::Q6K),
        (Kind::Q4_1, Format::Q4_0),
        (Kind::Q4_1, Format::Q4_1),
        (Kind::Q5_1, Format::Q5_0),
        (Kind::Q5_1, Format::Q5_1),
        (Kind::Q5K, Format::Q5K),
        (Kind::U4, Format::U4),
        (Kind::F8, Format::F8E4M3),
        (Kind::RoundedQ8_0, Format::Q8_0),
        (Kind::RoundedMxfp4, Format::Mxfp4),
        (Kind::RoundedQ4K, Format::Q4K),
        (Kind::RoundedQ6K, Format::Q6K),
    ] {
        check(&gpu, kind, format, [35, n, k]);
    }
    check(&gpu, Kind::Bf16, Format::Bf16, [9, 33, 48]);
    check(&gpu, Kind::Q8_0, Format::Q8_0, [3, 20, 96]);
    check(&gpu, Kind::Mxfp4, Format::Mxfp4, [3, 20, 96]);
}
