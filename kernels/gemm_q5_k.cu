// Products with weights of Q5_K, rounded to bf16: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the
// weights' layout in planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Q5_K = planes::Q5_K;
ROUNDED_TILES(Q5_K)
}  // namespace

QUANTISED_PRODUCTS(gemm_q5_k, Q5_K)
