//! Packed weights against candle's own dequantisation of the same blocks.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};
use half::f16;

use crate::{Activations, Format, Isa, Packed};

const FORMATS: [(Format, GgmlDType); 8] = [
    (Format::Q8_0, GgmlDType::Q8_0),
    (Format::Q4_0, GgmlDType::Q4_0),
    (Format::Q4_1, GgmlDType::Q4_1),
    (Format::Q5_0, GgmlDType::Q5_0),
    (Format::Q5_1, GgmlDType::Q5_1),
    (Format::Q4K, GgmlDType::Q4K),
    (Format::Q5K, GgmlDType::Q5K),
    (Format::Q6K, GgmlDType::Q6K),
];

/// A seeded sequence of 32-bit numbers (xorshift).
fn random(state: &mut u64) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 32) as u32
}

/// Any bytes, with finite scales of both signs in their places.
fn blocks(format: Format, n: usize, k: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d;
    let mut bytes: Vec<u8> = (0..n * format.row_bytes(k)).map(|_| random(&mut state) as u8).collect();
    let places: &[usize] = match format {
        Format::Q6K => &[208],
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for &at in places {
            let scale = f16::from_f32((random(&mut state) % 2001) as f32 / 1e5 - 0.01);
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    bytes
}

fn candle(dtype: GgmlDType, n: usize, k: usize, bytes: &[u8]) -> Tensor {
    let storage = QStorage::from_data(Cow::Borrowed(bytes), &Device::Cpu, dtype).unwrap();
    QTensor::new(storage, (n, k)).unwrap().dequantize(&Device::Cpu).unwrap()
}

/// Formats that candle does not have, or computes in another order.
#[test]
fn rows_are_those_of_the_gguf_package() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/blocks.safetensors");
    let golden = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
    let formats =
        [("Q2_K", Format::Q2K), ("Q3_K", Format::Q3K), ("IQ4_NL", Format::Iq4Nl), ("IQ4_XS", Format::Iq4Xs)];
    for (name, format) in formats {
        let blocks: Vec<Vec<u8>> = golden[&format!("{name}.blocks")].to_vec2().unwrap();
        let values: Vec<Vec<f32>> = golden[&format!("{name}.values")].to_vec2().unwrap();
        let (n, k) = (values.len(), values[0].len());
        let packed = Packed::pack(format, n, k, &blocks.concat()).unwrap();
        for (i, values) in values.iter().enumerate() {
            let mut row = vec![0.0; k];
            packed.dequantize_row(i, &mut row);
            // To the bit, except for the sign of zeros, which all are positive here.
            let is_same = |(a, b): (&f32, &f32)| (a + 0.0).to_bits() == (b + 0.0).to_bits();
            assert!(row.iter().zip(values).all(is_same), "{name}, row {i}");
            let unpacked = tribunal_model::weights::values(format, &blocks[i]);
            assert!(unpacked.iter().zip(values).all(is_same), "{name}, row {i} from its blocks");
        }
    }
}

#[test]
fn rows_are_candles_to_the_bit() {
    for (format, dtype) in FORMATS {
        for (n, k) in [(5, 512), (33, 256), (2, 1792)] {
            let bytes = blocks(format, n, k);
            let packed = Packed::pack(format, n, k, &bytes).unwrap();
            let want: Vec<Vec<f32>> = candle(dtype, n, k, &bytes).to_vec2().unwrap();
            let mut got = vec![f32::NAN; k];
            for (i, want) in want.iter().enumerate() {
                packed.dequantize_row(i, &mut got);
                assert_eq!(&got, want, "{format:?} [{n}, {k}] row {i}");
                let row = &bytes[i * format.row_bytes(k)..][..format.row_bytes(k)];
                assert_eq!(&tribunal_model::weights::values(format, row), want, "{format:?} row {i}");
            }
        }
    }
}

#[test]
fn exact_products_are_those_of_candles_weights() {
    let (n, k, m) = (48, 1024, 5);
    let mut state = 99;
    let x: Vec<f32> = (0..m * k).map(|_| random(&mut state) as f32 / u32::MAX as f32 - 0.5).collect();
    let rows = Tensor::from_slice(&x, (m, k), &Device::Cpu).unwrap();
    for (format, dtype) in FORMATS {
        let bytes = blocks(format, n, k);
        let want = rows.matmul(&candle(dtype, n, k, &bytes).t().unwrap()).unwrap();
        let want: Vec<f32> = want.flatten_all().unwrap().to_vec1().unwrap();
        let size = want.iter().map(|x| x * x).sum::<f32>().sqrt();
        for (activations, tolerance) in [(Activations::Float, 1e-6), (Activations::Q8, 1e-2)] {
            let mut got = vec![f32::NAN; m * n];
            let packed = Packed::pack(format, n, k, &bytes).unwrap();
            packed.matmul(&x, m, &mut got, activations, Isa::detect());
            let error = got.iter().zip(&want).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt();
            assert!(error <= tolerance * size, "{format:?} {activations:?}: {} of the size", error / size);
        }
    }
}
