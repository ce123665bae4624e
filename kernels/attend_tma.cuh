// Attention on Hopper for 128 queries at a time, as attention.cuh defines it: one producer warp group issues TMA copies
// (tma.cuh), two consumer warp groups run wgmma (wgmma.cuh), each for 64 of a work tile's queries.
//
//   attend_rows_tma_dD_t128      out[row] for every row of a work tile, its splits in order: chunks of prompts
//   attend_split_kv_tma_dD_t128  one KV split of every row of a work tile, for attend_merge: shared prefixes
//
// for heads of D in 64, 128. Work tiles, arrays and bits are attend.cuh's; the place of `keys` and `values` is taken by
// tensor maps of [n_blocks KV 16, D] in tiles of 16 x 64, which are the first arguments.
//
// Launch: block 384, grid (n_work_tiles, KV), dynamic shared memory as WidePlan::kSharedBytes says.
//
// A split goes by in stages of 128 keys, its keys before its values. A warp has 16 queries and all 256 scores of each in
// registers: peaks and sums need no other warp, and weights are already where the product with the values has its rows.
// Blocks that no row sees are copied as zeros. Of a block that is seen in part the producer zeroes the values that no
// row sees, since a slot that was never written may hold NaN.
//
// The groups take turns with the tensor cores: a turn is the product with one split's values and the scores of the next
// split, and the other group computes its weights meanwhile.
//
// Expected at D = 128, counted from instructions: the products of a split take 4,096 clocks of the tensor cores for 128
// queries, and the weights as many of the other units. So up to .9 of the tensor cores' peak. No card has run it.
//
// Proved by kernels/tests/attend.cpp: bit-equal to attend_plain.cu as attend.cuh is.
#pragma once

#include "attend_split.cuh"
#include "tma.cuh"

namespace attention {

template <int D>
struct WidePlan {
  static constexpr int kQueries = 128, kGroups = 2, kConsumers = 128 * kGroups, kThreads = kConsumers + 128;
  static constexpr int kKeys = 128, kBlocks = kKeys / kBlock;  // of a stage
  static constexpr int kHalves = kSplit / kKeys;               // stages of a split's keys, and of its values
  static constexpr int kColumns = D / 64;                      // rows of 64 dimensions, 128 bytes
  static constexpr int kColumnBytes = kKeys * 128, kQueryColumnBytes = kQueries * 128;
  static constexpr int kStageBytes = kColumns * kColumnBytes, kQueryBytes = kColumns * kQueryColumnBytes;
  using Stages = StageRing<D == 128 ? 6 : 8, kStageBytes>;
  static constexpr int kBarriers = 4;  // beside those of the ring
  static constexpr int kSharedBytes = kQueryBytes + Stages::kBytes + kBarriers * 8;
  static_assert(D % 64 == 0 && D <= 128, "a thread has registers for the scores of a split and for its output");
  static_assert(kSharedBytes <= 227 << 10, "more shared memory than a block can have");
};

// What a work tile reads: its rows are neighbours in `order`.
struct WideTile {
  int first_row, n_rows;
  const int* blocks;
  int first, end;          // keys that any row sees
  int all_first, all_end;  // keys that every row sees

