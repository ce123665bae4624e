//! Weights in formats that a GPU rounds to bf16 when it loads them.

use std::path::Path;

use tribunal_engine::Device;
use tribunal_model::KvType;

use super::{apart, gpu};
use crate::{
    model::bits,
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
    for case in cases {
        let [coded, floats] = [case.folder(), case.as_floats()]
            .map(|folder| bits(&logits_on(&gpu, folder.path(), KvType::Bf16)));
        assert_eq!(coded, floats, "{}", case.name);
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
