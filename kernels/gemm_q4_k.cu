// Products with Q4_K weights: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout in
// planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Q4_K = planes::Q4_K;
using Q4_K_8x16 = gemm::TileQuantised<Q4_K, 8, 16, 4, 1, 6>;
using Q4_K_8x64 = gemm::TileQuantised<Q4_K, 8, 64, 4, 4, 6>;
using Q4_K_16x64 = gemm::TileQuantised<Q4_K, 16, 64, 4, 4, 6>;
using Q4_K_32x64 = gemm::TileQuantised<Q4_K, 32, 64, 4, 4, 4, true>;
using Q4_K_64x128 = gemm::TileQuantised<Q4_K, 64, 128, 2, 4, 5, true>;
using RoundedQ4_K = planes::RoundedQ4_K;
ROUNDED_TILES(RoundedQ4_K)
}  // namespace

QUANTISED_PRODUCTS(gemm_q4_k, Q4_K)
QUANTISED_PRODUCTS(gemm_q4_k_rounded, RoundedQ4_K)
