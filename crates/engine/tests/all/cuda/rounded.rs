//! Weights in formats that a GPU rounds to bf16: when it loads them, in each step, or in registers.

use std::path::Path;

use candle_core::{
    Tensor,
    quantized::{GgmlDType, QTensor, gguf_file},
};
use half::bf16;
use tribunal_cuda::KernelSet;
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{
    KvType, Weights,
    weights::{Format, seeded, values},
};

use super::{apart, attentions::load, config, gpu, options};
use crate::{
    gguf::gguf,
    model::{Desk, alone, bits, check_bits, sequences, tiny},
    model_families::latent,
    model_gguf::with_uneven_values,
    model_quantised::{cases, logits_on},
};

/// All but integers of 8 bits, which have kernels of their own.
#[test]
fn checkpoints_of_quantisation_libraries_have_the_bits_of_their_numbers() {
    let Some(gpu) = gpu() else { return };
    let cases: Vec<_> = cases().into_iter().filter(|case| !case.name.ends_with("-8")).collect();
    assert!(["awq", "fp8"].iter().all(|library| cases.iter().any(|case| case.name.contains(library))));
    let packing = gpu.clone().with_kernels(KernelSet::New);
    for case in cases {
        let expected = bits(&logits_on(&gpu, case.as_floats().path(), KvType::Bf16));
        for device in [&gpu, &packing] {
            let ours = bits(&logits_on(device, case.folder().path(), KvType::Bf16));
            assert_eq!(ours, expected, "{} on {device:?}", case.name);
        }
    }
}

#[test]
fn files_with_other_formats_are_near_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let check = |path: &Path| {
        let [ours, cpu] = [(&gpu, KvType::Bf16), (&Device::Cpu, KvType::F32)]
            .map(|(device, kv)| logits_on(device, path, kv));
        assert!(apart(&ours, &cpu) < 0.05, "{}: {}", path.display(), apart(&ours, &cpu));
    };
    let path = folder.path().join("uneven.gguf");
    with_uneven_values(&path);
    check(&path);
    let path = folder.path().join("latent.gguf");
    latent::lite().write_quantised(&path, 3, "attn_v_b");
    check(&path);
}

/// Files in formats that other kernels do not round, beside files with their values: a prompt of more rows
/// than are multiplied from registers, and further tokens.
#[test]
fn new_kernels_have_the_bits_of_rounded_weights() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let rows = |set: KernelSet, path: &Path| {
        let device = Device::Cuda(gpu.with_kernels(set));
        let mut model = load(&device, &Weights::open(path).unwrap());
        let sequence = (0..90).map(|i| (i * 17 + 3) % 256).collect();
        let mut desk = Desk::new(&mut *model, &[sequence], KvType::Bf16);
        let steps = [80, 1, 9].map(|n| desk.step(&[(0, n)]));
        steps.iter().flatten().map(|row| bits(row)).collect::<Vec<_>>()
    };
    let folder = tempfile::tempdir().unwrap();
    let [file, floats] = ["file.gguf", "floats.gguf"].map(|name| folder.path().join(name));
    for dtype in [GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K] {
        gguf(&file, dtype);
        as_floats(&file, &floats);
        assert!(rows(KernelSet::New, &file) == rows(KernelSet::Auto, &floats), "{dtype:?}");
        assert!(rows(KernelSet::Auto, &file) != rows(KernelSet::Auto, &floats), "{dtype:?}");
    }
    let expected = rows(KernelSet::Auto, &tiny("gpt-oss"));
    for name in ["gpt-oss-mxfp4", "gpt-oss-gguf/model.gguf"] {
        assert!(rows(KernelSet::New, &tiny(name)) == expected, "{name}");
    }
}

#[test]
fn what_new_kernels_compute_otherwise_is_signed() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.gguf");
    gguf(&path, GgmlDType::Q8_0);
    for (path, set, expected) in [
        (&path, KernelSet::Auto, ["q8_0", ""]),
        (&path, KernelSet::New, ["q8_0-as-bf16", "128"]),
        (&tiny("llama"), KernelSet::New, ["f32", "128"]),
    ] {
        let options = Options { device: Device::Cuda(gpu.with_kernels(set)), ..options() };
        let signature = Engine::open(path, &options).unwrap().facts().signature.clone();
        let signed = ["dtype", "split-k"].map(|key| signature.get(key).unwrap_or_default());
        assert_eq!(signed, expected, "{}", path.display());
    }
}

