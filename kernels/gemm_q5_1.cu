// Products with weights of Q5_1, and of Q5_0, rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the
// weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Q5_1 = planes::Q5_1;
using Q5_1_8x16 = gemm::TileQuantised<Q5_1, 8, 16, 4, 1, 6>;
using Q5_1_8x64 = gemm::TileQuantised<Q5_1, 8, 64, 4, 4, 5>;
using Q5_1_16x64 = gemm::TileQuantised<Q5_1, 16, 64, 4, 4, 5>;
using Q5_1_32x64 = gemm::TileQuantised<Q5_1, 32, 64, 4, 4, 4>;
using Q5_1_64x128 = gemm::TileQuantised<Q5_1, 64, 128, 2, 4, 4>;
}  // namespace

QUANTISED_PRODUCTS(gemm_q5_1, Q5_1)
