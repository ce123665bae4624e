// Copies of whole blocks of the paged cache, in every layer's keys and values:
//
//   cache[half][pairs[i][1]] = cache[half][pairs[i][0]]     for each i and half
//
//   cache  [n_halves, n_blocks, block_elements]  bf16; a half is one layer's keys or values, block_elements = KV * 16 * D
//   pairs  [n_pairs, 2]                          from, to; no block that is written may be read by another pair
//
// Launch: block 256, grid (n_pairs, n_halves). Sixteen bytes at a time: block_elements is a multiple of 8.
// Moves per pair: 4 * block_elements * n_halves bytes. Bits are copied, so slots that nothing was written to stay so.
//
// Proved by kernels/tests/copy_blocks.cpp: every half, no block beside those named.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256)
    copy_blocks(bf16* __restrict__ cache, const int* pairs, int n_pairs, int block_elements, int n_blocks,
                int n_halves) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) >= n_pairs || static_cast<int>(blockIdx.y) >= n_halves) return;
  bf16* half = cache + static_cast<size_t>(blockIdx.y) * n_blocks * block_elements;
  const int* pair = pairs + 2 * static_cast<size_t>(blockIdx.x);
  const uint4* from = reinterpret_cast<const uint4*>(half + static_cast<size_t>(pair[0]) * block_elements);
  uint4* to = reinterpret_cast<uint4*>(half + static_cast<size_t>(pair[1]) * block_elements);
  for (int i = threadIdx.x; i < block_elements / 8; i += blockDim.x) to[i] = from[i];
}
