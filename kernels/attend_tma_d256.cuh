// attend_tma.cuh for heads of 256 dimensions, whose output and scores have no room in one group's registers: both
// consumer groups have the same 64 queries. Each scores half of a split's keys and has half of the output's dimensions;
// peaks, sums and weights go through shared memory.
//
//   attend_rows_tma_d256_t64      out[row] for every row of a work tile, its splits in order
//   attend_split_kv_tma_d256_t64  one KV split of every row of a work tile, for attend_merge
//
// Launch: block 384, grid (n_work_tiles, KV), Wide256::kSharedBytes of dynamic shared memory.
//
// A stage is 128 dimensions of the 128 keys that one group scores, or 64 values. Group g scores the blocks of slices 2 g
// and 2 g + 1 (attention.cuh), so each slice is summed by one group.
//
// Expected, counted from instructions: for 64 queries the products of a split take 4,096 clocks of the tensor cores, and
// the weights 2,112 of the other units, one after the other: .6 of the tensor cores' peak. No card has run it.
//
// Proved by kernels/tests/attend.cpp: bit-equal to attend_plain.cu.
#pragma once

#include "attend_tma.cuh"

namespace attention {

struct Wide256 {
  static constexpr int D = 256, kQueries = 64, kConsumers = 256, kThreads = kConsumers + 128;
  static constexpr int kValues = 64;                                 // of a stage
  static constexpr int kKeyColumnBytes = kSplit / 2 * 128, kValueColumnBytes = kValues * 128;
  static constexpr int kQueryColumnBytes = kQueries * 128, kQueryBytes = D / 64 * kQueryColumnBytes;
  static constexpr int kWeightRowBytes = 2 * kSplit, kWeightBytes = kQueries * kWeightRowBytes;
  static constexpr int kStageBytes = 2 * kKeyColumnBytes;
  static_assert(kStageBytes == D / 64 * kValueColumnBytes, "stages of keys and of values have one size");
  using Stages = StageRing<5, kStageBytes>;
  static constexpr int kSharedBytes = kQueryBytes + kWeightBytes + Stages::kBytes + 2 * 8 + kQueries * (2 + kSlices) * 4;
  static_assert(kSharedBytes <= 227 << 10, "more shared memory than a block can have");
  using Part = float[D / 2 / 8][4];    // of a group's dimensions
  using Scores = float[kSplit / 2 / 8][4];  // of a group's keys

  struct Shared {
    unsigned char *queries, *weights;
    Stages stages;
    uint64_t *partial, *meeting;
    float *peaks, *sums;  // [groups, queries], [slices, queries]
    __device__ __forceinline__ explicit Shared(unsigned char* bytes)
        : queries(bytes + (Stages::kAlign - reinterpret_cast<uintptr_t>(bytes) % Stages::kAlign) % Stages::kAlign),
          weights(queries + kQueryBytes),
          stages(weights + kWeightBytes),
          partial(stages.empty + Stages::kStages),
          meeting(partial + 1),
          peaks(reinterpret_cast<float*>(meeting + 1)),
          sums(peaks + 2 * kQueries) {}
    __device__ __forceinline__ void init() const {
      stages.init(1, kConsumers / 32);
      mbarrier_init(partial, 1);
      mbarrier_init(meeting, kConsumers / 32);
      mbarrier_publish();
    }
  };

  // A barrier of the consumers.
  struct Meeting {
    uint64_t* at;
    unsigned parity = 0;
    __device__ __forceinline__ void operator()() {
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(at);
      mbarrier_wait(at, parity);
      parity ^= 1;
    }
  };

  static __device__ __forceinline__ bool is_streamed(const Range& range, int values) {
    const int key = range.base + values * kValues;
    return key < range.end && key + kValues > range.first;
  }
  // The block of a split that a group scores as its i-th.
  static __device__ __forceinline__ int scored(int group, int i) { return i / 2 * kSlices + 2 * group + i % 2; }

