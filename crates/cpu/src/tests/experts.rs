//! A row's output of a layer of experts has the same bits in any company, on every instruction set and with
//! any number of threads; and it is the weighted sum of its experts' outputs.

use super::{Activations, BOTH, Format, Isa, Packed, Random, on_threads, reference};
use crate::{
    Compute,
    experts::{Experts, How, Rows, Stack},
    routing::choose,
};
use tribunal_model::config::{Activation, Routing, Scoring};

const N: usize = 8;
const WIDTH: usize = 256;
const HIDDEN: usize = 256;

fn experts(random: &mut Random, format: Format, routing: Routing) -> Experts {
    let mut stack = |n, k| Stack { weights: random.packed(format, N * n, k), n, bias: Vec::new() };
    let (gate, up, down) = (stack(WIDTH, HIDDEN), stack(WIDTH, HIDDEN), stack(HIDDEN, WIDTH));
    let bias = if routing.has_bias { random.rows(1, N) } else { Vec::new() };
    let router = random.packed(Format::F32, N, HIDDEN);
    let (logit_bias, factors) = (Vec::new(), Vec::new());
    Experts { routing, router, bias, gate, up, down, shared: None, logit_bias, factors }
}

fn how(isa: Isa, activations: Activations) -> How {
    How { activation: Activation::Silu, compute: Compute { tier: isa, activations, floats: None } }
}

fn bits(experts: &Experts, x: &[f32], how: How) -> Vec<Vec<u32>> {
    let m = x.len() / HIDDEN;
    let out = experts.forward(Rows { x, m, router: x }, how);
    out.chunks(HIDDEN).map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
}

fn grouped(top_k: usize) -> Routing {
    let plain = Routing::softmax(top_k, true);
    Routing { scoring: Scoring::Sigmoid, has_bias: true, n_groups: 4, top_groups: 2, scale: 2.5, ..plain }
}

