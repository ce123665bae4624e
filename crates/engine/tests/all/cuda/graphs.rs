//! Steps that are launched as a whole, from a recording, have the bits of steps whose kernels are launched
//! one by one.

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use tribunal_engine::Device;
use tribunal_model::{BLOCK, KvType, Model, Part, Step};

use super::gpu;
use crate::{
    model::{bits, load_on},
    model_adapters::adapter,
};

/// Blocks of tokens that all sequences begin with: one split of keys and a part of the next.
const SHARED: usize = 17;
/// Blocks of a sequence's own.
const OWN: usize = 8;
const SEQUENCES: usize = 9;

/// Decoding: in each step, some sequences go on by a few tokens (one, and those guessed).
pub type Work = Vec<Vec<(usize, usize)>>;

fn id(sequence: usize, position: usize) -> u32 {
    ((sequence * 31 + position * 17 + position * position) % 300) as u32
}

/// The bits of all logits of all steps.
pub fn run(device: &Device, name: &str, work: &Work) -> Vec<Vec<Vec<u32>>> {
    let mut model = load_on(device, name);
    let adapters = if name == "gemma3" { ["gemma3-mlp"; 2] } else { ["qwen2-all", "qwen2-qv"] };
    assert_eq!(model.adapt(&adapter(adapters[0])).unwrap(), 0);
    let mut all = decode(&mut *model, work, 1);
    // A second cache at another address, and one adapter more: earlier recordings must not be launched again.
    assert_eq!(model.adapt(&adapter(adapters[1])).unwrap(), 1);
    all.extend(decode(&mut *model, work, 2));
    all
}

/// On each of these devices, steps that are launched as a whole have the bits of one GPU's single launches.
pub fn check_whole(name: &str, work: &Work, one: &Device, devices: &[Device]) {
    let run = |device: &Device| decode(&mut *load_on(device, name), work, 0);
    let expected = run(&one.clone().without_graphs());
    for device in devices {
        let before = device.gpus()[0].whole_steps();
        assert!(run(device) == expected, "{name} on {device:?}");
        assert!(device.gpus()[0].whole_steps() > before, "{name} on {device:?}: no step was launched whole");
    }
}

/// Sequences without an adapter and with each of so many, side by side.
pub fn decode(model: &mut dyn Model, work: &Work, n_adapters: usize) -> Vec<Vec<Vec<u32>>> {
    let adapter_of = |sequence: usize| (sequence % (n_adapters + 1)).checked_sub(1).map(|i| i as u32);
    model.runtime_mut().reserve(SHARED + SEQUENCES * OWN, KvType::Bf16).unwrap();
    let shared = 0..SHARED as u32;
    let own = |sequence: usize| (SHARED + sequence * OWN) as u32..(SHARED + (sequence + 1) * OWN) as u32;
    let blocks: Vec<Vec<u32>> = (0..SEQUENCES).map(|s| shared.clone().chain(own(s)).collect()).collect();
    let prompt: Vec<u32> = (0..SHARED * BLOCK).map(|position| id(0, position)).collect();
    let n = prompt.len();
    let blocks_of_first = &blocks[0];
    let first = Part {
        tokens: &prompt,
        position: 0,
        blocks: blocks_of_first,
        logits_from: n,
        states_from: n,
        adapter: None,
        state: None,
    };
    model.run(Step::new([first], Vec::new())).unwrap();
    let mut lengths = [prompt.len(); SEQUENCES];
    let mut all = Vec::new();
    for step in work {
        let mut parts: Vec<(usize, Vec<u32>)> = Vec::new();
        for &(sequence, n) in step {
            let room = (SHARED + OWN) * BLOCK - lengths[sequence];
            if room >= n && parts.iter().all(|(other, _)| *other != sequence) {
                let from = lengths[sequence];
                parts.push((sequence, (from..from + n).map(|position| id(sequence + 1, position)).collect()));
            }
        }
        let part = |(sequence, tokens): &(usize, Vec<u32>)| (*sequence, tokens.len());
        let counts: Vec<(usize, usize)> = parts.iter().map(part).collect();
        let described = parts.iter().map(|(sequence, tokens)| Part {
            tokens,
            position: lengths[*sequence],
            blocks: &blocks[*sequence],
            logits_from: 0,
            states_from: tokens.len(),
            adapter: adapter_of(*sequence),
            state: None,
        });
        model.run(Step::new(described, Vec::new())).unwrap();
        all.push(model.runtime().logits().unwrap().iter().map(|row| bits(row)).collect());
        for (sequence, n) in counts {
            lengths[sequence] += n;
        }
    }
    all
}

fn check(gpu: &tribunal_cuda::Gpu, model: &str, work: &Work) -> Result<(), TestCaseError> {
    let before = gpu.whole_steps();
    let one_by_one = run(&Device::Cuda(gpu.without_graphs()), model, work);
    prop_assert_eq!(gpu.whole_steps(), before, "nothing is recorded where that is turned off");
    let ours = run(&Device::Cuda(gpu.clone()), model, work);
    for (step, (ours, expected)) in ours.iter().zip(&one_by_one).enumerate() {
        prop_assert!(ours == expected, "{}: step {} has other bits when it is launched whole", model, step);
    }
    Ok(())
}

#[test]
fn steps_launched_whole_have_the_bits_of_single_launches() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let step = prop::collection::vec((0..SEQUENCES, 1_usize..4), 1..SEQUENCES);
    let steps = prop::collection::vec(step, 6..12);
    // Three times the same shapes: a layout is new, recorded, launched.
    let work = steps.prop_map(|steps| steps.iter().cycle().take(3 * steps.len()).cloned().collect::<Work>());
    let cases = (prop::sample::select(vec!["qwen2", "gemma3"]), work);
    let mut runner = TestRunner::new(Config { cases: 4, failure_persistence: None, ..Config::default() });
    runner.run(&cases, |(model, work)| check(&gpu, model, &work)).unwrap();
    // Random steps need not occur again; one token of the same sequence does, with an adapter or without.
    for sequence in 0..2 {
        let before = gpu.whole_steps();
        check(&gpu, "qwen2", &vec![vec![(sequence, 1)]; 12]).unwrap();
        assert!(gpu.whole_steps() > before, "no step was launched whole");
    }
}
