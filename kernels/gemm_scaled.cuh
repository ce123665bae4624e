// What the fast products of quantised weights have in common: the sums of x that minima need, and how products get their
// scales and reach a slice's sum (planes.cuh).
//
// Proved by kernels/tests/gemm.cpp.
#pragma once

#include "gemm_stage.cuh"
#include "unpack.cuh"

namespace gemm {

// A sum of x over 32 values for 8 tokens, from two steps' fragments.
__device__ __forceinline__ void sum_of_x(float (&sum)[4], const uint32_t (&first)[2], const uint32_t (&second)[2]) {
  const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  mma_bf16(sum, ones, first);
  mma_bf16(sum, ones, second);
}

// Adds the products of values that share a scale, for outputs g and g + 8 and two tokens, whose sums of x are `of_x`.
template <class F>
__device__ __forceinline__ void add_scaled(float (&total)[4], const planes::Scales (&scale)[2], const float (&products)[4],
                                           const float* of_x) {
#pragma unroll
  for (int c = 0; c < 4; c++) {
    total[c] = __fmaf_rn(scale[c / 2].scale, products[c], total[c]);
    if (F::minima) total[c] = __fmaf_rn(-scale[c / 2].minimum, of_x[c % 2], total[c]);
  }
}

}  // namespace gemm
