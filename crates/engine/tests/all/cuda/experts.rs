//! Mixtures of experts on a GPU: near the CPU in every format, the same bits whatever shares a step, whatever
//! kernels compute it and however many cards share the model; and routers with ties, unusual choices, or NaN.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{
    Device as Candle, Tensor,
    quantized::{
        GgmlDType as T, QTensor,
        gguf_file::{self, Value},
    },
    safetensors::{load, save},
};
use serde_json::json;
use tribunal_cpu::{Activations, Compute};
use tribunal_cuda::step_bytes;
use tribunal_engine::Device;
use tribunal_model::{
    Adapter, Config, KvType, Model, Weights,
    adapter::{AdapterConfig, AdapterLayer, LowRank, Module, Numbers},
    config::LayerNorms,
    sampler::{SampleRequest, SamplingParams},
};

use super::{
    apart, config, gpu,
    graphs::{Work, check_whole},
    is_alone, is_emulated,
    kernels::check_kernels,
    last_logits,
    ranks::{self, CUTS, gpus, groups},
};
use crate::model::{Desk, alone, bits, check_bits, check_company, load_on, sequences, tiny};

const MODELS: [&str; 2] = ["qwen3-moe", "glm4-moe"];

/// A tiny model's folder with some settings and tensors of its own.
fn changed(
    name: &str,
    settings: &serde_json::Value,
    change: impl FnOnce(&mut HashMap<String, Tensor>),
) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(tiny(name).join("config.json")).unwrap()).unwrap();
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut tensors = load(tiny(name).join("model.safetensors"), &Candle::Cpu).unwrap();
    change(&mut tensors);
    save(&tensors, folder.path().join("model.safetensors")).unwrap();
    folder
}

fn open(device: &Device, path: &Path) -> Box<dyn Model> {
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    device.load(&Weights::open(path).unwrap(), compute).unwrap()
}

/// Logits of one sequence of 70 tokens.
fn logits(device: &Device, path: &Path) -> Vec<Vec<f32>> {
    let mut model = open(device, path);
    Desk::new(&mut *model, &sequences(&[70]), KvType::Bf16).step(&[(0, 70)])
}

/// All of a router's logits are equal: every row takes the experts with the lowest numbers, so that one
/// expert, or each, gets all rows of a step.
#[test]
fn a_router_of_ties_gives_all_rows_to_the_first_experts() {
    let Some(gpu) = gpu() else { return };
    let ties = |tensors: &mut HashMap<String, Tensor>| {
        for layer in [0, 2] {
            let router = tensors.get_mut(&format!("model.layers.{layer}.mlp.gate.weight")).unwrap();
            *router = router.zeros_like().unwrap();
        }
    };
    for top_k in [1, 3, 8] {
        let folder = changed("qwen3-moe", &json!({"num_experts_per_tok": top_k}), ties);
        let [ours, cpu] = [&gpu, &Device::Cpu].map(|device| logits(device, folder.path()));
        let apart = apart(&ours.concat(), &cpu.concat());
        assert!(apart < 0.02, "{top_k} experts: {apart} apart");
        check_company(
            &mut *open(&gpu, folder.path()),
            KvType::Bf16,
            &[60, 17, 1],
            &[(0, 33), (1, 1), (2, 1)],
        );
    }
}

/// More rows than a tile holds, and shared experts with a gate of their own.
#[test]
fn a_gated_shared_expert_is_near_that_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let config = |name: &str| {
        let config = config(name);
        let mut experts = config.experts.clone().unwrap();
        if let Some(shared) = &mut experts.shared {
            shared.is_gated = true;
        }
        Config { experts: Some(experts), ..config }
    };
    let weights = Weights::seeded(config("glm4-moe"), 3);
    let tokens: Vec<u32> = (0..300).map(|i| i * 37 % 300).collect();
    let logits = |device: &Device| {
        let mut model =
            device.load(&weights, Compute { activations: Activations::Float, ..Compute::default() }).unwrap();
        Desk::new(&mut *model, std::slice::from_ref(&tokens), KvType::Bf16).step(&[(0, 300)])
    };
    let [ours, cpu] = [&gpu, &Device::Cpu].map(logits);
    let far = ours.iter().zip(&cpu).filter(|(ours, cpu)| apart(ours, cpu) > 0.05).count();
    // Of two experts whose logits are nearly equal, rounding may choose the other one.
    assert!(far <= 6, "{far} of 300 rows are far from the CPU's");
}

