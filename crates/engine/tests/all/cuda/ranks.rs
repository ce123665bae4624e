//! One model on several GPUs: the bits of one, whatever their number, the batch, the chunks, the cache and
//! the timing of their streams. Emulated GPUs, unless the machine has several.
#![allow(clippy::print_stdout, reason = "what a process of its own found out is read from its output")]

use std::process::Command;

use candle_core::quantized::GgmlDType as T;
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{Config, KvType, Weights, config::Attention};

use super::{
    config,
    graphs::{Work, decode, run},
    is_emulated, last_logits,
};
use crate::{
    engine::{ask_all, bits as reply_bits, options, tiny},
    gguf::gguf,
    model::{alone, check_bits, load_on, sequences},
    model_adapters::{adapted, check_replies, logits},
};

/// The variable that marks a process of this test whose devices are set up.
pub const PART: &str = "TRIBUNAL_TEST_RANKS";

/// Runs a test of this folder again with other variables; returns its output, and true if it passed.
pub fn again(test: &str, part: &str, variables: &[(&str, &str)]) -> (String, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("cuda::{test}");
    command.args([name.as_str(), "--exact", "--nocapture", "--test-threads", "1"]);
    command.env(PART, part).env("TRIBUNAL_EMULATED_DEVICES", "8").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (text, output.status.success())
}

/// The first eight GPUs of this machine, or fewer; if they are emulated, a test runs in a process of its own
/// that has eight, with the last timing of their work, or with each if `TRIBUNAL_TEST_TIMINGS` is set.
pub fn gpus(test: &str, lateness: &[&str]) -> Option<Vec<Device>> {
    gpus_with(test, lateness, ("TRIBUNAL_EMULATED_PEERS", "1"))
}

/// The GPUs of `gpus` with a variable of the emulated driver.
pub fn gpus_with(test: &str, lateness: &[&str], variable: (&str, &str)) -> Option<Vec<Device>> {
    if is_emulated() && std::env::var_os(PART).is_none() {
        let first = if std::env::var_os("TRIBUNAL_TEST_TIMINGS").is_some() { 0 } else { lateness.len() - 1 };
        for late in &lateness[first..] {
            let (said, passed) = again(test, "run", &[("TRIBUNAL_EMULATED_LATE", late), variable]);
            assert!(passed, "{late}: {said}");
        }
        return None;
    }
    let all = ["cuda:0,1,2,3,4,5,6,7", "cuda:0,1,2,3", "cuda:0,1"];
    let known = all.into_iter().find_map(|name| Device::named(name).ok());
    if known.is_none() {
        assert!(!is_emulated(), "eight emulated GPUs");
        eprintln!("not checked: there are not several GPUs");
    }
    known
}

/// One device of the first so many GPUs, for each number that is available.
pub fn groups(gpus: &[Device], numbers: &[usize]) -> Vec<Device> {
    let numbers = numbers.iter().filter(|&&n| n <= gpus.len());
    numbers.map(|&n| Device::grouped(gpus[..n].to_vec(), n).unwrap().remove(0)).collect()
}

pub const CUTS: &[(usize, usize)] = &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33), (1, 9)];

#[test]
fn every_architecture_has_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("ranks::every_architecture_has_the_bits_of_one_gpu", &["0", "17"]) else { return };
    for name in ["llama", "smollm2", "mistral", "qwen2", "qwen3", "gemma3", "gemma2", "hunyuan", "ministral3"]
    {
        let lengths = [150, 17, 40];
        let expected = alone(&mut *load_on(&gpus[0], name), &sequences(&lengths), KvType::Bf16);
        for group in groups(&gpus, &[2, 4]) {
            check_bits(&mut *load_on(&group, name), KvType::Bf16, &expected, CUTS);
        }
    }
}

#[test]
fn weights_of_every_kind_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("ranks::weights_of_every_kind_have_the_bits_of_one_gpu", &["0"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 256).collect();
    for dtype in [T::F32, T::BF16, T::Q4_0, T::Q8_0, T::Q4K, T::Q6K] {
        let path = folder.path().join(format!("{dtype:?}.gguf"));
        gguf(&path, dtype);
        let weights = Weights::open(&path).unwrap();
        let expected = last_logits(&gpus[0], &weights, &tokens);
        for group in groups(&gpus, &[2, 4]) {
            assert_eq!(last_logits(&group, &weights, &tokens), expected, "{dtype:?} on {group:?}");
        }
    }
}

