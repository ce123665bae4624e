// Attention on Hopper for many queries at a time, as attention.cuh defines it: a warp group that copies boxes of the cache
// (tma.cuh) and two that multiply (wgmma.cuh), each with 64 of an item's 128 queries.
//
//   attend_rows_tma_dD_t128   out[row] for every row of an item, its splits in order
//   attend_parts_tma_dD_t128  one split of every row of an item, for attend_merge
//
// for heads of D in 64, 128. Items, arrays and bits are attend.cuh's; in the place of `keys` and `values` stand tensor maps
// of [n_blocks KV 16, D], in boxes of 64 x 16.
//
// Launch: block 384, grid (n_items, KV), WidePlan<D>::kSharedBytes of dynamic shared memory.
//
// A split goes by in stages of 128 keys, its keys before its values. A warp has 16 queries and all 256 scores of each in
// registers: peaks and sums need nobody else, and the weights are where the product with the values wants them, in the
// order in which the scores were. Blocks that no row sees come as zeros; of a block that is seen in part, the rows of
// values that nobody sees are zeroed once it is there, since what they hold may be no number.
//
// What to expect, counted (not measured): a split of 128 queries takes 2 x 2,048 clocks of the tensor cores at D = 128, and
// each of eight warps 128 x 16.5 instructions for its scores, two warps to a scheduler: 4,224 clocks. One group's
// products run beside the other's weights. So .5 of the tensor cores' peak where the groups wait for the same, and up to
// .97 where they take turns. attend.cuh's tiles of 64 queries had .19 of what mma.sync reaches in a prompt of 512 tokens (46 us
// a layer of a 7B, 6 % of all, 2026-11-23). A prompt of 2,048 has 30 GFLOP a layer: 240 us at that, 7 of its 59 ms, and 60 us at
// half of wgmma's peak, 2 ms.
//
// Proved by kernels/tests/attend.cpp: bit-equal to attend_plain.cu as attend.cuh is.
#pragma once

#include "attend_stream.cuh"
#include "tma.cuh"

namespace attention {

template <int D>
struct WidePlan {
  static constexpr int kQueries = 128, kGroups = 2, kMultiplying = 128 * kGroups, kThreads = kMultiplying + 128;
  static constexpr int kKeys = 128, kHalves = kSplit / kKeys, kBlocks = kKeys / kBlock;  // of a stage; of a split; of a stage
  static constexpr int kColumns = D / 64;  // of 64 dimensions, 128 bytes a row
  static constexpr int kColumnBytes = kKeys * 128, kStageBytes = kColumns * kColumnBytes;
  static constexpr int kQueryColumnBytes = kQueries * 128, kAlign = 1024;
  static constexpr int kBuffers = D == 128 ? 6 : 8;
  static constexpr int kSharedBytes = kAlign + kColumns * kQueryColumnBytes + kBuffers * kStageBytes + (2 * kBuffers + 1) * 8;
  static_assert(D % 64 == 0 && D <= 128, "sums and scores fit a thread's registers");
  static_assert(kSharedBytes <= 227 << 10, "more shared memory than a block can have");
};

// What an item reads: its rows are neighbours in `order`.
struct WideItem {
  int first_row, n_rows;
  const int* blocks;
  int first, end;          // keys that any row sees
  int all_first, all_end;  // keys that every row sees

  // Every warp finds out by itself. The row that reads furthest has all blocks that the others read.
  __device__ __forceinline__ WideItem(const Arguments& in, int from, int n) : first_row(from), n_rows(n) {
    int furthest = -1, nearest = 0x7fffffff, row = 0;
    for (int i = threadIdx.x % 32; i < n; i += 32) {
      const int at = in.order[from + i], position = in.positions[at];
      if (position > furthest) furthest = position, row = at;
      nearest = min(nearest, position);
    }
    const int last = __reduce_max_sync(kAllLanes, furthest);
    nearest = __reduce_min_sync(kAllLanes, nearest);
    // Where several rows are as far, any will do.
    row = __reduce_max_sync(kAllLanes, furthest == last ? row : -1);
    blocks = in.blocks + in.block_start[in.seq_of_row[row]];
    first = first_seen(nearest, in.window), all_first = first_seen(last, in.window);
    end = last + 1, all_end = nearest + 1;
  }

