// The kernels of products with weights of one quantised format in planes, from its tiles (gemm_tile_quantised.cuh):
//
//   gemm_FORMAT, gemm_FORMAT_split            plain, any shape (gemm_plain.cuh has the launch)
//   gemm_FORMAT_TxO, gemm_FORMAT_TxO_split    tiles of T tokens x O outputs; the same bits
//   gemm_FORMAT_grouped, gemm_FORMAT_gated and those of tiles: the rows of experts (gemm_grouped.cuh)
//
// A file of a format defines the types FORMAT and FORMAT_TxO of its tiles and lists the kernels by QUANTISED_PRODUCTS.
// Proved by kernels/tests/gemm.cpp, kernels/tests/experts.cpp.
#pragma once

#include "gemm_grouped.cuh"
#include "gemm_plain.cuh"
#include "gemm_tile_quantised.cuh"

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
