// Attention as attention.cuh defines it, one row after another: the reference of attend.cuh, and what serves head sizes
// that attend.cuh has no tile for. Same arguments, same bits, any D that is a multiple of 16 up to 576.
//
//   attend_rows_plain      out[row] for every row of a work tile, split after split
//   attend_split_kv_plain  one KV split of every row of a work tile, for attend_merge
//
//   q            [R, H, D]                bf16, not scaled
//   keys values  [n_blocks, KV, 16, D]    bf16, one layer's cache; slots that no row sees are never read
//   work_tiles   [n_work_tiles, 2] first, rows             attend_rows: places in `order`; no rows: nothing is done
//                [n_work_tiles, 4] first, rows, split, 0   attend_split_kv
//   order        [R]    rows so that those that share blocks are neighbours
//   positions    [R]    of each row in its sequence
//   seq_of_row   [R]    block_start [S + 1], blocks: the blocks of sequence s are blocks[block_start[s]..]
//   out          [R, H, D]                bf16
//   splits       [n_splits, H, D], peaks [n_splits, H, 2] (peak, sum)   f32
//   sinks        [H]                      f32, or null: no sinks
//   cap          the softcap on scores, 0 for none; cap_by is -2 / cap
//   split_start  [R]    the index of (row, split) is split_start[row] + split - first_seen(position) / 256
//
// Launch: block 32, grid (n_work_tiles, KV). H is a multiple of KV; the query heads of kv head g are those
// from g H / KV on.
//
// Proved by kernels/tests/attend.cpp.
#include "attention.cuh"