/// Compares all rows together with each row alone, on every instruction set.
fn check_rows(experts: &Experts, x: &[f32], activations: Activations) {
    let alone: Vec<Vec<u32>> = x
        .chunks(HIDDEN)
        .flat_map(|row| on_threads(1, || bits(experts, row, how(Isa::PORTABLE, activations))))
        .collect();
    for isa in Isa::available() {
        for threads in [1, 3] {
            let together = on_threads(threads, || bits(experts, x, how(isa, activations)));
            assert!(together == alone, "{isa:?} {activations:?}, {threads} threads");
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_any_company() {
    let mut random = Random::new(41);
    for format in Format::ALL {
        for routing in [Routing::softmax(3, true), grouped(3)] {
            let experts = experts(&mut random, format, routing);
            let x = random.rows(23, HIDDEN);
            for activations in BOTH {
                check_rows(&experts, &x, activations);
            }
        }
    }
}

/// A row whose logit for one expert is the largest by far.
fn row_for(experts: &Experts, expert: usize) -> Vec<f32> {
    let mut row = vec![0.0; HIDDEN];
    experts.router.dequantize_row(expert, &mut row);
    row
}

#[test]
fn all_rows_may_take_one_expert_or_each_another() {
    let mut random = Random::new(43);
    for format in [Format::Q4K, Format::Bf16] {
        let experts = experts(&mut random, format, Routing::softmax(1, false));
        let taken = |x: &[f32]| -> Vec<u32> {
            let input =
                crate::Input::new(x, x.len() / HIDDEN, HIDDEN, super::super::Coding::F32, Isa::detect());
            let logits = crate::gemm(&[&experts.router], &input).remove(0);
            logits.chunks(N).map(|row| choose(&experts.routing, row, &[], Isa::detect())[0].expert).collect()
        };
        let each: Vec<f32> = (0..N).flat_map(|expert| row_for(&experts, expert)).collect();
        assert_eq!(taken(&each), (0..N as u32).collect::<Vec<u32>>());
        check_rows(&experts, &each, Activations::Q8);
        let one: Vec<f32> = (0..40)
            .flat_map(|i| row_for(&experts, 5).into_iter().map(move |x| x * (1.0 + i as f32 / 64.0)))
            .collect();
        assert_eq!(taken(&one), [5; 40]);
        check_rows(&experts, &one, Activations::Q8);
    }
}

/// With a router of zeros every row takes the first experts.
#[test]
fn ties_are_the_same_in_any_company() {
    let mut random = Random::new(47);
    let mut experts = experts(&mut random, Format::Q8_0, Routing::softmax(3, true));
    experts.router = Packed::pack(Format::F32, N, HIDDEN, &vec![0; 4 * N * HIDDEN]).unwrap();
    check_rows(&experts, &random.rows(19, HIDDEN), Activations::Q8);
}

/// More pairs than are computed at a time.
#[test]
fn a_long_step_is_computed_in_groups_of_experts() {
    let mut random = Random::new(53);
    let experts = experts(&mut random, Format::Q4_0, Routing::softmax(4, true));
    let x = random.rows(700, HIDDEN);
    let all = bits(&experts, &x, how(Isa::detect(), Activations::Q8));
    for row in [0, 1, 350, 699] {
        let alone = bits(&experts, &x[row * HIDDEN..][..HIDDEN], how(Isa::detect(), Activations::Q8));
        assert!(all[row] == alone[0], "row {row}");
    }
}

#[test]
fn a_row_without_numbers_has_no_numbers_and_spoils_no_other() {
    let mut random = Random::new(59);
    for routing in [Routing::softmax(3, true), grouped(3)] {
        let experts = experts(&mut random, Format::Q4K, routing);
        let mut x = random.rows(5, HIDDEN);
        let before = bits(&experts, &x, how(Isa::detect(), Activations::Q8));
        x[2 * HIDDEN + 7] = f32::NAN;
        let after = bits(&experts, &x, how(Isa::detect(), Activations::Q8));
        for row in [0, 1, 3, 4] {
            assert!(before[row] == after[row], "row {row}");
        }
        assert!(after[2].iter().all(|&bits| f32::from_bits(bits).is_nan()));
    }
}

/// The formula in double precision, with the router's own choice.
#[test]
fn outputs_are_the_weighted_sums_of_the_experts() {
    let mut random = Random::new(61);
    for format in Format::ALL {
        let experts = experts(&mut random, format, Routing::softmax(2, true));
        let x = random.rows(3, HIDDEN);
        let found = experts.forward(Rows { x: &x, m: 3, router: &x }, how(Isa::detect(), Activations::Float));
        let logits = reference(&experts.router, &x, Activations::Float);
        let [gates, ups] =
            [&experts.gate, &experts.up].map(|s| reference(&s.weights, &x, Activations::Float));
        for row in 0..3 {
            let logits: Vec<f32> = logits[row * N..][..N].iter().map(|(sum, _)| *sum as f32).collect();
            let mut sums = vec![0.0; HIDDEN];
            for chosen in choose(&experts.routing, &logits, &[], Isa::PORTABLE) {
                let at = (row * N + chosen.expert as usize) * WIDTH;
                let gated: Vec<f32> = (at..at + WIDTH)
                    .map(|i| (gates[i].0 / (1.0 + (-gates[i].0).exp()) * ups[i].0) as f32)
                    .collect();
                let down = reference(&experts.down.weights, &gated, Activations::Float);
                let first = chosen.expert as usize * HIDDEN;
                for (sum, (y, _)) in sums.iter_mut().zip(&down[first..]) {
                    *sum += f64::from(chosen.weight) * y;
                }
            }
            let size = sums.iter().map(|y| y * y).sum::<f64>().sqrt();
            let apart: f64 =
                sums.iter().zip(&found[row * HIDDEN..]).map(|(a, b)| (a - f64::from(*b)).powi(2)).sum();
            assert!(apart.sqrt() <= 1e-4 * size, "{format:?}: {} of {size}", apart.sqrt());
        }
    }
}
