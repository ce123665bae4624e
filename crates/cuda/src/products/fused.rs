//! Products with a fused epilogue, whose sums are never written to memory. A choice for speed alone, which
//! changes no bit.

use super::{Kernels, Launch, by_tma, on_h100, tma_tiles};
use tribunal_model::config::Activation;

/// The launch of the fused gate and up projections with the gate, where there is such a kernel: `n / 2`
/// gates, then `n / 2` ups, and `out[m, n / 2] = f(gate) up` in bf16.
///
/// A choice for speed alone, as [`super::launch`], and without split-K. On an H100 it is made where the
/// product by itself would be by a TMA kernel. A tile of more tokens has fewer copies, if it is filled.
pub fn launch_gated(
    kernels: Kernels,
    [m, n, k]: [usize; 3],
    k_slice: usize,
    activation: Activation,
) -> Option<Launch> {
    let possible = k <= k_slice && n.is_multiple_of(16);
    let tile = match kernels {
        Kernels::Tma => tma_tiles().rev().find(|tile| tile.may_be_filled(m)),
        Kernels::Measured => {
            on_h100([m, n, k], k_slice).map(|it| it.tile).filter(|it| it.kernels == Kernels::Tma)
        }
        Kernels::Reference | Kernels::MmaSync | Kernels::Wgmma => None,
    };
    let tile = tile.filter(|_| possible)?;
    let kernel = match (activation, tile.tokens) {
        (Activation::Silu, 64) => "gemm_silu_tma_64x128",
        (Activation::Silu, 128) => "gemm_silu_tma_128x128",
        (Activation::Silu, _) => "gemm_silu_tma_256x128",
        (Activation::GeluTanh, 64) => "gemm_gelu_tma_64x128",
        (Activation::GeluTanh, 128) => "gemm_gelu_tma_128x128",
        (Activation::GeluTanh, _) => "gemm_gelu_tma_256x128",
        (Activation::ClampedSilu { .. }, _) => return None,
    };
    Some(Launch { kernel, ..tile.launch_whole([m, n, k], k_slice) })
}

/// The launch of a QKV product with fused rotary embedding and KV store, where there is such a kernel: for
/// heads of 64 and 128 dimensions without norms. It may have a split-K reduction.
///
/// On an H100 it is made where the product by itself would be by a TMA tile of at most 128 tokens: with more,
/// a thread has no registers for the sums of all slices.
pub fn launch_heads(
    kernels: Kernels,
    [m, n, k]: [usize; 3],
    k_slice: usize,
    head_dim: usize,
) -> Option<Launch> {
    let launch = match kernels {
        Kernels::Tma => Some(by_tma([m, n, k], k_slice, 128)),
        Kernels::Measured => on_h100([m, n, k], k_slice),
        Kernels::Reference | Kernels::MmaSync | Kernels::Wgmma => None,
    };
    let launch = launch.filter(|it| it.tile.kernels == Kernels::Tma && it.reduces == it.split.is_some())?;
    let kernel = match launch.tile.tokens {
        64 => "gemm_heads_tma_64x128",
        128 => "gemm_heads_tma_128x128",
        _ => return None,
    };
    [64, 128].contains(&head_dim).then_some(Launch { kernel, ..launch })
}
