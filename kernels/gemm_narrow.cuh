// Epilogues that write a product's tile as bf16: the gate, or the rotary embedding of queries and keys.
//
// A warp's 16 rows are eight outputs and their eight partners (up of a gate, or the other half of a rotated pair): a
// lane has one output of each eight, for two tokens of each eight, sum[j][0] and sum[j][1], and their partners
// sum[j][2] and sum[j][3] (mma_bf16). The outputs of eight tokens are transposed, so that a lane has two outputs of
// token lane / 4, and then exchanged among four lanes, so that each has all eight outputs of one of 32 tokens: 16
// bytes.
//
// Proved by kernels/tests/gemm_tma.cpp.
#pragma once

#include "gate.cuh"
#include "mma.cuh"
#include "rotary.cuh"

namespace gemm {

__device__ __forceinline__ uint32_t narrowed(float low, float high) {
  bf16 of_low, of_high;
  narrow(low, of_low);
  narrow(high, of_high);
  return __bfloat16_as_ushort(of_low) | static_cast<uint32_t>(__bfloat16_as_ushort(of_high)) << 16;
}

__device__ __forceinline__ uint32_t pick(const uint32_t (&of)[4], int i) {
  return i & 2 ? (i & 1 ? of[3] : of[2]) : (i & 1 ? of[1] : of[0]);
}

// From a lane's output of two tokens, for each eight of 32, to all eight outputs of token 8 (lane % 4) + lane / 4.
__device__ __forceinline__ uint4 exchanged(uint32_t (&two)[4]) {
  const int quarter = threadIdx.x % 4;
  uint32_t eight[4];
  __syncwarp();  // the lanes of earlier tokens may have stored apart, and a transposition needs all of them at once
#pragma unroll
  for (int i = 0; i < 4; i++) two[i] = transpose_8x8(two[i]);
#pragma unroll
  for (int other = 0; other < 4; other++) {
    const uint32_t theirs = __shfl_xor_sync(kAllLanes, pick(two, quarter ^ other), other);
#pragma unroll
    for (int at = 0; at < 4; at++) eight[at] = at == (quarter ^ other) ? theirs : eight[at];
  }
  return make_uint4(eight[0], eight[1], eight[2], eight[3]);
}

// out[m][output] = bf16(f(gate) * up), [M, n]: a lane's gates and ups of `output` on, as gate.cu has it from sums in f32.
template <typename F, int J>
__device__ __forceinline__ void put_gated(const float (&sum)[J][4], int token, int output, int M, int n, bf16* out) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < J; j += 4) {
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float(&of)[4] = sum[j + i];
      two[i] = narrowed(__fmul_rn(F::of(of[0]), of[2]), __fmul_rn(F::of(of[1]), of[3]));
    }
    const uint4 eight = exchanged(two);
    const int row = token + 8 * (j + lane % 4) + lane / 4;
    if (row < M && output < n) *reinterpret_cast<uint4*>(out + static_cast<size_t>(row) * n + output) = eight;
  }
}

// Queries, keys and values as rotate.cu has them from sums in f32, without norms of heads. Row `output` of the weight as the
// product sees it begins eight dimensions of a head; `bias`, [heads, D], or null.
template <int D, int J>
__device__ __forceinline__ void put_heads(const float (&sum)[J][4], int token, int output, int M, const float* bias,
                                          const Heads& to) {
  const int lane = threadIdx.x % 32, head = output / D, dimension = output % D / 2, own = dimension + lane / 4;
  if (head >= to.H + 2 * to.KV) return;
  const bool rotates = head < to.H + to.KV;
  float of_low = 0.0f, of_high = 0.0f;
  if (bias != nullptr) of_low = bias[head * D + own], of_high = bias[head * D + D / 2 + own];
#pragma unroll
  for (int j = 0; j < J; j += 4) {
    uint32_t low[4], high[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float lows[2], highs[2];
#pragma unroll
      for (int t = 0; t < 2; t++) {
        Pair pair = {sum[j + i][t], sum[j + i][2 + t]};
        if (bias != nullptr) pair = {__fadd_rn(pair.low, of_low), __fadd_rn(pair.high, of_high)};
        const int row = token + 8 * (j + i) + lane % 4 * 2 + t;
        if (rotates && row < M) {
          const size_t angle = static_cast<size_t>(to.positions[row]) * (D / 2) + own;
          pair = rotated(pair, to.cos[angle], to.sin[angle]);
        }
        lows[t] = pair.low, highs[t] = pair.high;
      }
      low[i] = narrowed(lows[0], lows[1]), high[i] = narrowed(highs[0], highs[1]);
    }
    const uint4 first = exchanged(low), second = exchanged(high);
    const int row = token + 8 * (j + lane % 4) + lane / 4;
    bf16* const at = row < M ? to.place(row, head, D) : nullptr;
    if (at != nullptr) {
      *reinterpret_cast<uint4*>(at + dimension) = first;
      *reinterpret_cast<uint4*>(at + D / 2 + dimension) = second;
    }
  }
}

}  // namespace gemm
