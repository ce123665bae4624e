// The kernels of products with weights of one quantised format in planes, from its tiles (gemm_tile_quantised.cuh):
//
//   gemm_FORMAT, gemm_FORMAT_split            plain, any shape (gemm_plain.cuh has the launch)
//   gemm_FORMAT_TxO, gemm_FORMAT_TxO_split    tiles of T tokens x O outputs; the same bits
//   gemm_FORMAT_grouped, gemm_FORMAT_gated and those of tiles: the rows of experts (gemm_grouped.cuh)
//
// FORMAT_rounded: of the format's weights, rounded to bf16. A file of a format defines the types FORMAT and FORMAT_TxO
// of its tiles (ROUNDED_TILES defines those of a format that is rounded) and lists the kernels by QUANTISED_PRODUCTS.
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#pragma once

#include "gemm_grouped.cuh"
#include "gemm_plain.cuh"
#include "gemm_tile_quantised.cuh"

// Tiles of a format that is rounded. Codes of a byte have stages of more bytes, so fewer of them.
#define ROUNDED_TILES(FORMAT)                                                                                  \
  constexpr bool k##FORMAT##OfBytes = FORMAT::codes_bytes == 512;                                              \
  using FORMAT##_8x16 = gemm::TileQuantised<FORMAT, 8, 16, 4, 1, 6>;                                           \
  using FORMAT##_8x64 = gemm::TileQuantised<FORMAT, 8, 64, 4, 4, k##FORMAT##OfBytes ? 4 : 5>;                  \
  using FORMAT##_16x64 = gemm::TileQuantised<FORMAT, 16, 64, 4, 4, k##FORMAT##OfBytes ? 4 : 5>;                \
  using FORMAT##_32x64 =                                                                                       \
      gemm::TileQuantised<FORMAT, 32, 64, k##FORMAT##OfBytes ? 2 : 4, 4, k##FORMAT##OfBytes ? 6 : 4>;          \
  using FORMAT##_64x128 = gemm::TileQuantised<FORMAT, 64, 128, 2, 4, 4>;

#define QUANTISED_GROUPED(NAME, TILE, FORMAT, THREADS, BLOCKS) \
  GROUPED_BY(NAME, __launch_bounds__(THREADS, BLOCKS), (gemm::grouped<TILE, gemm::StripLayout<FORMAT>>))

#define QUANTISED_PRODUCTS(NAME, FORMAT)                                                             \
  extern "C" __global__ void NAME(PRODUCT_PARAMETERS) {                                              \
    await_earlier();                                                                                 \
    gemm::plain<gemm::PlainQuantised<FORMAT>>(PRODUCT_ARGUMENTS, false);                             \
  }                                                                                                  \
  extern "C" __global__ void NAME##_split(SPLIT_PARAMETERS) {                                        \
    await_earlier();                                                                                 \
    gemm::plain<gemm::PlainQuantised<FORMAT>>(SPLIT_ARGUMENTS, true);                                \
  }                                                                                                  \
  TILE_PRODUCTS(NAME##_8x16, FORMAT##_8x16, 32, 4)                                                   \
  TILE_PRODUCTS(NAME##_8x64, FORMAT##_8x64, 128, 3)                                                  \
  TILE_PRODUCTS(NAME##_16x64, FORMAT##_16x64, 128, 3)                                                \
  TILE_PRODUCTS(NAME##_32x64, FORMAT##_32x64, 128, 3)                                                \
  TILE_PRODUCTS(NAME##_64x128, FORMAT##_64x128, 128, 2)                                              \
  GROUPED_BY(NAME, , (gemm::grouped_plain<gemm::PlainQuantised<FORMAT>, gemm::StripLayout<FORMAT>>)) \
  QUANTISED_GROUPED(NAME##_8x64, FORMAT##_8x64, FORMAT, 128, 3)                                      \
  QUANTISED_GROUPED(NAME##_32x64, FORMAT##_32x64, FORMAT, 128, 3)                                    \
  QUANTISED_GROUPED(NAME##_64x128, FORMAT##_64x128, FORMAT, 128, 2)
