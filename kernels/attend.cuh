// Attention over the paged cache, as attention.cuh defines it, for one size of head in each attend_dD.cu: products on the tensor core, keys and values streamed
// into shared memory while the ones before are used.
//
//   attend_rows_dD_tT   out[row] for every row of an item, its splits in order: chunks of prompts
//   attend_parts_dD_tT  one split of every row of an item, for attend_merge: decoding, and prefixes that many share
//
// for heads of D in 16, 32, 64, 80, 96, 128, 256 and tiles of T in 16, 32, 64 queries (256: 16 and 32). An item's rows
// times H / KV queries fill one tile at most. Arguments, shapes and items are attend_plain.cu's, and so are all bits, for
// every T; in addition all rows of an item read the same blocks, each as far as it sees (in attend_parts: of its split).
//
// Launch: block 128, grid (n_items, KV), dynamic shared memory as Plan::kSharedBytes says (beyond 48 KiB it has to be
// asked for). D is part of the name, and the argument D is not read. q, keys and values 16-byte aligned.
//
// A split of 256 keys goes by in stages of 64 keys, 16 for each of the four warps: first its keys, then its values. A
// warp scores its sixteen keys of each stage for all queries of the tile (so a key is read once from shared memory), a
// tile's scores of a whole split stay in registers until its peak is known, weights go through shared memory, and for the
// values a warp takes a quarter of the head's dimensions and all keys in order.
//
// Reads per item: 4 D bytes a key and kv head, 2 D a query; attend_parts writes 4 D + 8 bytes a query.
//
// Proved by kernels/tests/attend.cpp: bit-equal to attend_plain.cu for every D and T, alone and in tiles, at odd lengths,
// with windows, shared prefixes and chunks, in several orders of threads, with NaN in every slot that is not seen.
#pragma once

#include "attention.cuh"

namespace attention {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kStage = 64, kStages = kSplit / kStage;  // keys of a stage, stages of a split

template <int D, int T>
struct Plan {
  static constexpr int kTilesM = T / 16;                         // tiles of 16 queries
  static constexpr int kTilesD = D / 8;                          // tiles of 8 dimensions
  static constexpr int kTilesOfWarp = (kTilesD + kWarps - 1) / kWarps;
  static constexpr int kSteps = D / 16;                          // of a product along the head
  static constexpr int kBuffers = T == 64 || D == 256 ? 2 : 3;   // stages in shared memory
  static constexpr bool kHoldQueries = kTilesM * kSteps <= (T == 64 ? 8 : 16);  // in registers, as fragments
  static constexpr int kBlocksOnSm = T == 16 && D <= 128 ? 4 : 2;  // at least: what limits a thread's registers
  // Rows of an odd number of 16 bytes: eight of them at one column are in different banks.
  static constexpr int kRow = D + 8, kWeightRow = kSplit + 8;
  // Bytes of shared memory, and where each part begins.
  static constexpr int kWeights = T * kRow * 2;
  static constexpr int kStreams = kWeights + T * kWeightRow * 2;
  static constexpr int kPeaks = kStreams + kBuffers * kStage * kRow * 2;
  static constexpr int kSharedBytes = kPeaks + T * (2 * kWarps * 4 + 8 + 3 * 4);
  static_assert(kSharedBytes <= 227 << 10, "more shared memory than a block can have");
};

struct Arguments {
  const bf16 *q, *keys, *values;
  const int *order, *positions, *seq_of_row, *block_start, *blocks;
  int n_heads, n_kv_heads, window;
  float scale;
};

// Shared memory. Of each query: the largest score and the sum of weights that each warp found, what its output and part
// are multiplied with, the keys first..end that it sees, and its place in q and out (-1 for none).
template <int D, int T>
struct Shared {
  bf16 *queries, *weights, *streams;
  float *peaks, *sums;
  Factors* factors;
  int *first, *end, *place;

