// Products with weights of integers of 4 bits with zero points, rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined
// in gemm.cuh, the weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using U4 = planes::U4;
ROUNDED_TILES(U4)
}  // namespace

QUANTISED_PRODUCTS(gemm_u4, U4)