namespace plain {

constexpr int kMostDims = 576, kQueries = 8;  // the other half of mma_bf16's rows are zeros

struct Shared {
  float scores[kQueries][kSplit];
  bf16 weights[kQueries][kSplit];
  float out[kQueries][kMostDims];
  Softmax softmax[kQueries];  // of the split at hand
  Factors factors[kQueries];
};

// Up to kQueries query heads of one row, and what they see of one split.
struct Tile {
  const bf16* q;  // [n, D]
  int n;
  const int* blocks;
  int head;        // of keys and values
  int base;        // the split's first key
  int first, end;  // keys that are seen
};

struct Step {
  const bf16* q;
  const int *order, *positions, *seq_of_row, *block_start, *blocks;
  int n_heads, window;
  float scale, cap, cap_by;
};

__device__ __forceinline__ uint32_t pair_at(const bf16* at) { return *reinterpret_cast<const uint32_t*>(at); }
__device__ __forceinline__ uint32_t bits_at(const bf16* at) { return *reinterpret_cast<const uint16_t*>(at); }

__device__ __forceinline__ void score(const Cache& cache, const Tile& tile, const Step& step, Shared& shared) {
  const int g = threadIdx.x / 4, t = 2 * (threadIdx.x % 4);
  for (int n0 = (tile.first - tile.base) / 8 * 8; n0 < tile.end - tile.base; n0 += 8) {
    const int key = tile.base + n0 + g;
    const bf16* k = key >= tile.first && key < tile.end ? cache.keys + cache.at(tile.blocks, key, tile.head) : nullptr;
    float d[4] = {};
    for (int k0 = 0; k0 < cache.dim; k0 += 16) {
      uint32_t a[4], b[2];
      for (int i = 0; i < 4; i++) {
        const int query = g + i % 2 * 8;
        a[i] = query < tile.n ? pair_at(tile.q + query * cache.dim + k0 + t + i / 2 * 8) : 0;
      }
      for (int i = 0; i < 2; i++) b[i] = k ? pair_at(k + k0 + t + i * 8) : 0;
      mma_bf16(d, a, b);
    }
    for (int i = 0; i < 2; i++) {
      const float scaled = __fmul_rn(d[i], step.scale);
      shared.scores[g][n0 + t + i] = step.cap > 0.0f ? capped(scaled, step.cap, step.cap_by) : scaled;
    }
  }
  __syncwarp();
}

// What lane t of a quad adds of one slice, whose first weight is at `weights`.
__device__ __forceinline__ float lane_sum(const bf16* weights, int t) {
  float sum = 0.0f;
  for (int block = 0; block < kSplit / kBlock; block += kSlices)
    for (int i = 0; i < 4; i++) sum = __fadd_rn(sum, widen(weights[block * kBlock + 2 * t + i % 2 + i / 2 * 8]));
  return sum;
}

// Weights, peak and sum of the queries; lane i does query i's.
__device__ __forceinline__ void soften(const Tile& tile, Shared& shared) {
  const int query = threadIdx.x;
  if (query < kQueries) {
    const float* scores = shared.scores[query];
    const auto seen = [&](int j) { return tile.base + j >= tile.first && tile.base + j < tile.end; };
    float peak = -INFINITY, total = 0.0f;
    for (int j = 0; j < kSplit; j++)
      if (seen(j)) peak = fmaxf(peak, scores[j]);
    for (int j = 0; j < kSplit; j++)
      narrow(seen(j) ? coarse_exp(__fsub_rn(scores[j], peak)) : 0.0f, shared.weights[query][j]);
    for (int slice = 0; slice < kSlices; slice++) {
      const bf16* weights = shared.weights[query] + slice * kBlock;
      const float low = __fadd_rn(lane_sum(weights, 0), lane_sum(weights, 1));
      total = __fadd_rn(total, __fadd_rn(low, __fadd_rn(lane_sum(weights, 2), lane_sum(weights, 3))));
    }
    shared.softmax[query] = {peak, total};
  }
  __syncwarp();
}

// Gives `take(query, dimension, part)` each part of the split.
template <typename Take>
__device__ __forceinline__ void weigh(const Cache& cache, const Tile& tile, const Shared& shared, Take take) {
  const int g = threadIdx.x / 4, t = 2 * (threadIdx.x % 4);
  for (int n0 = 0; n0 < cache.dim; n0 += 8) {
    float d[4] = {};
    for (int k0 = (tile.first - tile.base) / kBlock * kBlock; k0 < tile.end - tile.base; k0 += kBlock) {
      uint32_t a[4], b[2];
      for (int i = 0; i < 4; i++) a[i] = i % 2 == 0 ? pair_at(&shared.weights[g][k0 + t + i / 2 * 8]) : 0;
      for (int i = 0; i < 2; i++) {
        b[i] = 0;
        for (int j = 0; j < 2; j++) {
          const int key = tile.base + k0 + t + i * 8 + j;
          if (key >= tile.first && key < tile.end)
            b[i] |= bits_at(cache.values + cache.at(tile.blocks, key, tile.head) + n0 + g) << (16 * j);
        }
      }
      mma_bf16(d, a, b);
    }
    for (int i = 0; i < 2; i++)
      if (g < tile.n) take(g, n0 + t + i, d[i]);
  }
}

// Calls `row_heads(row, position, first query head, tile)` for the rows of a work tile, kQueries heads at a time.
template <typename Each>
__device__ __forceinline__ void for_each_tile(const Step& step, const Cache& cache, int first, int n, Each each) {
  const int head = blockIdx.y, group = step.n_heads / cache.n_kv_heads;
  for (int i = 0; i < n; i++) {
    const int row = step.order[first + i];
    for (int from = 0; from < group; from += kQueries) {
      const int query_head = head * group + from;
      Tile tile = {};
      tile.q = step.q + (static_cast<size_t>(row) * step.n_heads + query_head) * cache.dim;
      tile.n = min(kQueries, group - from), tile.head = head;
      tile.blocks = step.blocks + step.block_start[step.seq_of_row[row]];
      each(row, step.positions[row], query_head, tile);
    }
  }
}

// Narrows a tile to what a row at `position` sees of a split.
__device__ __forceinline__ void enter(Tile& tile, int split, int position, int window) {
  tile.base = split * kSplit;
  tile.first = max(first_seen(position, window), tile.base);
  tile.end = min(position + 1, tile.base + kSplit);
}

}  // namespace plain

