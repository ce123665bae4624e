//! One model on several GPUs: the bits of one, whatever their number, the batch, the chunks and the cache; and when their
//! streams run is of no account. Emulated GPUs, unless the machine has several.
#![allow(clippy::print_stdout, reason = "what a process of its own found out is read from its output")]

use std::process::Command;

use candle_core::quantized::GgmlDType as T;
use tribunal::{
    bench::shapes::Shape,
    engine::{Engine, Options},
    model::{Config, Device, KvType, Weights},
};

use super::{is_emulated, last_logits, score};
use crate::{
    engine::{ask_all, bits as reply_bits, options, tiny},
    fakes::gguf,
    model::{alone, check_bits, load_on, sequences},
    model_adapters::{adapted, check_replies, logits},
};

/// Tells a process of this test that the devices are as it needs them.
const PART: &str = "TRIBUNAL_TEST_RANKS";

/// Runs a test of this file again with other variables; what it printed, and whether it passed.
fn again(test: &str, part: &str, variables: &[(&str, &str)]) -> (String, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("cuda::ranks::{test}");
    command.args([name.as_str(), "--exact", "--nocapture", "--test-threads", "1"]);
    command.env(PART, part).env("TRIBUNAL_EMULATED_DEVICES", "4").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (text, output.status.success())
}

/// The first GPUs of this machine, of the four that are wanted; where they are emulated, a test runs in a process of its
/// own that has four, once for each way to time what they do.
fn gpus(test: &str, lateness: &[&str]) -> Option<Vec<Device>> {
    if is_emulated() && std::env::var_os(PART).is_none() {
        for late in lateness {
            let (said, passed) = again(test, "run", &[("TRIBUNAL_EMULATED_LATE", late)]);
            assert!(passed, "{late}: {said}");
        }
        return None;
    }
    let known = ["cuda:0,1,2,3", "cuda:0,1"].into_iter().find_map(|name| Device::named(name).ok());
    if known.is_none() {
        assert!(!is_emulated(), "four emulated GPUs");
        eprintln!("not checked: there are not several GPUs");
    }
    known
}

/// One device of the first so many GPUs, for each number that there is.
fn groups(gpus: &[Device], numbers: &[usize]) -> Vec<Device> {
    let numbers = numbers.iter().filter(|&&n| n <= gpus.len());
    numbers.map(|&n| Device::grouped(gpus[..n].to_vec(), n).unwrap().remove(0)).collect()
}

const CUTS: &[(usize, usize)] = &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33), (1, 9)];

#[test]
fn every_architecture_has_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("every_architecture_has_the_bits_of_one_gpu", &["0", "7"]) else { return };
    for name in ["llama", "smollm2", "mistral", "qwen2", "qwen3", "gemma3"] {
        let lengths = [150, 17, 40];
        let expected = alone(&mut *load_on(&gpus[0], name), &sequences(&lengths), KvType::Bf16);
        for group in groups(&gpus, &[2, 4]) {
            check_bits(&mut *load_on(&group, name), KvType::Bf16, &expected, CUTS);
        }
    }
}

#[test]
fn weights_of_every_kind_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("weights_of_every_kind_have_the_bits_of_one_gpu", &["0"]) else { return };
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

/// A shape whose sums are cut into segments, with heads of keys and values that four GPUs share or not, and a vocabulary
/// whose rows are not aligned.
fn long_sums(n_kv_heads: usize) -> Config {
    let tiny = Shape::named("tiny").unwrap().config;
    Config { n_heads: 64, n_kv_heads, head_dim: 32, intermediate: 4112, vocab: 333, tied: false, ..tiny }
}

#[test]
fn sums_of_several_segments_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("sums_of_several_segments_have_the_bits_of_one_gpu", &["0"]) else { return };
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
    let Some(gpus) = gpus("replies_have_the_bits_of_one_gpu", &["0", "3"]) else { return };
    let order: Vec<usize> = (0..9).collect();
    let on = |device: &Device| Options { device: device.clone(), ..options() };
    for (model, n_variants) in [("qwen2", 3), ("gemma3", 1)] {
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
    let Some(gpus) = gpus("adapters_have_the_bits_of_one_gpu", &["0"]) else { return };
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
    let Some(gpus) = gpus("hidden_states_have_the_bits_of_one_gpu", &["0"]) else { return };
    let expected = crate::probe::states_in_company(&gpus[0]);
    for group in groups(&gpus, &[2, 4]) {
        for (ours, expected) in crate::probe::states_in_company(&group).iter().zip(&expected) {
            assert_eq!(ours.states, expected.states, "{group:?}");
        }
    }
}

/// Logits of some steps on two GPUs, as bits.
fn steps_of_two(gpus: &[Device], name: &str) -> Vec<Vec<Vec<u32>>> {
    let group = groups(gpus, &[2]).remove(0);
    alone(&mut *load_on(&group, name), &sequences(&[20, 5]), KvType::Bf16)
}

