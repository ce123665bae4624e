// Products with Q8_0 weights in planes: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout in planes.cuh.
//
//   gemm_q8_0, gemm_q8_0_split    plain, any shape (gemm_plain.cuh has the launch)
//
// Proved by kernels/tests/gemm.cpp.
#include "gemm_plain.cuh"

extern "C" __global__ void gemm_q8_0(PRODUCT_PARAMETERS) {
  gemm::plain<gemm::PlainQuantised<planes::Q8_0>>(PRODUCT_ARGUMENTS, false);
}
extern "C" __global__ void gemm_q8_0_split(SPLIT_PARAMETERS) {
  gemm::plain<gemm::PlainQuantised<planes::Q8_0>>(SPLIT_ARGUMENTS, true);
}
