//! `RmsNorm` on a CPU against f64, against itself in other batches and threads, and against the CUDA kernel.

use candle_core::{DType, Device, Tensor};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

fn tensor(values: &[f32], shape: &[usize], dtype: DType) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

fn values(t: &Tensor) -> Vec<f32> {
    t.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

fn bits(t: &Tensor) -> Vec<u32> {
    values(t).into_iter().map(f32::to_bits).collect()
}

/// Numbers in [-2, 2), neither round nor ordered: those of `kernels/tests/rms_norm.cpp`.
fn noise(n: usize, mut seed: u32) -> Vec<f32> {
    std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((seed >> 8) as f32 / 16_777_216.0 - 0.5) * 4.0
    })
    .take(n)
    .collect()
}

fn reference(op: RmsNorm, x: &[f32], weight: &[f32]) -> Vec<f64> {
    let mut y = Vec::new();
    for row in x.chunks(weight.len()) {
        let squares: f64 = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        let root = (squares / row.len() as f64 + op.eps).sqrt();
        let plus = f64::from(u8::from(op.one_plus));
        y.extend(row.iter().zip(weight).map(|(&v, &w)| f64::from(v) / root * (plus + f64::from(w))));
    }
    y
}

/// Every pair of types at one shape stays within one rounding of the reference.
fn check(rows: usize, cols: usize, one_plus: bool) {
    let op = RmsNorm { eps: 1e-5, one_plus };
    for (x_type, weight_type, rounding) in [
        (DType::F32, DType::F32, 1e-6),
        (DType::BF16, DType::BF16, 1.0 / 256.0),
        (DType::BF16, DType::F32, 1.0 / 256.0),
    ] {
        let x = tensor(&noise(rows * cols, 1), &[rows, cols], x_type);
        let w = tensor(&noise(cols, 2), &[cols], weight_type);
        let y = op.apply(&x, &w).unwrap();
        assert_eq!((y.dtype(), y.dims()), (x_type, x.dims()));
        for (y, wanted) in values(&y).into_iter().zip(reference(op, &values(&x), &values(&w))) {
            let error = (f64::from(y) - wanted).abs();
            assert!(error <= rounding * wanted.abs().max(1e-2), "{y} for {wanted} at [{rows}, {cols}]");
        }
    }
}

#[test]
fn agrees_with_f64_at_many_shapes() {
    for cols in [1, 2, 31, 32, 33, 64, 100, 896, 2048, 5120] {
        for one_plus in [false, true] {
            check(3, cols, one_plus);
        }
    }
    check(300, 576, false); // enough rows for several threads
}

#[test]
fn a_row_of_equal_values_becomes_the_weight() {
    let x = tensor(&[-4.0; 64], &[1, 64], DType::F32);
    let w = noise(64, 3);
    let op = RmsNorm { eps: 0.0, one_plus: false };
    let y = values(&op.apply(&x, &tensor(&w, &[64], DType::F32)).unwrap());
    assert_eq!(y, w.iter().map(|w| -w).collect::<Vec<_>>());
}

#[test]
fn higher_ranks_and_strided_input_are_rows_too() {
    let op = RmsNorm { eps: 1e-6, one_plus: false };
    let w = tensor(&noise(48, 5), &[48], DType::F32);
    let x = tensor(&noise(2 * 5 * 48, 4), &[2, 5, 48], DType::F32);
    let turned = x.transpose(0, 1).unwrap();
    let y = op.apply(&turned, &w).unwrap();
    assert_eq!(y.dims(), [5, 2, 48]);
    assert_eq!(bits(&y.transpose(0, 1).unwrap()), bits(&op.apply(&x, &w).unwrap()));
    let part = x.narrow(1, 3, 2).unwrap();
    assert_eq!(
        bits(&op.apply(&part, &w).unwrap()),
        bits(&op.apply(&x, &w).unwrap().narrow(1, 3, 2).unwrap())
    );
}

#[test]
fn no_rows_are_no_error() {
    let (x, w) = (tensor(&[], &[0, 8], DType::F32), tensor(&noise(8, 1), &[8], DType::F32));
    assert_eq!(RmsNorm { eps: 1e-6, one_plus: false }.apply(&x, &w).unwrap().dims(), [0, 8]);
}

#[test]
fn shapes_and_types_that_do_not_fit_are_named() {
    let op = RmsNorm { eps: 1e-6, one_plus: false };
    let refused = |x: &Tensor, w: &Tensor| op.apply(x, w).unwrap_err().to_string();
    let x = tensor(&noise(12, 1), &[3, 4], DType::F32);
    let short = refused(&x, &tensor(&noise(3, 1), &[3], DType::F32));
    assert!(short.contains("`[3]`") && short.contains("`[3, 4]`"), "{short}");
    let types = refused(&x, &tensor(&noise(4, 1), &[4], DType::BF16));
    assert!(types.contains("`F32`") && types.contains("`BF16`"), "{types}");
}

#[test]
fn in_place_and_as_an_operation_are_the_same() {
    for cols in [1, 33, 128] {
        let (mut row, w) = (noise(cols, 7), noise(cols, 8));
        let x = tensor(&row, &[1, cols], DType::F32);
        let y = rms_norm(&x, &tensor(&w, &[cols], DType::F32), 1e-6).unwrap();
        normalise(&mut row, &w, 1e-6);
        assert_eq!(values(&y), row);
    }
}

proptest! {
    /// A row alone, in any batch and with any number of threads: the same bits.
    #[test]
    fn a_row_does_not_see_its_neighbours(
        rows in 1usize..70, cols in 1usize..700, seed: u32, threads in 1usize..5, half: bool,
    ) {
        let dtype = if half { DType::BF16 } else { DType::F32 };
        let op = RmsNorm { eps: 1e-6, one_plus: half };
        let x = tensor(&noise(rows * cols, seed), &[rows, cols], dtype);
        let w = tensor(&noise(cols, seed ^ 1), &[cols], DType::F32);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let batch = pool.install(|| op.apply(&x, &w)).unwrap();
        let row = seed as usize % rows;
        let alone = op.apply(&x.narrow(0, row, 1).unwrap(), &w).unwrap();
        prop_assert_eq!(bits(&alone), bits(&batch.narrow(0, row, 1).unwrap()));
    }
}

#[derive(Deserialize)]
struct Golden {
    eps: f64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    types: String,
    rows: usize,
    cols: usize,
    one_plus: u8,
    y: Vec<u32>,
}

fn named(dtype: &str) -> DType {
    match dtype {
        "f32" => DType::F32,
        "bf16" => DType::BF16,
        other => panic!("`{other}` is no type of the golden file"),
    }
}

/// The file is what the CUDA kernel's own source gives when it is run on the host.
#[test]
fn cpu_matches_the_kernel() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/rms_norm.json");
    let golden: Golden = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(golden.cases.len() >= 30);
    for case in &golden.cases {
        let (x_type, weight_type) = case.types.split_once(' ').unwrap();
        let (shape, n) = ([case.rows, case.cols], case.rows * case.cols);
        let op = RmsNorm { eps: golden.eps, one_plus: case.one_plus == 1 };
        let drawn = noise(n + case.cols, case.cols as u32);
        let x = tensor(&drawn[..n], &shape, named(x_type));
        let y = op.apply(&x, &tensor(&drawn[n..], &shape[1..], named(weight_type))).unwrap();
        let shift = if x_type == "bf16" { 16 } else { 0 };
        let wanted: Vec<u32> = case.y.iter().map(|b| b << shift).collect();
        assert_eq!(bits(&y), wanted, "{} {shape:?} one_plus {}", case.types, case.one_plus);
    }
}
