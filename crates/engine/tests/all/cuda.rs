//! The engine on a GPU, or on the emulated one of `scripts/cuda/emulated.sh`: near the CPU and near
//! transformers, and bit for bit the same whatever the batch, the cache, the chunks and the drafts. Without a
//! GPU the tests print so and pass; with `TRIBUNAL_TEST_GPU=1` that is a failure.
#![expect(clippy::print_stderr, reason = "a test that does not run says so")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use candle_core::quantized::GgmlDType as T;
use tribunal_core::llm::{Chat, Llm, ResponseFormat, Sampling, Usage};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{BLOCK, Config, KvType, Part, Step, Weights, families::from_json};

use crate::{
    engine::{ask_all, bits, options, tiny},
    gguf::gguf,
    model::{Desk, check_company, goldens, load_on},
};

mod adapters;
mod attentions;
mod delta_net;
mod detour;
mod drivers;
mod eight;
mod encoders;
mod experts;
mod graphs;
mod kernels;
mod latent;
mod memory;
mod products;
mod ranks;
mod rounded;

/// A GPU on which a write past the end of a step's buffer does not go to the next one.
fn gpu() -> Option<Device> {
    match Device::named("cuda").map(|mut devices| devices.remove(0)) {
        Ok(Device::Cuda(gpu)) => Some(Device::Cuda(gpu.with_buffers(true))),
        Ok(Device::Cpu | Device::Group(_)) => unreachable!("`cuda` names a GPU"),
        Err(error) => {
            assert!(std::env::var_os("TRIBUNAL_TEST_GPU").is_none(), "{error}");
            eprintln!("not checked: {error}");
            None
        }
    }
}

/// The configuration of a tiny model.
fn config(name: &str) -> Config {
    let file = std::fs::read(tiny(name).join("config.json")).unwrap();
    from_json("config.json", &serde_json::from_slice(&file).unwrap()).unwrap()
}

/// Returns true if the driver is the emulated one, whose behaviour variables change.
fn is_emulated() -> bool {
    std::env::var_os("TRIBUNAL_TEST_EMULATED").is_some()
}

/// The variable that selects the part of a test for a process to run.
const PART: &str = "TRIBUNAL_TEST_PART";

/// Runs a test of these modules again with other variables; returns its output, and true if it passed.
fn again(test: &str, part: &str, variables: &[(&str, &str)]) -> (String, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("cuda::{test}");
    command.args([name.as_str(), "--exact", "--nocapture", "--test-threads", "1"]);
    let output = command.env(PART, part).envs(variables.iter().copied()).output().unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (text, output.status.success())
}

fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Returns true if this process runs nothing but this test, so that no other one takes or frees memory of the
/// card meanwhile. Otherwise the test is run in a process of its own, in which it must pass.
fn is_alone(test: &str) -> bool {
    let is_alone = part().is_some();
    if !is_alone {
        let (said, passed) = again(test, "alone", &[]);
        assert!(passed, "{said}");
    }
    is_alone
}

/// Number of launches of a kernel in the emulated driver's trace.
fn launches(trace: &Path, kernel: &str) -> usize {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').next() == Some(kernel)).count()
}

/// The root of the mean square of the differences, over that of the second.
fn apart(ours: &[f32], theirs: &[f32]) -> f32 {
    let squares = |x: &mut dyn Iterator<Item = f32>| x.map(|x| x * x).sum::<f32>().sqrt();
    squares(&mut ours.iter().zip(theirs).map(|(a, b)| a - b)) / squares(&mut theirs.iter().copied())
}

