//! Products that do what follows them too, so that their sums never go to memory. A choice for speed alone, which moves no bit.

use super::{Kernels, Launch, by_boxes, measured, of_boxes};
use crate::model::config::Activation;

/// The launch of a product whose outputs are `n / 2` gates and the `n / 2` ups that they let through, where a kernel does
/// both: `out[m, n / 2] = f(gate) up` in bf16, so that the sums never go to memory.
///
/// A choice for speed alone, as [`super::launch`], and for sums that are not cut. On Hopper it is made where the table names boxes
/// for the product. A tile of more tokens has fewer copies, if it is filled.
#[must_use]
pub fn launch_gated(
    kernels: Kernels,
    [m, n, k]: [usize; 3],
    segment: usize,
    activation: Activation,
) -> Option<Launch> {
    let possible = k <= segment && n.is_multiple_of(16);
    let tile = match kernels {
        Kernels::Boxes => of_boxes().rev().find(|tile| tile.may_be_filled(m)),
        Kernels::Hopper => {
            measured::launch([m, n, k], segment).map(|it| it.tile).filter(|it| it.kernels == Kernels::Boxes)
        }
        Kernels::Plain | Kernels::Fast => None,
    };
    let tile = tile.filter(|_| possible)?;
    let kernel = match (activation, tile.tokens) {
        (Activation::Silu, 64) => "gemm_silu_tma_64x128",
        (Activation::Silu, 128) => "gemm_silu_tma_128x128",
        (Activation::Silu, _) => "gemm_silu_tma_256x128",
        (Activation::GeluTanh, 64) => "gemm_gelu_tma_64x128",
        (Activation::GeluTanh, 128) => "gemm_gelu_tma_128x128",
        (Activation::GeluTanh, _) => "gemm_gelu_tma_256x128",
    };
    Some(Launch { kernel, ..tile.launch_whole([m, n, k], segment) })
}

/// The launch of a product whose outputs are the heads of queries, keys and values, where a kernel also turns and stores
/// them. It takes heads of 64 and 128 dimensions without norms, and may have its segments meet.
///
/// On Hopper it is made where the table names boxes of at most 128 tokens for the product: of more, a thread has no room for
/// the sums of all segments.
#[must_use]
pub fn launch_heads(
    kernels: Kernels,
    [m, n, k]: [usize; 3],
    segment: usize,
    head_dim: usize,
) -> Option<Launch> {
    let launch = match kernels {
        Kernels::Boxes => Some(by_boxes([m, n, k], segment, 128)),
        Kernels::Hopper => measured::launch([m, n, k], segment),
        Kernels::Plain | Kernels::Fast => None,
    };
    let launch = launch.filter(|it| it.tile.kernels == Kernels::Boxes && it.meets == it.split.is_some())?;
    let kernel = match launch.tile.tokens {
        64 => "gemm_heads_tma_64x128",
        128 => "gemm_heads_tma_128x128",
        _ => return None,
    };
    [64, 128].contains(&head_dim).then_some(Launch { kernel, ..launch })
}
