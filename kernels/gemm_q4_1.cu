// Products with weights of Q4_1, and of Q4_0, rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the
// weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Q4_1 = planes::Q4_1;
ROUNDED_TILES(Q4_1)
}  // namespace

QUANTISED_PRODUCTS(gemm_q4_1, Q4_1)
