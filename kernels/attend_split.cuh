// One split of a work tile of attend.cuh: scores, weights and sums of values on the tensor core.
//
// Proved by kernels/tests/attend.cpp.
#pragma once

#include "attend_stream.cuh"

namespace attention {

// Fragment a of mma_bf16: sixteen rows from `at` on, `stride` apart.
__device__ __forceinline__ void load_a(uint32_t (&a)[4], const bf16* at, int stride) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x4(a, at + (lane % 16) * stride + lane / 16 * 8);
}

// Sixteen keys' fragments b for a product along the head: r[0], r[1] of the first eight, r[2], r[3] of the others.
__device__ __forceinline__ void load_keys(uint32_t (&r)[4], const bf16* at, int stride) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x4(r, at + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8);
}

// Fragments b of sixteen values for a product along the keys: r[0], r[1] of eight dimensions, r[2], r[3] of the next.
__device__ __forceinline__ void load_values(uint32_t (&r)[4], const bf16* at, int stride) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x4_trans(r, at + (lane % 16) * stride + lane / 16 * 8);
}
__device__ __forceinline__ void load_values(uint32_t (&r)[2], const bf16* at, int stride) {
  ldmatrix_x2_trans(r, at + (threadIdx.x % 16) * stride);
}

template <int D, int T>
struct Queries {
  using P = Plan<D, T>;
  uint32_t held[P::kHoldQueries ? P::kTilesM : 1][P::kHoldQueries ? P::kSteps : 1][4];  // kParts is 1 where they are
  const bf16* rows;

  // Once the queries are in shared memory.
  __device__ __forceinline__ void load() {
    if constexpr (P::kHoldQueries) {
#pragma unroll
      for (int m = 0; m < P::kTilesM; m++)
#pragma unroll
        for (int k = 0; k < P::kSteps; k++) load_a(held[m][k], rows + m * 16 * P::kRow + k * 16, P::kRow);
    }
  }
  __device__ __forceinline__ void get(uint32_t (&a)[4], int m, int k) const {
    if constexpr (P::kHoldQueries) {
#pragma unroll
      for (int i = 0; i < 4; i++) a[i] = held[m][k][i];
    } else {
      load_a(a, rows + m * 16 * P::kRow + k * 16, P::kRow);
    }
  }
};

// The warp's block of a stage, and the first of the tiles of queries that it scores.
__device__ __forceinline__ int scorer() { return static_cast<int>(threadIdx.x) / 32 % kScorers; }
template <int D, int T>
__device__ __forceinline__ int first_scored() {
  using P = Plan<D, T>;
  if constexpr (P::kWarps == kScorers) return 0;
  return static_cast<int>(threadIdx.x) / (32 * kScorers) * P::kScoredM;
}

// Adds one part of the dimensions to the scores of one stage's sixteen keys of this warp: two tiles of eight keys per
// sixteen queries.
template <int D, int T>
__device__ __forceinline__ void score(const Queries<D, T>& queries, const bf16* keys, int part,
                                      float (&scores)[Plan<D, T>::kScoredM][2][4]) {
  using P = Plan<D, T>;
  const int first = first_scored<D, T>();
#pragma unroll P::kStepsAtOnce
  for (int k = 0; k < P::kSteps; k++) {
    uint32_t b[4];
    load_keys(b, keys + k * 16, P::kStageRow);
    const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
    for (int m = 0; m < P::kScoredM; m++) {
      uint32_t a[4];
      queries.get(a, first + m, part * P::kSteps + k);
      mma_bf16(scores[m][0], a, low);
      mma_bf16(scores[m][1], a, high);
    }
  }
}

