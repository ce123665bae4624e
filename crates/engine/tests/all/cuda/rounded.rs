//! Weights in formats that a GPU rounds to bf16: when it loads them, in each step, or in registers.

use std::path::Path;

use tribunal_cuda::KernelSet;
use tribunal_engine::Device;
use tribunal_model::{
    KvType,
    weights::{Format, seeded},
};

use super::{apart, attentions::load, config, gpu};
use crate::{
    model::{alone, bits, check_bits, sequences},
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
