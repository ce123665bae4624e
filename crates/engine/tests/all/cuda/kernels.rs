//! Tiny models with each family of product kernels: all have the same bits. The launches are read from the
//! emulated driver's trace.

use std::collections::BTreeSet;

use candle_core::quantized::GgmlDType as T;
use tribunal_cpu::Compute;
use tribunal_cuda::{Gpu, KernelSet, products::Kernels};
use tribunal_engine::Device;
use tribunal_model::{KvType, Model, Weights, families::from_json};

use super::{again, apart, gpu, is_emulated, last_logits, launches, part};
use crate::{
    engine::tiny,
    gguf::gguf_of_sizes,
    model::{Desk, bits, load_on, sequences},
};

/// Every set of kernels gives these weights' logits the same bits; what the new ones round, plain ones then
/// round too.
pub fn check_kernels(gpu: &Gpu, name: &str, weights: &Weights) {
    let run = |gpu: &Gpu| {
        let mut model = Device::Cuda(gpu.clone()).load(weights, Compute::default()).unwrap();
        let all = sequences(&[300, 60, 9]);
        let mut desk = Desk::new(&mut *model, &all, KvType::Bf16);
        // A step that comes again is recorded, and replayed.
        let answers = [(0, 1), (1, 1), (2, 1)];
        let steps = [&[(0, 270), (1, 50), (2, 5)][..], &answers, &answers, &answers, &answers, &[(0, 20)]];
        steps.into_iter().flat_map(|work| desk.step(work)).map(|row| bits(&row)).collect::<Vec<_>>()
    };
    let expected = run(&gpu.with_kernels(KernelSet::Plain));
    for set in [KernelSet::Proven, KernelSet::Auto] {
        assert!(run(&gpu.with_kernels(set)) == expected, "{name} by {set:?}");
    }
    let new = gpu.with_kernels(KernelSet::New);
    assert!(run(&new) == run(&new.with_kernels(KernelSet::Plain)), "{name} by new kernels");
}

/// A model of qwen2's shape except for these numbers of its configuration.
fn seeded(device: &Device, numbers: &[(&str, usize)]) -> Box<dyn Model> {
    let file = std::fs::read(tiny("qwen2").join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&file).unwrap();
    for &(name, number) in numbers {
        let is_flag = config[name].is_boolean();
        config[name] = if is_flag { (number == 1).into() } else { number.into() };
    }
    let config = from_json("config.json", &config).unwrap();
    device.load(&Weights::seeded(config, 5), Compute::default()).unwrap()
}

/// The bits of all logits of three sequences: prompts side by side, then tokens one by one, then prompts that
/// go on.
fn logits(gpu: &Gpu, name: &str) -> Vec<Vec<u32>> {
    let device = Device::Cuda(gpu.clone());
    let mut model = match name {
        // The last product of a layer has two slices of k.
        "long sums" => seeded(&device, &[("intermediate_size", 2304)]),
        // The QKV product has fused rotary embedding and KV store, with one slice or two.
        "heads of 64" => seeded(&device, &[("head_dim", 64)]),
        "heads of 128, long sums" => seeded(&device, &[("head_dim", 128), ("hidden_size", 2304)]),
        _ => load_on(&device, name),
    };
    let sequences: Vec<Vec<u32>> =
        [260, 40, 9].map(|n| (0..n).map(|i| (i * 37 + n) % 300).collect()).to_vec();
    let mut desk = Desk::new(&mut *model, &sequences, KvType::Bf16);
    let mut all = Vec::new();
    // As many rows as tiles of 256, 64, 128 and again 64 tokens take.
    for work in [&[(0, 130), (1, 20), (2, 5)][..], &[(0, 1), (1, 1), (2, 1)], &[(0, 90)], &[(1, 19), (0, 39)]]
    {
        all.extend(desk.step(work).iter().map(|row| bits(row)));
    }
    all
}

/// Kernels that such a run must launch.
const KERNELS: [&str; 10] = [
    "gemm_heads_tma_64x128",
    "gemm_bf16_tma_64x128",
    "gemm_bf16_tma_64x128_merged",
    "gemm_silu_tma_64x128",
    "gemm_silu_tma_128x128",
    "gemm_silu_tma_256x128",
    "gemm_gelu_tma_256x128",
    "gemm_bf16_16x64_split",
    "gate_silu",
    "residual_norm",
];

