//! Hybrids of Gated DeltaNet and gated attention on a GPU: near the CPU for heads of any shape, the same bits
//! whatever the chunks, the batch and the slots, also from a copied state and when steps are launched as a
//! whole.

use proptest::{
    prelude::*,
    test_runner::{Config as Cases, TestRunner},
};
use tribunal_cpu::Compute;
use tribunal_cuda::{KernelSet, step_bytes};
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{BLOCK, Config, KvType, Model, Part, Step, StepLimits, Weights};

use super::{apart, config, gpu, is_alone, is_emulated, last_logits, ranks};
use crate::{
    engine::{ask_all, bits as reply_bits, options, tiny},
    model::{Desk, bits, load_on},
};

/// The tiny hybrid's shape with other heads of its recurrent layers.
fn shape(
    n_key_heads: usize,
    key_dim: usize,
    n_value_heads: usize,
    value_dim: usize,
    is_tiled: bool,
) -> Config {
    let mut config = config("qwen3-5");
    let delta_net = config.delta_net.as_mut().unwrap();
    (delta_net.n_key_heads, delta_net.key_dim) = (n_key_heads, key_dim);
    (delta_net.n_value_heads, delta_net.value_dim) = (n_value_heads, value_dim);
    delta_net.is_tiled = is_tiled;
    config
}

#[test]
fn heads_of_any_shape_are_near_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let tokens: Vec<u32> = (0..45).map(|i| i * 37 % 300).collect();
    for config in [
        shape(2, 16, 4, 32, false),
        shape(2, 16, 6, 16, true),
        shape(3, 32, 3, 48, false),
        shape(1, 64, 5, 16, false),
        shape(2, 128, 4, 128, true),
        shape(1, 256, 2, 256, false),
    ] {
        let heads = config.delta_net.clone();
        let weights = Weights::seeded(config, 5);
        let [ours, exact] = [&gpu, &Device::Cpu].map(|on| last_logits(on, &weights, &tokens));
        let apart = apart(&ours, &exact);
        assert!(apart < 0.05, "{heads:?}: {apart} apart");
    }
}

#[test]
fn heads_and_convolutions_that_no_kernel_takes_are_refused() {
    let Some(gpu) = gpu() else { return };
    let load = |config: Config| gpu.load(&Weights::seeded(config, 5), Compute::default());
    let refused = |config| load(config).err().expect("refused").to_string();
    let said = refused(shape(1, 48, 2, 32, false));
    assert!(said.contains("DeltaNet heads of 48 and 32 dimensions"), "{said}");
    let said = refused(shape(1, 64, 2, 272, false));
    assert!(said.contains("DeltaNet heads of 64 and 272 dimensions"), "{said}");
    let mut config = shape(1, 64, 2, 32, false);
    config.delta_net.as_mut().unwrap().conv = 3;
    let said = refused(config);
    assert!(said.contains("a convolution of 3 rows"), "{said}");
}

#[test]
fn several_gpus_have_the_bits_of_one() {
    const NAME: &str = "delta_net::several_gpus_have_the_bits_of_one";
    let Some(gpus) = ranks::gpus(NAME, &["0", "17"]) else { return };
    let tokens: Vec<u32> = (0..45).map(|i| i * 37 % 300).collect();
    for (config, numbers) in [
        (shape(4, 16, 8, 32, false), &[2, 4][..]),
        (shape(4, 16, 4, 16, false), &[2, 4]),
        (shape(2, 32, 6, 16, false), &[2]),
    ] {
        let heads = config.delta_net.clone();
        let weights = Weights::seeded(config, 7);
        let expected = last_logits(&gpus[0], &weights, &tokens);
        for group in ranks::groups(&gpus, numbers) {
            assert_eq!(last_logits(&group, &weights, &tokens), expected, "{heads:?} on {group:?}");
        }
    }
    for name in ["qwen3-5", "qwen3-5-moe", "qwen3-next"] {
        let expected = alone(&gpus[0].clone().without_graphs(), name);
        let group = ranks::groups(&gpus, &[2]).remove(0);
        let steps: Vec<_> =
            (0..TOKENS).map(|i| [(1, true), (1 + i % 3, false), (5 * (i % 2), true)]).collect();
        assert!(in_steps(&mut *load_on(&group, name), &steps) == expected, "{name} on two GPUs");
    }
    let tiled = Weights::seeded(shape(2, 16, 4, 32, true), 7);
    let group = ranks::groups(&gpus, &[2]).remove(0);
    let said = group.load(&tiled, Compute::default()).err().expect("refused").to_string();
    assert!(said.contains("DeltaNet heads that one GPU has together"), "{said}");
    assert!(said.ends_with("hint: `--tensor-parallel` 1"), "{said}");
}

