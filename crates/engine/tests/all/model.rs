//! The decoder against logits that transformers computed, and against itself in other company.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::Device;
use tribunal_model::{BLOCK, KvType, Model, Part, Step, Weights};

pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder of a tiny model.
pub fn tiny(name: &str) -> PathBuf {
    root().join("models/tiny").join(name)
}

/// A tiny model on a device.
pub fn load_on(device: &Device, name: &str) -> Box<dyn Model> {
    let weights = Weights::open(&tiny(name)).expect("a tiny model opens");
    device.load(&weights, Compute::default()).expect("a tiny model loads")
}

pub fn load(name: &str) -> Box<dyn Model> {
    load_on(&Device::Cpu, name)
}

/// One sequence of the goldens: ids and logits at every position.
pub struct Golden {
    pub ids: Vec<u32>,
    pub logits: Vec<Vec<f32>>,
}

pub fn goldens(name: &str) -> Vec<Golden> {
    goldens_of("models", name)
}

/// The goldens of a model in a given folder.
pub fn goldens_of(folder: &str, name: &str) -> Vec<Golden> {
    let file = |kind: &str| root().join(format!("tests/golden/{folder}/{name}.{kind}"));
    let text = std::fs::read_to_string(file("json")).expect("the golden's ids");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let sequences: Vec<Vec<u32>> = serde_json::from_value(json["sequences"].clone()).expect("ids");
    let tensors = candle_core::safetensors::load(Path::new(&file("safetensors")), &candle_core::Device::Cpu)
        .expect("logits");
    let golden = |(i, ids): (usize, Vec<u32>)| Golden {
        logits: tensors[&i.to_string()].to_vec2().expect("two dimensions"),
        ids,
    };
    sequences.into_iter().enumerate().map(golden).collect()
}

/// Sequences that are fed to a decoder in steps, each with its own blocks, dealt out in an odd order.
pub struct Desk<'a> {
    model: &'a mut dyn Model,
    sequences: Vec<Vec<u32>>,
    pub done: Vec<usize>,
    /// The adapter of each sequence.
    pub adapters: Vec<Option<u32>>,
    blocks: Vec<Vec<u32>>,
    /// The slot of the first sequence's recurrent state; the others' come before it.
    states: Option<u32>,
}

impl<'a> Desk<'a> {
    pub fn new(model: &'a mut dyn Model, sequences: &[Vec<u32>], kind: KvType) -> Self {
        let needed: Vec<usize> = sequences.iter().map(|s| s.len().div_ceil(BLOCK)).collect();
        let total: usize = needed.iter().sum();
        let mut free: Vec<u32> = (0..total as u32).collect();
        free.sort_by_key(|block| (block * 7919) % 31);
        let blocks = needed.iter().map(|n| free.split_off(free.len() - n)).collect();
        model.runtime_mut().reserve(total, kind).expect("a small cache");
        let n = sequences.len();
        let states = model.config().delta_net.is_some().then_some(n as u32);
        model.runtime_mut().reserve_states(n + 1).expect("a few states");
        let sequences = sequences.to_vec();
        Self { model, sequences, done: vec![0; n], adapters: vec![None; n], blocks, states }
    }

    /// Feeds the next tokens of some sequences, `(sequence, tokens)`, and returns all their logits.
    pub fn step(&mut self, work: &[(usize, usize)]) -> Vec<Vec<f32>> {
        let part = |&(sequence, n_tokens): &(usize, usize)| {
            let position = self.done[sequence];
            let tokens = &self.sequences[sequence][position..position + n_tokens];
            Part {
                tokens,
                position,
                blocks: &self.blocks[sequence],
                logits_from: 0,
                states_from: tokens.len(),
                adapter: self.adapters[sequence],
                state: self.states.map(|first| first - sequence as u32),
            }
        };
        let step = Step::new(work.iter().map(part), Vec::new());
        for &(sequence, n_tokens) in work {
            self.done[sequence] += n_tokens;
        }
        self.model.run(step).expect("a step runs");
        self.model.runtime().logits().expect("logits")
    }
}

fn check_against_transformers(model: &str, golden: &str) {
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let mut decoder = Device::Cpu.load(&Weights::open(&tiny(model)).unwrap(), compute).unwrap();
    for Golden { ids, logits } in goldens(golden) {
        let mut desk = Desk::new(&mut *decoder, std::slice::from_ref(&ids), KvType::F32);
        let ours = desk.step(&[(0, ids.len())]);
        for (position, (ours, theirs)) in ours.iter().zip(&logits).enumerate() {
            let worst = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= 1e-4, "{model}: position {position} differs by {worst}");
        }
        assert_eq!(ours.len(), logits.len());
    }
}