  // Computed by every warp for itself. The row that reads furthest has all blocks that the others read.
  __device__ __forceinline__ WideTile(const Arguments& in, int from, int n) : first_row(from), n_rows(n) {
    int furthest = -1, nearest = 0x7fffffff, row = 0;
    for (int i = threadIdx.x % 32; i < n; i += 32) {
      const int at = in.order[from + i], position = in.positions[at];
      if (position > furthest) furthest = position, row = at;
      nearest = min(nearest, position);
    }
    const int last = __reduce_max_sync(kAllLanes, furthest);
    nearest = __reduce_min_sync(kAllLanes, nearest);
    row = __reduce_max_sync(kAllLanes, furthest == last ? row : -1);
    blocks = in.blocks + in.block_start[in.seq_of_row[row]];
    first = first_seen(nearest, in.window), all_first = first_seen(last, in.window);
    end = last + 1, all_end = nearest + 1;
  }
  // The place of a query in q and out, -1 for none.
  __device__ __forceinline__ int place(const Arguments& in, int query) const {
    const int group = in.n_heads / in.n_kv_heads, i = query / group;
    if (i >= n_rows) return -1;
    return in.order[first_row + i] * in.n_heads + static_cast<int>(blockIdx.y) * group + query % group;
  }
};

// The thread's two queries, `first` and eight further of a work tile's, and the keys that they see.
struct QueryPair {
  int first[2], end[2], place[2];
  __device__ __forceinline__ QueryPair(const Arguments& in, const WideTile& tile, int query) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      place[h] = tile.place(in, query + 8 * h);
      const int position = place[h] < 0 ? -1 : in.positions[place[h] / in.n_heads];
      first[h] = place[h] < 0 ? 0x7fffffff : first_seen(position, in.window), end[h] = position + 1;
    }
  }
  __device__ __forceinline__ bool sees(int h, const Range& range) const {
    return first[h] < range.end && end[h] > range.first;
  }
  // The place of a query's part of a split in `splits`.
  __device__ __forceinline__ size_t part(const Arguments& in, const int* split_start, int split, int h) const {
    const int row = place[h] / in.n_heads;
    return static_cast<size_t>(split_start[row] + split - first[h] / kSplit) * in.n_heads + place[h] % in.n_heads;
  }
};

// Zeroes rows from..to of a stage of `columns` x 128 bytes a row, by one warp.
__device__ __forceinline__ void clear_rows(unsigned char* stage, int columns, int column_bytes, int from, int to) {
  for (int at = threadIdx.x % 32; at < (to - from) * columns * 8; at += 32) {
    const int row = from + at / (columns * 8), chunk = at % (columns * 8);
    *reinterpret_cast<uint4*>(stage + chunk / 8 * column_bytes + row * 128 + chunk % 8 * 16) = make_uint4(0, 0, 0, 0);
  }
}

// The consumers copy a work tile's queries, zeros for those that it has too many, in columns of 64 dimensions as wgmma
// has them. A barrier of the consumers must follow.
template <int D, int QUERIES>
__device__ __forceinline__ void fetch_wide(const Arguments& in, const WideTile& tile, unsigned char* queries) {
  constexpr int kChunks = D / 8, kConsumers = 256;
  for (int at = threadIdx.x; at < QUERIES * kChunks; at += kConsumers) {
    const int query = at / kChunks, chunk = at % kChunks, place = tile.place(in, query);
    const size_t from = place < 0 ? 0 : static_cast<size_t>(place) * D;
    cp_async_16(queries + chunk / 8 * (QUERIES * 128) + query * 128 + (chunk ^ query % 8) % 8 * 16, in.q + from + chunk * 8,
                place >= 0);
  }
  cp_async_commit();
  cp_async_wait<0>();
  wgmma_publish();
  __syncwarp();
}

// Folds a split's part into the outputs so far; where a factor is negative, the query sees nothing of it.
template <int TILES>
__device__ __forceinline__ void fold_part(float (&so_far)[TILES][4], const float (&part)[TILES][4], const Factors (&by)[2]) {
#pragma unroll
  for (int e = 0; e < TILES * 4; e++) {
    float& to = so_far[e / 4][e % 4];
    const Factors& of = by[e / 2 % 2];
    to = of.take < 0.0f ? to : folded(to, part[e / 4][e % 4], of);
  }
}

// Writes a warp's outputs, D dimensions apart, from dimension `from` on.
template <int D, int TILES>
__device__ __forceinline__ void store_rows(bf16* out, const QueryPair& mine, int from, const float (&so_far)[TILES][4],
                                           const Softmax (&running)[2]) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    if (mine.place[h] < 0) continue;
    bf16* const to = out + static_cast<size_t>(mine.place[h]) * D + from + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILES; j++) {
      const float total = running[h].total;
      const __nv_bfloat162 pair = {attended(so_far[j][2 * h], total), attended(so_far[j][2 * h + 1], total)};
      *reinterpret_cast<__nv_bfloat162*>(to + 8 * j) = pair;
    }
  }
}

// Writes a warp's part of a split for one query, from its first dimension on.
template <int TILES>
__device__ __forceinline__ void store_part(float* to, const float (&part)[TILES][4], int h) {
#pragma unroll
  for (int j = 0; j < TILES; j++)
    *reinterpret_cast<float2*>(to + threadIdx.x % 4 * 2 + 8 * j) = make_float2(part[j][2 * h], part[j][2 * h + 1]);
}