  // One warp copies the stages of splits first..last, a lane for each block: of each split the keys of group 0 in two
  // parts, those of group 1, then the values.
  static __device__ __forceinline__ void copy(const Arguments& in, const WideTile& tile, const CUtensorMap& keys,
                                              const CUtensorMap& values, const Shared& shared, int first, int last) {
    const int lane = threadIdx.x % 32;
    Stages to = shared.stages;
    unsigned parity = 0;  // of shared.partial
#pragma unroll 1
    for (int split = first; split <= last; split++) {
      const Range range(split, tile.first, tile.end);
#pragma unroll 1
      for (int part = 0; part < 8; part++) {
        const bool of_values = part >= 4;
        const int nth = part % 4, base = range.base + nth * kValues;
        if (of_values && !is_streamed(range, nth)) continue;
        const int from = max(range.first - base, 0), end = min(range.end - base, kValues);
        const bool clears = of_values && (from % kBlock != 0 || end % kBlock != 0);
        uint64_t* const full = &to.full[to.slot];
        uint64_t* const arrived = clears ? shared.partial : full;
        if (lane == 0) {
          mbarrier_wait(&to.empty[to.slot], to.parity ^ 1);
          mbarrier_expect(arrived, kStageBytes);
        }
        __syncwarp();
        if (lane < (of_values ? kValues / kBlock : kSplit / 2 / kBlock)) {
          const int key = of_values ? base + lane * kBlock : range.base + scored(nth / 2, lane) * kBlock;
          // Rows before the tensor are zeros.
          const int row = range.sees(key) ? (tile.blocks[key / kBlock] * in.n_kv_heads + static_cast<int>(blockIdx.y)) * kBlock : -kBlock;
          const int column_bytes = of_values ? kValueColumnBytes : kKeyColumnBytes;
          const int n_columns = of_values ? 4 : 2, first_column = of_values ? 0 : nth % 2 * 2;
          unsigned char* const at = to.stage() + lane * (kBlock * 128);
          for (int column = 0; column < n_columns; column++)
            tma_load(at + column * column_bytes, of_values ? values : keys, arrived, (first_column + column) * 64, row);
        }
        if (clears) {
          mbarrier_wait(shared.partial, parity);
          parity ^= 1;
          clear_rows(to.stage(), 4, kValueColumnBytes, from / kBlock * kBlock, from);
          clear_rows(to.stage(), 4, kValueColumnBytes, end, (end + kBlock - 1) / kBlock * kBlock);
          wgmma_publish();
          __syncwarp();
          if (lane == 0) mbarrier_arrive(full);
        }
        to.next();
      }
    }
  }