  __device__ __forceinline__ explicit Shared(unsigned char* at) {
    using P = Plan<D, T>;
    queries = reinterpret_cast<bf16*>(at);
    weights = reinterpret_cast<bf16*>(at + P::kWeights);
    streams = reinterpret_cast<bf16*>(at + P::kStreams);
    peaks = reinterpret_cast<float*>(at + P::kPeaks);
    sums = peaks + kWarps * T;
    factors = reinterpret_cast<Factors*>(sums + kWarps * T);
    first = reinterpret_cast<int*>(factors + T);
    end = first + T;
    place = end + T;
  }
  __device__ __forceinline__ bf16* stream(int buffer) const { return streams + buffer * kStage * Plan<D, T>::kRow; }
};

// The keys that an item sees of one split, and the stages that they lie in.
struct Range {
  int base, first, end;
  __device__ __forceinline__ Range(int split, int item_first, int item_end) {
    base = split * kSplit;
    first = max(item_first, base), end = min(item_end, base + kSplit);
  }
  __device__ __forceinline__ int first_stage() const { return (first - base) / kStage; }
  __device__ __forceinline__ int end_stage() const { return (end - base + kStage - 1) / kStage; }
  // Whether any key of the 16 from `key` on is seen.
  __device__ __forceinline__ bool sees(int key) const { return key < end && key + kBlock > first; }
};

// What is seen of an item, its blocks, and the next stage to be fetched.
struct Stream {
  const int* blocks;
  int head, first, end;      // keys that any row of the item sees
  int all_first, all_end;    // keys that every row sees
  int split, last_split, stage;
  bool of_values;
};

// Starts the copy of the next stage into `to`, if there is one, and commits it.
template <int D>
__device__ __forceinline__ void fetch(Stream& stream, const Cache& cache, bf16* to) {
  if (stream.split <= stream.last_split) {
    const Range range(stream.split, stream.first, stream.end);
    const bf16* from = stream.of_values ? cache.values : cache.keys;
    constexpr int kChunks = D / 8;  // 16 bytes each
#pragma unroll
    for (int i = 0; i < (kStage * kChunks + kThreads - 1) / kThreads; i++) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / kChunks, chunk = at % kChunks;
      if (kStage * kChunks % kThreads != 0 && row >= kStage) break;
      const int key = range.base + stream.stage * kStage + row;
      if (!range.sees(key / kBlock * kBlock)) continue;
      const bool seen = key >= range.first && key < range.end;
      const size_t place = seen ? cache.at(stream.blocks, key, stream.head) : 0;
      cp_async_16(to + row * (D + 8) + chunk * 8, from + place + chunk * 8, seen);
    }
    if (++stream.stage == range.end_stage()) {
      if (stream.of_values) stream.split++;
      stream.of_values = !stream.of_values;
      stream.stage = stream.split <= stream.last_split ? Range(stream.split, stream.first, stream.end).first_stage() : 0;
    }
  }
  cp_async_commit();
}

// The buffers of stages, used in turn.
template <int D, int T>
struct Ring {
  const Shared<D, T>& shared;
  const Cache& cache;
  Stream stream;
  int current;  // the buffer of the stage that next() gives

  __device__ __forceinline__ void start() {
    current = 0;
    for (int i = 0; i < Plan<D, T>::kBuffers - 1; i++) fetch<D>(stream, cache, shared.stream(i));
  }
  // The next stage, arrived for all threads; the one before it is refilled with the one that comes last.
  __device__ __forceinline__ const bf16* next() {
    constexpr int kBuffers = Plan<D, T>::kBuffers;
    cp_async_wait<kBuffers - 2>();
    __syncthreads();
    fetch<D>(stream, cache, shared.stream(current == 0 ? kBuffers - 1 : current - 1));
    const bf16* stage = shared.stream(current);
    current = current == kBuffers - 1 ? 0 : current + 1;
    return stage;
  }
};

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
  uint32_t held[P::kHoldQueries ? P::kTilesM : 1][P::kHoldQueries ? P::kSteps : 1][4];
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