/// The small models of `selftest` have the known bits of capability 9, by the fastest kernels and by the
/// plain ones.
#[test]
fn small_models_have_known_bits() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for set in [KernelSet::Auto, KernelSet::Plain] {
        assert_eq!(gpu.with_kernels(set).check_small_layers().unwrap(), None, "{set} on {gpu:?}");
    }
}

#[test]
fn replies_do_not_depend_on_batch_chunks_or_cache() {
    let Some(device) = gpu() else { return };
    let order: Vec<usize> = (0..9).collect();
    let slow = Options { device: device.clone(), n_rows: 1, prefix_cache: false, drafts: false, ..options() };
    let expected = ask_all(&Engine::open(&tiny("qwen3-5"), &slow).unwrap(), &order);
    for variant in [
        Options { device: device.clone(), ..options() },
        Options { device, n_rows: 5, step_tokens: 33, ..options() },
    ] {
        let replies = ask_all(&Engine::open(&tiny("qwen3-5"), &variant).unwrap(), &order);
        for (reply, expected) in replies.iter().zip(&expected) {
            assert_eq!(reply_bits(reply), reply_bits(expected));
        }
    }
}

/// The memory computed from the sizes alone equals that of a model, to the byte.
#[test]
fn steps_and_states_take_what_is_reckoned() {
    const MOST: StepLimits = StepLimits { rows: 44, wanted: 20, sequences: 12, context: 320 };
    let Some(Device::Cuda(gpu)) = gpu().filter(|_| is_emulated()) else { return };
    if !is_alone("delta_net::steps_and_states_take_what_is_reckoned") {
        return;
    }
    let gpu = gpu.with_buffers(false);
    for (config, exact) in [
        (shape(2, 16, 4, 32, false), false),
        (shape(8, 16, 16, 32, false), true),
        (shape(16, 128, 32, 128, false), true),
    ] {
        let sizes = (&config).into();
        let mut model =
            Device::Cuda(gpu.clone()).load(&Weights::seeded(config, 3), Compute::default()).unwrap();
        let bytes = model.runtime().step_bytes(MOST);
        if exact {
            assert_eq!(step_bytes(sizes, MOST), bytes, "{:?}", model.config().delta_net);
        }
        let before = gpu.memory().unwrap().0;
        model.runtime_mut().prepare(MOST).unwrap();
        assert_eq!(before - gpu.memory().unwrap().0, bytes, "{:?}", model.config().delta_net);
        let before = gpu.memory().unwrap().0;
        model.runtime_mut().reserve_states(7).unwrap();
        assert_eq!(before - gpu.memory().unwrap().0, 7 * model.config().state_bytes());
    }
}

const TOKENS: usize = 40;

fn ids(sequence: usize) -> Vec<u32> {
    (0..TOKENS).map(|i| ((sequence * 31 + i * 17 + i * i) % 300) as u32).collect()
}

/// The bits of all logits of a sequence that is read alone and at once.
fn alone(device: &Device, name: &str) -> Vec<Vec<Vec<u32>>> {
    let mut model = load_on(device, name);
    let mut read = |sequence| {
        let logits = Desk::new(&mut *model, &[ids(sequence)], KvType::Bf16).step(&[(0, TOKENS)]);
        logits.iter().map(|row| bits(row)).collect()
    };
    (0..3).map(&mut read).collect()
}

