// Products with weights of floats of 8 bits (e4m3), rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined
// in gemm.cuh, the weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using F8 = planes::F8;
ROUNDED_TILES(F8)
}  // namespace

QUANTISED_PRODUCTS(gemm_f8, F8)