template <int D>
struct Wide {
  using P = WidePlan<D>;
  static constexpr int kTiles = D / 8;  // of 8 dimensions
  using Scores = float[P::kHalves][P::kKeys / 8][4];
  using Weights = uint32_t[kSplit / kBlock][4];  // rows of a product along the keys, as wgmma takes them
  using Part = float[kTiles][4];

  struct Shared {
    unsigned char* queries;
    typename P::Stages stages;
    uint64_t *partial, *queries_arrived, *turns;  // turns[g] completes when group 1 - g has ended a turn
    __device__ __forceinline__ explicit Shared(unsigned char* bytes)
        : queries(bytes + (P::Stages::kAlign - reinterpret_cast<uintptr_t>(bytes) % P::Stages::kAlign) % P::Stages::kAlign),
          stages(queries + P::kQueryBytes),
          partial(stages.empty + P::Stages::kStages),
          queries_arrived(partial + 1),
          turns(partial + 2) {}
    __device__ __forceinline__ void init() const {
      stages.init(1, P::kConsumers / 32);
      mbarrier_init(partial, 1);
      mbarrier_init(queries_arrived, P::kConsumers / 32);
      for (int g = 0; g < P::kGroups; g++) mbarrier_init(&turns[g], 4);
      mbarrier_publish();
    }
  };

  // A group's turns with the tensor cores; the first one is group 0's.
  struct Turns {
    uint64_t *mine, *other;
    unsigned parity;
    __device__ __forceinline__ explicit Turns(const Shared& shared) {
      const int group = threadIdx.x / 128;
      mine = &shared.turns[group], other = &shared.turns[1 - group], parity = 1 - group;
    }
    __device__ __forceinline__ void begin() {
      mbarrier_wait(mine, parity);
      parity ^= 1;
    }
    __device__ __forceinline__ void end() const {
      if (threadIdx.x % 32 == 0) mbarrier_arrive(other);
    }
  };

  // True if a split's stage `half` has keys that are seen.
  static __device__ __forceinline__ bool is_streamed(const Range& range, int half) {
    const int key = range.base + half * P::kKeys;
    return key < range.end && key + P::kKeys > range.first;
  }

  // One warp copies the stages of splits first..last, a lane for each block.
  static __device__ __forceinline__ void copy(const Arguments& in, const WideTile& tile, const CUtensorMap& keys,
                                              const CUtensorMap& values, const Shared& shared, int first, int last) {
    const int lane = threadIdx.x % 32;
    typename P::Stages to = shared.stages;
    unsigned parity = 0;  // of shared.partial
#pragma unroll 1
    for (int split = first; split <= last; split++) {
      const Range range(split, tile.first, tile.end);
#pragma unroll 1
      for (int part = 0; part < 2 * P::kHalves; part++) {
        const bool of_values = part >= P::kHalves;
        const int half = part % P::kHalves, base = range.base + half * P::kKeys;
        if (!is_streamed(range, half)) continue;
        const int from = max(range.first - base, 0), end = min(range.end - base, P::kKeys);
        const bool clears = of_values && (from % kBlock != 0 || end % kBlock != 0);
        uint64_t* const full = &to.full[to.slot];
        uint64_t* const arrived = clears ? shared.partial : full;
        if (lane == 0) {
          mbarrier_wait(&to.empty[to.slot], to.parity ^ 1);
          mbarrier_expect(arrived, P::kStageBytes);
        }
        __syncwarp();
        if (lane < P::kBlocks) {
          const int key = base + lane * kBlock;
          // Rows before the tensor are zeros.
          const int row = range.sees(key) ? (tile.blocks[key / kBlock] * in.n_kv_heads + static_cast<int>(blockIdx.y)) * kBlock : -kBlock;
          unsigned char* const at = to.stage() + lane * (kBlock * 128);
#pragma unroll
          for (int column = 0; column < P::kColumns; column++)
            tma_load(at + column * P::kColumnBytes, of_values ? values : keys, arrived, column * 64, row);
        }
        if (clears) {
          mbarrier_wait(shared.partial, parity);
          parity ^= 1;
          clear_rows(to.stage(), P::kColumns, P::kColumnBytes, from / kBlock * kBlock, from);
          clear_rows(to.stage(), P::kColumns, P::kColumnBytes, end, (end + kBlock - 1) / kBlock * kBlock);
          wgmma_publish();
          __syncwarp();
          if (lane == 0) mbarrier_arrive(full);
        }
        to.next();
      }
    }
  }

