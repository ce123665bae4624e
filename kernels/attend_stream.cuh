// What a work tile of attend.cuh reads, on its way into shared memory: its queries, then its keys and values by stages.
//
// Proved by kernels/tests/attend.cpp.
#pragma once

#include "attention.cuh"

namespace attention {

constexpr int kStage = 64, kStages = kSplit / kStage;  // keys of a stage, stages of a split
constexpr int kScorers = kStage / kBlock;              // warps that score a tile of queries, each a block of a stage
static_assert(kScorers == kSlices, "a warp scores the keys of one slice");

template <int D, int T>
struct Plan {
  static constexpr int kWarps = D == 512 && T == 32 ? 8 : 4, kThreads = 32 * kWarps;
  static constexpr int kTilesM = T / 16;                          // tiles of 16 queries
  static constexpr int kScoredM = kTilesM * kScorers / kWarps;    // of them, those that a warp scores
  // A stage holds kColumns dimensions of its keys or values: all, or a part of them after the other.
  static constexpr int kParts = D == 512 ? 2 : 1, kColumns = D / kParts;
  static constexpr int kTilesD = kColumns / 8;                    // tiles of 8 dimensions
  static constexpr int kTilesOfPart = (kTilesD + kWarps - 1) / kWarps;  // of a warp
  static constexpr int kTilesOfWarp = kParts * kTilesOfPart;
  static constexpr int kSteps = kColumns / 16;                    // of a product along the columns
  // Steps of a score that are unrolled: with all of them, compute capability 10.0 spills registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1000
  static constexpr int kStepsOfWide = 4;
#else
  static constexpr int kStepsOfWide = 8;
#endif
  static constexpr int kStepsAtOnce = T < 64 ? kSteps : D == 96 ? 2 : D == 128 ? kStepsOfWide : kSteps;
  static constexpr int kBuffers = T == 64 || D >= 256 ? 2 : 3;    // stages in shared memory
  static constexpr bool kHoldQueries = kTilesM * D / 16 <= (T == 64 ? 8 : 16);  // in registers, as fragments
  static constexpr int kBlocksOnSm = T == 16 && D <= 128 ? 4 : kWarps == 8 ? 1 : 2;  // at least: what limits a thread's registers
  // Rows of an odd number of 16 bytes: eight of them at one column are in different banks.
  static constexpr int kRow = D + 8, kStageRow = kColumns + 8, kWeightRow = kSplit + 8;
  // Bytes of shared memory, and where each part begins.
  static constexpr int kWeights = T * kRow * 2;
  static constexpr int kStreams = kWeights + T * kWeightRow * 2;
  static constexpr int kPeaks = kStreams + kBuffers * kStage * kStageRow * 2;
  static constexpr int kSharedBytes = kPeaks + T * (2 * kScorers * 4 + 8 + 3 * 4);
  static_assert(kSharedBytes <= 227 << 10, "more shared memory than a block can have");
};

struct Arguments {
  const bf16 *q, *keys, *values;
  const int *order, *positions, *seq_of_row, *block_start, *blocks;
  int n_heads, n_kv_heads, window;
  float scale, cap, cap_by;
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
    sums = peaks + kScorers * T;
    factors = reinterpret_cast<Factors*>(sums + kScorers * T);
    first = reinterpret_cast<int*>(factors + T);
    end = first + T;
    place = end + T;
  }
  __device__ __forceinline__ bf16* stream(int buffer) const { return streams + buffer * kStage * Plan<D, T>::kStageRow; }
};

// The keys that a work tile sees of one split, and the stages that they lie in.
struct Range {
  int base, first, end;
  __device__ __forceinline__ Range(int split, int tile_first, int tile_end) {
    base = split * kSplit;
    first = max(tile_first, base), end = min(tile_end, base + kSplit);
  }
  __device__ __forceinline__ int first_stage() const { return (first - base) / kStage; }
  __device__ __forceinline__ int end_stage() const { return (end - base + kStage - 1) / kStage; }
  // Whether any key of the 16 from `key` on is seen.
  __device__ __forceinline__ bool sees(int key) const { return key < end && key + kBlock > first; }
};

// What is seen of a work tile, its blocks, and the next stage to be fetched.
struct Stream {
  const int* blocks;
  int head, first, end;      // keys that any row of the work tile sees
  int all_first, all_end;    // keys that every row sees
  int split, last_split, stage, part;
  bool of_values;
};

// Starts the copy of the next stage, or part of one, into `to`, if there is one, and commits it.
template <int D, int T>
__device__ __forceinline__ void fetch(Stream& stream, const Cache& cache, bf16* to) {
  using P = Plan<D, T>;
  if (stream.split <= stream.last_split) {
    const Range range(stream.split, stream.first, stream.end);
    const bf16* from = stream.of_values ? cache.values : cache.keys;
    constexpr int kChunks = P::kColumns / 8, kThreads = P::kThreads;  // of 16 bytes each
    from += P::kParts > 1 ? stream.part * P::kColumns : 0;
#pragma unroll
    for (int i = 0; i < (kStage * kChunks + kThreads - 1) / kThreads; i++) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / kChunks, chunk = at % kChunks;
      if (kStage * kChunks % kThreads != 0 && row >= kStage) break;
      const int key = range.base + stream.stage * kStage + row;
      if (!range.sees(key / kBlock * kBlock)) continue;
      const bool seen = key >= range.first && key < range.end;
      const size_t place = seen ? cache.at(stream.blocks, key, stream.head) : 0;
      cp_async_16(to + row * P::kStageRow + chunk * 8, from + place + chunk * 8, seen);
    }
    const bool whole = P::kParts == 1 || ++stream.part == P::kParts;
    if (whole) stream.part = 0;
    if (whole && ++stream.stage == range.end_stage()) {
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
    for (int i = 0; i < Plan<D, T>::kBuffers - 1; i++) fetch<D, T>(stream, cache, shared.stream(i));
  }
  // The next stage, arrived for all threads; the one before it is refilled with the one that comes last.
  __device__ __forceinline__ const bf16* next() {
    constexpr int kBuffers = Plan<D, T>::kBuffers;
    cp_async_wait<kBuffers - 2>();
    __syncthreads();
    fetch<D, T>(stream, cache, shared.stream(current == 0 ? kBuffers - 1 : current - 1));
    const bf16* stage = shared.stream(current);
    current = current == kBuffers - 1 ? 0 : current + 1;
    return stage;
  }
};
// A work tile's queries: what each sees and where it stands, and the stream of what they read.
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
  return {blocks, head, first, furthest / T, all_first, all_end, 0, 0, 0, 0, false};
}

// Starts the copies of a work tile's queries, zeros for those that the tile has too many.
template <int D, int T>
__device__ __forceinline__ void fetch_queries(const Arguments& in, const Shared<D, T>& shared) {
  constexpr int kChunks = D / 8;
  for (int at = threadIdx.x; at < T * kChunks; at += Plan<D, T>::kThreads) {
    const int query = at / kChunks, chunk = at % kChunks, place = shared.place[query];
    const size_t from = place < 0 ? 0 : static_cast<size_t>(place) * D;
    cp_async_16(shared.queries + query * Plan<D, T>::kRow + chunk * 8, in.q + from + chunk * 8, place >= 0);
  }
}

}  // namespace attention