// Scores of one stage's sixteen keys of this warp: two tiles of eight keys per sixteen queries.
template <int D, int T>
__device__ __forceinline__ void score(const Queries<D, T>& queries, const bf16* keys, float (&scores)[T / 16][2][4]) {
  using P = Plan<D, T>;
#pragma unroll
  for (int m = 0; m < P::kTilesM; m++)
#pragma unroll
    for (int i = 0; i < 8; i++) scores[m][i / 4][i % 4] = 0.0f;
#pragma unroll
  for (int k = 0; k < P::kSteps; k++) {
    uint32_t b[4];
    load_keys(b, keys + k * 16, P::kRow);
    const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
    for (int m = 0; m < P::kTilesM; m++) {
      uint32_t a[4];
      queries.get(a, m, k);
      mma_bf16(scores[m][0], a, low);
      mma_bf16(scores[m][1], a, high);
    }
  }
}

// Adds one stage's values, weighted, for this warp's dimensions.
template <int D, int T>
__device__ __forceinline__ void weigh(const Shared<D, T>& shared, const Range& range, int stage, const bf16* values,
                                      float (&part)[T / 16][Plan<D, T>::kTilesOfWarp][4]) {
  using P = Plan<D, T>;
  const int first_tile = static_cast<int>(threadIdx.x) / 32 * P::kTilesOfWarp;
#pragma unroll
  for (int block = 0; block < kStage / kBlock; block++) {
    const int key = stage * kStage + block * kBlock;
    if (!range.sees(range.base + key)) continue;
    uint32_t a[P::kTilesM][4];
#pragma unroll
    for (int m = 0; m < P::kTilesM; m++) load_a(a[m], shared.weights + m * 16 * P::kWeightRow + key, P::kWeightRow);
    const bf16* rows = values + block * kBlock * P::kRow + first_tile * 8;
#pragma unroll
    for (int n = 0; n < P::kTilesOfWarp; n += 2) {
      // Warps have the same number of tiles, or the last ones fewer.
      if (P::kTilesD % kWarps != 0 && first_tile + n >= P::kTilesD) break;
      uint32_t low[2], high[2];
      if (n + 1 < P::kTilesOfWarp) {
        uint32_t b[4];
        load_values(b, rows + n * 8, P::kRow);
        low[0] = b[0], low[1] = b[1], high[0] = b[2], high[1] = b[3];
      } else {
        load_values(low, rows + n * 8, P::kRow);
      }
#pragma unroll
      for (int m = 0; m < P::kTilesM; m++) {
        mma_bf16(part[m][n], a[m], low);
        if (n + 1 < P::kTilesOfWarp && (P::kTilesD % kWarps == 0 || first_tile + n + 1 < P::kTilesD))
          mma_bf16(part[m][n + 1], a[m], high);
      }
    }
  }
}

// Scales one stage's scores and takes out what a query does not see. `key` is the warp's first.
template <int D, int T>
__device__ __forceinline__ void mask(const Shared<D, T>& shared, const Stream& stream, int key, float scale,
                                     float (&scores)[T / 16][2][4]) {
  if (stream.all_first <= key && key + kBlock <= stream.all_end) {
#pragma unroll
    for (int m = 0; m < T / 16; m++)
#pragma unroll
      for (int i = 0; i < 8; i++) scores[m][i / 4][i % 4] = __fmul_rn(scores[m][i / 4][i % 4], scale);
    return;
  }
  const int g = threadIdx.x % 32 / 4, t = 2 * (threadIdx.x % 4);
#pragma unroll
  for (int m = 0; m < T / 16; m++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int query = m * 16 + g + i / 2 * 8;
      const int first = shared.first[query] - key - t - i % 2, end = shared.end[query] - key - t - i % 2;
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const float score = __fmul_rn(scores[m][n][i], scale);
        scores[m][n][i] = n * 8 >= first && n * 8 < end ? score : -INFINITY;
      }
    }
}

template <int D, int T>
using Scores = float[kStages][T / 16][2][4];

// Each query's largest score among the warp's keys.
template <int D, int T>
__device__ __forceinline__ void find_peaks(const Shared<D, T>& shared, const Scores<D, T>& scores) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < T / 16; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float peak = -INFINITY;
#pragma unroll
      for (int stage = 0; stage < kStages; stage++)
