// Products with weights of integers of 4 bits with zero points, rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined
// in gemm.cuh, the weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using U4 = planes::U4;
using U4_8x16 = gemm::TileQuantised<U4, 8, 16, 4, 1, 6>;
using U4_8x64 = gemm::TileQuantised<U4, 8, 64, 4, 4, 5>;
using U4_16x64 = gemm::TileQuantised<U4, 16, 64, 4, 4, 5>;
using U4_32x64 = gemm::TileQuantised<U4, 32, 64, 4, 4, 4>;
using U4_64x128 = gemm::TileQuantised<U4, 64, 128, 2, 4, 4>;
}  // namespace

QUANTISED_PRODUCTS(gemm_u4, U4)