// Adds one stage's values, weighted, for this warp's dimensions of one part; its tiles begin at `at`.
template <int D, int T>
__device__ __forceinline__ void weigh(const Shared<D, T>& shared, const Range& range, int stage, const bf16* values, int at,
                                      float (&part)[T / 16][Plan<D, T>::kTilesOfWarp][4]) {
  using P = Plan<D, T>;
  const int first_tile = static_cast<int>(threadIdx.x) / 32 * P::kTilesOfPart;
#pragma unroll
  for (int block = 0; block < kStage / kBlock; block++) {
    const int key = stage * kStage + block * kBlock;
    if (!range.sees(range.base + key)) continue;
    uint32_t a[P::kTilesM][4];
#pragma unroll
    for (int m = 0; m < P::kTilesM; m++) load_a(a[m], shared.weights + m * 16 * P::kWeightRow + key, P::kWeightRow);
    const bf16* rows = values + block * kBlock * P::kStageRow + first_tile * 8;
#pragma unroll
    for (int n = 0; n < P::kTilesOfPart; n += 2) {
      // Warps have the same number of tiles, or the last ones fewer.
      if (P::kTilesD % P::kWarps != 0 && first_tile + n >= P::kTilesD) break;
      uint32_t low[2], high[2];
      if (n + 1 < P::kTilesOfPart) {
        uint32_t b[4];
        load_values(b, rows + n * 8, P::kStageRow);
        low[0] = b[0], low[1] = b[1], high[0] = b[2], high[1] = b[3];
      } else {
        load_values(low, rows + n * 8, P::kStageRow);
      }
#pragma unroll
      for (int m = 0; m < P::kTilesM; m++) {
        mma_bf16(part[m][at + n], a[m], low);
        if (n + 1 < P::kTilesOfPart && (P::kTilesD % P::kWarps == 0 || first_tile + n + 1 < P::kTilesD))
          mma_bf16(part[m][at + n + 1], a[m], high);
      }
    }
  }
}

// The value, computed after those before it: otherwise several softcaps at a time would take the registers that a split's
// scores need.
__device__ __forceinline__ float in_turn(float value) {
#ifndef HOST_KERNEL_TEST
  asm volatile("" : "+f"(value));
#endif
  return value;
}

// Scales one stage's scores, caps them, and takes out what a query does not see. `key` is the warp's first.
template <int D, int T>
__device__ __forceinline__ void mask(const Shared<D, T>& shared, const Stream& stream, int key, const Arguments& in,
                                     float (&scores)[Plan<D, T>::kScoredM][2][4]) {
  constexpr int kScoredM = Plan<D, T>::kScoredM;
#pragma unroll
  for (int m = 0; m < kScoredM; m++)
#pragma unroll
    for (int i = 0; i < 8; i++) scores[m][i / 4][i % 4] = __fmul_rn(scores[m][i / 4][i % 4], in.scale);
  if (in.cap > 0.0f) {
#pragma unroll
    for (int m = 0; m < kScoredM; m++)
#pragma unroll
      for (int i = 0; i < 8; i++)
        scores[m][i / 4][i % 4] = in_turn(capped(in_turn(scores[m][i / 4][i % 4]), in.cap, in.cap_by));
  }
  if (stream.all_first <= key && key + kBlock <= stream.all_end) return;
  const int g = threadIdx.x % 32 / 4, t = 2 * (threadIdx.x % 4);
#pragma unroll
  for (int m = 0; m < kScoredM; m++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int query = (first_scored<D, T>() + m) * 16 + g + i / 2 * 8;
      const int first = shared.first[query] - key - t - i % 2, end = shared.end[query] - key - t - i % 2;
#pragma unroll
      for (int n = 0; n < 2; n++)
        if (n * 8 < first || n * 8 >= end) scores[m][n][i] = -INFINITY;
    }
}

template <int D, int T>
using Scores = float[kStages][Plan<D, T>::kScoredM][2][4];

// Each query's largest score among the warp's keys.
template <int D, int T>
__device__ __forceinline__ void find_peaks(const Shared<D, T>& shared, const Scores<D, T>& scores) {
  const int slice = scorer(), first = first_scored<D, T>(), lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < Plan<D, T>::kScoredM; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float peak = -INFINITY;
#pragma unroll
      for (int stage = 0; stage < kStages; stage++)
#pragma unroll
        for (int i = 0; i < 4; i++) peak = fmaxf(peak, scores[stage][m][i / 2][half * 2 + i % 2]);
      peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 1));
      peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 2));
      if (lane % 4 == 0) shared.peaks[slice * T + (first + m) * 16 + half * 8 + lane / 4] = peak;
    }
}

template <int D, int T>
__device__ __forceinline__ float peak_of(const Shared<D, T>& shared, int query) {
  const float* peaks = shared.peaks + query;
  return fmaxf(fmaxf(peaks[0], peaks[T]), fmaxf(peaks[2 * T], peaks[3 * T]));
}

