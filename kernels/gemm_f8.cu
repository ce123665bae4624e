// Products with weights of floats of 8 bits (e4m3), rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined
// in gemm.cuh, the weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using F8 = planes::F8;
using F8_8x16 = gemm::TileQuantised<F8, 8, 16, 4, 1, 6>;
using F8_8x64 = gemm::TileQuantised<F8, 8, 64, 4, 4, 4>;
using F8_16x64 = gemm::TileQuantised<F8, 16, 64, 4, 4, 4>;
using F8_32x64 = gemm::TileQuantised<F8, 32, 64, 2, 4, 6>;
using F8_64x128 = gemm::TileQuantised<F8, 64, 128, 2, 4, 4>;
}  // namespace

QUANTISED_PRODUCTS(gemm_f8, F8)
