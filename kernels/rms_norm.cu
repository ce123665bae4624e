// RMSNorm of each row, in f32 with one rounding at the end:
//
//   y[r][c] = x[r][c] * (1 / sqrt(mean_c(x[r][c]^2) + eps)) * (one_plus ? 1 + weight[c] : weight[c])
//
//   x, y    [rows, cols]  f32 or bf16
//   weight  [cols]        as x, or f32 beside bf16
//
// Launch: 32 threads in x for one row, any number of rows in y: block (32, rows_per_block),
// grid (ceil(rows / rows_per_block)). One warp owns a row and reads nothing of any other, so a row's result does
// not depend on the batch. The sum of squares has one order: lane l adds columns l, l + 32, l + 64, ...; then
// lanes meet in pairs at distance 16, 8, 4, 2, 1. Products and sums are rounded one by one (no fused
// multiply-add) and root and quotient are IEEE's, so the result is bit for bit that of `cpu_fwd` in
// src/model/layers/norm.rs.
//
// Proved by kernels/tests/rms_norm.cpp (against f64; alone as in a batch; the bytes of tests/golden/rms_norm.json,
// which `cpu_matches_the_kernel` reproduces in Rust) and, on a GPU, by the tests in src/model/cuda/rms_norm.rs.

#include <cuda_bf16.h>

namespace {

constexpr int kLanes = 32;

__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ void narrow(float v, float& to) { to = v; }
__device__ __forceinline__ void narrow(float v, __nv_bfloat16& to) { to = __float2bfloat16_rn(v); }

__device__ __forceinline__ float sum_over_lanes(float v) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    v = __fadd_rn(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

template <typename X, typename W>
__device__ __forceinline__ void rms_norm(const X* __restrict__ x, const W* __restrict__ weight, X* __restrict__ y,
                                         int rows, int cols, float eps, int one_plus) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // the same for all lanes of a warp
  x += static_cast<size_t>(row) * cols;
  y += static_cast<size_t>(row) * cols;

  float squares = 0.0f;
  for (int c = threadIdx.x; c < cols; c += kLanes) {
    const float v = widen(x[c]);
    squares = __fadd_rn(squares, __fmul_rn(v, v));
  }
  const float mean = __fdiv_rn(sum_over_lanes(squares), static_cast<float>(cols));
  const float scale = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));

  for (int c = threadIdx.x; c < cols; c += kLanes) {
    const float w = widen(weight[c]);
    const float factor = one_plus ? __fadd_rn(1.0f, w) : w;
    narrow(__fmul_rn(__fmul_rn(widen(x[c]), scale), factor), y[c]);
  }
}

}  // namespace

extern "C" __global__ void rms_norm_f32(const float* __restrict__ x, const float* __restrict__ weight,
                                        float* __restrict__ y, int rows, int cols, float eps, int one_plus) {
  rms_norm(x, weight, y, rows, cols, eps, one_plus);
}

extern "C" __global__ void rms_norm_bf16(const __nv_bfloat16* __restrict__ x,
                                         const __nv_bfloat16* __restrict__ weight, __nv_bfloat16* __restrict__ y,
                                         int rows, int cols, float eps, int one_plus) {
  rms_norm(x, weight, y, rows, cols, eps, one_plus);
}

// GGUF keeps the weights of norms in f32 whatever the model's type is.
extern "C" __global__ void rms_norm_bf16_f32(const __nv_bfloat16* __restrict__ x, const float* __restrict__ weight,
                                             __nv_bfloat16* __restrict__ y, int rows, int cols, float eps,
                                             int one_plus) {
  rms_norm(x, weight, y, rows, cols, eps, one_plus);
}