// Turns scores into weights in shared memory, and sums this warp's slice of them.
template <int D, int T>
__device__ __forceinline__ void soften(const Shared<D, T>& shared, const Range& range, const Scores<D, T>& scores) {
  const int slice = scorer(), first = first_scored<D, T>(), lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < Plan<D, T>::kScoredM; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int query = (first + m) * 16 + half * 8 + lane / 4;
      // A query that sees nothing of the split has no peak, and weights of 0.
      const bool sees = shared.first[query] < range.end && shared.end[query] > range.first;
      const float peak = sees ? peak_of(shared, query) : 0.0f;
      float sum = 0.0f;
#pragma unroll
      for (int stage = 0; stage < kStages; stage++)
#pragma unroll
        for (int n = 0; n < 2; n++) {
          __nv_bfloat162 weights;
          narrow(coarse_exp(__fsub_rn(scores[stage][m][n][half * 2], peak)), weights.x);
          narrow(coarse_exp(__fsub_rn(scores[stage][m][n][half * 2 + 1], peak)), weights.y);
          sum = __fadd_rn(__fadd_rn(sum, widen(weights.x)), widen(weights.y));
          const int key = stage * kStage + slice * kBlock + n * 8 + 2 * (lane % 4);
          *reinterpret_cast<__nv_bfloat162*>(shared.weights + query * Plan<D, T>::kWeightRow + key) = weights;
        }
      sum = quad_sum(sum);
      if (lane % 4 == 0) shared.sums[slice * T + query] = sum;
    }
}
// Calls `each(m, n, half, query, dimension)` for the pairs of neighbouring dimensions that this lane holds.
template <int D, int T, typename Each>
__device__ __forceinline__ void for_each_pair(Each each) {
  using P = Plan<D, T>;
  const int lane = threadIdx.x % 32, first_tile = static_cast<int>(threadIdx.x) / 32 * P::kTilesOfPart;
#pragma unroll
  for (int m = 0; m < P::kTilesM; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int query = m * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int n = 0; n < P::kTilesOfWarp; n++) {
        const int tile = first_tile + n % P::kTilesOfPart;
        if (P::kTilesD % P::kWarps != 0 && tile >= P::kTilesD) break;
        each(m, n, half * 2, query, n / P::kTilesOfPart * P::kColumns + tile * 8 + 2 * (lane % 4));
      }
    }
}

// One split of a work tile: peaks and sums of weights in shared memory, its part in registers. `settle` is called by
// every thread once peaks and sums are there, before the values.
template <int D, int T, typename Settle>
__device__ __forceinline__ void attend_split(const Arguments& in, const Shared<D, T>& shared, Ring<D, T>& ring,
                                             const Queries<D, T>& queries, const Range& range,
                                             float (&part)[T / 16][Plan<D, T>::kTilesOfWarp][4], Settle settle) {
  using P = Plan<D, T>;
  const int first_stage = range.first_stage(), end_stage = range.end_stage();
  Scores<D, T> scores;
#pragma unroll
  for (int stage = 0; stage < kStages; stage++) {
    const int key = range.base + stage * kStage + scorer() * kBlock;
    const bool streamed = stage >= first_stage && stage < end_stage, seen = streamed && range.sees(key);
#pragma unroll
    for (int m = 0; m < P::kScoredM; m++)
#pragma unroll
      for (int i = 0; i < 8; i++) scores[stage][m][i / 4][i % 4] = seen ? 0.0f : -INFINITY;
#pragma unroll
    for (int p = 0; p < P::kParts; p++) {
      const bf16* keys = streamed ? ring.next() + scorer() * kBlock * P::kStageRow : nullptr;
      if (seen) score<D, T>(queries, keys, p, scores[stage]);
    }
    if (seen) mask<D, T>(shared, ring.stream, key, in, scores[stage]);
  }
  find_peaks<D, T>(shared, scores);
  __syncthreads();
  soften<D, T>(shared, range, scores);
  __syncthreads();
  settle();
#pragma unroll
  for (int m = 0; m < T / 16; m++)
#pragma unroll
    for (int n = 0; n < Plan<D, T>::kTilesOfWarp; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) part[m][n][i] = 0.0f;
  for (int stage = first_stage; stage < end_stage; stage++) {
#pragma unroll
    for (int p = 0; p < P::kParts; p++) weigh<D, T>(shared, range, stage, ring.next(), p * P::kTilesOfPart, part);
  }
}

template <int D, int T>
__device__ __forceinline__ Softmax softmax_of(const Shared<D, T>& shared, int query) {
  const float* sums = shared.sums + query;
  return {peak_of(shared, query), sum_of_slices(sums[0], sums[T], sums[2 * T], sums[3 * T])};
}

}  // namespace attention