#[test]
fn products_by_any_kernels_judge_alike() {
    const NAME: &str = "kernels::products_by_any_kernels_judge_alike";
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    if part().is_none() && is_emulated() {
        return launches_all(NAME, &KERNELS);
    }
    // qwen2: a bias of q, k and v; qwen3: norms of heads; gemma3: gelu, and a norm between a product and the
    // stream.
    for model in ["qwen2", "qwen3", "gemma3", "long sums", "heads of 64", "heads of 128, long sums"] {
        let expected = logits(&gpu.with_products_by(Kernels::MmaSync), model);
        for kernels in [Kernels::Wgmma, Kernels::Tma, Kernels::Measured] {
            let ours = logits(&gpu.with_products_by(kernels), model);
            assert!(ours == expected, "{model} has other bits by {kernels:?}, on {gpu:?}");
        }
    }
}

#[test]
fn kernels_that_no_card_has_run_judge_alike() {
    const NAME: &str = "kernels::kernels_that_no_card_has_run_judge_alike";
    const KERNELS: [&str; 8] = [
        "attend_rows_tma_d64_t128",
        "attend_split_kv_tma_d64_t128",
        "attend_rows_tma_d128_t128",
        "attend_split_kv_tma_d128_t128",
        "attend_rows_tma_d256_t64",
        "attend_split_kv_tma_d256_t64",
        "gemm_bf16_tma_256x128_grouped",
        "gemm_bf16_tma_256x128_gated",
    ];
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    if part().is_none() && is_emulated() {
        return launches_all(NAME, &KERNELS);
    }
    let heads_of = |device: &Device, head_dim: usize| {
        seeded(device, &[("head_dim", head_dim), ("num_hidden_layers", 1)])
    };
    for (name, head_dim) in [("qwen2", 64), ("qwen2", 128), ("qwen2", 256), ("qwen3-moe", 16)] {
        let [expected, ours] = [KernelSet::Auto, KernelSet::New].map(|set| {
            let device = Device::Cuda(gpu.with_kernels(set));
            let mut model =
                if name == "qwen2" { heads_of(&device, head_dim) } else { load_on(&device, name) };
            let sequences: Vec<Vec<u32>> =
                [330, 60].map(|n| (0..n).map(|i| (i * 37 + n) % 300).collect()).to_vec();
            let mut desk = Desk::new(&mut *model, &sequences, KvType::Bf16);
            // A prompt in chunks, the second of which sees two splits; a short one beside it; single tokens.
            let steps =
                [&[(0, 190), (1, 40)][..], &[(0, 120), (1, 1)], &[(0, 1), (1, 1)], &[(0, 19), (1, 18)]];
            steps.iter().flat_map(|work| desk.step(work)).map(|row| bits(&row)).collect::<Vec<_>>()
        });
        assert!(ours == expected, "{name}, heads of {head_dim}: other bits by new kernels, on {gpu:?}");
    }
}

/// The product with the vocabulary has two slices, and one in one wave.
#[test]
fn new_kernels_have_slices_of_their_own() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for tied in [0, 1] {
        let numbers = [
            ("hidden_size", 2048),
            ("intermediate_size", 64),
            ("num_hidden_layers", 1),
            ("head_dim", 16),
            ("vocab_size", 8512),
            ("tie_word_embeddings", tied),
        ];
        let logits = |gpu: &Gpu| {
            let mut model = seeded(&Device::Cuda(gpu.clone()), &numbers);
            let rows = Desk::new(&mut *model, &[vec![5, 7, 9]], KvType::Bf16).step(&[(0, 3)]);
            rows.iter().map(|row| bits(row)).collect::<Vec<_>>()
        };
        let new = gpu.with_kernels(KernelSet::New);
        let expected = logits(&new);
        assert!(expected != logits(&gpu), "tied: {tied}");
        for set in [KernelSet::Plain, KernelSet::Proven] {
            assert!(expected == logits(&new.with_kernels(set)), "tied: {tied}, by {set:?}");
        }
    }
}

