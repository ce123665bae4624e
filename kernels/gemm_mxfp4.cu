// Products with MXFP4 weights in planes: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout
// in planes.cuh.
//
//   gemm_mxfp4, gemm_mxfp4_split            plain, any shape (gemm_plain.cuh has the launch)
//   gemm_mxfp4_TxO, gemm_mxfp4_TxO_split    tiles of T tokens x O outputs (gemm_tile_quantised.cuh); the same bits
//   gemm_mxfp4_grouped, gemm_mxfp4_gated and those of tiles: the rows of experts (gemm_grouped.cuh)
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_grouped.cuh"
#include "gemm_plain.cuh"
#include "gemm_tile_quantised.cuh"

namespace {
using Mxfp4 = planes::Mxfp4;
using PlainMxfp4 = gemm::PlainQuantised<Mxfp4>;
using Mxfp4_8x16 = gemm::TileQuantised<Mxfp4, 8, 16, 4, 1, 6>;
using Mxfp4_8x64 = gemm::TileQuantised<Mxfp4, 8, 64, 4, 4, 6>;
using Mxfp4_16x64 = gemm::TileQuantised<Mxfp4, 16, 64, 4, 4, 6>;
using Mxfp4_32x64 = gemm::TileQuantised<Mxfp4, 32, 64, 4, 4, 4>;
using Mxfp4_64x128 = gemm::TileQuantised<Mxfp4, 64, 128, 2, 4, 5>;
}  // namespace

extern "C" __global__ void gemm_mxfp4(PRODUCT_PARAMETERS) {
  await_earlier();
  gemm::plain<PlainMxfp4>(PRODUCT_ARGUMENTS, false);
}
extern "C" __global__ void gemm_mxfp4_split(SPLIT_PARAMETERS) {
  await_earlier();
  gemm::plain<PlainMxfp4>(SPLIT_ARGUMENTS, true);
}

extern "C" __global__ void __launch_bounds__(32, 4) gemm_mxfp4_8x16(PRODUCT_PARAMETERS) {
  await_earlier();
  Mxfp4_8x16::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(32, 4) gemm_mxfp4_8x16_split(SPLIT_PARAMETERS) {
  await_earlier();
  Mxfp4_8x16::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_mxfp4_8x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Mxfp4_8x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_mxfp4_8x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Mxfp4_8x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_mxfp4_16x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Mxfp4_16x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_mxfp4_16x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Mxfp4_16x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_mxfp4_32x64(PRODUCT_PARAMETERS) {
  await_earlier();
  Mxfp4_32x64::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 3) gemm_mxfp4_32x64_split(SPLIT_PARAMETERS) {
  await_earlier();
  Mxfp4_32x64::run<true>(SPLIT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 2) gemm_mxfp4_64x128(PRODUCT_PARAMETERS) {
  await_earlier();
  Mxfp4_64x128::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(128, 2) gemm_mxfp4_64x128_split(SPLIT_PARAMETERS) {
  await_earlier();
  Mxfp4_64x128::run<true>(SPLIT_ARGUMENTS);
}

GROUPED_BY(gemm_mxfp4, , (gemm::grouped_plain<PlainMxfp4, gemm::StripLayout<Mxfp4>>))
GROUPED_BY(gemm_mxfp4_8x64, __launch_bounds__(128, 3), (gemm::grouped<Mxfp4_8x64, gemm::StripLayout<Mxfp4>>))
GROUPED_BY(gemm_mxfp4_32x64, __launch_bounds__(128, 3), (gemm::grouped<Mxfp4_32x64, gemm::StripLayout<Mxfp4>>))
GROUPED_BY(gemm_mxfp4_64x128, __launch_bounds__(128, 2), (gemm::grouped<Mxfp4_64x128, gemm::StripLayout<Mxfp4>>))
