// Grouped products with bf16 weights by TMA and wgmma: gemm_grouped_tma.cuh has the arrays and the launch.
//
// Proved by kernels/tests/experts.cpp.
#include "gemm_grouped_tma.cuh"

extern "C" __global__ void __launch_bounds__(gemm::GroupedTma::kThreads, 1)
    gemm_bf16_tma_256x128_grouped(const __grid_constant__ CUtensorMap w, const bf16* x, const int* rows, const int* tiles,
                                  const float* bias, float* __restrict__ y, int N, int K, int n_tiles) {
  await_earlier();
  gemm::GroupedTma::run({x, rows, nullptr, tiles, bias, N, K}, w, n_tiles, gemm::Sums{y});
}

extern "C" __global__ void __launch_bounds__(gemm::GroupedTma::kThreads, 1)
    gemm_bf16_tma_256x128_gated(const __grid_constant__ CUtensorMap w, const bf16* x, const int* rows, const int* tiles,
                                const float* bias, bf16* __restrict__ out, int N, int K, int n_tiles, int gate, float limit,
                                float alpha) {
  await_earlier();
  gemm::GroupedTma::run({x, rows, nullptr, tiles, bias, N, K}, w, n_tiles, gemm::Gated{out, {gate, limit, alpha}});
}