/// Prints each format's error, and the share of it that rounding to bf16 adds: root mean squares of the
/// distance from normally distributed weights.
#[test]
fn rounding_adds_little_to_the_error_of_a_format() {
    let mut state = 7_u32;
    let mut uniform = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let normal: Vec<f32> = (0..1 << 18).map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0).collect();
    let cpu = candle_core::Device::Cpu;
    let weights = Tensor::from_vec(normal.clone(), (256, 1024), &cpu).unwrap();
    let error = |values: &[f32]| {
        let squares = values.iter().zip(&normal).map(|(a, b)| f64::from(a - b).powi(2));
        (squares.sum::<f64>() / normal.len() as f64).sqrt()
    };
    for (dtype, most) in [(GgmlDType::Q4K, 1e-3), (GgmlDType::Q6K, 0.01), (GgmlDType::Q8_0, 0.1)] {
        let quantised = QTensor::quantize(&weights, dtype).unwrap().dequantize(&cpu).unwrap();
        let values: Vec<f32> = quantised.flatten_all().unwrap().to_vec1().unwrap();
        let rounded: Vec<f32> = values.iter().map(|&value| bf16::from_f32(value).to_f32()).collect();
        let (own, both) = (error(&values), error(&rounded));
        println!(
            "{dtype:?}: {own:.5} of a standard deviation, rounded {both:.5}, {:+.4} of it",
            both / own - 1.0
        );
        assert!(both / own - 1.0 < most, "{dtype:?}");
    }
    // MXFP4's values are exact.
    let blocks: Vec<u8> =
        (0..=u8::MAX).flat_map(|code| [vec![115 + code % 8], vec![code; 16]].concat()).collect();
    assert!(
        values(Format::Mxfp4, &blocks)
            .iter()
            .all(|&value| bf16::from_f32(value).to_f32().to_bits() == value.to_bits())
    );
}

/// Writes a file with the values of another.
fn as_floats(file: &Path, floats: &Path) {
    let mut read = std::fs::File::open(file).unwrap();
    let content = gguf_file::Content::read(&mut read).unwrap();
    let cpu = candle_core::Device::Cpu;
    let tensors: Vec<(String, QTensor)> = content
        .tensor_infos
        .keys()
        .map(|name| {
            let values = content.tensor(&mut read, name, &cpu).unwrap().dequantize(&cpu).unwrap();
            (name.clone(), QTensor::quantize(&values, GgmlDType::F32).unwrap())
        })
        .collect();
    let metadata: Vec<_> = content.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut std::fs::File::create(floats).unwrap(), &metadata, &tensors).unwrap();
}

/// Prompts of more rows than are multiplied from registers, and answers; with experts, some without rows.
#[test]
fn packed_weights_have_the_bits_of_those_that_are_rounded_before() {
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    let [rounded, packed] =
        [KernelSet::Auto, KernelSet::New].map(|set| Device::Cuda(gpu.with_kernels(set).without_graphs()));
    for (name, format) in [
        ("qwen3", Format::Q4_0),
        ("qwen3", Format::Q5_1),
        ("qwen3", Format::U4),
        ("qwen3-moe", Format::Q5_0),
        ("qwen3-moe", Format::F8E4M3),
    ] {
        let mut config = config(name);
        if let Some(experts) = &mut config.experts {
            experts.width = 64; // whole blocks
        }
        let weights = seeded::weights(config, 3, |name| {
            let is_matrix = name.ends_with("_proj.weight");
            if name.ends_with("norm.weight") {
                Format::F32
            } else if is_matrix {
                format
            } else {
                Format::Bf16
            }
        });
        let sequences = sequences(&[70, 9]);
        let expected = alone(&mut *load(&rounded, &weights), &sequences, KvType::Bf16);
        check_bits(&mut *load(&packed, &weights), KvType::Bf16, &expected, &[(0, 70), (1, 1), (0, 9)]);
    }
}