#[test]
fn a_router_without_numbers_leaves_no_logits() {
    let Some(gpu) = gpu() else { return };
    for bad in [f32::NAN, f32::INFINITY] {
        let folder = changed("qwen3-moe", &json!({}), |tensors| {
            let router = tensors.get_mut("model.layers.2.mlp.gate.weight").unwrap();
            *router = Tensor::full(bad, router.shape(), &Candle::Cpu).unwrap();
        });
        let mut model = open(&gpu, folder.path());
        let logits = Desk::new(&mut *model, &sequences(&[9]), KvType::Bf16).step(&[(0, 9)]);
        assert!(logits.iter().all(|row| row.iter().all(|x| x.is_nan())));
        let greedy = SamplingParams { mask: None, temperature: 0.0, top_p: 1.0, draw: 0.0 };
        let wants = vec![SampleRequest::Choose(greedy); 9];
        assert!(model.runtime().take(&wants).unwrap().iter().all(Option::is_none), "no token is chosen");
    }
}

/// Experts of one type, everything else in f32, as a file of llama.cpp.
fn gguf(path: &Path, dtype: T) {
    const HIDDEN: usize = 256;
    const WIDTH: usize = 256;
    const EXPERTS: usize = 4;
    let mut seed = 7_u64;
    let mut numbers = |shape: &[usize], scale: f32| {
        let n: usize = shape.iter().product();
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 40) as f32 / (1_u64 << 23) as f32 - 1.0) * scale
        };
        let values: Vec<f32> = (0..n).map(|_| next()).collect();
        Tensor::from_vec(values, shape, &Candle::Cpu).unwrap()
    };
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), numbers(&[256, HIDDEN], 1.0), T::F32),
        ("output_norm.weight".to_owned(), numbers(&[HIDDEN], 1.0), T::F32),
    ];
    for layer in 0..2 {
        let mut add = |part: &str, shape: &[usize], scale: f32, dtype| {
            tensors.push((format!("blk.{layer}.{part}.weight"), numbers(shape, scale), dtype));
        };
        for part in ["attn_norm", "ffn_norm"] {
            add(part, &[HIDDEN], 1.0, T::F32);
        }
        for part in ["attn_q_norm", "attn_k_norm"] {
            add(part, &[16], 1.0, T::F32);
        }
        for (part, n) in [("attn_q", HIDDEN), ("attn_k", 32), ("attn_v", 32), ("attn_output", HIDDEN)] {
            add(part, &[n, HIDDEN], 0.06, T::F32);
        }
        add("ffn_gate_inp", &[EXPERTS, HIDDEN], 0.5, T::F32);
        add("ffn_gate_exps", &[EXPERTS, WIDTH, HIDDEN], 0.1, dtype);
        add("ffn_up_exps", &[EXPERTS, WIDTH, HIDDEN], 0.1, dtype);
        add("ffn_down_exps", &[EXPERTS, HIDDEN, WIDTH], 0.1, dtype);
    }
    let size = |n: usize| Value::U32(n as u32);
    let settings = [
        ("general.architecture", Value::String("qwen3moe".into())),
        ("qwen3moe.block_count", size(2)),
        ("qwen3moe.context_length", size(512)),
        ("qwen3moe.embedding_length", size(HIDDEN)),
        ("qwen3moe.feed_forward_length", size(WIDTH)),
        ("qwen3moe.attention.head_count", size(16)),
        ("qwen3moe.attention.head_count_kv", size(2)),
        ("qwen3moe.attention.key_length", size(16)),
        ("qwen3moe.attention.value_length", size(16)),
        ("qwen3moe.attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("qwen3moe.rope.freq_base", Value::F32(1e6)),
        ("qwen3moe.expert_count", size(EXPERTS)),
        ("qwen3moe.expert_used_count", size(2)),
        ("qwen3moe.expert_feed_forward_length", size(WIDTH)),
    ];
    let settings: Vec<(&str, &Value)> = settings.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<(String, QTensor)> = tensors
        .into_iter()
        .map(|(name, tensor, dtype)| (name, QTensor::quantize(&tensor, dtype).unwrap()))
        .collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (&**name, tensor)).collect();
    gguf_file::write(&mut fs::File::create(path).unwrap(), &settings, &tensors).unwrap();
}

#[test]
fn experts_of_every_format_are_near_those_of_exact_activations() {
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
        assert!(apart < 0.03, "{dtype:?} is {apart} apart");
    }
}

#[test]
fn experts_of_two_types_are_refused_by_name() {
    let Some(gpu) = gpu() else { return };
    let name = "model.layers.2.mlp.experts.5.up_proj.weight";
    let folder = changed("qwen3-moe", &json!({}), |tensors| {
        let matrix = tensors.get_mut(name).unwrap();
        *matrix = matrix.to_dtype(candle_core::DType::BF16).unwrap();
    });
    let weights = Weights::open(folder.path()).unwrap();
    let said = gpu.load(&weights, Compute::default()).err().unwrap().to_string();
    assert!([name, "Bf16", "F32", "one type"].iter().all(|word| said.contains(word)), "{said}");
}

