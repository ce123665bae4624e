// cap * tanh(x / cap), accurate to about 1e-7 times the cap; NaN for NaN.
//
// Proved by kernels/tests/softcap.cpp.
#pragma once

#include "common.cuh"

// 1 / d for d in [1, 2], within two units in the last place: Newton's method from the line that is closest. No division
// instruction, whose rare cases are a call.
__device__ __forceinline__ float inverse_of_1_to_2(float d) {
  const float half = __fmul_rn(0.5f, d);
  float r = __fmaf_rn(half, -1.8823529f, 2.8235294f);
#pragma unroll
  for (int i = 0; i < 3; i++) r = __fmaf_rn(r, __fmaf_rn(-half, r, 1.0f), r);
  return __fmul_rn(0.5f, r);
}

// tanh y = (1 - e^-2|y|) / (1 + e^-2|y|), with the sign of y. `by` is -2 / cap.
__device__ __forceinline__ float capped(float x, float cap, float by) {
  const float e = exp_f32(__fmul_rn(by, fabsf(x)));
  const float tanh = __fmul_rn(__fsub_rn(1.0f, e), inverse_of_1_to_2(__fadd_rn(1.0f, e)));
  return copysignf(__fmul_rn(cap, tanh), x);
}
