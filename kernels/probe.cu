// What a card does by itself: the tensor core's sums of given tiles, to compare with those that are known of its
// generation, and as many products as it can make, to measure its peak. No model needs these kernels.
//
//   a [n, 16, 16], b [n, 16, 8] bf16, d [n, 16, 8] f32, all by rows: d += a b, one mma.sync per tile
//
// Launch: multiply_tiles block 32, grid n. multiply_rounds block 256, any grid; 16 * 4096 operations for each warp and
// round, nothing but registers is read; sums [grid] keeps the compiler from leaving them out.
//
// Proved by kernels/tests/probe.cpp; on a card by crates/engine/tests/all/cuda.rs, against tests/golden/mma.json.
#include "mma.cuh"

namespace {

__device__ __forceinline__ uint32_t pair(const bf16* at, int step) {
  const uint32_t low = __bfloat16_as_ushort(at[0]), high = __bfloat16_as_ushort(at[step]);
  return high << 16 | low;
}

constexpr int kSums = 16;  // products under way in a warp: enough to hide how long one takes

}  // namespace

extern "C" __global__ void __launch_bounds__(32)
    multiply_tiles(const bf16* a, const bf16* b, float* __restrict__ d, int n_tiles) {
  await_earlier();
  const int tile = blockIdx.x, g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
  if (tile >= n_tiles) return;
  const bf16* const rows = a + size_t(tile) * 256 + g * 16 + t;
  const bf16* const columns = b + size_t(tile) * 128 + t * 8 + g;
  float* const sums = d + size_t(tile) * 128 + g * 8 + t;
  const uint32_t left[4] = {pair(rows, 1), pair(rows + 128, 1), pair(rows + 8, 1), pair(rows + 136, 1)};
  const uint32_t right[2] = {pair(columns, 8), pair(columns + 64, 8)};
  float sum[4] = {sums[0], sums[1], sums[64], sums[65]};
  mma_bf16(sum, left, right);
  sums[0] = sum[0], sums[1] = sum[1], sums[64] = sum[2], sums[65] = sum[3];
}

extern "C" __global__ void __launch_bounds__(256) multiply_rounds(float* __restrict__ sums, int n_rounds) {
  await_earlier();
  // Two numbers between 1 and 2 in each word, different in each lane.
  const uint32_t word = 0x3f803f80u + threadIdx.x % 128 * 0x00010001u;
  const uint32_t left[4] = {word, word ^ 0x00150015u, word ^ 0x002a002au, word ^ 0x80408040u};
  const uint32_t right[2] = {word ^ 0x80118011u, word ^ 0x00220022u};
  float sum[kSums][4] = {};
  for (int round = 0; round < n_rounds; round++)
#pragma unroll
    for (int i = 0; i < kSums; i++) mma_bf16(sum[i], left, right);
  float all = 0.0f;
#pragma unroll
  for (int i = 0; i < kSums; i++)
    for (int j = 0; j < 4; j++) all = __fadd_rn(all, sum[i][j]);
  all = warp_sum(all);
  if (threadIdx.x == 0) sums[blockIdx.x] = all;
}