/// A shape whose sums are cut into segments, with heads of keys and values that four GPUs share or not, and a
/// vocabulary whose rows are not aligned.
fn long_sums(n_kv_heads: usize) -> Config {
    let tiny = config("qwen2");
    let (head_dim, rotary_dim) = (32, 32);
    let sizes = Config {
        n_heads: 64,
        full: Attention { n_kv_heads, head_dim, rotary_dim, ..tiny.full.clone() },
        ..tiny
    };
    Config { intermediate: 4112, vocab: 333, tied: false, ..sizes }
}

#[test]
fn sums_of_several_segments_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("ranks::sums_of_several_segments_have_the_bits_of_one_gpu", &["0"]) else { return };
    for n_kv_heads in [8, 2] {
        let weights = Weights::seeded(long_sums(n_kv_heads), 3);
        for n in [1, 70] {
            let tokens: Vec<u32> = (0..n).map(|i| i * 37 % 320).collect();
            let expected = last_logits(&gpus[0], &weights, &tokens);
            for group in groups(&gpus, &[2, 4]) {
                assert_eq!(last_logits(&group, &weights, &tokens), expected, "{n} tokens on {group:?}");
            }
        }
    }
}

#[test]
fn replies_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("ranks::replies_have_the_bits_of_one_gpu", &["0", "13"]) else { return };
    let order: Vec<usize> = (0..9).collect();
    let on = |device: &Device| Options { device: device.clone(), ..options() };
    for (model, n_variants) in [("qwen2", 3), ("gemma3", 1), ("glm4-moe", 1)] {
        let expected = ask_all(&Engine::open(&tiny(model), &on(&gpus[0])).unwrap(), &order);
        for group in groups(&gpus, &[2, 4]) {
            let variants = [
                Options { n_rows: 7, step_tokens: 33, ..on(&group) },
                Options { kv_bytes: Some(660 * 1024 * 2), n_rows: 3, drafts: false, ..on(&group) },
                Options { prefix_cache: false, ..on(&group) },
            ];
            for variant in &variants[..n_variants] {
                let replies = ask_all(&Engine::open(&tiny(model), variant).unwrap(), &order);
                for (reply, expected) in replies.iter().zip(&expected) {
                    assert_eq!(reply_bits(reply), reply_bits(expected), "{model} on {group:?}");
                }
            }
        }
    }
}

#[test]
fn adapters_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("ranks::adapters_have_the_bits_of_one_gpu", &["0"]) else { return };
    let ids: Vec<u32> = (0..70).map(|i| i * 41 % 300).collect();
    let slow =
        Options { device: gpus[0].clone(), n_rows: 1, prefix_cache: false, drafts: false, ..options() };
    for group in groups(&gpus, &[2, 4]) {
        for adapter in [None, Some(0), Some(1)] {
            let expected = logits(&mut *adapted(&gpus[0]), &ids, KvType::Bf16, adapter);
            assert_eq!(logits(&mut *adapted(&group), &ids, KvType::Bf16, adapter), expected, "{adapter:?}");
        }
        let variants = [Options { device: group.clone(), n_rows: 5, step_tokens: 33, ..options() }];
        check_replies(&slow, &variants, 4);
    }
}

#[test]
fn hidden_states_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("ranks::hidden_states_have_the_bits_of_one_gpu", &["0"]) else { return };
    let expected = crate::states::states_in_company(&gpus[0]);
    for group in groups(&gpus, &[2, 4]) {
        for (ours, expected) in crate::states::states_in_company(&group).iter().zip(&expected) {
            assert_eq!(ours.states, expected.states, "{group:?}");
        }
    }
    let expected = crate::score_heads::scores_in_company(&gpus[0]);
    for group in groups(&gpus, &[2, 4]) {
        assert_eq!(crate::score_heads::scores_in_company(&group), expected, "{group:?}");
    }
}

/// Steps of several GPUs at a time when each layout has been seen, recorded and launched.
#[test]
fn steps_launched_whole_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("ranks::steps_launched_whole_have_the_bits_of_one_gpu", &["0", "1", "2", "9"])
    else {
        return;
    };
    let steps = [vec![(0, 1), (4, 2)], vec![(1, 3), (2, 1), (5, 1)], vec![(0, 2)]];
    let several: Work = steps.iter().cycle().take(12).cloned().collect();
    for (model, numbers, work) in [("qwen2", &[2, 4][..], several), ("gemma3", &[2], vec![vec![(0, 1)]; 8])] {
        let expected = run(&gpus[0].clone().without_graphs(), model, &work);
        for group in groups(&gpus, numbers) {
            let before = group.gpus()[0].whole_steps();
            let one_by_one = run(&group.clone().without_graphs(), model, &work);
            assert_eq!(group.gpus()[0].whole_steps(), before, "nothing is recorded where that is turned off");
            assert!(one_by_one == expected, "{model} on {group:?}: launched one by one");
            let whole = run(&group, model, &work);
            assert!(
                group.gpus()[0].whole_steps() > before,
                "{model} on {group:?}: no step was launched whole"
            );
            for (step, (ours, expected)) in whole.iter().zip(&expected).enumerate() {
                assert!(ours == expected, "{model} on {group:?}: step {step} has other bits");
            }
        }
    }
}