#[test]
fn logits_are_near_those_of_transformers() {
    let Some(gpu) = gpu() else { return };
    let same = ["llama", "smollm2", "mistral", "qwen2", "qwen2-yarn", "qwen3", "gemma3"];
    let same = same.into_iter().chain(["qwen3-moe", "glm4-moe", "gemma2", "hunyuan", "ministral3"]);
    let same = same.chain(["qwen3-5", "qwen3-5-moe", "qwen3-next"]);
    let same = same.chain(["gemma4", "gemma4-moe", "gpt-oss"]);
    let same =
        same.chain(["smollm3", "olmo2", "olmo3", "granite", "granite-hybrid", "glm4", "exaone4", "phi3"]);
    let same = same.chain(["mixtral", "ministral", "apertus", "cohere", "cohere2", "deepseek-v2-lite"]);
    let same = same.map(|name| (name, name));
    let others = [("mistral-sharded", "mistral"), ("gemma3-nested", "gemma3"), ("gpt-oss-mxfp4", "gpt-oss")];
    for (name, golden) in same.chain(others) {
        let mut model = load_on(&gpu, name);
        for golden in goldens(golden) {
            let n = golden.ids.len();
            let ours =
                Desk::new(&mut *model, std::slice::from_ref(&golden.ids), KvType::Bf16).step(&[(0, n)]);
            assert_eq!(ours.len(), golden.logits.len());
            // Weights and inputs of every product are rounded to bf16, a part in 256 each.
            let apart: Vec<f32> = ours.iter().zip(&golden.logits).map(|(a, b)| apart(a, b)).collect();
            // A state that decays fast is small, and the norm behind it amplifies its rounding errors.
            let is_hybrid = model.config().delta_net.is_some();
            let limit = if is_hybrid { 0.08 } else { 0.05 };
            let far = apart.iter().filter(|apart| **apart >= limit).count();
            // Of two experts whose logits are nearly equal, that rounding may choose the other one; a state
            // carries it to the tokens that follow, until it has decayed.
            let may_be = match (&model.config().experts, is_hybrid) {
                (None, _) => 0,
                // Few experts, of which many have nearly equal logits: `attentions` takes all of them.
                (Some(experts), _) if experts.beside_dense || experts.biases => n / 3,
                // One of two experts, and none beside them.
                (Some(_), false) if name == "mixtral" => n / 5,
                (Some(_), false) => n.div_ceil(50),
                (Some(_), true) => n / 5,
            };
            assert!(far <= may_be, "{name}: {far} of {n} positions are far apart: {apart:?}");
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_company() {
    let Some(gpu) = gpu() else { return };
    for (name, lengths, cuts) in [
        ("qwen2", &[290, 17, 140][..], &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33)][..]),
        ("gemma3", &[1, 270, 33], &[(1, 64), (2, 9), (0, 1), (1, 2)]),
        ("mistral", &[300, 299], &[(0, 7), (1, 50), (0, 47)]),
        ("qwen3-moe", &[290, 17, 140], &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33)]),
        ("glm4-moe", &[1, 270, 33], &[(1, 64), (2, 9), (0, 1), (1, 2)]),
        ("gemma2", &[1, 270, 33], &[(1, 64), (2, 9), (0, 1), (1, 2)]),
        ("hunyuan", &[70, 33], &[(1, 4), (0, 9), (0, 1)]),
        ("ministral3", &[150, 33], &[(1, 4), (0, 49), (0, 1)]),
        ("qwen3-5", &[290, 17, 140], &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33)]),
        ("qwen3-5-moe", &[1, 70, 33], &[(1, 8), (2, 9), (0, 1), (1, 2)]),
        ("qwen3-next", &[2, 60, 33], &[(1, 13), (2, 2), (0, 1), (1, 2)]),
        ("gemma4", &[290, 17, 140], &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33)]),
        ("gemma4-moe", &[1, 270, 33], &[(1, 64), (2, 9), (0, 1), (1, 2)]),
        ("gpt-oss", &[290, 17, 140], &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33)]),
        ("gpt-oss-mxfp4", &[1, 70, 33], &[(1, 8), (2, 9), (0, 1), (1, 2)]),
        ("olmo3", &[1, 70, 33], &[(1, 8), (2, 9), (0, 1), (1, 2)]),
        ("apertus", &[1, 70, 33], &[(1, 8), (2, 9), (0, 1), (1, 2)]),
        ("cohere", &[1, 70, 33], &[(1, 8), (2, 9), (0, 1), (1, 2)]),
        ("cohere2", &[290, 17, 140], &[(0, 61), (1, 3), (2, 16), (0, 1), (2, 33)]),
    ] {
        check_company(&mut *load_on(&gpu, name), KvType::Bf16, lengths, cuts);
    }
}

