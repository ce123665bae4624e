// Products with Q8_0 weights in planes: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout
// in planes.cuh.
//
//   gemm_q8_0, gemm_q8_0_split            plain, any shape (gemm_plain.cuh has the launch)
//   gemm_q8_0_TxO, gemm_q8_0_TxO_split    tiles of T tokens x O outputs (gemm_tile_quantised.cuh); the same bits
//   gemm_q8_0_grouped, gemm_q8_0_gated and those of tiles: the rows of experts (gemm_grouped.cuh)
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_grouped.cuh"
#include "gemm_plain.cuh"
#include "gemm_tile_quantised.cuh"

namespace {
using Q8_0 = planes::Q8_0;
using PlainQ8_0 = gemm::PlainQuantised<Q8_0>;
using Q8_0_8x16 = gemm::TileQuantised<Q8_0, 8, 16, 4, 1, 6>;
using Q8_0_8x64 = gemm::TileQuantised<Q8_0, 8, 64, 4, 4, 5>;
using Q8_0_16x64 = gemm::TileQuantised<Q8_0, 16, 64, 4, 4, 4>;
using Q8_0_32x64 = gemm::TileQuantised<Q8_0, 32, 64, 2, 4, 6>;
using Q8_0_64x128 = gemm::TileQuantised<Q8_0, 64, 128, 2, 4, 4>;
}  // namespace

extern "C" __global__ void gemm_q8_0(PRODUCT_PARAMETERS) {
  await_earlier();
  gemm::plain<PlainQ8_0>(PRODUCT_ARGUMENTS, false);
}
extern "C" __global__ void gemm_q8_0_split(SPLIT_PARAMETERS) {
  await_earlier();
  gemm::plain<PlainQ8_0>(SPLIT_ARGUMENTS, true);
}

extern "C" __global__ void __launch_bounds__(32, 4) gemm_q8_0_8x16(PRODUCT_PARAMETERS) {
  await_earlier();
  Q8_0_8x16::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(32, 4) gemm_q8_0_8x16_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q8_0_8x16::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q8_0_8x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Q8_0_8x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q8_0_8x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q8_0_8x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q8_0_16x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Q8_0_16x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q8_0_16x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q8_0_16x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q8_0_32x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Q8_0_32x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_q8_0_32x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q8_0_32x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 2) gemm_q8_0_64x128(PRODUCT_PARAMETERS) {
  await_earlier();
  Q8_0_64x128::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 2) gemm_q8_0_64x128_split(SPLIT_PARAMETERS) {
  await_earlier();
  Q8_0_64x128::run<true>(SPLIT_ARGUMENTS);
}

GROUPED_BY(gemm_q8_0, , (gemm::grouped_plain<PlainQ8_0, gemm::StripLayout<Q8_0>>))
GROUPED_BY(gemm_q8_0_8x64, __launch_bounds__(128, 3), (gemm::grouped<Q8_0_8x64, gemm::StripLayout<Q8_0>>))
GROUPED_BY(gemm_q8_0_32x64, __launch_bounds__(128, 3), (gemm::grouped<Q8_0_32x64, gemm::StripLayout<Q8_0>>))
GROUPED_BY(gemm_q8_0_64x128, __launch_bounds__(128, 2), (gemm::grouped<Q8_0_64x128, gemm::StripLayout<Q8_0>>))