extern "C" __global__ void __launch_bounds__(32)
    attend_rows_plain(const bf16* q, const bf16* keys, const bf16* values,
                      const int* work_tiles, const int* order, const int* positions,
                      const int* seq_of_row, const int* block_start,
                      const int* blocks, const float* sinks, bf16* __restrict__ out, int n_work_tiles, int H, int KV, int D,
                      int window, float scale, float cap, float cap_by) {
  await_earlier();
  using namespace plain;
  __shared__ Shared shared;
  if (static_cast<int>(blockIdx.x) >= n_work_tiles) return;
  const Cache cache = {keys, values, KV, D};
  const Step step = {q, order, positions, seq_of_row, block_start, blocks, H, window, scale, cap, cap_by};
  const int* work = work_tiles + 2 * static_cast<size_t>(blockIdx.x);
  const int lane = threadIdx.x;
  for_each_tile(step, cache, work[0], work[1], [&](int row, int position, int query_head, Tile tile) {
    for (int i = lane; i < kQueries * D; i += 32) shared.out[i / D][i % D] = 0.0f;
    Softmax running = begin_softmax(sinks, query_head + min(lane, tile.n - 1));  // lane i's is query i's
    for (int split = first_seen(position, window) / kSplit; split <= position / kSplit; split++) {
      enter(tile, split, position, window);
      score(cache, tile, step, shared);
      soften(tile, shared);
      if (lane < kQueries) shared.factors[lane] = fold(running, shared.softmax[lane].peak, shared.softmax[lane].total);
      __syncwarp();
      weigh(cache, tile, shared, [&](int query, int d, float part) {
        shared.out[query][d] = folded(shared.out[query][d], part, shared.factors[query]);
      });
      __syncwarp();
    }
    if (lane < kQueries) shared.softmax[lane] = running;
    __syncwarp();
    bf16* to = out + (static_cast<size_t>(row) * H + query_head) * D;
    for (int i = lane; i < tile.n * D; i += 32) to[i] = attended(shared.out[i / D][i % D], shared.softmax[i / D].total);
    __syncwarp();
  });
}

extern "C" __global__ void __launch_bounds__(32)
    attend_split_kv_plain(const bf16* q, const bf16* keys, const bf16* values,
                       const int* work_tiles, const int* order, const int* positions,
                       const int* seq_of_row, const int* block_start,
                       const int* blocks, float* __restrict__ splits, float* __restrict__ peaks,
                       const int* split_start, int n_work_tiles, int H, int KV, int D, int window, float scale, float cap,
                       float cap_by) {
  await_earlier();
  using namespace plain;
  __shared__ Shared shared;
  if (static_cast<int>(blockIdx.x) >= n_work_tiles) return;
  const Cache cache = {keys, values, KV, D};
  const Step step = {q, order, positions, seq_of_row, block_start, blocks, H, window, scale, cap, cap_by};
  const int* work = work_tiles + 4 * static_cast<size_t>(blockIdx.x);
  const int split = work[2], lane = threadIdx.x;
  for_each_tile(step, cache, work[0], work[1], [&](int row, int position, int query_head, Tile tile) {
    enter(tile, split, position, window);
    score(cache, tile, step, shared);
    soften(tile, shared);
    const size_t part = split_start[row] + split - first_seen(position, window) / kSplit;
    float* to = splits + (part * H + query_head) * D;
    weigh(cache, tile, shared, [&](int query, int d, float value) { to[query * D + d] = value; });
    if (lane < tile.n) {
      peaks[(part * H + query_head + lane) * 2] = shared.softmax[lane].peak;
      peaks[(part * H + query_head + lane) * 2 + 1] = shared.softmax[lane].total;
    }
    __syncwarp();
  });
}