  // Releases the stage that the group has read.
  static __device__ __forceinline__ void release(typename P::Stages& stages) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&stages.empty[stages.slot]);
    stages.next();
  }

  // Scores of a split's keys, as the tensor core gives them.
  static __device__ __forceinline__ void multiply_keys(const Shared& shared, typename P::Stages& stages, const Range& range,
                                                       Scores& scores) {
    const unsigned char* const queries = shared.queries + threadIdx.x / 128 * (64 * 128);
#pragma unroll
    for (int half = 0; half < P::kHalves; half++) {
      begin_at_zero(scores[half]);
      if (!is_streamed(range, half)) continue;
      mbarrier_wait(&stages.full[stages.slot], stages.parity);
      const unsigned char* const keys = stages.stage();
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < D / 16; k++)
        wgmma_start(scores[half], queries + k / 4 * P::kQueryColumnBytes + k % 4 * 32, keys + k / 4 * P::kColumnBytes + k % 4 * 32);
      wgmma_commit();
      wgmma_wait();
      release(stages);
    }
  }

  // Scales a stage's scores, caps them, and takes out what a query does not see.
  static __device__ __forceinline__ void mask(const Arguments& in, const WideTile& tile, const QueryPair& mine, const Range& range,
                                              int half, Scores& all) {
    float(&scores)[P::kKeys / 8][4] = all[half];
    int key = range.base + half * P::kKeys;
#pragma unroll
    for (int e = 0; e < P::kKeys / 2; e++) scores[e / 4][e % 4] = __fmul_rn(scores[e / 4][e % 4], in.scale);
    if (in.cap > 0.0f) {
#pragma unroll
      for (int e = 0; e < P::kKeys / 2; e++)
        scores[e / 4][e % 4] = in_turn(capped(in_turn(scores[e / 4][e % 4]), in.cap, in.cap_by));
    }
    if (tile.all_first <= key && key + P::kKeys <= tile.all_end) return;
    key += threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int first = mine.first[h] - key, end = mine.end[h] - key;
#pragma unroll
      for (int j = 0; j < P::kKeys / 8; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
          float& score = scores[j][2 * h + i];
          score = 8 * j + i >= first && 8 * j + i < end ? score : -INFINITY;
        }
    }
  }

  // Turns a query's scores into weights, and gives the split's peak and their sum.
  static __device__ __forceinline__ Softmax soften(const Scores& scores, int h, bool sees, Weights& weights) {
    float peak = -INFINITY, sums[kSlices] = {};
#pragma unroll
    for (int e = 0; e < kSplit / 4; e++) peak = fmaxf(peak, scores[e / 32][e / 2 % 16][2 * h + e % 2]);
    peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 1));
    peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 2));
    // A query that sees nothing of the split has no peak, and weights of 0.
    const float from = sees ? peak : 0.0f;
