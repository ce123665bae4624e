//! One model on one, two, four and eight GPUs: models of eight heads, whose heads of keys and values are
//! divided up or are on several GPUs. Cases that two and four alone can show are in `ranks`.

use candle_core::quantized::GgmlDType as T;
use tribunal_cpu::Compute;
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{
    Adapter, Config, KvType, Model, Weights,
    adapter::{LowRank, Module},
    config::Attention,
};

use super::{
    config,
    graphs::{Work, decode},
    last_logits,
    ranks::{CUTS, gpus, groups},
};
use crate::{
    engine::{ask_all, bits as reply_bits, options},
    gguf::gguf_of_heads,
    model::{alone, check_bits, sequences},
    model_adapters::{adapter, logits},
};

const NUMBERS: &[usize] = &[2, 4, 8];

/// A tiny model's architecture with eight heads.
fn of_eight_heads(name: &str, n_kv_heads: usize) -> Config {
    let tiny = config(name);
    Config { n_heads: 8, full: Attention { n_kv_heads, ..tiny.full.clone() }, ..tiny }
}

fn load(device: &Device, name: &str, n_kv_heads: usize) -> Box<dyn Model> {
    let weights = Weights::seeded(of_eight_heads(name, n_kv_heads), 5);
    device.load(&weights, Compute::default()).unwrap()
}

#[test]
fn every_architecture_has_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("eight::every_architecture_has_the_bits_of_one_gpu", &["0", "11"]) else { return };
    for name in ["llama", "mistral", "qwen2", "qwen3", "gemma3", "glm4-moe"] {
        for n_kv_heads in [8, 2] {
            let lengths = [50, 17, 33];
            let expected = alone(&mut *load(&gpus[0], name, n_kv_heads), &sequences(&lengths), KvType::Bf16);
            for group in groups(&gpus, NUMBERS) {
                check_bits(&mut *load(&group, name, n_kv_heads), KvType::Bf16, &expected, CUTS);
            }
        }
    }
}

#[test]
fn steps_launched_whole_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("eight::steps_launched_whole_have_the_bits_of_one_gpu", &["0", "8", "12"]) else {
        return;
    };
    let work: Work = [vec![(0, 1), (4, 2)], vec![(0, 2)]].iter().cycle().take(8).cloned().collect();
    let run = |device: &Device| decode(&mut *load(device, "qwen3", 4), &work, 0);
    let expected = run(&gpus[0].clone().without_graphs());
    for group in groups(&gpus, NUMBERS) {
        let before = group.gpus()[0].whole_steps();
        assert!(run(&group) == expected, "other bits on {group:?}");
        assert!(group.gpus()[0].whole_steps() > before, "no step was launched whole on {group:?}");
    }
}

#[test]
fn weights_of_every_kind_and_replies_have_the_bits_of_one_gpu() {
    let test = "eight::weights_of_every_kind_and_replies_have_the_bits_of_one_gpu";
    let Some(gpus) = gpus(test, &["0"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let tokens: Vec<u32> = (0..20).map(|i| i * 37 % 256).collect();
    for dtype in
        [T::F32, T::F16, T::BF16, T::Q4_0, T::Q4_1, T::Q5_0, T::Q5_1, T::Q8_0, T::Q4K, T::Q5K, T::Q6K]
    {
        let path = folder.path().join(format!("{dtype:?}.gguf"));
        gguf_of_heads(&path, dtype, 8, 640);
        let weights = Weights::open(&path).unwrap();
        let expected = last_logits(&gpus[0], &weights, &tokens);
        for group in groups(&gpus, &[8]) {
            assert_eq!(last_logits(&group, &weights, &tokens), expected, "{dtype:?} on {group:?}");
        }
    }
    let path = folder.path().join("Q8_0.gguf");
    let order: Vec<usize> = (0..4).collect();
    let on = |device: &Device| Options { device: device.clone(), ..options() };
    let expected = ask_all(&Engine::open(&path, &on(&gpus[0])).unwrap(), &order);
    for group in groups(&gpus, &[8]) {
        let narrow = Options { n_rows: 3, step_tokens: 33, drafts: false, prefix_cache: false, ..on(&group) };
        for variant in [on(&group), narrow] {
            let replies = ask_all(&Engine::open(&path, &variant).unwrap(), &order);
            for (reply, expected) in replies.iter().zip(&expected) {
                assert_eq!(reply_bits(reply), reply_bits(expected), "{group:?}");
            }
        }
    }
}

/// A golden adapter's shape and numbers, over and over, for a model of eight heads.
fn wide(name: &str, config: &Config) -> Adapter {
    let mut adapter = adapter(name);
    let (queries, keys) = (config.n_heads * config.full.head_dim, config.full.kv_width());
    let rank = adapter.config.rank;
    let again = |values: &[f32], n: usize| values.iter().copied().cycle().take(n).collect::<Vec<f32>>();
    for (module, part) in adapter.layers.iter_mut().flatten() {
        let (n_in, n_out) = match module {
            Module::Q => (part.n_in, queries),
            Module::K | Module::V => (part.n_in, keys),
            Module::O => (queries, part.n_out),
            _ => (part.n_in, part.n_out),
        };
        *part = LowRank { a: again(&part.a, rank * n_in), b: again(&part.b, rank * n_out), n_in, n_out };
    }
    adapter
}

#[test]
fn adapters_have_the_bits_of_one_gpu() {
    let Some(gpus) = gpus("eight::adapters_have_the_bits_of_one_gpu", &["0"]) else { return };
    let ids: Vec<u32> = (0..40).map(|i| i * 41 % 300).collect();
    for n_kv_heads in [8, 2] {
        let adapted = |device: &Device| {
            let mut model = load(device, "qwen2", n_kv_heads);
            for name in ["qwen2-all", "qwen2-qv"] {
                model.adapt(&wide(name, &of_eight_heads("qwen2", n_kv_heads))).unwrap();
            }
            model
        };
        let mut one = adapted(&gpus[0]);
        let expected: Vec<_> =
            [None, Some(0), Some(1)].map(|n| (n, logits(&mut *one, &ids, KvType::Bf16, n))).into();
        assert!(expected[0].1 != expected[1].1 && expected[1].1 != expected[2].1, "an adapter matters");
        for group in groups(&gpus, NUMBERS) {
            let mut several = adapted(&group);
            for (adapter, expected) in &expected {
                let ours = logits(&mut *several, &ids, KvType::Bf16, *adapter);
                assert!(ours == *expected, "{adapter:?} on {group:?}");
            }
        }
    }
}