/// A model whose steps fill tiles of every size.
fn wide(name: &str) -> Weights {
    let config = config(name);
    let mut experts = config.experts.clone().unwrap();
    experts.width = 80;
    Weights::seeded(Config { hidden: 144, experts: Some(experts), ..config }, 5)
}

/// Experts whose sum is normed before it is added.
fn normed() -> Weights {
    let config = config("glm4-moe");
    Weights::seeded(Config { norms: LayerNorms::Around, ..config }, 5)
}

#[test]
fn a_norm_behind_experts_is_near_that_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let weights = normed();
    let logits = |device: &Device| {
        let compute = Compute { activations: Activations::Float, ..Compute::default() };
        let mut model = device.load(&weights, compute).unwrap();
        Desk::new(&mut *model, &sequences(&[60]), KvType::Bf16).step(&[(0, 60)])
    };
    let [ours, cpu] = [&gpu, &Device::Cpu].map(logits);
    let far = ours.iter().zip(&cpu).filter(|(ours, cpu)| apart(ours, cpu) > 0.05).count();
    assert!(far <= 2, "{far} of 60 rows are far from the CPU's");
}

#[test]
fn every_kernel_of_experts_has_the_same_bits() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for name in MODELS {
        check_kernels(&gpu, name, &wide(name));
    }
}

#[test]
fn recorded_steps_have_the_bits_of_single_launches() {
    let Some(gpu) = gpu() else { return };
    let steps = [vec![(0, 1), (4, 2)], vec![(1, 3), (2, 1), (5, 1)], vec![(0, 2)]];
    let work: Work = steps.iter().cycle().take(12).cloned().collect();
    for name in MODELS {
        check_whole(name, &work, &gpu, std::slice::from_ref(&gpu));
    }
}

/// An adapter on the attention of all layers.
fn on_attention(n_layers: usize) -> Adapter {
    let numbers = |n: usize, by: f32| (0..n).map(|i| ((i * 37 % 19) as f32 - 9.0) * by).collect::<Vec<f32>>();
    let layer = || {
        let matrices =
            |n_out, n_in| LowRank { a: numbers(2 * n_in, 0.02), b: numbers(2 * n_out, 0.03), n_in, n_out };
        [(Module::Q, matrices(64, 32)), (Module::O, matrices(32, 64))].into_iter().collect::<AdapterLayer>()
    };
    let (base, numbers) = (String::new(), Numbers::F32);
    let config = AdapterConfig { base, rank: 2, alpha: 2.0, rslora: false, dropout: 0.0, numbers };
    Adapter { config, layers: (0..n_layers).map(|_| layer()).collect() }
}

#[test]
fn adapters_on_attention_leave_other_rows_alone() {
    let Some(gpu) = gpu() else { return };
    let rows = |device: &Device, adapters: [Option<u32>; 2]| {
        let mut model = load_on(device, "qwen3-moe");
        assert_eq!(model.adapt(&on_attention(3)).unwrap(), 0);
        let all = sequences(&[20, 20]);
        let mut desk = Desk::new(&mut *model, &all, KvType::Bf16);
        desk.adapters = adapters.to_vec();
        desk.step(&[(0, 20), (1, 20)])
    };
    let [without, mixed] = [[None; 2], [None, Some(0)]].map(|adapters| rows(&gpu, adapters));
    let cpu = rows(&Device::Cpu, [None, Some(0)]);
    assert!(mixed[..20].iter().zip(&without).all(|(a, b)| bits(a) == bits(b)), "rows without an adapter");
    assert!(apart(&mixed[20..].concat(), &without[20..].concat()) > 0.05, "the adapter adds nothing");
    let far = mixed[20..].iter().zip(&cpu[20..]).filter(|(ours, cpu)| apart(ours, cpu) > 0.05).count();
    assert!(far <= 1, "{far} of 20 rows are far from the CPU's");
}

/// The memory computed from a model's sizes equals that of its steps.
#[test]
fn steps_take_the_memory_that_is_reckoned() {
    let Some(Device::Cuda(gpu)) = gpu().filter(|_| is_emulated()) else { return };
    if !is_alone("experts::steps_take_the_memory_that_is_reckoned") {
        return;
    }
    let gpu = gpu.with_buffers(false);
    let most = tribunal_model::StepLimits { rows: 44, wanted: 20, sequences: 12, context: 320 };
    for name in MODELS {
        let weights = wide(name);
        let mut model = Device::Cuda(gpu.clone()).load(&weights, Compute::default()).unwrap();
        let (before, bytes) = (gpu.memory().unwrap().0, model.runtime().step_bytes(most));
        model.runtime_mut().prepare(most).unwrap();
        assert_eq!(before - gpu.memory().unwrap().0, bytes, "{name}");
        let estimate = step_bytes(model.config().into(), most);
        assert!((bytes..bytes + (1 << 16)).contains(&estimate), "{name}: {estimate} for {bytes}");
        let mut desk = Desk::new(&mut *model, &sequences(&[44]), KvType::Bf16);
        desk.step(&[(0, 20)]);
        desk.step(&[(0, 1)]);
    }
}