#pragma unroll
    for (int block = 0; block < kSplit / kBlock; block++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const float* const pair = &scores[block / P::kBlocks][block % P::kBlocks * 2 + n][2 * h];
        bf16 low, high;
        narrow(coarse_exp(__fsub_rn(pair[0], from)), low);
        narrow(coarse_exp(__fsub_rn(pair[1], from)), high);
        float& sum = sums[block % kSlices];
        sum = __fadd_rn(__fadd_rn(sum, widen(low)), widen(high));
        weights[block][h + 2 * n] = __bfloat16_as_ushort(low) | static_cast<uint32_t>(__bfloat16_as_ushort(high)) << 16;
      }
    return {peak, sum_of_slices(quad_sum(sums[0]), quad_sum(sums[1]), quad_sum(sums[2]), quad_sum(sums[3]))};
  }

  // A split's weights times its values.
  static __device__ __forceinline__ void multiply_values(typename P::Stages& stages, const Range& range, const Weights& weights,
                                                         Part& part) {
    begin_at_zero(part);
#pragma unroll
    for (int half = 0; half < P::kHalves; half++) {
      if (!is_streamed(range, half)) continue;
      mbarrier_wait(&stages.full[stages.slot], stages.parity);
      const unsigned char* const values = stages.stage();
      wgmma_fence();
#pragma unroll
      for (int block = 0; block < P::kBlocks; block++)
        wgmma_start_transposed(part, weights[half * P::kBlocks + block], values + block * (kBlock * 128), P::kColumnBytes);
      wgmma_commit();
      wgmma_wait();
      release(stages);
    }
  }

  // Splits first..last by a consumer group. For each, `settle(h, softmax, sees)` is called for the thread's two queries,
  // then `take(part)`.
  template <typename Settle, typename Take>
  static __device__ __forceinline__ void consume(const Arguments& in, const WideTile& tile, const QueryPair& mine, const Shared& shared,
                                                 int first, int last, Settle settle, Take take) {
    typename P::Stages stages = shared.stages;
    Turns turns(shared);
    Weights weights = {};
    for (int split = first;; split++) {
      turns.begin();
      if (split > first) {
        Part part;
        multiply_values(stages, Range(split - 1, tile.first, tile.end), weights, part);
        take(part);
      }
      if (split > last) break;
      const Range range(split, tile.first, tile.end);
      Scores scores;
      multiply_keys(shared, stages, range, scores);
      turns.end();
#pragma unroll
      for (int half = 0; half < P::kHalves; half++) mask(in, tile, mine, range, half, scores);
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const bool sees = mine.sees(h, range);
        settle(h, soften(scores, h, sees, weights), sees);
      }
    }
    turns.end();
  }

  // Initialises the barriers; the warp groups then take their roles. `attend(tile, mine, shared, first, last)` is called
  // by the consumers for the splits first..last of the tile, or for `only`, where that is not -1.
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
    if (threadIdx.x >= P::kConsumers) {
      registers_less<40>();
      if (threadIdx.x < P::kConsumers + 32) copy(in, tile, keys, values, shared, first, last);
    } else {
      registers_more<232>();
      fetch_wide<D, P::kQueries>(in, tile, shared.queries);
      if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.queries_arrived);
      mbarrier_wait(shared.queries_arrived, 0);
      attend(tile, QueryPair(in, tile, threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4), shared, first, last);
    }
  }

  static __device__ __forceinline__ void rows(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values,
                                              const int* work, const float* sinks, bf16* __restrict__ out, unsigned char* bytes) {
    run(in, keys, values, work, -1, bytes, [&](const WideTile& tile, const QueryPair& mine, const Shared& shared, int first, int last) {
      Part so_far = {};
      Softmax running[2];
      Factors by[2];
#pragma unroll
      for (int h = 0; h < 2; h++) running[h] = begin_softmax(sinks, max(mine.place[h], 0) % in.n_heads);
      consume(in, tile, mine, shared, first, last,
              [&](int h, Softmax of_split, bool sees) {
                // A split that a query sees nothing of is not folded.
                by[h] = sees ? fold(running[h], of_split.peak, of_split.total) : Factors{1.0f, -1.0f};
              },
              [&](const Part& part) { fold_part(so_far, part, by); });
      store_rows<D>(out, mine, 0, so_far, running);
    });
  }

  static __device__ __forceinline__ void split_kv(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values,
                                                  const int* work, float* __restrict__ splits, float* __restrict__ peaks,
                                                  const int* split_start, unsigned char* bytes) {
    run(in, keys, values, work, work[2], bytes, [&](const WideTile& tile, const QueryPair& mine, const Shared& shared, int first, int last) {
      consume(in, tile, mine, shared, first, last,
              [&](int h, Softmax of_split, bool) {
                if (mine.place[h] < 0 || threadIdx.x % 4 != 0) return;
                *reinterpret_cast<Softmax*>(peaks + mine.part(in, split_start, first, h) * 2) = of_split;
              },
              [&](const Part& part) {
                for (int h = 0; h < 2; h++)
                  if (mine.place[h] >= 0) store_part(splits + mine.part(in, split_start, first, h) * D, part, h);
              });
    });
  }
};

}  // namespace attention