/// A model of each architecture.
const NAMES: [&str; 36] = [
    "llama",
    "smollm2",
    "mistral",
    "qwen2",
    "qwen2-yarn",
    "qwen3",
    "qwen3-moe",
    "glm4-moe",
    "gemma2",
    "gemma3",
    "hunyuan",
    "ministral3",
    "qwen3-5",
    "qwen3-5-moe",
    "qwen3-next",
    "gemma4",
    "gemma4-moe",
    "gpt-oss",
    "seed-oss",
    "deepseek-v2-lite",
    "deepseek-v2",
    "deepseek-v3",
    "glm4-moe-lite",
    "smollm3",
    "olmo2",
    "olmo3",
    "granite",
    "granite-hybrid",
    "glm4",
    "exaone4",
    "phi3",
    "mixtral",
    "ministral",
    "apertus",
    "cohere",
    "cohere2",
];

#[test]
fn logits_equal_those_of_transformers() {
    for name in NAMES {
        check_against_transformers(name, name);
    }
    check_against_transformers("mistral-sharded", "mistral");
    check_against_transformers("gemma3-nested", "gemma3");
    check_against_transformers("qwen3-5-multimodal", "qwen3-5");
    check_against_transformers("gpt-oss-mxfp4", "gpt-oss");
    check_against_transformers("gpt-oss-gguf", "gpt-oss");
}

/// The bits of a whole prefill of each sequence alone.
pub fn alone(model: &mut dyn Model, sequences: &[Vec<u32>], kind: KvType) -> Vec<Vec<Vec<u32>>> {
    let mut run = |ids: &Vec<u32>| {
        let logits = Desk::new(model, std::slice::from_ref(ids), kind).step(&[(0, ids.len())]);
        logits.iter().map(|row| bits(row)).collect()
    };
    sequences.iter().map(&mut run).collect()
}

pub fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|x| x.to_bits()).collect()
}

/// Feeds sequences of these lengths in chunks cut by `cuts`, several at once, and compares each row's bits
/// with those of a whole prefill alone.
pub fn check_company(model: &mut dyn Model, kind: KvType, lengths: &[usize], cuts: &[(usize, usize)]) {
    let expected = alone(model, &sequences(lengths), kind);
    check_bits(model, kind, &expected, cuts);
}

/// Sequences of these lengths.
pub fn sequences(lengths: &[usize]) -> Vec<Vec<u32>> {
    let id = |s: usize, i: usize| ((s * 31 + i * 17 + i * i) % 300) as u32;
    lengths.iter().enumerate().map(|(s, &n)| (0..n).map(|i| id(s, i)).collect()).collect()
}

/// Feeds sequences in chunks as in `check_company`, with the expected bits of [`sequences`].
pub fn check_bits(model: &mut dyn Model, kind: KvType, expected: &[Vec<Vec<u32>>], cuts: &[(usize, usize)]) {
    let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
    let sequences = sequences(&lengths);
    let mut desk = Desk::new(model, &sequences, kind);
    let mut cuts = cuts.iter().copied().cycle();
    while desk.done.iter().zip(&lengths).any(|(done, length)| done < length) {
        let mut work: Vec<(usize, usize)> = Vec::new();
        for (sequence, tokens) in cuts.by_ref().take(3) {
            let sequence = sequence % lengths.len();
            let tokens = tokens.min(lengths[sequence] - desk.done[sequence]);
            if tokens > 0 && work.iter().all(|w| w.0 != sequence) {
                work.push((sequence, tokens));
            }
        }
        if work.is_empty() {
            continue;
        }
        let starts: Vec<usize> = work.iter().map(|w| desk.done[w.0]).collect();
        let mut logits = desk.step(&work).into_iter();
        for (&(sequence, tokens), start) in work.iter().zip(starts) {
            for (i, expected) in expected[sequence][start..start + tokens].iter().enumerate() {
                let row = logits.next().expect("a row per token");
                assert_eq!(&bits(&row), expected, "sequence {sequence}, position {}", start + i);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the chunks and the company, a row's logits have the same bits.
    #[test]
    fn a_row_does_not_depend_on_its_company(
        lengths in prop::collection::vec(1_usize..300, 1..4),
        cuts in prop::collection::vec((0_usize..4, 1_usize..70), 60),
        name in prop::sample::select(&NAMES[..]),
        kind in prop::sample::select(vec![KvType::Bf16, KvType::F32, KvType::F16]),
    ) {
        check_company(&mut *load(name), kind, &lengths, &cuts);
    }
}
