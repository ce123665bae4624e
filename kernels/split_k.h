// Split-K: the number of values of k in a slice, from the shape of the weight alone. It never depends on the number of
// tokens or on the card, or a token's bits would depend on its batch or on the machine.
//
//   blocks = ceil(256 / ceil(n / 64))                       for tiles of 64 outputs
//            floor(132 / ceil(n / 128))                     in one wave: for tiles of 128 outputs
//   slices = min(blocks, k / 1024, 16), at least 1
//   slice  = ceil(k / slices), rounded up to a multiple of 256
//
// A product of few tokens is bound by reading the weight, and 64 outputs a block do not fill a card where n is small:
// 256 blocks are two for each of about 130 multiprocessors. 1,024 values keep a block busy, and a product of many
// tokens seldom ends a slice. In one wave (`--gpu-kernels new`), the tiles of 128 outputs that TMA takes have a
// multiprocessor each: 3584 outputs of 18944 values are 112 of them, which otherwise are 140, in two waves.
//
// crates/cuda/src/products.rs has the same function; kernels/tests/k_slices.txt is checked against both.
//
// Proved by kernels/tests/gemm.cpp, with kernels/tests/k_slices.txt.
#pragma once

namespace gemm {

constexpr int kLeastSlice = 1024, kMostSlices = 16;
// Blocks of 256 values stay whole, and tiles of k end where a slice ends.
constexpr int kSliceUnit = 256;

// The slice for a weight [n, k]: a multiple of 256, at least 256, and at least k where there is one slice.
constexpr int k_slice(int n, int k, bool in_one_wave = false) {
  const int outputs = in_one_wave ? 128 : 64, tiles = n < outputs ? 1 : (n + outputs - 1) / outputs;
  int slices = in_one_wave ? 132 / tiles : (256 + tiles - 1) / tiles;
  if (slices > k / kLeastSlice) slices = k / kLeastSlice;
  if (slices > kMostSlices) slices = kMostSlices;
  if (slices < 1) slices = 1;
  const int length = (k + slices - 1) / slices;
  return length < kSliceUnit ? kSliceUnit : (length + kSliceUnit - 1) / kSliceUnit * kSliceUnit;
}

// The number of slices.
constexpr int k_slices(int n, int k, bool in_one_wave = false) {
  return (k + k_slice(n, k, in_one_wave) - 1) / k_slice(n, k, in_one_wave);
}

}  // namespace gemm
