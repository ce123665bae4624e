// Products with Q4_K weights in planes: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout in planes.cuh.
//
//   gemm_q4_k, gemm_q4_k_split    plain, any shape (gemm_plain.cuh has the launch)
//
// Proved by kernels/tests/gemm.cpp.
#include "gemm_plain.cuh"

extern "C" __global__ void gemm_q4_k(PRODUCT_PARAMETERS) {
  gemm::plain<gemm::PlainQuantised<planes::Q4_K>>(PRODUCT_ARGUMENTS, false);
}
extern "C" __global__ void gemm_q4_k_split(SPLIT_PARAMETERS) {
  gemm::plain<gemm::PlainQuantised<planes::Q4_K>>(SPLIT_ARGUMENTS, true);
}