/// Sequences in steps of so many tokens each, in slots that move: before a step, a sequence's state may be
/// copied to a free slot, by way of another one, and goes on from there.
fn in_steps(model: &mut dyn Model, work: &[[(usize, bool); 3]]) -> Vec<Vec<Vec<u32>>> {
    const BLOCKS: usize = TOKENS.div_ceil(BLOCK);
    const SLOTS: u32 = 8;
    model.runtime_mut().reserve(3 * BLOCKS, KvType::Bf16).unwrap();
    model.runtime_mut().reserve_states(SLOTS as usize).unwrap();
    let (mut done, mut slots) = ([0; 3], [5, 0, 3]);
    let mut rows: Vec<Vec<Vec<u32>>> = vec![Vec::new(); 3];
    for step in work {
        let mut copies = Vec::new();
        let mut parts = Vec::new();
        for (sequence, &(n, moves)) in step.iter().enumerate() {
            let n = n.min(TOKENS - done[sequence]);
            if n == 0 {
                continue;
            }
            if moves && done[sequence] > 0 {
                let mut free = (0..SLOTS).filter(|slot| !slots.contains(slot));
                let (by, to) = (free.next().unwrap(), free.next().unwrap());
                copies.extend([(slots[sequence], by), (by, to)]);
                slots[sequence] = to;
            }
            parts.push((sequence, ids(sequence)[done[sequence]..done[sequence] + n].to_vec()));
        }
        let blocks: Vec<Vec<u32>> =
            (0..3).map(|s| (s * BLOCKS as u32..(s + 1) * BLOCKS as u32).collect()).collect();
        let described = parts.iter().map(|(sequence, tokens)| Part {
            tokens,
            position: done[*sequence],
            blocks: &blocks[*sequence],
            logits_from: 0,
            states_from: tokens.len(),
            adapter: None,
            state: Some(slots[*sequence]),
        });
        let step = Step::new(described, Vec::new()).with_state_copies(copies);
        model.run(step).unwrap();
        let mut logits = model.runtime().logits().unwrap().into_iter();
        for (sequence, tokens) in &parts {
            rows[*sequence].extend(logits.by_ref().take(tokens.len()).map(|row| bits(&row)));
            done[*sequence] += tokens.len();
        }
    }
    rows
}

#[test]
fn chunks_batches_slots_and_recordings_move_no_bit() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for name in ["qwen3-5", "qwen3-5-moe"] {
        let expected = alone(&Device::Cuda(gpu.without_graphs()), name);
        let mut model = load_on(&Device::Cuda(gpu.clone()), name);
        let n = prop_oneof![3 => Just(1_usize), 1 => 0..3_usize, 1 => 3..20_usize];
        let step = (n.clone(), n.clone(), n, any::<[bool; 3]>())
            .prop_map(|(a, b, c, moves)| [(a, moves[0]), (b, moves[1]), (c, moves[2])]);
        let mut runner = TestRunner::new(Cases { cases: 4, failure_persistence: None, ..Cases::default() });
        let before = gpu.whole_steps();
        let work = prop::collection::vec(step, 8..30);
        let check = |work: Vec<[(usize, bool); 3]>| {
            let ours = in_steps(&mut *model, &work);
            for (sequence, (ours, expected)) in ours.iter().zip(&expected).enumerate() {
                for (row, (ours, expected)) in ours.iter().zip(expected).enumerate() {
                    prop_assert!(ours == expected, "{}: row {} of sequence {}", name, row, sequence);
                }
            }
            Ok(())
        };
        let check = std::cell::RefCell::new(check);
        runner.run(&work, |work| (check.borrow_mut())(work)).unwrap();
        // One token of each sequence at a time: the same step again and again.
        let one_by_one = vec![[(1, true); 3]; TOKENS];
        (check.borrow_mut())(one_by_one).unwrap();
        assert!(gpu.whole_steps() > before, "{name}: no step was launched whole");
    }
}
