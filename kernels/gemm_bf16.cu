// Products with bf16 weights: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh.
//
//   gemm_bf16, gemm_bf16_split        plain, any shape (gemm_plain.cuh has the launch)
//   gemm_bf16_TxO, gemm_bf16_TxO_split  tiles of T tokens x O outputs (gemm_tile_bf16.cuh); the same bits
//
//   gemm_bf16_wgmma_TxO                 the same for Hopper's own instructions (gemm_tile_wgmma.cuh)
//   gemm_bf16_grouped, gemm_bf16_gated and those of tiles: the rows of experts (gemm_grouped.cuh)
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_grouped.cuh"
#include "gemm_plain.cuh"
#include "gemm_tile_bf16.cuh"
#include "gemm_tile_wgmma.cuh"

namespace {
using Bf16_16x16 = gemm::TileBf16<16, 16, 128, 1, 1, 6>;
using Bf16_16x64 = gemm::TileBf16<16, 64, 64, 1, 4, 6>;
using Bf16_32x64 = gemm::TileBf16<32, 64, 64, 1, 4, 5>;
using Bf16_64x64 = gemm::TileBf16<64, 64, 64, 2, 2, 4>;
using Bf16_128x128 = gemm::TileBf16<128, 128, 32, 2, 2, 4>;
using Bf16_wgmma_128x128 = gemm::TileWgmma<128, 2, 5>;
using Bf16_wgmma_256x128 = gemm::TileWgmma<256, 2, 4>;
}  // namespace

extern "C" __global__ void gemm_bf16(PRODUCT_PARAMETERS) {
  await_earlier();
  gemm::plain<gemm::PlainBf16>(PRODUCT_ARGUMENTS, false);
}
extern "C" __global__ void gemm_bf16_split(SPLIT_PARAMETERS) {
  await_earlier();
  gemm::plain<gemm::PlainBf16>(SPLIT_ARGUMENTS, true);
}

TILE_PRODUCTS(gemm_bf16_16x16, Bf16_16x16, 32, 4)
TILE_PRODUCTS(gemm_bf16_16x64, Bf16_16x64, 128, 3)
TILE_PRODUCTS(gemm_bf16_32x64, Bf16_32x64, 128, 3)
TILE_PRODUCTS(gemm_bf16_64x64, Bf16_64x64, 128, 3)

extern "C" __global__ void __launch_bounds__(128, 2) gemm_bf16_128x128(PRODUCT_PARAMETERS) {
  await_earlier();
  Bf16_128x128::run<false>(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(256, 1) gemm_bf16_wgmma_128x128(PRODUCT_PARAMETERS) {
  await_earlier();
  Bf16_wgmma_128x128::run(PRODUCT_ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(256, 1) gemm_bf16_wgmma_256x128(PRODUCT_PARAMETERS) {
  await_earlier();
  Bf16_wgmma_256x128::run(PRODUCT_ARGUMENTS);
}

GROUPED_BY(gemm_bf16, , (gemm::grouped_plain<gemm::PlainBf16, gemm::Bf16Layout>))
GROUPED_BY(gemm_bf16_16x64, __launch_bounds__(128, 3), (gemm::grouped<Bf16_16x64, gemm::Bf16Layout>))
GROUPED_BY(gemm_bf16_64x64, __launch_bounds__(128, 3), (gemm::grouped<Bf16_64x64, gemm::Bf16Layout>))
GROUPED_BY(gemm_bf16_128x128, __launch_bounds__(128, 2), (gemm::grouped<Bf16_128x128, gemm::Bf16Layout>))
