//! Models whose layers differ in their attention, Gemma 4 and gpt-oss: heads of several sizes up to 512,
//! values with a norm, sinks, factors on a layer's output, experts beside a dense half and experts with
//! biases. The same bits whatever kernels compute them, whether steps are recorded, and however many cards
//! share the model.

use std::fs;

use tribunal_cpu::{Activations, Compute};
use tribunal_cuda::{KernelSet, step_bytes};
use tribunal_engine::Device;
use tribunal_model::{
    BLOCK, Config, KvType, Model, StepLimits, Weights,
    config::{Attention, AttentionKind, Rope, Scaling},
    weights::{Format, seeded},
};

use super::{
    apart, config, gpu,
    graphs::{Work, check_whole},
    is_alone, is_emulated,
    kernels::check_kernels,
    ranks::{CUTS, gpus, groups},
};
use crate::model::{Desk, alone, bits, check_bits, check_company, load_on, sequences, tiny};

const MODELS: [&str; 4] = ["gemma4", "gemma4-moe", "gpt-oss", "gpt-oss-mxfp4"];

/// Gemma 4's two sizes of heads, with so many of keys and values in each kind of layer.
fn wide_heads(n_full: usize, n_sliding: usize) -> Config {
    let tiny = config("gemma4");
    let sliding = tiny.sliding.clone().unwrap();
    let rope = Rope { scaling: Scaling::Proportional { pairs: 64, factor: 1.0 }, ..tiny.full.rope.clone() };
    let full = Attention { head_dim: 512, rotary_dim: 512, n_kv_heads: n_full, rope, ..tiny.full.clone() };
    let sliding =
        Attention { head_dim: 256, rotary_dim: 256, n_kv_heads: n_sliding, window: Some(200), ..sliding };
    Config {
        n_layers: 2,
        slides: vec![true, false],
        hidden: 64,
        n_heads: 8,
        // Scores of random heads are so large without it that rounding them decides the softmax.
        attention_scale: 0.05,
        full,
        sliding: Some(sliding),
        ..tiny
    }
}

pub fn load(device: &Device, weights: &Weights) -> Box<dyn Model> {
    device.load(weights, Compute { activations: Activations::Float, ..Compute::default() }).unwrap()
}

/// Logits of two sequences, one of which passes the first KV split.
pub fn logits_past_a_split(device: &Device, weights: &Weights) -> Vec<Vec<f32>> {
    let mut model = load(device, weights);
    let all = sequences(&[290, 30]);
    let mut desk = Desk::new(&mut *model, &all, KvType::Bf16);
    let steps = [&[(0, 280), (1, 20)][..], &[(0, 1), (1, 1)], &[(0, 4), (1, 2)]];
    steps.into_iter().flat_map(|work| desk.step(work)).collect()
}

#[test]
fn heads_of_512_values_are_near_the_cpu_and_have_the_bits_of_plain_kernels() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for (n_full, n_sliding) in [(1, 2), (4, 8)] {
        let weights = Weights::seeded(wide_heads(n_full, n_sliding), 5);
        let run = |device: &Device| logits_past_a_split(device, &weights);
        let ours = run(&Device::Cuda(gpu.clone()));
        let apart = apart(&ours.concat(), &run(&Device::Cpu).concat());
        assert!(apart < 0.05, "{n_full} and {n_sliding} heads of keys: {apart} apart");
        for set in [KernelSet::Plain, KernelSet::Proven] {
            let plain = run(&Device::Cuda(gpu.with_kernels(set)));
            let same = ours.iter().zip(&plain).all(|(ours, plain)| bits(ours) == bits(plain));
            assert!(same, "{n_full} and {n_sliding} heads of keys, {set:?}");
        }
        check_company(
            &mut *load(&Device::Cuda(gpu.clone()), &weights),
            KvType::Bf16,
            &[270, 3],
            &[(0, 17), (1, 1)],
        );
    }
}

/// A model without the part has other logits: it is not left out on the GPU.
#[test]
fn sinks_and_norms_of_values_matter() {
    let Some(gpu) = gpu() else { return };
    let logits = |config: &Config| {
        let mut model = load(&gpu, &Weights::seeded(config.clone(), 3));
        Desk::new(&mut *model, &sequences(&[30]), KvType::Bf16).step(&[(0, 30)]).concat()
    };
    let (gemma, gpt) = (config("gemma4"), config("gpt-oss"));
    for (with, without) in [
        (&gpt, Config { sinks: false, ..gpt.clone() }),
        (&gemma, Config { value_norm: false, ..gemma.clone() }),
    ] {
        let apart = apart(&logits(with), &logits(&without));
        assert!(apart > 1e-3, "{apart} apart");
    }
}