/// So few multiprocessors that a block attends to all three splits of a row.
#[test]
fn ranges_of_kv_splits_judge_alike() {
    const NAME: &str = "kernels::ranges_of_kv_splits_judge_alike";
    let Some(Device::Cuda(gpu)) = gpu().filter(|_| is_emulated()) else { return };
    if part().is_none() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let few = ("TRIBUNAL_EMULATED_MULTIPROCESSORS", "2");
        let (said, passed) = again(NAME, "run", &[few, ("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap())]);
        assert!(passed, "{said}");
        let text = std::fs::read_to_string(&trace).unwrap();
        let mut launched = text.lines().filter(|line| line.starts_with("attend_merged_d16_t16 "));
        let is_of_rows = |line: &str| line.contains(" grid 3 2 1 ") || line.contains(" grid 4 2 1 ");
        assert!(launched.any(is_of_rows), "a work tile for each row, or one of padding: {:?}", names(&text));
        return;
    }
    let rows = |set: KernelSet| {
        let mut model = load_on(&Device::Cuda(gpu.with_kernels(set)), "qwen2");
        let sequences: Vec<Vec<u32>> =
            [566, 570, 590].map(|n| (0..n).map(|i| (i * 37 + n) % 300).collect()).to_vec();
        let mut desk = Desk::new(&mut *model, &sequences, KvType::Bf16);
        let answers = [(0, 1), (1, 1), (2, 1)];
        let steps = [&[(0, 560)][..], &[(1, 560)], &[(2, 560)], &answers, &answers, &answers];
        steps.into_iter().flat_map(|work| desk.step(work)).map(|row| bits(&row)).collect::<Vec<_>>()
    };
    assert!(rows(KernelSet::New) == rows(KernelSet::Auto));
}

/// Runs a test again on an emulated GPU that lists its launches, and looks for these kernels among them.
fn launches_all(test: &str, kernels: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let (said, passed) = again(test, "run", &[("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap())]);
    assert!(passed, "{said}");
    for kernel in kernels {
        let text = std::fs::read_to_string(&trace).unwrap();
        assert!(launches(&trace, kernel) > 0, "{kernel} was not launched, but {:?}", names(&text));
    }
}

/// The kernels of a list of launches.
fn names(trace: &str) -> BTreeSet<&str> {
    trace.lines().filter_map(|line| line.split(' ').next()).collect()
}

/// 48 KiB of shared memory are available to a block by default, static and dynamic together: from 12,257
/// columns on a row's norm has more. A kernel that has run with little may then run with much.
#[test]
fn norms_of_rows_around_48_kib_run() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    for hidden in [64, 12_224, 12_256, 12_272, 12_288, 12_304, 16_384] {
        let numbers =
            [("hidden_size", hidden), ("head_dim", 16), ("num_hidden_layers", 1), ("vocab_size", 300)];
        let mut model = seeded(&Device::Cuda(gpu.clone()), &numbers);
        let mut desk = Desk::new(&mut *model, &[vec![1, 2, 3]], KvType::Bf16);
        assert!(desk.step(&[(0, 3)])[0].iter().all(|x| x.is_finite()), "{hidden}");
    }
}

/// A grid has at most 65,535 blocks in y: an output matrix of more rows, in formats without products of their
/// own.
#[test]
fn vocabularies_beyond_a_grid_are_multiplied_in_every_format() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many-words.gguf");
    for dtype in [T::F32, T::F16, T::Q4_0, T::Q5K] {
        gguf_of_sizes(&path, dtype, [4, 128, 66_000]);
        let weights = Weights::open(&path).unwrap();
        let [ours, exact] =
            [&Device::Cuda(gpu.clone()), &Device::Cpu].map(|on| last_logits(on, &weights, &[3, 1, 2]));
        let apart = apart(&ours, &exact);
        assert!(apart < 0.03, "{dtype:?} is {apart} apart");
    }
}

/// The plain kernel of attention takes heads of up to 576 dimensions, and would write past its shared memory
/// with more.
#[test]
fn heads_that_no_kernel_takes_are_refused() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let file = std::fs::read(tiny("qwen2").join("config.json")).unwrap();
    for (dims, runs) in [(16, true), (112, true), (256, true), (272, true), (576, true), (592, false)] {
        let mut config: serde_json::Value = serde_json::from_slice(&file).unwrap();
        config["head_dim"] = dims.into();
        let config = from_json("config.json", &config).unwrap();
        let loaded = Device::Cuda(gpu.clone()).load(&Weights::seeded(config, 5), Compute::default());
        let said = loaded.err().map(|error| error.to_string());
        assert_eq!(said.is_none(), runs, "{dims}: {said:?}");
        assert!(said.is_none_or(|said| said.contains(&format!("heads of {dims} dimensions"))), "{dims}");
    }
}
