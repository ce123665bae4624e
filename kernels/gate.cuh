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

// Each gives a gate's value times what it lets through.
struct Silu {
  static __device__ __forceinline__ float of(float x) { return __fmul_rn(x, sigmoid(x)); }
  __device__ __forceinline__ float operator()(float gate, float up) const { return __fmul_rn(of(gate), up); }
};

struct GeluTanh {
  static __device__ __forceinline__ float of(float x) {
    const float cubic = __fmaf_rn(__fmul_rn(__fmul_rn(x, x), x), 0.044715f, x);
    return __fmul_rn(x, sigmoid(__fmul_rn(cubic, 1.5957691f)));
  }
  __device__ __forceinline__ float operator()(float gate, float up) const { return __fmul_rn(of(gate), up); }
};

// What is not a number stays so.
struct ClampedSwiglu {
  float limit, alpha;
  __device__ __forceinline__ float operator()(float gate, float up) const {
    const float g = gate > limit ? limit : gate;
    const float u = up > limit ? limit : up < -limit ? -limit : up;
    return __fmul_rn(__fadd_rn(u, 1.0f), __fmul_rn(g, sigmoid(__fmul_rn(alpha, g))));
  }
};

// Without a gate. What is not a number stays so.
struct Xielu {
  float positive, negative, beta, eps;
  __device__ __forceinline__ float operator()(float x) const {
    const float least = x <= eps ? x : eps;
    const float below = __fmul_rn(__fsub_rn(__fsub_rn(exp_f32(least), 1.0f), x), negative);
    const float curved = x > 0.0f ? __fmul_rn(__fmul_rn(x, x), positive) : below;
    return __fmaf_rn(x, beta, curved);
  }
};

// By the error function: x times the part of the normal distribution below x.
struct Gelu {
  __device__ __forceinline__ float operator()(float x) const {
    return __fmul_rn(__fmul_rn(0.5f, x), erfcf(__fmul_rn(x, -0.70710678f)));
  }
};

// One that is chosen when the kernel runs: 0 silu, 1 gelu, 2 clamped.
struct AnyGate {
  int which;
  float limit, alpha;
  __device__ __forceinline__ float operator()(float gate, float up) const {
    if (which == 2) return ClampedSwiglu{limit, alpha}(gate, up);
    return which == 1 ? GeluTanh()(gate, up) : Silu()(gate, up);
  }
};