/// Logits of some steps on two GPUs, as bits.
fn steps_of_two(gpus: &[Device], name: &str) -> Vec<Vec<Vec<u32>>> {
    let group = groups(gpus, &[2]).remove(0);
    alone(&mut *load_on(&group, name), &sequences(&[20, 5]), KvType::Bf16)
}

/// The emulated driver drops a wait while a step is recorded, and so an edge of its graph.
#[test]
fn an_edge_that_is_missing_is_found() {
    every_edge_is_needed("ranks::an_edge_that_is_missing_is_found", "1");
}

pub fn every_edge_is_needed(name: &str, peers: &str) {
    if !is_emulated() {
        return;
    }
    if std::env::var_os(PART).is_none() {
        let run = |edge: usize, late| {
            let edge = edge.to_string();
            let variables = [
                ("TRIBUNAL_EMULATED_FORGOTTEN_EDGE", &*edge),
                ("TRIBUNAL_EMULATED_LATE", late),
                ("TRIBUNAL_EMULATED_PEERS", peers),
            ];
            again(name, "run", &variables)
        };
        let (said, passed) = run(1_000_000, "2");
        assert!(passed, "none is forgotten: {said}");
        let (said, passed) = run(0, "0");
        assert!(!passed && said.contains("not in the capture"), "the second GPU is left out: {said}");
        // Two layers synchronise nine times, each time by two edges: that of the first GPU, and that of the
        // second, after whose last one no work follows. The last edge of all joins the second GPU to the
        // capture.
        for edge in (1..18).chain([19]) {
            let (said, passed) = run(edge, ["2", "0"][edge % 2]);
            let found = if edge == 19 { "has not joined its first stream" } else { "other bits" };
            assert!(!passed && said.contains(found), "{edge}: {said}");
        }
        return;
    }
    let gpus = Device::named("cuda:0,1").unwrap();
    let work = vec![vec![(0, 1)]; 4];
    let expected = decoded(&gpus[0], &work);
    let ours = decoded(&groups(&gpus, &[2])[0], &work);
    assert!(ours == expected, "other bits");
}

/// The bits of steps of a model without adapters.
fn decoded(device: &Device, work: &Work) -> Vec<Vec<Vec<u32>>> {
    decode(&mut *load_on(device, "qwen2"), work, 0)
}

/// The emulated driver drops one wait for another GPU's event at a time: the logits show it, or a copied NaN.
#[test]
fn a_wait_that_is_missing_is_found() {
    every_wait_is_needed("ranks::a_wait_that_is_missing_is_found", "1");
}

pub fn every_wait_is_needed(name: &str, peers: &str) {
    if !is_emulated() {
        return;
    }
    let Some(model) = std::env::var(PART).ok() else {
        for model in ["qwen2", "gemma3"] {
            let run = |wait: usize, late| {
                let wait = wait.to_string();
                let variables = [
                    ("TRIBUNAL_EMULATED_FORGOTTEN_WAIT", &*wait),
                    ("TRIBUNAL_EMULATED_LATE", late),
                    ("TRIBUNAL_EMULATED_PEERS", peers),
                ];
                again(name, model, &variables)
            };
            let (said, passed) = run(1_000_000, "2");
            assert!(passed, "{model}: none is forgotten: {said}");
            // The first two are those of a step's start, which no work precedes. Then the two alternate: a
            // result that the first card does not wait for is missing when all is late, the second's when
            // that card is early.
            for wait in 2..14 {
                let (said, passed) = run(wait, ["0", "2"][wait % 2]);
                assert!(
                    !passed && said.contains("assertion `left == right` failed"),
                    "{model}, {wait}: {said}"
                );
            }
        }
        return;
    };
    let gpus = Device::named("cuda:0,1").unwrap();
    let expected = alone(&mut *load_on(&gpus[0], &model), &sequences(&[20, 5]), KvType::Bf16);
    assert_eq!(steps_of_two(&gpus, &model), expected);
}