  static __device__ __forceinline__ void release(Stages& stages) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&stages.empty[stages.slot]);
    stages.next();
  }

  // Scores of the group's keys of a split, as the tensor core gives them.
  static __device__ __forceinline__ void multiply_keys(const Shared& shared, Stages& stages, Scores& scores) {
    const int group = threadIdx.x / 128;
    begin_at_zero(scores);
#pragma unroll
    for (int part = 0; part < 4; part++) {
      mbarrier_wait(&stages.full[stages.slot], stages.parity);
      if (part / 2 == group) {
        const unsigned char* const queries = shared.queries + part % 2 * (2 * kQueryColumnBytes);
        const unsigned char* const keys = stages.stage();
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 8; k++)
          wgmma_start(scores, queries + k / 4 * kQueryColumnBytes + k % 4 * 32, keys + k / 4 * kKeyColumnBytes + k % 4 * 32);
        wgmma_commit();
        wgmma_wait();
      }
      release(stages);
    }
  }

  // Scales the scores, caps them, and takes out what a query does not see.
  static __device__ __forceinline__ void mask(const Arguments& in, const WideTile& tile, const QueryPair& mine, const Range& range,
                                              Scores& scores) {
    constexpr int kScores = sizeof(Scores) / sizeof(float);
#pragma unroll
    for (int e = 0; e < kScores; e++) scores[e / 4][e % 4] = __fmul_rn(scores[e / 4][e % 4], in.scale);
    if (in.cap > 0.0f) {
#pragma unroll
      for (int e = 0; e < kScores; e++)
        scores[e / 4][e % 4] = in_turn(capped(in_turn(scores[e / 4][e % 4]), in.cap, in.cap_by));
    }
    if (tile.all_first <= range.base && range.base + kSplit <= tile.all_end) return;
    const int key = range.base + scored(threadIdx.x / 128, 0) * kBlock + threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int first = mine.first[h] - key, end = mine.end[h] - key;
#pragma unroll
      for (int e = 0; e < kScores / 2; e++) {
        const int j = e / 2, at = scored(0, j / 2) * kBlock + j % 2 * 8 + e % 2;
        float& score = scores[j][2 * h + e % 2];
        score = at >= first && at < end ? score : -INFINITY;
      }
    }
  }

  static __device__ __forceinline__ int query(int h) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * h; }

  // A query's largest score among the group's keys, to shared memory.
  static __device__ __forceinline__ void find_peak(const Shared& shared, const Scores& scores, int h) {
    float peak = -INFINITY;
#pragma unroll
    for (int e = 0; e < kSplit / 8; e++) peak = fmaxf(peak, scores[e / 2][2 * h + e % 2]);
    peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 1));
    peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 2));
    if (threadIdx.x % 4 == 0) shared.peaks[threadIdx.x / 128 * kQueries + query(h)] = peak;
  }
  static __device__ __forceinline__ float peak_of(const Shared& shared, int h) {
    return fmaxf(shared.peaks[query(h)], shared.peaks[kQueries + query(h)]);
  }

  // Where eight weights of a query are in shared memory: rows of 512 bytes whose chunks are swizzled.
  static __device__ __forceinline__ unsigned char* weights_at(const Shared& shared, int query, int chunk) {
    return shared.weights + query * kWeightRowBytes + (chunk ^ query % 8) * 16;
  }

  // Turns a query's scores into weights, and sums the group's slices of them, in shared memory.
  static __device__ __forceinline__ void soften(const Shared& shared, const Scores& scores, int h, float from) {
    const int group = threadIdx.x / 128;
    float sums[2] = {};
#pragma unroll
    for (int j = 0; j < kSplit / 2 / 8; j++) {
      __nv_bfloat162 pair;
      narrow(coarse_exp(__fsub_rn(scores[j][2 * h], from)), pair.x);
      narrow(coarse_exp(__fsub_rn(scores[j][2 * h + 1], from)), pair.y);
      float& sum = sums[j / 2 % 2];
      sum = __fadd_rn(__fadd_rn(sum, widen(pair.x)), widen(pair.y));
      unsigned char* const to = weights_at(shared, query(h), scored(group, j / 2) * 2 + j % 2);
      *reinterpret_cast<__nv_bfloat162*>(to + threadIdx.x % 4 * 4) = pair;
    }
#pragma unroll
    for (int slice = 0; slice < 2; slice++) {
      const float sum = quad_sum(sums[slice]);
      if (threadIdx.x % 4 == 0) shared.sums[(2 * group + slice) * kQueries + query(h)] = sum;
    }
  }

  // A split's weights times its values, for the group's dimensions.
  static __device__ __forceinline__ void multiply_values(const Shared& shared, Stages& stages, const Range& range, Part& part) {
    const int group = threadIdx.x / 128, lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
    begin_at_zero(part);
#pragma unroll
    for (int nth = 0; nth < kSplit / kValues; nth++) {
      if (!is_streamed(range, nth)) continue;
      uint32_t weights[kValues / kBlock][4];
#pragma unroll
      for (int block = 0; block < kValues / kBlock; block++) {
        const int chunk = (nth * (kValues / kBlock) + block) * 2 + lane / 16;
        ldmatrix_x4(weights[block], reinterpret_cast<const bf16*>(weights_at(shared, row, chunk)));
      }
      mbarrier_wait(&stages.full[stages.slot], stages.parity);
      const unsigned char* const values = stages.stage() + group * (2 * kValueColumnBytes);
      wgmma_fence();
#pragma unroll
      for (int block = 0; block < kValues / kBlock; block++)
        wgmma_start_transposed(part, weights[block], values + block * (kBlock * 128), kValueColumnBytes);
      wgmma_commit();
      wgmma_wait();
      release(stages);
    }
  }

  // Splits first..last by a consumer. For each, `settle(h, softmax, sees)` is called for the thread's two queries, then
  // `take(part)`. Of what is in shared memory only weights and sums of a split are written while others may still read
  // those of the one before, and between them is the meeting after the peaks.
  template <typename Settle, typename Take>
  static __device__ __forceinline__ void consume(const Arguments& in, const WideTile& tile, const QueryPair& mine, const Shared& shared,
                                                 Meeting& meet, int first, int last, Settle settle, Take take) {
    Stages stages = shared.stages;
    for (int split = first; split <= last; split++) {
      const Range range(split, tile.first, tile.end);
      {
        Scores scores;
        multiply_keys(shared, stages, scores);
        mask(in, tile, mine, range, scores);
        for (int h = 0; h < 2; h++) find_peak(shared, scores, h);
        meet();
        // A query that sees nothing of the split has no peak, and weights of 0.
#pragma unroll
        for (int h = 0; h < 2; h++) soften(shared, scores, h, mine.sees(h, range) ? peak_of(shared, h) : 0.0f);
      }
      const float peaks[2] = {peak_of(shared, 0), peak_of(shared, 1)};
      meet();
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const float* const sums = shared.sums + query(h);
        const float total = sum_of_slices(sums[0], sums[kQueries], sums[2 * kQueries], sums[3 * kQueries]);
        settle(h, Softmax{peaks[h], total}, mine.sees(h, range));
      }
      Part part;
      multiply_values(shared, stages, range, part);
      take(part);
    }
  }

  // Initialises the barriers; the warp groups then take their roles. `attend(tile, mine, shared, meet, first, last)` is
  // called by the consumers for the splits first..last of the tile, or for `only`, where that is not -1.
  template <typename Attend>
  static __device__ __forceinline__ void run(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values, const int* work,
                                             int only, unsigned char* bytes, Attend attend) {
    const Shared shared(bytes);
    if (threadIdx.x == 0) {
      tma_prefetch(keys);
      tma_prefetch(values);
      shared.init();
    }
    __syncthreads();
    const WideTile tile(in, work[0], work[1]);
    const int first = only < 0 ? tile.first / kSplit : only, last = only < 0 ? (tile.end - 1) / kSplit : only;
    if (threadIdx.x >= kConsumers) {
      registers_less<72>();
      if (threadIdx.x < kConsumers + 32) copy(in, tile, keys, values, shared, first, last);
    } else {
      registers_more<216>();
      Meeting meet{shared.meeting};
      fetch_wide<D, kQueries>(in, tile, shared.queries);
      meet();
      attend(tile, QueryPair(in, tile, query(0)), shared, meet, first, last);
    }
  }

  static __device__ __forceinline__ void rows(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values,
                                              const int* work, const float* sinks, bf16* __restrict__ out, unsigned char* bytes) {
    run(in, keys, values, work, -1, bytes,
        [&](const WideTile& tile, const QueryPair& mine, const Shared& shared, Meeting& meet, int first, int last) {
          Part so_far = {};
          Softmax running[2];
          Factors by[2];
#pragma unroll
          for (int h = 0; h < 2; h++) running[h] = begin_softmax(sinks, max(mine.place[h], 0) % in.n_heads);
          consume(in, tile, mine, shared, meet, first, last,
                  [&](int h, Softmax of_split, bool sees) {
                    // A split that a query sees nothing of is not folded.
                    by[h] = sees ? fold(running[h], of_split.peak, of_split.total) : Factors{1.0f, -1.0f};
                  },
                  [&](const Part& part) { fold_part(so_far, part, by); });
          store_rows<D>(out, mine, threadIdx.x / 128 * (D / 2), so_far, running);
        });
  }

  static __device__ __forceinline__ void split_kv(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values,
                                                  const int* work, float* __restrict__ splits, float* __restrict__ peaks,
                                                  const int* split_start, unsigned char* bytes) {
    run(in, keys, values, work, work[2], bytes,
        [&](const WideTile& tile, const QueryPair& mine, const Shared& shared, Meeting& meet, int first, int last) {
          const int group = threadIdx.x / 128;
          consume(in, tile, mine, shared, meet, first, last,
                  [&](int h, Softmax of_split, bool) {
                    if (mine.place[h] < 0 || group != 0 || threadIdx.x % 4 != 0) return;
                    *reinterpret_cast<Softmax*>(peaks + mine.part(in, split_start, first, h) * 2) = of_split;
                  },
                  [&](const Part& part) {
                    for (int h = 0; h < 2; h++)
                      if (mine.place[h] >= 0) store_part(splits + mine.part(in, split_start, first, h) * D + group * (D / 2), part, h);
                  });
        });
  }
};

}  // namespace attention
