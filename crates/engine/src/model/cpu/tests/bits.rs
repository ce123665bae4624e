//! The same bits on every architecture: what each operation and each tiny model gives, as hashes that the portable tier
//! wrote on x86-64. Every tier of the machine at hand must give them.

use half::{bf16, f16};

use super::{BOTH, Format, Random, Tier, product};
use crate::model::cpu::attend::{Cached, Row, SPLIT, Scratch, attend};
use crate::model::cpu::lanes::Stored;
use crate::model::cpu::{Compute, activate, norm, softmax};
use crate::model::{BLOCK, Device, KvType, Part, Step, Weights};

/// FNV-1a over the bits of numbers.
fn hash(numbers: impl IntoIterator<Item = u32>) -> u64 {
    let bytes = numbers.into_iter().flat_map(u32::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn bits(numbers: &[f32]) -> impl Iterator<Item = u32> {
    numbers.iter().map(|x| x.to_bits())
}

/// Compares what each tier gives with what is known. A test that fails prints the whole list as it is on this machine.
#[track_caller]
fn check(known: &[(&str, u64)], on: impl Fn(Tier) -> Vec<(String, u64)>) {
    for tier in Tier::available() {
        let found = on(tier);
        let same = found.len() == known.len()
            && found.iter().zip(known).all(|((name, hash), known)| (name.as_str(), *hash) == *known);
        let lines: Vec<String> =
            found.iter().map(|(name, hash)| format!("    ({name:?}, {hash:#018x}),\n")).collect();
        assert!(same, "{} gives\n{}", tier.name(), lines.concat());
    }
}

#[test]
fn products() {
    let on = |tier: Tier| {
        let mut found = Vec::new();
        for format in Format::ALL {
            for activations in BOTH {
                let mut random = Random::new(23);
                let all = [1, 2, 4, 7, 16, 21].map(|m| {
                    let (weights, x) = (random.packed(format, 37, 768), random.rows(m, 768));
                    product(&weights, &x, activations, tier)
                });
                found.push((format!("{format:?} {activations:?}"), hash(all.into_iter().flatten())));
            }
        }
        found
    };
    check(PRODUCTS, on);
}

#[test]
fn operations_between_products() {
    let on = |tier: Tier| {
        let mut random = Random::new(29);
        // A whole number of vectors and a rest.
        let (x, y) = (random.rows(1, 1003), random.rows(1, 1003));
        let changed = |change: &dyn Fn(&mut [f32])| {
            let mut x = x.clone();
            change(&mut x);
            hash(bits(&x))
        };
        let peak = softmax::largest(tier, &x);
        let total = softmax::log_sum_exp(tier, &x).to_bits();
        vec![
            ("norm".into(), changed(&|x| norm::in_place(tier, x, &y, 1e-6))),
            ("silu".into(), changed(&|x| activate::silu_mul(tier, x, &y))),
            ("gelu".into(), changed(&|x| activate::gelu_mul(tier, x, &y))),
            ("exponentials".into(), hash(bits(&softmax::exponentials(tier, &x, peak, 0.7)))),
            ("largest".into(), hash([peak.to_bits()])),
            ("log-sum-exp".into(), hash([total as u32, (total >> 32) as u32])),
        ]
    };
    check(OPERATIONS, on);
}

/// Some rows that share blocks and one that shares none, with and without a window, under one query and several.
fn attended<S: Stored>(tier: Tier) -> u64 {
    const DIM: usize = 48;
    let mut random = Random::new(31);
    let n_blocks = 2 * SPLIT / BLOCK + 5;
    let mut stored = || -> Vec<S> {
        let n = n_blocks * 2 * BLOCK * DIM;
        random.rows(1, n).into_iter().map(|x| S::narrow(0.3 * x)).collect()
    };
    let (keys, values) = (stored(), stored());
    let blocks: Vec<u32> = (0..n_blocks as u32).collect();
    let others: Vec<u32> = blocks.iter().rev().copied().collect();
    let row = |position: usize, blocks| Row { position, blocks };
    let rows = [row(300, &blocks[..]), row(301, &blocks), row(511, &blocks), row(37, &others)];
    let mut all = Vec::new();
    for (group, window) in [(1, None), (1, Some(70)), (3, None), (7, Some(300))] {
        let cached = Cached { keys: &keys, values: &values, n_kv_heads: 2, head_dim: DIM, window };
        let queries = random.rows(rows.len() * group, DIM);
        let mut scratch = Scratch::default();
        scratch.queries.extend(queries.into_iter().map(|x| 0.1 * x));
        let mut out = vec![f32::NAN; rows.len() * group * DIM];
        attend(tier, cached, 1, &rows, &mut scratch, &mut out);
        all.extend(out);
    }
    hash(bits(&all))
}

#[test]
fn attention() {
    let on = |tier: Tier| {
        vec![
            ("f32".into(), attended::<f32>(tier)),
            ("f16".into(), attended::<f16>(tier)),
            ("bf16".into(), attended::<bf16>(tier)),
        ]
    };
    check(ATTENTION, on);
}

/// The logits of a tiny model at all positions of one sequence.
fn logits(name: &str, compute: Compute, kind: KvType) -> u64 {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny").join(name);
    let weights = Weights::open(&folder).unwrap();
    let mut model = Device::Cpu.load(&weights, compute).unwrap();
    let tokens: Vec<u32> = (0..90).map(|i| (i * 17 + i * i) % 300).collect();
    let blocks: Vec<u32> = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
    model.reserve(blocks.len(), kind).unwrap();
    let part = Part {
        tokens: &tokens,
        position: 0,
        blocks: &blocks,
        logits_from: 0,
        states_from: tokens.len(),
        adapter: None,
    };
    model.run(Step::new([part].into_iter(), Vec::new())).unwrap();
    hash(model.logits().unwrap().iter().flat_map(|row| bits(row).collect::<Vec<_>>()))
}

#[test]
fn tiny_models() {
    let on = |tier: Tier| {
        let mut found = Vec::new();
        for name in ["llama", "smollm2", "mistral", "qwen2", "qwen2-yarn", "qwen3", "gemma3"] {
            for (floats, kind) in
                [(None, KvType::F32), (Some(Format::F16), KvType::F16), (Some(Format::Bf16), KvType::Bf16)]
            {
                let compute = Compute { tier, floats, ..Compute::default() };
                found.push((format!("{name} {kind:?}"), logits(name, compute, kind)));
            }
        }
        found
    };
    check(MODELS, on);
}

const PRODUCTS: &[(&str, u64)] = &[];
const OPERATIONS: &[(&str, u64)] = &[];
const ATTENTION: &[(&str, u64)] = &[];
const MODELS: &[(&str, u64)] = &[];