#pragma unroll
        for (int i = 0; i < 4; i++) peak = fmaxf(peak, scores[stage][m][i / 2][half * 2 + i % 2]);
      peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 1));
      peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 2));
      if (lane % 4 == 0) shared.peaks[warp * T + m * 16 + half * 8 + lane / 4] = peak;
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
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < T / 16; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int query = m * 16 + half * 8 + lane / 4;
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
          const int key = stage * kStage + warp * kBlock + n * 8 + 2 * (lane % 4);
          *reinterpret_cast<__nv_bfloat162*>(shared.weights + query * Plan<D, T>::kWeightRow + key) = weights;
        }
      sum = quad_sum(sum);
      if (lane % 4 == 0) shared.sums[warp * T + query] = sum;
    }
}

// An item's queries: what each sees and where it stands, and the stream of what they read.
template <int D, int T>
__device__ __forceinline__ Stream enter(const Arguments& in, const Shared<D, T>& shared, int first_row, int n_rows) {
  const int group = in.n_heads / in.n_kv_heads, head = blockIdx.y, query = threadIdx.x;
  if (query < T) {
    const int i = query / group;
    int first = 0x7fffffff, end = 0, place = -1;
    if (i < n_rows) {
      const int row = in.order[first_row + i], position = in.positions[row];
      first = first_seen(position, in.window), end = position + 1;
      place = row * in.n_heads + head * group + query % group;
    }
    shared.first[query] = first, shared.end[query] = end, shared.place[query] = place;
  }
  __syncthreads();
  // The row that reads furthest has all blocks that the others read.
  const int lane = threadIdx.x % 32;
  int first = 0x7fffffff, furthest = 0, all_first = 0, all_end = 0x7fffffff;
#pragma unroll
  for (int from = 0; from < T; from += 32) {
    const int query = from + lane;
    if (query >= T || shared.place[query] < 0) continue;
    first = min(first, shared.first[query]), all_first = max(all_first, shared.first[query]);
    furthest = max(furthest, shared.end[query] * T + query), all_end = min(all_end, shared.end[query]);
  }
  first = __reduce_min_sync(kAllLanes, first), furthest = __reduce_max_sync(kAllLanes, furthest);
  all_first = __reduce_max_sync(kAllLanes, all_first), all_end = __reduce_min_sync(kAllLanes, all_end);
  const int row = shared.place[furthest % T] / in.n_heads;
  const int* blocks = in.blocks + in.block_start[in.seq_of_row[row]];
  return {blocks, head, first, furthest / T, all_first, all_end, 0, 0, 0, false};
}

// Starts the copies of an item's queries, zeros for those that the tile has too many.
template <int D, int T>
__device__ __forceinline__ void fetch_queries(const Arguments& in, const Shared<D, T>& shared) {
  constexpr int kChunks = D / 8;
  for (int at = threadIdx.x; at < T * kChunks; at += kThreads) {
    const int query = at / kChunks, chunk = at % kChunks, place = shared.place[query];
    const size_t from = place < 0 ? 0 : static_cast<size_t>(place) * D;
    cp_async_16(shared.queries + query * Plan<D, T>::kRow + chunk * 8, in.q + from + chunk * 8, place >= 0);
  }
}

// Calls `each(m, n, half, query, dimension)` for the pairs of neighbouring dimensions that this lane holds.
template <int D, int T, typename Each>
__device__ __forceinline__ void for_each_pair(Each each) {
  using P = Plan<D, T>;
  const int lane = threadIdx.x % 32, first_tile = static_cast<int>(threadIdx.x) / 32 * P::kTilesOfWarp;
#pragma unroll
  for (int m = 0; m < P::kTilesM; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int query = m * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int n = 0; n < P::kTilesOfWarp; n++) {
        if (P::kTilesD % kWarps != 0 && first_tile + n >= P::kTilesD) break;
        each(m, n, half * 2, query, (first_tile + n) * 8 + 2 * (lane % 4));
      }
    }
}

