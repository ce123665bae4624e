// The sum of a row's experts in the order of their numbers, for experts.cu and norm.cu: weight * output, then factor *
// shared, in f32; each product is rounded before it is added.
//
//   outputs  [pairs, cols]   f32: what the experts give
//   places   [rows, top_k]   the pair of each choice; -1 where there is none
//   weights  [rows, top_k]   f32
//   shared   [rows, ld]      f32 or null: what the shared expert gives; factors [rows] or null for 1
//
// cols and ld are multiples of 4, everything is 16-byte aligned. Proved by kernels/tests/experts.cpp.
#pragma once

#include "common.cuh"

struct ExpertSum {
  const float* outputs;
  const int* places;
  const float *weights, *shared, *factors;
  int top_k, cols, ld;

  // The four columns from c on.
  __device__ __forceinline__ float4 at(int row, int c) const {
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    const auto take = [&](const float* from, float weight) {
      const float4 v = *reinterpret_cast<const float4*>(from);
      sum = {__fadd_rn(sum.x, __fmul_rn(v.x, weight)), __fadd_rn(sum.y, __fmul_rn(v.y, weight)),
             __fadd_rn(sum.z, __fmul_rn(v.z, weight)), __fadd_rn(sum.w, __fmul_rn(v.w, weight))};
    };
    const size_t first = static_cast<size_t>(row) * top_k;
    for (int j = 0; j < top_k; j++) {
      const int pair = places[first + j];
      if (pair >= 0) take(outputs + static_cast<size_t>(pair) * cols + c, weights[first + j]);
    }
    if (shared != nullptr) take(shared + static_cast<size_t>(row) * ld + c, factors != nullptr ? factors[row] : 1.0f);
    return sum;
  }
};
