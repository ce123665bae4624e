// Products with Q6_K weights in planes: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout
// in planes.cuh.
//
//   gemm_q6_k, gemm_q6_k_split            plain, any shape (gemm_plain.cuh has the launch)
//   gemm_q6_k_TxO, gemm_q6_k_TxO_split    tiles of T tokens x O outputs (gemm_tile_quantised.cuh); the same bits
//   gemm_q6_k_grouped, gemm_q6_k_gated and those of tiles: the rows of experts (gemm_grouped.cuh)
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_grouped.cuh"
#include "gemm_plain.cuh"
#include "gemm_tile_quantised.cuh"

namespace {
using Q6_K = planes::Q6_K;
using PlainQ6_K = gemm::PlainQuantised<Q6_K>;
using Q6_K_8x16 = gemm::TileQuantised<Q6_K, 8, 16, 4, 1, 6>;
using Q6_K_8x64 = gemm::TileQuantised<Q6_K, 8, 64, 4, 4, 6>;
using Q6_K_16x64 = gemm::TileQuantised<Q6_K, 16, 64, 4, 4, 5>;
using Q6_K_32x64 = gemm::TileQuantised<Q6_K, 32, 64, 2, 4, 6>;
using Q6_K_64x128 = gemm::TileQuantised<Q6_K, 64, 128, 2, 4, 4>;
}  // namespace

extern "C" __global__ void gemm_q6_k(PRODUCT_PARAMETERS) {
  await_earlier();
  gemm::plain<PlainQ6_K>(PRODUCT_ARGUMENTS, false);
}
extern "C" __global__ void gemm_q6_k_split(SPLIT_PARAMETERS) {
  await_earlier();
  gemm::plain<PlainQ6_K>(SPLIT_ARGUMENTS, true);
}

extern "C" __global__ void __launch_bounds__(32, 4) gemm_q6_k_8x16(PRODUCT_PARAMETERS) {
  await_earlier();
  Q6_K_8x16::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(32, 4) gemm_q6_k_8x16_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q6_K_8x16::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q6_k_8x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Q6_K_8x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q6_k_8x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q6_K_8x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q6_k_16x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Q6_K_16x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q6_k_16x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q6_K_16x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q6_k_32x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Q6_K_32x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q6_k_32x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q6_K_32x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 2) gemm_q6_k_64x128(PRODUCT_PARAMETERS) {
  await_earlier();
  Q6_K_64x128::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 2) gemm_q6_k_64x128_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q6_K_64x128::run<true>(SPLIT_ARGUMENTS);
}

GROUPED_BY(gemm_q6_k, , (gemm::grouped_plain<PlainQ6_K, gemm::StripLayout<Q6_K>>))
GROUPED_BY(gemm_q6_k_8x64, __launch_bounds__(128, 3), (gemm::grouped<Q6_K_8x64, gemm::StripLayout<Q6_K>>))
GROUPED_BY(gemm_q6_k_32x64, __launch_bounds__(128, 3), (gemm::grouped<Q6_K_32x64, gemm::StripLayout<Q6_K>>))
GROUPED_BY(gemm_q6_k_64x128, __launch_bounds__(128, 2), (gemm::grouped<Q6_K_64x128, gemm::StripLayout<Q6_K>>))
