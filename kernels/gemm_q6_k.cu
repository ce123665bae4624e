// Products with Q6_K weights: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout in
// planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Q6_K = planes::Q6_K;
using Q6_K_8x16 = gemm::TileQuantised<Q6_K, 8, 16, 4, 1, 6>;
using Q6_K_8x64 = gemm::TileQuantised<Q6_K, 8, 64, 4, 4, 6>;
using Q6_K_16x64 = gemm::TileQuantised<Q6_K, 16, 64, 4, 4, 5>;
using Q6_K_32x64 = gemm::TileQuantised<Q6_K, 32, 64, 2, 4, 6>;
using Q6_K_64x128 = gemm::TileQuantised<Q6_K, 64, 128, 2, 4, 4>;
using RoundedQ6_K = planes::RoundedQ6_K;
ROUNDED_TILES(RoundedQ6_K)
}  // namespace

QUANTISED_PRODUCTS(gemm_q6_k, Q6_K)
QUANTISED_PRODUCTS(gemm_q6_k_rounded, RoundedQ6_K)
