// What all matrix products share: the order of their sums, and how a sum reaches y.
//
//   y[m][n] = sum over k of x[m][k] w[n][k]  (+ bias[n])  (+ the old y[m][n] where `add`)
//
//   x     [M, K]  bf16, rows without gaps, K a multiple of 16
//   w     [N, K]  bf16 by rows, or quantised as planes.cuh lays it out
//   bias  [N]     f32, or null
//   y     [M, N]  f32, rows `ldy` apart
//
// One definition for every kernel, tile, M and place of a row in it:
//   - Split-K: k is divided into slices of `k_slice` values (a multiple of 256, or one slice); see split_k.h.
//   - A slice's sum starts at zero and takes k16 steps in order, each one mma.sync m16n8k16 with the weights as its
//     16 rows and tokens as its 8 columns. Quantised: the steps that share a scale go to a fragment of their own from
//     zero, which is then added to the slice's sum by one fused multiply-add, or weights are rounded to bf16 (planes.cuh).
//   - y is the first slice's sum, or the old y plus it; the other slices' sums are added in order, then the bias.
// So a block that runs over all of k and adds at each border (`settle`) gives the bits of blocks that write one
// slice each (`partial`) and a reduction of these in order (gemm_merge.cu).
//
// With M tokens a tile, an element's bits depend on its token and its output alone: the tensor core computes each of
// its 128 elements from that element's row and column.
//
// Proved by kernels/tests/gemm.cpp.
#pragma once

#include "common.cuh"

namespace gemm {

// The arguments of every product, as the kernels have them.
struct Problem {
  const bf16* x;
  const void* w;
  const float* bias;
  float* y;  // of a split product: partial [slices, M, N]
  int M, N, K, k_slice, ldy, add;
  const int* rows = nullptr;  // row m of the product is row rows[m] of x; null: row m
};

// The signatures that all products have, so that a kernel's name is all that differs between them.
#define PRODUCT_PARAMETERS                                                                                   \
  const bf16 *x, const void *w, const float *bias, float *__restrict__ y, \
      int M, int N, int K, int k_slice, int ldy, int add
#define PRODUCT_ARGUMENTS {x, w, bias, y, M, N, K, k_slice, ldy, add}
#define SPLIT_PARAMETERS \
  const bf16 *x, const void *w, float *__restrict__ partial, int M, int N, int K, int k_slice
#define SPLIT_ARGUMENTS {x, w, nullptr, partial, M, N, K, k_slice, N, 0}

// The two kernels of a tile's type, for blocks of THREADS threads, BLOCKS of them on a multiprocessor.
#define TILE_PRODUCTS(NAME, TILE, THREADS, BLOCKS)                                               \
  extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(PRODUCT_PARAMETERS) {       \
    await_earlier();                                                                             \
    TILE::run<false>(PRODUCT_ARGUMENTS);                                                         \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME##_split(SPLIT_PARAMETERS) { \
    await_earlier();                                                                             \
    TILE::run<true>(SPLIT_ARGUMENTS);                                                            \
  }

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Where a block's tile stands: its first token and its first output.
struct Corner {
  int token, output;
};

// Blocks of a grid in x, in an order that keeps what neighbours read in the second-level cache: 16 tiles of tokens,
// then the next tile of outputs.
template <int TOKENS, int OUTPUTS>
__device__ __forceinline__ Corner corner_at(const Problem& p, int block) {
  constexpr int kTogether = 16;
  const int across = ceil_div(p.M, TOKENS), down = ceil_div(p.N, OUTPUTS);
  const int group = block / (kTogether * down), within = block % (kTogether * down);
  const int width = min(across - group * kTogether, kTogether);
  return {(group * kTogether + within % width) * TOKENS, within / width * OUTPUTS};
}

template <int TOKENS, int OUTPUTS>
__device__ __forceinline__ Corner corner_of(const Problem& p) {
  return corner_at<TOKENS, OUTPUTS>(p, blockIdx.x);
}

// One element of y after a slice.
__device__ __forceinline__ void settle(const Problem& p, int token, int output, float sum, bool first, bool last) {
  if (token >= p.M || output >= p.N) return;
  float* const y = p.y + static_cast<size_t>(token) * p.ldy + output;
  float value = first && !p.add ? sum : __fadd_rn(*y, sum);
  if (last && p.bias != nullptr) value = __fadd_rn(value, p.bias[output]);
  *y = value;
}

// The problem of slice `s` alone, whose sums go to their place among the partial sums.
__device__ __forceinline__ Problem of_slice(Problem p, int s) {
  p.y += static_cast<size_t>(s) * p.M * p.N;
  return p;
}

}  // namespace gemm
