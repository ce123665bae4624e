// Rotary rotation, and the output layout of the fused QKV projection. rotate.cu has the definitions.
//
// Proved by kernels/tests/rotate.cpp, kernels/tests/gemm_tma.cpp.
#pragma once

#include "common.cuh"

// Dimensions i and i + D / 2 of a head.
struct Pair {
  float low, high;
};
__device__ __forceinline__ Pair rotated(Pair of, float cos, float sin) {
  return {__fsub_rn(__fmul_rn(of.low, cos), __fmul_rn(of.high, sin)), __fadd_rn(__fmul_rn(of.high, cos), __fmul_rn(of.low, sin))};
}

struct Heads {
  const float *cos, *sin;
  const int *positions, *slots;
  bf16 *q_out, *keys, *values;
  int H, KV;
  // The destination of a row's head; null for a key or value of a row without a slot.
  __device__ __forceinline__ bf16* place(int row, int head, int dim) const {
    if (head < H) return q_out + (static_cast<size_t>(row) * H + head) * dim;
    const int slot = slots[row], kv = head - H;
    if (slot < 0) return nullptr;
    const size_t at = ((static_cast<size_t>(slot / 16) * KV + kv % KV) * 16 + slot % 16) * dim;
    return (kv < KV ? keys : values) + at;
  }
};
