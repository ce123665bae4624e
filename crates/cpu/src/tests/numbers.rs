//! NaN stays NaN through every operation between products, on every instruction set, and affects no
//! neighbour.

use half::{bf16, f16};

use super::{Isa, Random};
use crate::attend::{Cached, Row, SPLIT, Scratch, attend, key_at, value_at};
use crate::lanes::Stored;
use crate::{activate, norm, routing, softmax};
use tribunal_model::BLOCK;
use tribunal_model::{
    backend::{Pointwise, Xielu},
    config::Activation,
};

/// A quiet NaN, the one that x86 makes, and one with every bit of the payload.
const NANS: [u32; 3] = [0x7fc0_0000, 0xffc0_0000, 0x7fff_ffff];

const XIELU: Xielu = Xielu { positive: 0.9, negative: 1.3, beta: 0.5, eps: -1e-6 };

/// An operation on a row in place.
type Operation = Box<dyn Fn(Isa, &mut [f32])>;

/// Operations on each number of a row.
fn lane_by_lane(other: &[f32]) -> [(&'static str, Operation); 11] {
    let gated = |activation: Activation| -> Operation {
        let up = other.to_vec();
        Box::new(move |isa, x| activate::apply(activation, isa, x, &up))
    };
    // The other factor is NaN.
    let up: Operation = {
        let gate = other.to_vec();
        Box::new(move |isa, x| {
            let mut gate = gate.clone();
            activate::silu_mul(isa, &mut gate, x);
            x.copy_from_slice(&gate);
        })
    };
    let of_gate = other.to_vec();
    [
        ("silu", Box::new(activate::silu)),
        ("silu_mul", gated(Activation::Silu)),
        ("gelu_mul", gated(Activation::GeluTanh)),
        ("clamped", gated(Activation::ClampedSilu { alpha: 1.702, limit: 7.0 })),
        ("xielu", Box::new(|isa, x| activate::pointwise(Pointwise::Xielu(XIELU), isa, x))),
        ("gelu", Box::new(|isa, x| activate::pointwise(Pointwise::Gelu, isa, x))),
        ("up", up),
        ("logistic_mul", Box::new(move |isa, x| activate::logistic_mul(isa, x, &of_gate))),
        ("logistic", Box::new(routing::logistic)),
        ("softcap", Box::new(|isa, x| softmax::softcap(isa, x, 30.0))),
        ("exponentials", Box::new(|isa, x| x.copy_from_slice(&softmax::exponentials(isa, x, 5.0, 0.7)))),
    ]
}

#[test]
fn xielu_is_its_formula_on_every_instruction_set() {
    let x: Vec<f32> = (-200..=200).map(|i| i as f32 * 0.05).chain([-1e-7, 1e-7, -80.0, 80.0]).collect();
    let Xielu { positive, negative, beta, eps } = XIELU;
    let [positive, negative, beta, eps] = [positive, negative, beta, eps].map(f64::from);
    for isa in Isa::available() {
        let mut ours = x.clone();
        activate::pointwise(Pointwise::Xielu(XIELU), isa, &mut ours);
        for (&x, &ours) in x.iter().zip(&ours) {
            let x = f64::from(x);
            let curved = if x > 0.0 { positive * x * x } else { negative * (x.min(eps).exp_m1() - x) };
            let expected = curved + beta * x;
            let error = (f64::from(ours) - expected).abs();
            assert!(error <= 3e-7 * expected.abs().max(1.0), "{isa:?}: {ours} for {expected} at {x}");
        }
    }
}

/// Against Simpson's rule over the normal distribution's density.
#[test]
fn gelu_is_its_formula_on_every_instruction_set() {
    let kept = |x: f64| {
        let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let (n, width) = (2000, x / 2000.0);
        let weight = |i: i32| if i == 0 || i == n { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
        0.5 + (0..=n).map(|i| weight(i) * density(f64::from(i) * width)).sum::<f64>() * width / 3.0
    };
    let x: Vec<f32> = (-240..=240).map(|i| i as f32 * 0.05).chain([-1e-7, 1e-7, -80.0, 80.0]).collect();
    for isa in Isa::available() {
        let mut ours = x.clone();
        activate::pointwise(Pointwise::Gelu, isa, &mut ours);
        for (&x, &ours) in x.iter().zip(&ours) {
            let expected = f64::from(x) * kept(f64::from(x));
            let error = (f64::from(ours) - expected).abs();
            assert!(error <= 3e-7 * expected.abs().max(1.0), "{isa:?}: {ours} for {expected} at {x}");
        }
    }
}

#[test]
fn a_nan_stays_one_and_moves_no_neighbour() {
    let (x, other) = (Random::new(3).rows(1, 37), Random::new(4).rows(1, 37));
    for isa in Isa::available() {
        for (name, operation) in lane_by_lane(&other) {
            let run = |mut x: Vec<f32>| {
                operation(isa, &mut x);
                x
            };
            let clean = run(x.clone());
            for (nan, at) in NANS.into_iter().flat_map(|nan| [(nan, 5), (nan, 36)]) {
                let mut with = x.clone();
                with[at] = f32::from_bits(nan);
                for (i, (got, clean)) in run(with).iter().zip(&clean).enumerate() {
                    let right = if i == at { got.is_nan() } else { got.to_bits() == clean.to_bits() };
                    assert!(right, "{name} of {nan:#x} at {at} by {}: {got} at {i}", isa.name());
                }
            }
        }
    }
}

#[test]
fn a_nan_is_in_every_sum_of_its_row() {
    for (isa, nan) in Isa::available().flat_map(|isa| NANS.map(|nan| (isa, nan))) {
        let mut x = Random::new(6).rows(1, 37);
        x[20] = f32::from_bits(nan);
        assert!(softmax::log_sum_exp(isa, &x).is_nan(), "{}", isa.name());
        for normed in [
            |isa: Isa, x: &mut [f32]| norm::in_place(isa, x, &[1.0; 37], 1e-6),
            |isa: Isa, x: &mut [f32]| norm::unit(isa, x, 1e-6, 1.0),
        ] {
            let mut x = x.clone();
            normed(isa, &mut x);
            assert!(x.iter().all(|x| x.is_nan()), "{}: {x:?}", isa.name());
        }
    }
}

/// Attention of two queries of one sequence, with NaN in a query, in a key, in all keys or in a sink; first
/// without NaN, then with the heads whose outputs are NaN.
fn attended<S: Stored>(isa: Isa) {
    const DIM: usize = 16;
    const GROUP: usize = 2;
    let mut random = Random::new(31);
    let n_blocks = SPLIT / BLOCK + 2;
    let keys: Vec<S> = random.rows(1, n_blocks * BLOCK * DIM).into_iter().map(S::narrow).collect();
    let blocks: Vec<u32> = (0..n_blocks as u32).collect();
    let rows = [7, SPLIT + 9].map(|position| Row { position, blocks: &blocks });
    let queries = random.rows(rows.len() * GROUP, DIM);
    let run = |keys: &[S], queries: &[f32], sinks: Option<&[f32]>, softcap| {
        let cached = Cached {
            keys,
            values: keys,
            n_kv_heads: 1,
            head_dim: DIM,
            value_dim: DIM,
            window: None,
            softcap,
            sinks,
        };
        let mut scratch = Scratch::default();
        scratch.queries.extend(queries);
        let mut out = vec![0.0; queries.len()];
        attend(isa, cached, 0, &rows, &mut scratch, &mut out);
        let of_heads =
            out.chunks(DIM).map(|head| (head.iter().all(|x| x.is_nan()), head.iter().any(|x| x.is_nan())));
        of_heads.map(|(all, any)| if all == any { all } else { panic!("half a head") }).collect::<Vec<_>>()
    };
    let nan = f32::from_bits(NANS[0]);
    for (sinks, softcap) in
        [(None, None), (Some(&[0.5, 1.5][..]), None), (None, Some(20.0)), (Some(&[0.5; 2][..]), Some(20.0))]
    {
        let name = format!("{}, sinks {sinks:?}, softcap {softcap:?}", isa.name());
        assert_eq!(run(&keys, &queries, sinks, softcap), [false; 4], "{name}");
        for nan in NANS.map(f32::from_bits) {
            let mut of_query = queries.clone();
            of_query[DIM + 3] = nan;
            assert_eq!(run(&keys, &of_query, sinks, softcap), [false, true, false, false], "{name}");
        }
        let mut of_key = keys.clone();
        of_key[(SPLIT / BLOCK) * BLOCK * DIM + key_at::<S>(4, 3)] = S::narrow(nan);
        assert_eq!(run(&of_key, &queries, sinks, softcap), [false, false, true, true], "{name}");
        assert_eq!(run(&vec![S::narrow(nan); keys.len()], &queries, sinks, softcap), [true; 4], "{name}");
    }
    assert_eq!(
        run(&keys, &queries, Some(&[0.5, nan][..]), None),
        [false, true, false, true],
        "{}",
        isa.name()
    );
}

#[test]
fn attention_to_a_nan_is_one() {
    for isa in Isa::available() {
        attended::<f32>(isa);
        attended::<f16>(isa);
        attended::<bf16>(isa);
    }
}

/// Attention whose values are the first dimensions of its keys, and attention with a copy of them as values.
fn attended_keys<S: Stored>(isa: Isa) {
    const DIM: usize = 48;
    const VALUE_DIM: usize = 32;
    let mut random = Random::new(37);
    let n_blocks = SPLIT / BLOCK + 3;
    let (mut keys, mut values) =
        (vec![S::default(); n_blocks * BLOCK * DIM], vec![S::default(); n_blocks * BLOCK * DIM]);
    for (i, row) in random.rows(n_blocks * BLOCK, DIM).chunks(DIM).enumerate() {
        let first = i / BLOCK * BLOCK * DIM;
        for (d, &x) in row.iter().enumerate() {
            keys[first + key_at::<S>(i % BLOCK, d)] = S::narrow(x);
            values[first + value_at::<S>(i % BLOCK, d, DIM)] = S::narrow(x);
        }
    }
    let blocks: Vec<u32> = (0..n_blocks as u32).rev().collect();
    let rows = [7, SPLIT + 8, SPLIT + 9, SPLIT + 44].map(|position| Row { position, blocks: &blocks });
    for group in [1, 3, 16] {
        let queries: Vec<f32> = random.rows(rows.len() * group, DIM).iter().map(|x| 0.1 * x).collect();
        let run = |values: &[S], value_dim: usize| {
            let (keys, sinks, window, softcap) = (&keys[..], None, None, None);
            let cached =
                Cached { keys, values, n_kv_heads: 1, head_dim: DIM, value_dim, window, softcap, sinks };
            let mut scratch = Scratch::default();
            scratch.queries.extend(&queries);
            let mut out = vec![0.0; rows.len() * group * value_dim];
            attend(isa, cached, 0, &rows, &mut scratch, &mut out);
            out
        };
        let (copied, shared) = (run(&values, DIM), run(&[], VALUE_DIM));
        for (copied, shared) in copied.chunks(DIM).zip(shared.chunks(VALUE_DIM)) {
            assert_eq!(copied[..VALUE_DIM], *shared, "{}, {group} heads", isa.name());
        }
    }
}

#[test]
fn values_may_be_dimensions_of_the_keys() {
    for isa in Isa::available() {
        attended_keys::<f32>(isa);
        attended_keys::<f16>(isa);
        attended_keys::<bf16>(isa);
    }
}