#[test]
fn every_number_of_gpus_has_the_bits_of_one() {
    let Some(gpus) = gpus("experts::every_number_of_gpus_has_the_bits_of_one", &["0", "17"]) else { return };
    let load_wide = |device: &Device, weights: &Weights| device.load(weights, Compute::default()).unwrap();
    for name in MODELS {
        let weights = wide(name);
        let lengths = [90, 17, 40];
        let expected = alone(&mut *load_on(&gpus[0], name), &sequences(&lengths), KvType::Bf16);
        let of_wide = alone(&mut *load_wide(&gpus[0], &weights), &sequences(&lengths), KvType::Bf16);
        for group in groups(&gpus, &[2, 4]) {
            check_bits(&mut *load_on(&group, name), KvType::Bf16, &expected, CUTS);
            check_bits(&mut *load_wide(&group, &weights), KvType::Bf16, &of_wide, CUTS);
        }
    }
    let weights = normed();
    let expected = alone(&mut *load_wide(&gpus[0], &weights), &sequences(&[90, 17, 40]), KvType::Bf16);
    for group in groups(&gpus, &[2, 4]) {
        check_bits(&mut *load_wide(&group, &weights), KvType::Bf16, &expected, CUTS);
    }
}

/// The emulated driver drops one wait for another GPU's event at a time, of those that layers with experts
/// need.
#[test]
fn a_wait_that_is_missing_is_found() {
    const TEST: &str = "experts::a_wait_that_is_missing_is_found";
    if !is_emulated() {
        return;
    }
    if std::env::var_os(ranks::PART).is_none() {
        let run = |wait: usize, late| {
            let wait = wait.to_string();
            let variables = [
                ("TRIBUNAL_EMULATED_FORGOTTEN_WAIT", &*wait),
                ("TRIBUNAL_EMULATED_LATE", late),
                ("TRIBUNAL_EMULATED_PEERS", "1"),
            ];
            ranks::again(TEST, "run", &variables)
        };
        let (said, passed) = run(1_000_000, "2");
        assert!(passed, "none is forgotten: {said}");
        // A step that begins and a dense layer have ten waits, each layer with experts another ten.
        for wait in 10..30 {
            let (said, passed) = run(wait, ["0", "2"][wait % 2]);
            assert!(!passed && said.contains("other bits"), "{wait}: {said}");
        }
        return;
    }
    let gpus = Device::named("cuda:0,1").unwrap();
    // Both have columns of every expert.
    let weights = wide("glm4-moe");
    let run = |device: &Device| {
        let mut model = device.load(&weights, Compute::default()).unwrap();
        alone(&mut *model, &sequences(&[20, 5]), KvType::Bf16)
    };
    let ours = run(&groups(&gpus, &[2])[0]);
    assert!(ours == run(&gpus[0]), "other bits");
}

#[test]
fn formats_on_several_gpus_have_the_bits_of_one() {
    let Some(gpus) = gpus("experts::formats_on_several_gpus_have_the_bits_of_one", &["0"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 256).collect();
    for dtype in [T::BF16, T::Q4_0, T::Q5K, T::Q8_0, T::Q4K, T::Q6K] {
        let path = folder.path().join(format!("{dtype:?}.gguf"));
        gguf(&path, dtype);
        let weights = Weights::open(&path).unwrap();
        let expected = last_logits(&gpus[0], &weights, &tokens);
        for group in groups(&gpus, &[2, 8]) {
            assert_eq!(last_logits(&group, &weights, &tokens), expected, "{dtype:?} on {group:?}");
        }
    }
}

#[test]
fn recorded_steps_of_several_gpus_have_the_bits_of_one() {
    const NAME: &str = "experts::recorded_steps_of_several_gpus_have_the_bits_of_one";
    let Some(gpus) = gpus(NAME, &["0", "1", "9"]) else { return };
    let work: Work = [vec![(0, 1), (4, 2)], vec![(0, 2)]].iter().cycle().take(8).cloned().collect();
    for name in MODELS {
        check_whole(name, &work, &gpus[0], &groups(&gpus, &[2, 4]));
    }
}
