//! Latent attention: near the CPU, and the same bits in any company, by every set of kernels and in recorded
//! steps.

use tribunal_engine::Device;
use tribunal_model::{Config, KvType, Weights};

use super::{
    apart,
    attentions::{load, logits_past_a_split},
    config, gpu,
    graphs::{Work, check_whole},
    kernels::check_kernels,
    ranks::{CUTS, gpus, groups},
};
use crate::model::{alone, check_bits, check_company, sequences};

const MODELS: [&str; 4] = ["deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "glm4-moe-lite"];

/// A tiny model with compressed queries of a width that products on a GPU take.
fn wider(name: &str) -> Config {
    let mut config = config(name);
    let latent = config.full.latent.as_mut().unwrap();
    latent.query_rank = latent.query_rank.map(|_| 32);
    config
}

/// Heads and rows of the published sizes: 512 compressed values and 64 rotated ones.
fn published() -> Config {
    let mut config = wider("deepseek-v3");
    (config.full.head_dim, config.full.rotary_dim) = (576, 64);
    let latent = config.full.latent.as_mut().unwrap();
    (latent.rank, latent.plain_dim, latent.value_dim) = (512, 128, 128);
    Config { n_layers: 2, ..config }
}

#[test]
fn dense_models_are_near_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    for (name, config) in
        MODELS.map(|name| (name, wider(name))).into_iter().chain([("published", published())])
    {
        let weights = Weights::seeded(Config { experts: None, ..config }, 5);
        let [ours, cpu] = [&gpu, &Device::Cpu].map(|device| logits_past_a_split(device, &weights));
        let apart: Vec<f32> = ours.iter().zip(&cpu).map(|(ours, cpu)| apart(ours, cpu)).collect();
        assert!(apart.iter().all(|apart| *apart < 0.06), "{name}: {apart:?}");
    }
}

#[test]
fn models_with_experts_have_the_same_bits_in_any_company_and_by_all_kernels() {
    let Some(device) = gpu() else { return };
    let Device::Cuda(gpu) = &device else { return };
    let steps = [vec![(0, 1), (4, 2)], vec![(1, 3), (2, 1), (5, 1)], vec![(0, 2)]];
    let work: Work = steps.iter().cycle().take(12).cloned().collect();
    for name in MODELS {
        let weights = Weights::seeded(wider(name), 5);
        check_company(&mut *load(&device, &weights), KvType::Bf16, &[270, 33], &[(0, 17), (1, 1), (0, 61)]);
        check_kernels(gpu, name, &weights);
    }
    check_whole("deepseek-v2-lite", &work, &device, std::slice::from_ref(&device));
}

#[test]
fn several_gpus_have_the_bits_of_one() {
    let Some(gpus) = gpus("latent::several_gpus_have_the_bits_of_one", &["0", "17"]) else { return };
    for name in MODELS {
        let weights = Weights::seeded(wider(name), 5);
        let expected = alone(&mut *load(&gpus[0], &weights), &sequences(&[90, 17, 40]), KvType::Bf16);
        for group in groups(&gpus, &[2, 4]) {
            check_bits(&mut *load(&group, &weights), KvType::Bf16, &expected, CUTS);
        }
    }
}