/// Logits after the last of some tokens.
fn last_logits(device: &Device, weights: &Weights, tokens: &[u32]) -> Vec<f32> {
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let mut model = device.load(weights, compute).unwrap();
    model.runtime_mut().reserve(8, KvType::Bf16).unwrap();
    model.runtime_mut().reserve_states(1).unwrap();
    let blocks: Vec<u32> = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
    let part = Part {
        tokens,
        position: 0,
        blocks: &blocks,
        logits_from: tokens.len() - 1,
        states_from: tokens.len(),
        adapter: None,
        state: model.config().delta_net.is_some().then_some(0),
    };
    model.run(Step::new([part], Vec::new())).unwrap();
    model.runtime().logits().unwrap().remove(0)
}

#[test]
fn every_gguf_format_gives_logits_near_those_of_exact_activations() {
    let Some(gpu) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 256).collect();
    for dtype in
        [T::F32, T::F16, T::BF16, T::Q4_0, T::Q4_1, T::Q5_0, T::Q5_1, T::Q8_0, T::Q4K, T::Q5K, T::Q6K]
    {
        let path = folder.path().join(format!("{dtype:?}.gguf"));
        gguf(&path, dtype);
        let weights = Weights::open(&path).unwrap();
        let [ours, exact] = [&gpu, &Device::Cpu].map(|device| last_logits(device, &weights, &tokens));
        let apart = apart(&ours, &exact);
        // Formats without a product of their own have their weights rounded to bf16 too.
        assert!(apart < 0.03, "{dtype:?} is {apart} apart");
    }
}

#[test]
fn hidden_states_do_not_depend_on_company_and_are_near_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let [ours, cpu] = [&gpu, &Device::Cpu].map(crate::states::states_in_company);
    for (ours, cpu) in ours.iter().zip(&cpu) {
        let apart = apart(&ours.states[0], &cpu.states[0]);
        assert!(apart < 0.03, "{apart} apart");
    }
}

#[test]
fn scores_do_not_depend_on_company_and_are_near_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let [ours, cpu] = [&gpu, &Device::Cpu].map(crate::score_heads::scores_in_company);
    for (ours, cpu) in ours.iter().flatten().zip(cpu.iter().flatten()) {
        assert!((ours - cpu).abs() < 0.05, "{ours} on the GPU, {cpu} on the CPU");
    }
}

#[test]
fn replies_do_not_depend_on_batch_cache_drafts_or_order() {
    let Some(gpu) = gpu() else { return };
    let options = || Options { device: gpu.clone(), ..options() };
    for (model, n_variants) in [("qwen2", 6), ("gemma3", 2), ("qwen3-moe", 6), ("glm4-moe", 2), ("gemma2", 1)]
    {
        let forward: Vec<usize> = (0..18).collect();
        let backward: Vec<usize> = forward.iter().rev().copied().collect();
        let device = gpu.clone().without_graphs();
        let plain = Options { device, n_rows: 1, prefix_cache: false, drafts: false, ..options() };
        let expected = ask_all(&Engine::open(&tiny(model), &plain).unwrap(), &forward);
        let variants = [
            Options { n_rows: 7, step_tokens: 33, ..options() },
            Options { kv_bytes: Some(660 * 1024), step_tokens: 5, ..options() },
            Options { n_rows: 2, ..options() },
            Options { n_rows: 64, drafts: false, ..options() },
            Options { n_rows: 64, prefix_cache: false, ..options() },
            Options { more_devices: vec![gpu.clone()], n_rows: 3, ..options() },
        ];
        let whole_steps =
            |device: &Device| if let Device::Cuda(gpu) = device { gpu.whole_steps() } else { 0 };
        let before = whole_steps(&gpu);
        for (i, variant) in variants.iter().enumerate().take(n_variants) {
            let engine = Engine::open(&tiny(model), variant).unwrap();
            let replies = ask_all(&engine, if i % 2 == 0 { &backward } else { &forward });
            for (reply, expected) in replies.iter().zip(&expected) {
                assert_eq!(bits(reply), bits(expected), "{model}: variant {i}");
            }
            let sum = |part: fn(&Usage) -> usize| replies.iter().map(|r| part(&r.usage)).sum::<usize>();
            assert!(!variant.drafts || sum(|u| u.accepted) > 0, "{model}: variant {i} guesses nothing right");
        }
        assert!(whole_steps(&gpu) > before, "{model}: no step was launched whole, from a recording");
    }
}

