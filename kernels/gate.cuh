// The nonlinearities of the feed-forward half. gate.cu has their definitions.
//
// Proved by kernels/tests/gate.cpp.
#pragma once

#include "common.cuh"

// 1 / (1 + e^-x). The exponential's argument is never positive, so it cannot overflow.
__device__ __forceinline__ float sigmoid(float x) {
  const float e = exp_f32(-fabsf(x));
  const float above = __fdiv_rn(1.0f, __fadd_rn(1.0f, e));
  return x >= 0.0f ? above : __fmul_rn(e, above);
}

struct Silu {
  static __device__ __forceinline__ float of(float x) { return __fmul_rn(x, sigmoid(x)); }
};

struct GeluTanh {
  static __device__ __forceinline__ float of(float x) {
    const float cubic = __fmaf_rn(__fmul_rn(__fmul_rn(x, x), x), 0.044715f, x);
    return __fmul_rn(x, sigmoid(__fmul_rn(cubic, 1.5957691f)));
  }
};