  // Where a query of the tile stands in q and out, or -1.
  __device__ __forceinline__ int place(const Arguments& in, int query) const {
    const int group = in.n_heads / in.n_kv_heads, i = query / group;
    if (i >= n_rows) return -1;
    return in.order[first_row + i] * in.n_heads + static_cast<int>(blockIdx.y) * group + query % group;
  }
};

template <int D>
struct Wide {
  using P = WidePlan<D>;
  static constexpr int kTiles = D / 8;  // of 8 dimensions

  struct Buffers {
    unsigned char *queries, *stages;
    uint64_t *full, *empty, *meeting;
    int buffer = 0;
    unsigned parity = 0, met = 0;
    __device__ __forceinline__ explicit Buffers(unsigned char* shared) {
      queries = shared + (P::kAlign - reinterpret_cast<uintptr_t>(shared) % P::kAlign) % P::kAlign;
      stages = queries + P::kColumns * P::kQueryColumnBytes;
      full = reinterpret_cast<uint64_t*>(stages + P::kBuffers * P::kStageBytes);
      empty = full + P::kBuffers, meeting = empty + P::kBuffers;
    }
    __device__ __forceinline__ void init() const {
      for (int i = 0; i < P::kBuffers; i++) {
        mbarrier_init(&full[i], 1);
        mbarrier_init(&empty[i], P::kMultiplying / 32);
      }
      mbarrier_init(meeting, P::kMultiplying / 32);
      mbarrier_publish();
    }
    // The next stage, once it has come; whoever has read it says so.
    __device__ __forceinline__ unsigned char* wait() const {
      mbarrier_wait(&full[buffer], parity);
      return stages + buffer * P::kStageBytes;
    }
    __device__ __forceinline__ void done() {
      if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[buffer]);
      next();
    }
    __device__ __forceinline__ void next() {
      buffer = buffer + 1 == P::kBuffers ? 0 : buffer + 1;
      parity ^= buffer == 0;
    }
    // Until both groups have come here, and products see what they wrote before.
    __device__ __forceinline__ void meet() {
      wgmma_publish();
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(meeting);
      mbarrier_wait(meeting, met);
      met ^= 1;
    }
  };

  // Whether a split's stage `half` has keys that are seen.
  static __device__ __forceinline__ bool streams(const Range& range, int half) {
    const int key = range.base + half * P::kKeys;
    return key < range.end && key + P::kKeys > range.first;
  }

  // One warp asks for the stages of splits first..last, a lane for each block.
  static __device__ __forceinline__ void bring(const Arguments& in, const WideItem& item, const CUtensorMap& keys,
                                               const CUtensorMap& values, Buffers to, int first, int last) {
    const int block = threadIdx.x % 32;
    for (int split = first; split <= last; split++) {
      const Range range(split, item.first, item.end);
      for (const CUtensorMap* map : {&keys, &values}) {
        for (int half = 0; half < P::kHalves; half++) {
          if (!streams(range, half)) continue;
          if (block == 0) {
            mbarrier_wait(&to.empty[to.buffer], to.parity ^ 1);
            mbarrier_expect(&to.full[to.buffer], P::kStageBytes);
          }
          __syncwarp();
          if (block < P::kBlocks) {
            const int key = range.base + half * P::kKeys + block * kBlock;
            // Before the tensor there are zeros.
            const int row = range.sees(key) ? (item.blocks[key / kBlock] * in.n_kv_heads + static_cast<int>(blockIdx.y)) * kBlock : -kBlock;
            unsigned char* const at = to.stages + to.buffer * P::kStageBytes + block * (kBlock * 128);
#pragma unroll
            for (int column = 0; column < P::kColumns; column++)
              tma_load(at + column * P::kColumnBytes, *map, &to.full[to.buffer], column * 64, row);
          }
          to.next();
        }
      }
    }
  }

  // A thread of the groups that multiply: queries lane / 4 and lane / 4 + 8 of its warp's sixteen.
  struct Mine {
    int first[2], end[2], place[2];
    __device__ __forceinline__ Mine(const Arguments& in, const WideItem& item) {
      const int query = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
      for (int h = 0; h < 2; h++) {
        place[h] = item.place(in, query + 8 * h);
        const int position = place[h] < 0 ? -1 : in.positions[place[h] / in.n_heads];
        first[h] = place[h] < 0 ? 0x7fffffff : first_seen(position, in.window), end[h] = position + 1;
      }
    }
    __device__ __forceinline__ bool sees(int h, const Range& range) const {
      return first[h] < range.end && end[h] > range.first;
    }
  };

