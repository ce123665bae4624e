// What attention computes, apart from how fast: attend_plain.cu, attend.cuh and attend_merge.cu give the same bits
// because they all do exactly this.
//
// Row r at position p sees the keys from first_seen(p) to p. They are divided every kSplit absolute positions; within a
// split, for each query head of r:
//
//   score[j]  = (q . k[j]) * scale       mma_bf16 along the head, 16 dimensions at a time, from 0; through a softcap
//                                        (softcap.cuh) where cap is not 0
//   peak      = max score[j]
//   weight[j] = bf16(coarse_exp(score[j] - peak)), 0 for a key that is not seen; NaN for a NaN, which peaks leave out
//   sum       = the weights in the order of sum_of_slices
//   part[d]   = sum_j weight[j] v[j][d]  mma_bf16 along the keys, a block of 16 at a time in order, from 0
//
// and the splits are folded in order into a running peak, total and output (fold, folded); out = output / total. The
// running softmax begins with nothing, or with the query head's sink (begin_softmax), which so counts once for a query.
// Every operand that is not seen enters a product as a weight of 0 (and a value of 0 where no row of the tile sees it),
// and mma_bf16 leaves a sum as it is under products of 0. So a query's bits depend on its own keys alone: not on the
// tile, on the rows beside it, on where blocks begin to be shared, or on whether its splits met in registers or in
// attend_merge.
//
// Proved by kernels/tests/attend.cpp.
#pragma once

#include "mma.cuh"
#include "softcap.cuh"

constexpr int kBlock = 16;    // keys of a block of the cache
constexpr int kSplit = 256;   // keys of a split
constexpr int kSlices = 4;    // a split's block b belongs to slice b % kSlices

// The first key that a row at `position` sees; `window` counts its own, 0 is no window.
__device__ __forceinline__ int first_seen(int position, int window) {
  return window > 0 && position >= window ? position + 1 - window : 0;
}

// e^x for x <= 0 where the result is rounded to bf16: relative error under 5e-5, a fortieth of that rounding. 0 below
// -45, so that no product of weights is subnormal; NaN for NaN, which is why 2^n is a factor and not added to the bits.
// x = (n + r) ln 2 with |r| <= 1/2; 2^r is its series to the fourth power, whose factors are powers of ln 2 over
// factorials. Half as many instructions as exp_f32, in the loop where they count.
__device__ __forceinline__ float coarse_exp(float x) {
  const float shifted = __fmaf_rn(x, 0x1.715476p+0f, 12582912.0f);  // 1.5 * 2^23: what is added ends as an integer
  const float r = __fmaf_rn(x, 0x1.715476p+0f, -__fadd_rn(shifted, -12582912.0f));
  float p = 9.618129e-3f;
  p = __fmaf_rn(p, r, 5.550411e-2f);
  p = __fmaf_rn(p, r, 0.2402265f);
  p = __fmaf_rn(p, r, 0.6931472f);
  p = __fmaf_rn(p, r, 1.0f);
  const float power = __uint_as_float((__float_as_uint(shifted) << 23) + 0x3f800000u);
  return x < -45.0f ? 0.0f : __fmul_rn(p, power);
}

// The sum of a split's weights. Lane t of a quad adds, for the blocks of one slice in order, the keys 2t, 2t + 1,
// 2t + 8 and 2t + 9 of each (what it holds of a tile of mma_bf16); a quad's four sums meet as (0 + 1) + (2 + 3), and
// slices are added in order.
__device__ __forceinline__ float quad_sum(float of_lane) {
  of_lane = __fadd_rn(of_lane, __shfl_xor_sync(kAllLanes, of_lane, 1));
  return __fadd_rn(of_lane, __shfl_xor_sync(kAllLanes, of_lane, 2));
}
__device__ __forceinline__ float sum_of_slices(float s0, float s1, float s2, float s3) {
  return __fadd_rn(__fadd_rn(__fadd_rn(s0, s1), s2), s3);
}

// A query's softmax over the splits so far.
struct Softmax {
  float peak, total;
};
// Before the first split: nothing, or a head's sink, a learnt score of weight 1 and without a value.
__device__ __forceinline__ Softmax begin_softmax(const float* sinks, int head) {
  if (sinks == nullptr) return {-INFINITY, 0.0f};
  return {sinks[head], 1.0f};
}

// What the output so far and a split's part are multiplied with.
struct Factors {
  float keep, take;
};

// Takes a split's peak and sum into the running ones. A split that a query sees nothing of is not folded.
__device__ __forceinline__ Factors fold(Softmax& running, float peak, float sum) {
  const float now = fmaxf(running.peak, peak);
  const Factors by = {exp_f32(__fsub_rn(running.peak, now)), exp_f32(__fsub_rn(peak, now))};
  running = {now, __fmaf_rn(running.total, by.keep, __fmul_rn(sum, by.take))};
  return by;
}
__device__ __forceinline__ float folded(float out, float part, Factors by) {
  return __fmaf_rn(out, by.keep, __fmul_rn(part, by.take));
}

// The last step: the output by the total.
__device__ __forceinline__ bf16 attended(float out, float total) {
  return __float2bfloat16_rn(__fmul_rn(out, __fdiv_rn(1.0f, total)));
}

// How many splits a row at `position` has.
__device__ __forceinline__ int splits_of(int position, int window) {
  return position / kSplit - first_seen(position, window) / kSplit + 1;
}

// Merges a row's splits in order, for four dimensions of one head from `at` on in a row of H heads of D: attend_merge.cu has
// the arrays.
__device__ __forceinline__ void merge_splits(const float* splits, const float* peaks, size_t first, int n_splits,
                                             const float* sinks, bf16* out, int H, int D, size_t row, int at) {
  struct __align__(8) FourBf16 {
    bf16 values[4];
  };
  const int head = at / D;
  const size_t width = static_cast<size_t>(H) * D;
  float so_far[4] = {};
  Softmax running = begin_softmax(sinks, head);
  for (int i = 0; i < n_splits; i++) {
    const float2 softmax = *reinterpret_cast<const float2*>(peaks + ((first + i) * H + head) * 2);
    const float4 part = *reinterpret_cast<const float4*>(splits + (first + i) * width + at);
    const Factors by = fold(running, softmax.x, softmax.y);
    so_far[0] = folded(so_far[0], part.x, by);
    so_far[1] = folded(so_far[1], part.y, by);
    so_far[2] = folded(so_far[2], part.z, by);
    so_far[3] = folded(so_far[3], part.w, by);
  }
  FourBf16 four;
#pragma unroll
  for (int i = 0; i < 4; i++) four.values[i] = attended(so_far[i], running.total);
  *reinterpret_cast<FourBf16*>(out + row * width + at) = four;
}

// One layer's cache: [n_blocks, KV, kBlock, D].
struct Cache {
  const bf16 *keys, *values;
  int n_kv_heads, dim;
  // Where the key or value of a sequence's `key`-th token stands; `blocks` are the sequence's.
  __device__ __forceinline__ size_t at(const int* blocks, int key, int head) const {
    return ((static_cast<size_t>(blocks[key / kBlock]) * n_kv_heads + head) * kBlock + key % kBlock) * dim;
  }
};
