// Products with weights in planes by Hopper's copies: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the
// weights' layout in planes.cuh.
//
//   gemm_F_tma_TxO, gemm_F_tma_TxO_split  format F, tiles of T tokens x O outputs (gemm_tile_quantised_tma.cuh has the launch)
//
//   x  a tensor map of [M, K], boxes of 64 x T; w in planes, aligned to 16 bytes
//
// Proved by kernels/tests/gemm_quantised_tma.cpp.
#include "gemm_tile_quantised_tma.cuh"

namespace {
using Tma_q8_0_64x128 = gemm::TileQuantisedTma<planes::Q8_0, 64, 2, 6>;
using Tma_q8_0_128x128 = gemm::TileQuantisedTma<planes::Q8_0, 128, 2, 4>;
using Tma_q4_k_64x128 = gemm::TileQuantisedTma<planes::Q4_K, 64, 2, 7>;
using Tma_q4_k_128x128 = gemm::TileQuantisedTma<planes::Q4_K, 128, 2, 4>;
using Tma_q6_k_64x128 = gemm::TileQuantisedTma<planes::Q6_K, 64, 2, 6>;
using Tma_q6_k_128x128 = gemm::TileQuantisedTma<planes::Q6_K, 128, 2, 4>;
}  // namespace

#define QUANTISED_TMA_PARAMETERS                                                                       \
  const __grid_constant__ CUtensorMap x, const void *__restrict__ w, const float *__restrict__ bias,    \
      float *__restrict__ y, int M, int N, int K, int segment, int ldy, int add
#define QUANTISED_TMA_SPLIT_PARAMETERS                                                                  \
  const __grid_constant__ CUtensorMap x, const void *__restrict__ w, float *__restrict__ partial, int M, \
      int N, int K, int segment

#define QUANTISED_TMA_KERNEL(name, tile, parameters, ...)                           \
  extern "C" __global__ void __launch_bounds__(tile::kThreads, 1) name(parameters) { \
    await_earlier();                                                                \
    tile::run(__VA_ARGS__);                                                         \
  }
#define QUANTISED_TMA_KERNELS(format, shape)                                                                      \
  QUANTISED_TMA_KERNEL(gemm_##format##_tma_##shape, Tma_##format##_##shape, QUANTISED_TMA_PARAMETERS,             \
                       {nullptr, w, bias, y, M, N, K, segment, ldy, add}, x, false)                               \
  QUANTISED_TMA_KERNEL(gemm_##format##_tma_##shape##_split, Tma_##format##_##shape, QUANTISED_TMA_SPLIT_PARAMETERS, \
                       {nullptr, w, nullptr, partial, M, N, K, segment, N, 0}, x, true)

QUANTISED_TMA_KERNELS(q8_0, 64x128)
QUANTISED_TMA_KERNELS(q8_0, 128x128)
QUANTISED_TMA_KERNELS(q4_k, 64x128)
QUANTISED_TMA_KERNELS(q4_k, 128x128)
QUANTISED_TMA_KERNELS(q6_k, 64x128)
QUANTISED_TMA_KERNELS(q6_k, 128x128)
