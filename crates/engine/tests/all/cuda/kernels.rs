//! Tiny models through every family of kernels that products are chosen from: the same bits, whichever computes them. What was
//! launched is read from the emulated driver's list of launches.

use tribunal_engine::model::{
    Device, KvType,
    cuda::{Gpu, products::Kernels},
};

use super::{again, gpu, is_emulated, launches, part};
use crate::model::{Desk, bits, load_on};

/// The bits of all logits of three sequences: prompts side by side, then tokens one by one, then a prompt that goes on.
fn logits(gpu: &Gpu, model: &str) -> Vec<Vec<u32>> {
    let mut model = load_on(&Device::Cuda(gpu.clone()), model);
    let sequences: Vec<Vec<u32>> =
        [170, 40, 9].map(|n| (0..n).map(|i| (i * 37 + n) % 300).collect()).to_vec();
    let mut desk = Desk::new(&mut *model, &sequences, KvType::Bf16);
    let mut all = Vec::new();
    for work in [&[(0, 130), (1, 20), (2, 5)][..], &[(0, 1), (1, 1), (2, 1)], &[(1, 19), (0, 39)]] {
        all.extend(desk.step(work).iter().map(|row| bits(row)));
    }
    all
}

#[test]
fn products_by_any_kernels_judge_alike() {
    const NAME: &str = "kernels::products_by_any_kernels_judge_alike";
    let Some(Device::Cuda(gpu)) = gpu() else { return };
    if part().is_none() && is_emulated() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let (said, passed) = again(NAME, "run", &[("TRIBUNAL_EMULATED_TRACE", trace.to_str().unwrap())]);
        assert!(passed, "{said}");
        for kernel in ["gemm_bf16_tma_128x128", "gemm_bf16_tma_256x128", "gemm_silu_tma_128x128"] {
            assert!(launches(&trace, kernel) > 0, "{kernel} was not launched");
        }
        assert!(launches(&trace, "gemm_gelu_tma_256x128") > 0, "gelu in the product was not launched");
        return;
    }
    // qwen2: a bias of q, k and v; qwen3: norms of heads; gemma3: gelu, and a norm between a product and the stream.
    for model in ["qwen2", "qwen3", "gemma3"] {
        let expected = logits(&gpu.with_products_by(Kernels::Fast), model);
        for kernels in [Kernels::Hopper, Kernels::Boxes] {
            let ours = logits(&gpu.with_products_by(kernels), model);
            assert!(ours == expected, "{model} has other bits by {kernels:?}, on {gpu:?}");
        }
    }
}
