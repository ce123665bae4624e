// Products with weights of Q5_K, rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the
// weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Q5_K = planes::Q5_K;
using Q5_K_8x16 = gemm::TileQuantised<Q5_K, 8, 16, 4, 1, 6>;
using Q5_K_8x64 = gemm::TileQuantised<Q5_K, 8, 64, 4, 4, 5>;
using Q5_K_16x64 = gemm::TileQuantised<Q5_K, 16, 64, 4, 4, 5>;
using Q5_K_32x64 = gemm::TileQuantised<Q5_K, 32, 64, 4, 4, 4>;
using Q5_K_64x128 = gemm::TileQuantised<Q5_K, 64, 128, 2, 4, 4>;
}  // namespace

QUANTISED_PRODUCTS(gemm_q5_k, Q5_K)