/// Where every expert is chosen, no rounding chooses another one: each row is near the CPU's.
#[test]
fn experts_that_are_all_taken_are_near_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let of_token = "num_experts_per_tok";
    for (name, key) in [("gemma4-moe", "top_k_experts"), ("gpt-oss", of_token), ("mixtral", of_token)] {
        let folder = tempfile::tempdir().unwrap();
        let mut settings: serde_json::Value =
            serde_json::from_slice(&fs::read(tiny(name).join("config.json")).unwrap()).unwrap();
        settings[key] = settings.get("num_experts").unwrap_or(&settings["num_local_experts"]).clone();
        settings.as_object_mut().unwrap().remove("experts_per_token");
        fs::write(folder.path().join("config.json"), settings.to_string()).unwrap();
        fs::copy(tiny(name).join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
        let weights = Weights::open(folder.path()).unwrap();
        let logits = |device: &Device| {
            let mut model = load(device, &weights);
            Desk::new(&mut *model, &sequences(&[60]), KvType::Bf16).step(&[(0, 60)])
        };
        let [ours, cpu] = [&gpu, &Device::Cpu].map(logits);
        let apart: Vec<f32> = ours.iter().zip(&cpu).map(|(ours, cpu)| apart(ours, cpu)).collect();
        assert!(apart.iter().all(|apart| *apart < 0.06), "{name}: {apart:?}");
    }
}

#[test]
fn every_kernel_has_the_same_bits() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for name in MODELS {
        check_kernels(&gpu, name, &Weights::open(&tiny(name)).unwrap());
    }
}

#[test]
fn recorded_steps_have_the_bits_of_single_launches() {
    let Some(gpu) = gpu() else { return };
    let steps = [vec![(0, 1), (4, 2)], vec![(1, 3), (2, 1), (5, 1)], vec![(0, 2)]];
    // Work tiles change where a window leaves a split of keys, and are alike again behind that.
    let work: Work = steps.iter().cycle().take(24).cloned().collect();
    for name in MODELS {
        check_whole(name, &work, &gpu, std::slice::from_ref(&gpu));
    }
}

/// Blocks of all layers are copied, whatever their size.
#[test]
fn blocks_are_copied_in_layers_of_both_kinds() {
    let Some(gpu) = gpu() else { return };
    for name in ["gemma4", "gpt-oss", "deepseek-v2-lite"] {
        let tokens: Vec<u32> = (0..=BLOCK as u32).map(|i| i * 37 % 300).collect();
        let mut model = load_on(&gpu, name);
        model.runtime_mut().reserve(4, KvType::Bf16).unwrap();
        let part = |n: usize, position, blocks| tribunal_model::Part {
            tokens: &tokens[position..position + n],
            position,
            blocks,
            logits_from: n - 1,
            states_from: n,
            adapter: None,
            state: None,
        };
        let mut last = |part, copies| {
            model.run(tribunal_model::Step::new([part], copies)).unwrap();
            bits(&model.runtime().logits().unwrap()[0])
        };
        let expected = last(part(BLOCK + 1, 0, &[0, 1]), Vec::new());
        let copied = last(part(1, BLOCK, &[2, 3]), vec![(0, 2)]);
        assert!(copied == expected, "{name}");
    }
}