/// The emulated driver forgets one wait for another GPU's event at a time: the logits show it, or a copy of not a number.
#[test]
fn a_wait_that_is_missing_is_found() {
    const NAME: &str = "a_wait_that_is_missing_is_found";
    if !is_emulated() {
        return;
    }
    let Some(model) = std::env::var(PART).ok() else {
        for model in ["qwen2", "gemma3"] {
            let run = |wait: usize, late| {
                let wait = wait.to_string();
                let variables =
                    [("TRIBUNAL_EMULATED_FORGOTTEN_WAIT", &*wait), ("TRIBUNAL_EMULATED_LATE", late)];
                again(NAME, model, &variables)
            };
            let (said, passed) = run(1_000_000, "2");
            assert!(passed, "{model}: none is forgotten: {said}");
            // The first two are those of a step that begins, which nothing came before. Then the two take turns: what the
            // first card does not wait for is not there yet when all is late, the second's where that card is early.
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

/// A run over several GPUs, two models of two of them among these, has the bytes and the signature of one over one.
#[test]
fn verdicts_have_the_bytes_of_one_gpu_and_a_lost_one_ends_the_run_with_what_is_finished() {
    if !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let judged = |name: &str, late: &str, variables: &[(&str, &str)], more: &[&str]| {
        let out = folder.path().join(name);
        let devices = [("TRIBUNAL_EMULATED_DEVICES", "4"), ("TRIBUNAL_EMULATED_LATE", late)];
        let more = [&["--kv-cache", "16MiB", "--jobs", "1"], more].concat();
        let output = score(&out, &tiny("qwen2"), "gemba-da", &[&devices, variables].concat(), &more);
        let verdicts = std::fs::read_to_string(out.join("verdicts.jsonl")).unwrap_or_default();
        (output.status.code(), verdicts, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, whole, said) = judged("one", "0", &[], &["--device", "cuda"]);
    assert_eq!(code, Some(0), "{said}");
    let signature = |name: &str| {
        let run = std::fs::read_to_string(folder.path().join(name).join("run.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&run).unwrap()["signature"].clone()
    };
    for (name, late, device, n) in
        [("two", "0", "cuda", "2"), ("pairs", "9", "cuda:0,1,2,3", "2"), ("four", "4", "cuda:3,1,2,0", "4")]
    {
        let (code, verdicts, said) = judged(name, late, &[], &["--device", device, "--tensor-parallel", n]);
        assert_eq!(code, Some(0), "{name}: {said}");
        assert_eq!(verdicts, whole, "{name}");
        assert_eq!(signature(name), signature("one"), "{name}");
    }
    let lost = [("TRIBUNAL_EMULATED_LOST_AFTER", "200"), ("TRIBUNAL_EMULATED_LOST_DEVICE", "1")];
    let two = &["--device", "cuda", "--tensor-parallel", "2"][..];
    let (code, _, said) = judged("lost", "0", &lost, two);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("GPU 1: the GPU failed") && said.contains("run the same command again"), "{said}");
    let journal = std::fs::read_to_string(folder.path().join("lost/journal.jsonl")).unwrap();
    assert!((1..4).contains(&journal.lines().count()), "{journal}");
    // What is left goes on with another number of GPUs.
    let (code, verdicts, said) = judged("lost", "0", &[], &["--device", "cuda:0"]);
    assert_eq!((code, verdicts), (Some(0), whole), "{said}");
}

#[test]
fn what_cannot_be_one_model_on_several_gpus_is_refused_with_what_can() {
    if !is_emulated() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (variables, device, n, expected) in [
        (
            &[][..],
            "cuda:0,1,2",
            "2",
            "needs a multiple of 2 GPUs, and `--device` names 3\nhint: `--device cuda:0,1`",
        ),
        (&[], "cuda:0,1,0,2", "4", "names a GPU twice"),
        (&[], "cpu", "2", "`--tensor-parallel 2` is for GPUs"),
        (&[], "cuda", "9", "from 1 to 8"),
        (&[], "cuda", "5", "there are 4 devices"),
        (
            &[],
            "cuda",
            "3",
            "a model with 4 heads, 2 of keys and values, cannot be spread over 3 GPUs\nhint: `--tensor-parallel` 1, 2 or 4",
        ),
        (
            &[("TRIBUNAL_EMULATED_UNEQUAL_DEVICE", "1")],
            "cuda",
            "2",
            "differ\nhint: one model is spread over GPUs of one kind",
        ),
        (
            &[("TRIBUNAL_EMULATED_PEERS", "0")],
            "cuda",
            "2",
            "GPU 0 has no access to the memory of GPU 1\nhint: ",
        ),
        (
            &[("TRIBUNAL_EMULATED_SMALL_DEVICE", "1"), ("TRIBUNAL_EMULATED_MEMORY", "400000")],
            "cuda",
            "2",
            "out of GPU memory for",
        ),
    ] {
        let variables = [&[("TRIBUNAL_EMULATED_DEVICES", "4")], variables].concat();
        let more = ["--device", device, "--tensor-parallel", n];
        let output = score(&folder.path().join("refused"), &tiny("qwen2"), "gemba-da", &variables, &more);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{expected}: {said}");
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