// One split of an item: peaks and sums of weights in shared memory, its part in registers. `settle` is called by every
// thread once peaks and sums are there, before the values.
template <int D, int T, typename Settle>
__device__ __forceinline__ void attend_split(const Arguments& in, const Shared<D, T>& shared, Ring<D, T>& ring,
                                             const Queries<D, T>& queries, const Range& range,
                                             float (&part)[T / 16][Plan<D, T>::kTilesOfWarp][4], Settle settle) {
  const int warp = threadIdx.x / 32;
  const int first_stage = range.first_stage(), end_stage = range.end_stage();
  Scores<D, T> scores;
#pragma unroll
  for (int stage = 0; stage < kStages; stage++) {
    const int key = range.base + stage * kStage + warp * kBlock;
    const bool streamed = stage >= first_stage && stage < end_stage;
    const bf16* keys = streamed ? ring.next() + warp * kBlock * Plan<D, T>::kRow : nullptr;
    if (streamed && range.sees(key)) {
      score<D, T>(queries, keys, scores[stage]);
      mask<D, T>(shared, ring.stream, key, in.scale, scores[stage]);
    } else {
#pragma unroll
      for (int m = 0; m < T / 16; m++)
#pragma unroll
        for (int i = 0; i < 8; i++) scores[stage][m][i / 4][i % 4] = -INFINITY;
    }
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
  for (int stage = first_stage; stage < end_stage; stage++) weigh<D, T>(shared, range, stage, ring.next(), part);
}

template <int D, int T>
__device__ __forceinline__ Softmax softmax_of(const Shared<D, T>& shared, int query) {
  const float* sums = shared.sums + query;
  return {peak_of(shared, query), sum_of_slices(sums[0], sums[T], sums[2 * T], sums[3 * T])};
}

template <int D, int T>
__device__ __forceinline__ void attend_rows(const Arguments& in, const int* item, bf16* __restrict__ out,
                                            unsigned char* bytes) {
  using P = Plan<D, T>;
  const Shared<D, T> shared(bytes);
  const Cache cache = {in.keys, in.values, in.n_kv_heads, D};
  Stream stream = enter(in, shared, item[0], item[1]);
  stream.split = stream.first / kSplit, stream.last_split = (stream.end - 1) / kSplit;
  stream.stage = Range(stream.split, stream.first, stream.end).first_stage();
  fetch_queries(in, shared);
  Ring<D, T> ring = {shared, cache, stream, 0};
  ring.start();
  Queries<D, T> queries;
  queries.rows = shared.queries;
  // The queries came with the first stage.
  cp_async_wait<P::kBuffers - 2>();
  __syncthreads();
  queries.load();

  float so_far[P::kTilesM][P::kTilesOfWarp][4] = {}, part[P::kTilesM][P::kTilesOfWarp][4];
  const int mine = threadIdx.x;  // thread i keeps the softmax of query i
  Softmax running = no_softmax();
  for (int split = stream.split; split <= stream.last_split; split++) {
    const Range range(split, stream.first, stream.end);
    attend_split<D, T>(in, shared, ring, queries, range, part, [&] {
      if (mine >= T) return;
      const Softmax of_split = softmax_of(shared, mine);
      const bool sees = shared.first[mine] < range.end && shared.end[mine] > range.first;
      shared.factors[mine] = sees ? fold(running, of_split.peak, of_split.total) : Factors{1.0f, -1.0f};
    });
    for_each_pair<D, T>([&](int m, int n, int at, int query, int) {
      const Factors by = shared.factors[query];
      if (by.take < 0.0f) return;  // sees nothing of this split
      so_far[m][n][at] = folded(so_far[m][n][at], part[m][n][at], by);
      so_far[m][n][at + 1] = folded(so_far[m][n][at + 1], part[m][n][at + 1], by);
    });
  }
  __syncthreads();
  if (mine < T) shared.sums[mine] = running.total;
  __syncthreads();
  for_each_pair<D, T>([&](int m, int n, int at, int query, int dimension) {
    const int place = shared.place[query];
    if (place < 0) return;
    const float total = shared.sums[query];
    const __nv_bfloat162 pair = {attended(so_far[m][n][at], total), attended(so_far[m][n][at + 1], total)};
    *reinterpret_cast<__nv_bfloat162*>(out + static_cast<size_t>(place) * D + dimension) = pair;
  });
}

template <int D, int T>
__device__ __forceinline__ void attend_parts(const Arguments& in, const int* item, float* __restrict__ parts,
                                             float* __restrict__ peaks, const int* __restrict__ part_start,
                                             unsigned char* bytes) {
  using P = Plan<D, T>;
  const Shared<D, T> shared(bytes);
  const Cache cache = {in.keys, in.values, in.n_kv_heads, D};
  const int split = item[2];
  Stream stream = enter(in, shared, item[0], item[1]);
  const Range range(split, stream.first, stream.end);
  stream.split = stream.last_split = split, stream.stage = range.first_stage();
  fetch_queries(in, shared);
  Ring<D, T> ring = {shared, cache, stream, 0};
  ring.start();
  Queries<D, T> queries;
  queries.rows = shared.queries;
  cp_async_wait<P::kBuffers - 2>();
  __syncthreads();
  queries.load();
  // From a query's place in q to its part's in `parts`.
  const int mine = threadIdx.x;
  if (mine < T && shared.place[mine] >= 0) {
    const int row = shared.place[mine] / in.n_heads;
    const int part = part_start[row] + split - first_seen(in.positions[row], in.window) / kSplit;
    shared.place[mine] = part * in.n_heads + shared.place[mine] % in.n_heads;
  }

  float part[P::kTilesM][P::kTilesOfWarp][4];
  attend_split<D, T>(in, shared, ring, queries, range, part, [&] {
    if (mine >= T || shared.place[mine] < 0) return;
    const Softmax softmax = softmax_of(shared, mine);
    *reinterpret_cast<Softmax*>(peaks + static_cast<size_t>(shared.place[mine]) * 2) = softmax;
  });
  for_each_pair<D, T>([&](int m, int n, int at, int query, int dimension) {
    const int place = shared.place[query];
    if (place < 0) return;
    const float2 pair = {part[m][n][at], part[m][n][at + 1]};
    *reinterpret_cast<float2*>(parts + static_cast<size_t>(place) * D + dimension) = pair;
  });
}

}  // namespace attention