/// The memory computed from a model's sizes equals that of its steps and its cache.
#[test]
fn steps_and_the_cache_take_the_memory_that_is_reckoned() {
    const MOST: StepLimits = StepLimits { rows: 44, wanted: 20, sequences: 12, context: 320 };
    let Some(Device::Cuda(gpu)) = gpu().filter(|_| is_emulated()) else { return };
    if !is_alone("attentions::steps_and_the_cache_take_the_memory_that_is_reckoned") {
        return;
    }
    let gpu = gpu.with_buffers(false);
    for config in [wide_heads(1, 2), wide_heads(4, 2), config("gemma4-moe"), config("gpt-oss")] {
        let weights = Weights::seeded(config.clone(), 3);
        let mut model = Device::Cuda(gpu.clone()).load(&weights, Compute::default()).unwrap();
        let (before, bytes) = (gpu.memory().unwrap().0, model.runtime().step_bytes(MOST));
        model.runtime_mut().prepare(MOST).unwrap();
        assert_eq!(before - gpu.memory().unwrap().0, bytes, "{config:?}");
        let estimate = step_bytes((&config).into(), MOST);
        assert!((bytes..bytes + (1 << 16)).contains(&estimate), "{estimate} for {bytes}: {config:?}");
        let before = gpu.memory().unwrap().0;
        model.runtime_mut().reserve(8, KvType::Bf16).unwrap();
        let kinds = [AttentionKind::Full, AttentionKind::Sliding];
        let of_token = kinds.map(|kind| config.n_layers_of(kind) * config.attention(kind).cached());
        assert_eq!(before - gpu.memory().unwrap().0, 8 * BLOCK * 2 * of_token.iter().sum::<usize>());
        let mut desk = Desk::new(&mut *model, &sequences(&[44]), KvType::Bf16);
        desk.step(&[(0, 20)]);
        desk.step(&[(0, 1)]);
    }
}

#[test]
fn what_selftest_compares_agrees() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for name in MODELS {
        let weights = Weights::open(&tiny(name)).unwrap();
        let before = gpu.whole_steps();
        assert_eq!(gpu.check_layers(&weights).unwrap(), None, "{name}");
        assert!(gpu.whole_steps() > before, "{name}: no step was replayed");
    }
}

/// Layers of a checkpoint's formats: products, epilogues and panels.
#[test]
fn what_selftest_compares_agrees_in_every_format() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let tiny = config("qwen3");
    let full = Attention { head_dim: 64, rotary_dim: 64, n_kv_heads: 2, ..tiny.full.clone() };
    let config = Config { hidden: 256, intermediate: 512, n_heads: 4, full, ..tiny };
    for format in Format::ALL.into_iter().filter(|format| format.is_float() || format.on_gpus() == *format) {
        let weights = seeded::weights(config.clone(), 3, |name| {
            if name.ends_with("norm.weight") { Format::F32 } else { format }
        });
        let alike = weights.seeded_alike(config.clone(), 4);
        assert!(weights.tensors().eq(alike.tensors()), "{format:?}");
        assert_eq!(gpu.check_layers(&weights).unwrap(), None, "{format:?}");
    }
}

#[test]
fn every_number_of_gpus_has_the_bits_of_one() {
    let Some(gpus) = gpus("attentions::every_number_of_gpus_has_the_bits_of_one", &["0", "17"]) else {
        return;
    };
    for name in MODELS {
        let expected = alone(&mut *load_on(&gpus[0], name), &sequences(&[90, 17, 40]), KvType::Bf16);
        for group in groups(&gpus, &[2, 4]) {
            check_bits(&mut *load_on(&group, name), KvType::Bf16, &expected, CUTS);
        }
    }
}

#[test]
fn recorded_steps_of_several_gpus_have_the_bits_of_one() {
    const NAME: &str = "attentions::recorded_steps_of_several_gpus_have_the_bits_of_one";
    let Some(gpus) = gpus(NAME, &["0", "9"]) else { return };
    let work: Work = [vec![(0, 1), (4, 2)], vec![(0, 2)]].iter().cycle().take(8).cloned().collect();
    for name in ["gemma4-moe", "gpt-oss"] {
        check_whole(name, &work, &gpus[0], &groups(&gpus, &[2]));
    }
}

/// Heads of keys of one kind that so many cards neither share nor repeat.
#[test]
fn numbers_of_gpus_that_do_not_fit_both_kinds_are_refused_by_name() {
    let Some(gpus) =
        gpus("attentions::numbers_of_gpus_that_do_not_fit_both_kinds_are_refused_by_name", &["0"])
    else {
        return;
    };
    let mut config = wide_heads(4, 6);
    config.n_heads = 12;
    let weights = Weights::seeded(config, 3);
    let group = groups(&gpus, &[4]).remove(0);
    let said = group.load(&weights, Compute::default()).err().expect("refused").to_string();
    assert!(said.contains("12 heads, 4 of keys and values (6 in layers with a window)"), "{said}");
    assert!(said.ends_with("hint: `--tensor-parallel` 1 or 2"), "{said}");
}
