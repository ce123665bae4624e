// Products with MXFP4 weights: y[M, N] = x[M, K] w[N, K]^T. The sum is defined in gemm.cuh, the weights' layout in
// planes.cuh, the kernels in gemm_quantised.cuh.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#include "gemm_quantised.cuh"

namespace {
using Mxfp4 = planes::Mxfp4;
using Mxfp4_8x16 = gemm::TileQuantised<Mxfp4, 8, 16, 4, 1, 6>;
using Mxfp4_8x64 = gemm::TileQuantised<Mxfp4, 8, 64, 4, 4, 6>;
using Mxfp4_16x64 = gemm::TileQuantised<Mxfp4, 16, 64, 4, 4, 6>;
using Mxfp4_32x64 = gemm::TileQuantised<Mxfp4, 32, 64, 4, 4, 4>;
using Mxfp4_64x128 = gemm::TileQuantised<Mxfp4, 64, 128, 2, 4, 5>;
using RoundedMxfp4 = planes::RoundedMxfp4;
ROUNDED_TILES(RoundedMxfp4)
}  // namespace

QUANTISED_PRODUCTS(gemm_mxfp4, Mxfp4)
QUANTISED_PRODUCTS(gemm_mxfp4_rounded, RoundedMxfp4)