#define ATTEND(D, T)                                                                                                              \
  extern "C" __global__ void __launch_bounds__(attention::kThreads, attention::Plan<D, T>::kBlocksOnSm) attend_rows_d##D##_t##T(  \
      const bf16* __restrict__ q, const bf16* __restrict__ keys, const bf16* __restrict__ values,                                 \
      const int* __restrict__ items, const int* __restrict__ order, const int* __restrict__ positions,                            \
      const int* __restrict__ seq_of_row, const int* __restrict__ block_start, const int* __restrict__ blocks,                    \
      bf16* __restrict__ out, int n_items, int H, int KV, int, int window, float scale) {                                         \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                         \
    if (static_cast<int>(blockIdx.x) >= n_items) return;                                                                          \
    const attention::Arguments in = {q, keys, values, order, positions, seq_of_row, block_start, blocks, H, KV, window, scale};   \
    attention::attend_rows<D, T>(in, items + 2 * static_cast<size_t>(blockIdx.x), out, bytes);                                    \
  }                                                                                                                               \
  extern "C" __global__ void __launch_bounds__(attention::kThreads, attention::Plan<D, T>::kBlocksOnSm) attend_parts_d##D##_t##T( \
      const bf16* __restrict__ q, const bf16* __restrict__ keys, const bf16* __restrict__ values,                                 \
      const int* __restrict__ items, const int* __restrict__ order, const int* __restrict__ positions,                            \
      const int* __restrict__ seq_of_row, const int* __restrict__ block_start, const int* __restrict__ blocks,                    \
      float* __restrict__ parts, float* __restrict__ peaks, const int* __restrict__ part_start, int n_items, int H,               \
      int KV, int, int window, float scale) {                                                                                     \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                         \
    if (static_cast<int>(blockIdx.x) >= n_items) return;                                                                          \
    const attention::Arguments in = {q, keys, values, order, positions, seq_of_row, block_start, blocks, H, KV, window, scale};   \
    attention::attend_parts<D, T>(in, items + 4 * static_cast<size_t>(blockIdx.x), parts, peaks, part_start, bytes);              \
  }
