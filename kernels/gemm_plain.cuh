// Products without staging: the reference that the fast kernels are held to, bit for bit, and a kernel for any shape.
//
// Launch: one warp (32 threads) for 16 outputs x 8 tokens, each lane loading its operands of the tensor core straight
// from global memory. Grid (tokens / 8 x outputs / 16, 1), both rounded up; split: (.., slices). No shared memory.
//
// Proved by kernels/tests/gemm.cpp: against double precision.
#pragma once

#include "gemm.cuh"
#include "mma.cuh"
#include "planes.cuh"

namespace gemm {

// Two neighbouring values as one register, zeros outside of the matrix.
__device__ __forceinline__ uint32_t two_of(const bf16* matrix, int row, int rows, int k, int K) {
  return row < rows ? *reinterpret_cast<const uint32_t*>(matrix + static_cast<size_t>(row) * K + k) : 0;
}

// x at `k` .. `k + 16` for 8 tokens.
__device__ __forceinline__ void plain_tokens(uint32_t (&b)[2], const Problem& p, int token, int k, int lane) {
  const int m = token + lane / 4;
  const bf16* const row = p.x + static_cast<size_t>(p.rows != nullptr && m < p.M ? p.rows[m] : m) * p.K;
  for (int half = 0; half < 2; half++)
    b[half] = m < p.M ? *reinterpret_cast<const uint32_t*>(row + k + 8 * half + lane % 4 * 2) : 0;
}

struct PlainBf16 {
  __device__ PlainBf16(const Problem&, int) {}

  // The sum over `begin` .. `end` for 16 outputs from `output` and 8 tokens from `token`.
  __device__ void sum(float (&total)[4], const Problem& p, int output, int token, int begin, int end, int lane) const {
    const bf16* w = static_cast<const bf16*>(p.w);
    for (int k = begin; k < end; k += 16) {
      uint32_t a[4], b[2];
      for (int i = 0; i < 4; i++)
        a[i] = two_of(w, output + lane / 4 + i % 2 * 8, p.N, k + i / 2 * 8 + lane % 4 * 2, p.K);
      plain_tokens(b, p, token, k, lane);
      mma_bf16(total, a, b);
    }
  }
};

template <class F>
struct PlainQuantised {
  planes::Strip<F> strip;

  __device__ PlainQuantised(const Problem& p, int output) : strip(p.w, output / planes::kOutputs, p.K) {}

  // Two codes, or two weights of a format that is rounded.
  __device__ uint32_t two_codes(int output, int k) const {
    bf16 two[2];
    for (int i = 0; i < 2; i++) {
      if constexpr (F::rounded)
        two[i] = strip.rounded(output, k + i);
      else
        two[i] = __float2bfloat16_rn(static_cast<float>(strip.code(output, k + i)));
    }
    return __bfloat16_as_ushort(two[0]) | static_cast<uint32_t>(__bfloat16_as_ushort(two[1])) << 16;
  }

  __device__ void sum(float (&total)[4], const Problem& p, int, int token, int begin, int end, int lane) const {
    const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
    for (int k = begin; k < end; k += F::scaled) {
      float products[4] = {0.0f, 0.0f, 0.0f, 0.0f}, sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      for (int step = k; step < k + F::scaled; step += 16) {
        uint32_t a[4], b[2];
        for (int i = 0; i < 4; i++) a[i] = two_codes(lane / 4 + i % 2 * 8, step + i / 2 * 8 + lane % 4 * 2);
        plain_tokens(b, p, token, step, lane);
        mma_bf16(F::rounded ? total : products, a, b);
        if (F::minima) mma_bf16(sums, ones, b);
      }
      for (int i = 0; i < 4 && !F::rounded; i++) {
        const planes::Scales s = strip.scales(lane / 4 + i / 2 * 8, k);
        total[i] = __fmaf_rn(s.scale, products[i], total[i]);
        if (F::minima) total[i] = __fmaf_rn(-s.minimum, sums[i], total[i]);
      }
    }
  }
};

// All slices of a tile, or (`split`) the one that blockIdx.y names.
template <class Weights>
__device__ void plain(Problem p, bool split) {
  const int lane = threadIdx.x, first = split ? blockIdx.y : 0, n = split ? 1 : ceil_div(p.K, p.k_slice);
  const Corner corner = corner_of<8, 16>(p);
  const Weights weights(p, corner.output);
  if (split) p = of_slice(p, first);
  for (int s = first; s < first + n; s++) {
    const int begin = s * p.k_slice, end = min(begin + p.k_slice, p.K);
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    weights.sum(total, p, corner.output, corner.token, begin, end, lane);
    for (int i = 0; i < 4; i++)
      settle(p, corner.token + lane % 4 * 2 + i % 2, corner.output + lane / 4 + i / 2 * 8, total[i], s == first,
             s == first + n - 1);
  }
}

}  // namespace gemm
