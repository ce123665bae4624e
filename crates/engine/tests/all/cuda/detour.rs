//! One model on several emulated GPUs without access to each other's memory: they exchange rows through that
//! of the machine, and the bits are those of one. On real GPUs `ranks` takes whichever way is available.

use tribunal_cpu::Compute;
use tribunal_engine::Device;
use tribunal_model::{Config, KvType, Weights};

use super::{
    config,
    graphs::{Work, decode},
    is_emulated,
    ranks::{CUTS, PART, again, every_edge_is_needed, every_wait_is_needed, gpus_with, groups},
};
use crate::model::{alone, check_bits, load_on, sequences};

const APART: (&str, &str) = ("TRIBUNAL_EMULATED_PEERS", "0");

/// The emulated GPUs of a process of this test.
fn gpus(test: &str, lateness: &[&str]) -> Option<Vec<Device>> {
    if is_emulated() { gpus_with(test, lateness, APART) } else { None }
}

#[test]
fn steps_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("detour::steps_have_the_bits_of_one_gpu", &["0", "1", "2", "11", "12"]) else {
        return;
    };
    for name in ["qwen2", "gemma3"] {
        let expected = alone(&mut *load_on(&gpus[0], name), &sequences(&[90, 17, 40]), KvType::Bf16);
        for group in groups(&gpus, &[2, 4]) {
            assert!(group.remark().is_some_and(|remark| remark.contains("GPU 0 has no access")), "{group:?}");
            check_bits(&mut *load_on(&group, name), KvType::Bf16, &expected, CUTS);
        }
    }
}

/// A machine whose driver allows access, and whose kernels then read other bytes: it is detected before a
/// model is loaded, and the bits are those of one GPU.
#[test]
fn peers_that_read_other_bytes_are_not_used() {
    let test = "detour::peers_that_read_other_bytes_are_not_used";
    let lying = ("TRIBUNAL_EMULATED_LYING_PEERS", "1");
    let Some(gpus) = (if is_emulated() { gpus_with(test, &["0"], lying) } else { None }) else { return };
    let expected = alone(&mut *load_on(&gpus[0], "qwen2"), &sequences(&[90, 17, 40]), KvType::Bf16);
    for group in groups(&gpus, &[2, 4]) {
        let remark = group.remark().unwrap_or_default();
        assert!(remark.contains("GPU 0 reads other bytes from the memory of GPU 1"), "{remark}");
        check_bits(&mut *load_on(&group, "qwen2"), KvType::Bf16, &expected, CUTS);
    }
}

#[test]
fn steps_launched_whole_have_the_bits_of_one_gpu() {
    let test = "detour::steps_launched_whole_have_the_bits_of_one_gpu";
    let Some(gpus) = gpus(test, &["0", "1", "2", "9", "10"]) else { return };
    let steps = [vec![(0, 1), (4, 2)], vec![(1, 3), (2, 1), (5, 1)], vec![(0, 2)]];
    let several: Work = steps.iter().cycle().take(12).cloned().collect();
    for (name, work) in [("qwen2", several), ("gemma3", vec![vec![(0, 1)]; 16])] {
        let run = |device: &Device| decode(&mut *load_on(device, name), &work, 0);
        let expected = run(&gpus[0].clone().without_graphs());
        for group in groups(&gpus, &[2, 4]) {
            let before = group.gpus()[0].whole_steps();
            assert!(run(&group) == expected, "{name}: other bits on {group:?}");
            assert!(
                group.gpus()[0].whole_steps() > before,
                "{name}: no step was launched whole on {group:?}"
            );
        }
    }
}

/// A model whose rows of logits are so long that some tokens' do not cross at a time, and whose columns are
/// not aligned.
fn many_words() -> Config {
    let tiny = config("qwen2");
    Config { vocab: 70_003, n_layers: 1, tied: false, ..tiny }
}

/// Steps of other sizes in between: the half with which a step begins does not depend on the last one.
#[test]
fn rows_that_cross_in_several_turns_have_the_bits_of_one_gpu() {
    let test = "detour::rows_that_cross_in_several_turns_have_the_bits_of_one_gpu";
    let Some(gpus) = gpus(test, &["0", "2", "13"]) else { return };
    let weights = Weights::seeded(many_words(), 3);
    let lengths = [40, 3, 33];
    let run = |device: &Device| {
        let mut model = device.load(&weights, Compute::default()).unwrap();
        alone(&mut *model, &sequences(&lengths), KvType::Bf16)
    };
    let expected = run(&gpus[0]);
    for group in groups(&gpus, &[2, 4]) {
        assert!(run(&group) == expected, "other bits on {group:?}");
    }
}

#[test]
fn a_wait_that_is_missing_is_found() {
    every_wait_is_needed("detour::a_wait_that_is_missing_is_found", "0");
}

#[test]
fn an_edge_that_is_missing_is_found() {
    every_edge_is_needed("detour::an_edge_that_is_missing_is_found", "0");
}

/// If both halves of the memory are the same, rows are overwritten before all have read them.
#[test]
fn memory_that_is_written_again_too_early_is_found() {
    const NAME: &str = "detour::memory_that_is_written_again_too_early_is_found";
    if !is_emulated() {
        return;
    }
    if std::env::var_os(PART).is_none() {
        for late in ["0", "1", "2"] {
            let run = |folded: &[(&str, &str)]| {
                again(NAME, "run", &[&[("TRIBUNAL_EMULATED_LATE", late), APART], folded].concat())
            };
            let (said, passed) = run(&[]);
            assert!(passed, "{late}: {said}");
            let (said, passed) = run(&[("TRIBUNAL_EMULATED_FOLDED", "1")]);
            assert!(!passed && said.contains("other bits"), "{late}: {said}");
        }
        return;
    }
    let gpus = Device::named("cuda:0,1").unwrap();
    let run = |device: &Device| alone(&mut *load_on(device, "qwen2"), &sequences(&[20, 5]), KvType::Bf16);
    assert!(run(&groups(&gpus, &[2])[0]) == run(&gpus[0]), "other bits");
}
