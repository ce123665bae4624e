// Products with bf16 weights by TMA and wgmma: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh.
//
//   gemm_bf16_tma_TxO         tiles of T tokens x O outputs (gemm_tile_tma.cuh has the launch)
//   gemm_bf16_tma_TxO_split   the sums of each slice of k, for gemm_merge
//   gemm_bf16_tma_TxO_merged  with a split-K reduction in the kernel: y as gemm_merge gives it
//   gemm_silu_tma_TxO, gemm_gelu_tma_TxO  with the gate fused, T tokens x O / 2 outputs
//   gemm_heads_tma_TxO        with rotate.cu fused, for heads of 64 and 128 without norms; a split-K reduction in the kernel
//                             where `parts` is not null
//
//   x  a tensor map of [M, K], tiles of 64 x T
//   w  a tensor map of [N, K], tiles of 64 x O; with the gate of [N / 16, 2, 8, K], tiles of 64 x 8 x 2 x O / 16; with heads of
//      [heads, D / 16, 2, 8, K], tiles of 64 x 8 x 2 x D / 16 x O / D
//
// Proved by kernels/tests/gemm_tma.cpp.
#include "gemm_tile_tma.cuh"

namespace {
using Tma_256x128 = gemm::TileTma<256, 2, 4>;
using Tma_128x128 = gemm::TileTma<128, 2, 6>;
using Tma_64x128 = gemm::TileTma<64, 2, 8>;
}  // namespace

#define TMA_PARAMETERS                                                                                           \
  const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, int early, const float *bias, \
      float *__restrict__ y, int M, int N, int K, int k_slice, int ldy, int add
#define TMA_SPLIT_PARAMETERS                                                                                         \
  const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, int early, float *__restrict__ partial, int M, \
      int N, int K, int k_slice
#define TMA_REDUCED_PARAMETERS                                                                                    \
  const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, int early, const float *bias, \
      float *__restrict__ y, float4 *parts, unsigned *semaphores, int M, int N, int K, int k_slice, int ldy, int add
#define TMA_GATE_PARAMETERS                                                                                     \
  const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, int early, bf16 *__restrict__ out, int M, int N, \
      int K

#define TMA_HEADS_PARAMETERS                                                                                           \
  const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w, int early, const float *bias,       \
      const float *cos, const float *sin, const int *positions,                \
      const int *slots, bf16 *__restrict__ q_out, bf16 *__restrict__ keys, bf16 *__restrict__ values,     \
      float4 *parts, unsigned *semaphores, int M, int N, int K, int k_slice, int H, int KV, int D

#define TMA_KERNELS(shape)                                                                               \
  extern "C" __global__ void __launch_bounds__(384, 1) gemm_bf16_tma_##shape(TMA_PARAMETERS) {           \
    Tma_##shape::run({nullptr, nullptr, bias, y, M, N, K, k_slice, ldy, add}, x, {w, early}, false);               \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(384, 1) gemm_bf16_tma_##shape##_split(TMA_SPLIT_PARAMETERS) { \
    Tma_##shape::run({nullptr, nullptr, nullptr, partial, M, N, K, k_slice, N, 0}, x, {w, early}, true);           \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(384, 1) gemm_bf16_tma_##shape##_merged(TMA_REDUCED_PARAMETERS) { \
    Tma_##shape::run_reduced({nullptr, nullptr, bias, y, M, N, K, k_slice, ldy, add}, x, {w, early}, parts, semaphores);   \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(384, 1) gemm_silu_tma_##shape(TMA_GATE_PARAMETERS) {       \
    Tma_##shape::run_gated<Silu>({nullptr, nullptr, nullptr, nullptr, M, N, K, K, N, 0}, x, {w, early}, out);      \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(384, 1) gemm_gelu_tma_##shape(TMA_GATE_PARAMETERS) {       \
    Tma_##shape::run_gated<GeluTanh>({nullptr, nullptr, nullptr, nullptr, M, N, K, K, N, 0}, x, {w, early}, out);  \
  }

#define TMA_HEADS(shape)                                                                                     \
  extern "C" __global__ void __launch_bounds__(384, 1) gemm_heads_tma_##shape(TMA_HEADS_PARAMETERS) {        \
    const gemm::Problem p = {nullptr, nullptr, bias, nullptr, M, N, K, k_slice, N, 0};                       \
    const Heads heads = {cos, sin, positions, slots, q_out, keys, values, H, KV};                            \
    if (D == 128)                                                                                            \
      Tma_##shape::run_heads<128>(p, x, {w, early}, heads, parts, semaphores);                                             \
    else                                                                                                     \
      Tma_##shape::run_heads<64>(p, x, {w, early}, heads, parts, semaphores);                                              \
  }

TMA_KERNELS(64x128)
TMA_KERNELS(128x128)
TMA_KERNELS(256x128)

TMA_HEADS(64x128)
TMA_HEADS(128x128)
