// Products with Q8_0 weights: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout in
// planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Q8_0 = planes::Q8_0;
using Q8_0_8x16 = gemm::TileQuantised<Q8_0, 8, 16, 4, 1, 6>;
using Q8_0_8x64 = gemm::TileQuantised<Q8_0, 8, 64, 4, 4, 5>;
using Q8_0_16x64 = gemm::TileQuantised<Q8_0, 16, 64, 4, 4, 4>;
using Q8_0_32x64 = gemm::TileQuantised<Q8_0, 32, 64, 2, 4, 6>;
using Q8_0_64x128 = gemm::TileQuantised<Q8_0, 64, 128, 2, 4, 4>;
using RoundedQ8_0 = planes::RoundedQ8_0;
ROUNDED_TILES(RoundedQ8_0)
}  // namespace

QUANTISED_PRODUCTS(gemm_q8_0, Q8_0)
QUANTISED_PRODUCTS(gemm_q8_0_rounded, RoundedQ8_0)