/// Tiles in `tests/golden/mma.json`, which MMA-Sim computed for each generation.
#[derive(serde::Deserialize)]
struct TensorCore {
    cases: Vec<Tiles>,
}

#[derive(serde::Deserialize)]
struct Tiles {
    name: String,
    a: String,
    b: String,
    c: String,
    d: BTreeMap<String, String>,
}

/// Hexadecimal numbers of `digits` digits each.
fn hex(text: &str, digits: usize) -> Vec<u32> {
    let number = |at| u32::from_str_radix(&text[at..at + digits], 16).unwrap();
    (0..text.len()).step_by(digits).map(number).collect()
}

/// A card's tensor core has the known bits of its generation, and so has the emulated one.
#[test]
fn tensor_core_sums_are_those_of_its_generation() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/golden/mma.json");
    let golden: TensorCore = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    // Cards of one major compute capability round alike; 8.9 as 8.0 does.
    let known = format!("{}0", gpu.generation());
    if !golden.cases.iter().all(|case| case.d.contains_key(&known)) {
        eprintln!("not checked: there are no golden sums of generation {}", gpu.generation());
        return;
    }
    let halves = |text: &str| hex(text, 4).into_iter().map(|bits| bits as u16).collect::<Vec<u16>>();
    for Tiles { name, a, b, c, d } in &golden.cases {
        let c: Vec<f32> = hex(c, 8).into_iter().map(f32::from_bits).collect();
        let ours = gpu.multiply_tiles(&halves(a), &halves(b), &c).unwrap();
        let ours: Vec<u32> = ours.into_iter().map(f32::to_bits).collect();
        assert_eq!(ours, hex(&d[&known], 8), "{name}, on {gpu:?}");
    }
    assert_eq!(gpu.check_tensor_core().unwrap(), None, "the hashes of many tiles, on {gpu:?}");
    eprintln!("{} tiles and the hashes of many have the bits of sm_{known} on {gpu:?}", golden.cases.len());
}

/// Weights made on the GPU equal those made on the CPU, and reading shared keys apart moves no bit.
#[test]
fn seeded_weights_are_the_same_on_both_devices() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let weights = Weights::seeded(config("qwen2"), 3);
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 256).collect();
    let apart_from = gpu.without_cascade();
    let [ours, theirs, uncascaded] = [Device::Cuda(gpu), Device::Cpu, Device::Cuda(apart_from)]
        .map(|d| last_logits(&d, &weights, &tokens));
    let apart = apart(&ours, &theirs);
    assert!(apart < 0.03, "{apart} apart");
    assert_eq!(ours, uncascaded);
}

/// Equal greedy answers have log-probabilities near the CPU's.
#[test]
fn log_probabilities_are_near_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let chat = Chat::new().user("Is the old bridge closed until spring?");
    let given = ["closed".to_owned(), "open until spring".to_owned()];
    let score = |device| {
        let engine = Engine::open(&tiny("llama"), &Options { device, ..options() }).unwrap();
        let scored = engine.score_continuations(&chat, &given).unwrap();
        let free = engine
            .ask(&chat, &ResponseFormat::Text, &Sampling { max_tokens: 3, ..Sampling::default() })
            .unwrap();
        scored.into_iter().flat_map(|w| w.tokens).chain(free.tokens).map(|t| t.logprob).collect::<Vec<_>>()
    };
    let (ours, theirs) = (score(gpu), score(Device::Cpu));
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!((ours - theirs).abs() < 0.1, "{ours} and {theirs}");
    }
}
