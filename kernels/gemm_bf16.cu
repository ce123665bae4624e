// Products with bf16 weights: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh.
//
//   gemm_bf16, gemm_bf16_split    plain, any shape (gemm_plain.cuh has the launch)
//
// Proved by kernels/tests/gemm.cpp.
#include "gemm_plain.cuh"

extern "C" __global__ void gemm_bf16(PRODUCT_PARAMETERS) {
  gemm::plain<gemm::PlainBf16>(PRODUCT_ARGUMENTS, false);
}
extern "C" __global__ void gemm_bf16_split(SPLIT_PARAMETERS) {
  gemm::plain<gemm::PlainBf16>(SPLIT_ARGUMENTS, true);
}