  static __device__ __forceinline__ void fetch_queries(const Arguments& in, const WideItem& item, Buffers& to) {
    constexpr int kChunks = D / 8;
    for (int at = threadIdx.x; at < P::kQueries * kChunks; at += P::kMultiplying) {
      const int query = at / kChunks, chunk = at % kChunks, place = item.place(in, query);
      const size_t from = place < 0 ? 0 : static_cast<size_t>(place) * D;
      cp_async_16(to.queries + chunk / 8 * P::kQueryColumnBytes + query * 128 + (chunk ^ query % 8) % 8 * 16,
                  in.q + from + chunk * 8, place >= 0);
    }
    cp_async_commit();
    cp_async_wait<0>();
    to.meet();
  }

  // Scores of a stage's keys, not yet scaled.
  static __device__ __forceinline__ void score(const Buffers& from, const unsigned char* keys, float (&scores)[16][4]) {
    const unsigned char* const queries = from.queries + threadIdx.x / 128 * (64 * 128);
    begin_at_zero(scores);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < D / 16; k++)
      wgmma_start(scores, queries + k / 4 * P::kQueryColumnBytes + k % 4 * 32, keys + k / 4 * P::kColumnBytes + k % 4 * 32);
    wgmma_commit();
  }

  // Scales scores and takes out what a query does not see. `key` is the stage's first.
  static __device__ __forceinline__ void mask(const Mine& mine, const WideItem& item, int key, float scale, float (&scores)[16][4]) {
#pragma unroll
    for (int e = 0; e < 64; e++) scores[e / 4][e % 4] = __fmul_rn(scores[e / 4][e % 4], scale);
    if (item.all_first <= key && key + P::kKeys <= item.all_end) return;
    key += threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int first = mine.first[h] - key, end = mine.end[h] - key;
#pragma unroll
      for (int j = 0; j < 16; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
          float& score = scores[j][2 * h + i];
          score = 8 * j + i >= first && 8 * j + i < end ? score : -INFINITY;
        }
    }
  }

  // Turns scores into weights, as the product along the keys wants its rows, and gives the split's peak and their sum.
  static __device__ __forceinline__ Softmax soften(const float (&scores)[P::kHalves][16][4], int h, bool sees,
                                                   uint32_t (&weights)[kSplit / kBlock][4]) {
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

  // Makes rows from..to of a stage zeros.
  static __device__ __forceinline__ void clear(unsigned char* stage, int from, int to) {
    constexpr int kChunks = P::kColumns * 8;
    for (int at = threadIdx.x; at < (to - from) * kChunks; at += P::kMultiplying) {
      const int row = from + at / kChunks, chunk = at % kChunks;
      *reinterpret_cast<uint4*>(stage + chunk / 8 * P::kColumnBytes + row * 128 + chunk % 8 * 16) = make_uint4(0, 0, 0, 0);
    }
  }

  // Clears the values of keys that nobody sees in blocks that are seen. `key` is the stage's first.
  static __device__ __forceinline__ void mend(Buffers& buffers, unsigned char* values, const Range& range, int key) {
    const int first = max(range.first - key, 0), end = min(range.end - key, P::kKeys);
    if (first % kBlock == 0 && end % kBlock == 0) return;
    clear(values, first / kBlock * kBlock, first);
    clear(values, end, (end + kBlock - 1) / kBlock * kBlock);
    buffers.meet();
  }

  // One split: its part in `part`. `settle(h, softmax, sees)` is called for the thread's two queries before it.
  template <typename Settle>
  static __device__ __forceinline__ void split(const Arguments& in, const WideItem& item, const Mine& mine, Buffers& buffers,
                                               const Range& range, float (&part)[kTiles][4], Settle settle) {
    uint32_t weights[kSplit / kBlock][4];
    {
      float scores[P::kHalves][16][4];
#pragma unroll
      for (int half = 0; half < P::kHalves; half++) {
        if (streams(range, half)) {
          score(buffers, buffers.wait(), scores[half]);
          wgmma_wait();
          buffers.done();
          mask(mine, item, range.base + half * P::kKeys, in.scale, scores[half]);
        } else {
#pragma unroll
          for (int e = 0; e < 64; e++) scores[half][e / 4][e % 4] = -INFINITY;
        }
      }
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const bool sees = mine.sees(h, range);
        settle(h, soften(scores, h, sees, weights), sees);
      }
    }
    begin_at_zero(part);
#pragma unroll
    for (int half = 0; half < P::kHalves; half++) {
      if (!streams(range, half)) continue;
      unsigned char* const values = buffers.wait();
      mend(buffers, values, range, range.base + half * P::kKeys);
      wgmma_fence();
#pragma unroll
      for (int block = 0; block < P::kBlocks; block++)
        wgmma_start_across(part, weights[half * P::kBlocks + block], values + block * (kBlock * 128), P::kColumnBytes);
      wgmma_commit();
      wgmma_wait();
      buffers.done();
    }
  }

  // Readies the barriers, then the groups part. `attend(item, buffers)` is what those do that multiply.
  template <typename Attend>
  static __device__ __forceinline__ void run(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values, int first_row,
                                             int n_rows, int only, unsigned char* shared, Attend attend) {
    Buffers buffers(shared);
    if (threadIdx.x == 0) {
      tma_prefetch(keys);
      tma_prefetch(values);
      buffers.init();
    }
    __syncthreads();
    const WideItem item(in, first_row, n_rows);
    if (threadIdx.x >= P::kMultiplying) {
      registers_less<24>();
      const int first = only < 0 ? item.first / kSplit : only, last = only < 0 ? (item.end - 1) / kSplit : only;
      if (threadIdx.x < P::kMultiplying + 32) bring(in, item, keys, values, buffers, first, last);
    } else {
      registers_more<240>();
      fetch_queries(in, item, buffers);
      attend(item, buffers);
    }
  }

  static __device__ __forceinline__ void rows(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values,
                                              const int* item_at, bf16* __restrict__ out, unsigned char* shared) {
    run(in, keys, values, item_at[0], item_at[1], -1, shared, [&](const WideItem& item, Buffers& buffers) {
      const Mine mine(in, item);
      float so_far[kTiles][4] = {};
      Softmax running[2] = {no_softmax(), no_softmax()};
      for (int at = item.first / kSplit; at <= (item.end - 1) / kSplit; at++) {
        float part[kTiles][4];
        Factors by[2];
        split(in, item, mine, buffers, Range(at, item.first, item.end), part, [&](int h, Softmax of_split, bool sees) {
          // A split that a query sees nothing of is not folded.
          by[h] = sees ? fold(running[h], of_split.peak, of_split.total) : Factors{1.0f, -1.0f};
        });
#pragma unroll
        for (int e = 0; e < kTiles * 4; e++) {
          float& to = so_far[e / 4][e % 4];
          const Factors& of = by[e / 2 % 2];
          to = of.take < 0.0f ? to : folded(to, part[e / 4][e % 4], of);
        }
      }
#pragma unroll
      for (int h = 0; h < 2; h++) {
        if (mine.place[h] < 0) continue;
        bf16* const to = out + static_cast<size_t>(mine.place[h]) * D + threadIdx.x % 4 * 2;
#pragma unroll
        for (int j = 0; j < kTiles; j++) {
          const float total = running[h].total;
          const __nv_bfloat162 pair = {attended(so_far[j][2 * h], total), attended(so_far[j][2 * h + 1], total)};
          *reinterpret_cast<__nv_bfloat162*>(to + 8 * j) = pair;
        }
      }
    });
  }

  static __device__ __forceinline__ void parts(const Arguments& in, const CUtensorMap& keys, const CUtensorMap& values,
                                               const int* item_at, float* __restrict__ parts, float* __restrict__ peaks,
                                               const int* __restrict__ part_start, unsigned char* shared) {
    const int only = item_at[2];
    run(in, keys, values, item_at[0], item_at[1], only, shared, [&](const WideItem& item, Buffers& buffers) {
      const Mine mine(in, item);
      float part[kTiles][4];
      // From a query's place in q to its part's in `parts`.
      const auto place_of_part = [&](int h) {
        const int row = mine.place[h] / in.n_heads;
        return static_cast<size_t>(part_start[row] + only - mine.first[h] / kSplit) * in.n_heads + mine.place[h] % in.n_heads;
      };
      split(in, item, mine, buffers, Range(only, item.first, item.end), part, [&](int h, Softmax of_split, bool) {
        if (mine.place[h] >= 0 && threadIdx.x % 4 == 0) *reinterpret_cast<Softmax*>(peaks + place_of_part(h) * 2) = of_split;
      });
#pragma unroll
      for (int h = 0; h < 2; h++) {
        if (mine.place[h] < 0) continue;
        float* const to = parts + place_of_part(h) * D + threadIdx.x % 4 * 2;
#pragma unroll
        for (int j = 0; j < kTiles; j++) *reinterpret_cast<float2*>(to + 8 * j) = make_float2(part[j][2 * h], part[j][2 * h + 1]);
      }
    });
  }
};

}  // namespace attention
