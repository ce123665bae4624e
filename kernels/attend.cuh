// Attention over the paged cache, as attention.cuh defines it, for one size of head in each attend_dD.cu: products on the
// tensor core, keys and values streamed into shared memory while the ones before are used.
//
//   attend_rows_dD_tT      out[row] for every row of a work tile, its splits in order: chunks of prompts
//   attend_split_kv_dD_tT  one KV split of every row of a work tile, for attend_merge: decoding, and shared prefixes
//   attend_merged_dD_tT    one KV split, or several; the last block to arrive at a row's semaphore merges the row's splits for
//                          its kv head
//
// for heads of D in 16, 32, 64, 80, 96, 128, 256, 512 and tiles of T in 16, 32, 64 queries (from 256 on: 16 and 32). A work tile's
// rows times H / KV queries fill one tile at most. Arguments, shapes and work tiles are attend_plain.cu's, and so are
// all bits, for every T; in addition all rows of a work tile read the same blocks, each as far as it sees (in
// attend_split_kv: of its split). Work tiles of no rows pad a list: nothing is written for them. attend_merged takes
// attend_merge's sinks and out, and semaphores [R, KV], which are 0 before and after; all splits of its rows are in launches of
// attend_merged. Its work tiles are (first, rows, split, further): every row sees the `further` splits after `split`, too.
//
// Launch: block 128 (512 with T = 32: 256), grid (n_work_tiles, KV), dynamic shared memory as Plan::kSharedBytes says (beyond 48 KiB it has to
// be asked for; crates/cuda/src/tiles.rs has it too). D is part of the name, and the argument D is not
// read. q, keys and values 16-byte aligned; positions below 2^25.
//
// A split of 256 keys goes by in stages of 64 keys, 16 for each of the four warps: first its keys, then its values. A
// warp scores its sixteen keys of each stage for all queries of the tile (so a key is read once from shared memory), a
// tile's scores of a whole split stay in registers until its peak is known, weights go through shared memory, and for the
// values a warp takes a quarter of the head's dimensions and all keys in order.
//
// Reads per work tile: 4 D bytes a key and kv head, 2 D a query; attend_split_kv writes 4 D + 8 bytes a query.
//
// Proved by kernels/tests/attend.cpp: bit-equal to attend_plain.cu for every D and T, alone and in tiles, at odd lengths,
// with windows, shared prefixes and chunks, in several orders of threads, with NaN in every slot that is not seen.
#pragma once

#include "attend_split.cuh"

namespace attention {

template <int D, int T>
__device__ __forceinline__ void attend_rows(const Arguments& in, const int* work, const float* sinks,
                                            bf16* __restrict__ out, unsigned char* bytes) {
  using P = Plan<D, T>;
  const Shared<D, T> shared(bytes);
  const Cache cache = {in.keys, in.values, in.n_kv_heads, D};
  Stream stream = enter(in, shared, work[0], work[1]);
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
  const int head = mine < T ? max(shared.place[mine], 0) % in.n_heads : 0;
  Softmax running = begin_softmax(sinks, head);
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

// `n_splits` KV splits from the work tile's on.
template <int D, int T>
__device__ __forceinline__ void attend_split_kv(const Arguments& in, const int* work, int n_splits, float* __restrict__ splits,
                                             float* __restrict__ peaks, const int* split_start,
                                             unsigned char* bytes) {
  using P = Plan<D, T>;
  const Shared<D, T> shared(bytes);
  const Cache cache = {in.keys, in.values, in.n_kv_heads, D};
  const int first_split = work[2];
  Stream stream = enter(in, shared, work[0], work[1]);
  stream.split = first_split, stream.last_split = first_split + n_splits - 1;
  stream.stage = Range(first_split, stream.first, stream.end).first_stage();
  fetch_queries(in, shared);
  Ring<D, T> ring = {shared, cache, stream, 0};
  ring.start();
  Queries<D, T> queries;
  queries.rows = shared.queries;
  cp_async_wait<P::kBuffers - 2>();
  __syncthreads();
  queries.load();
  // From a query's place in q to its part's in `splits`.
  const int mine = threadIdx.x;
  if (mine < T && shared.place[mine] >= 0) {
    const int row = shared.place[mine] / in.n_heads;
    const int part = split_start[row] + first_split - first_seen(in.positions[row], in.window) / kSplit;
    shared.place[mine] = part * in.n_heads + shared.place[mine] % in.n_heads;
  }

  float part[P::kTilesM][P::kTilesOfWarp][4];
  for (int i = 0; i < n_splits; i++) {
    const Range range(first_split + i, stream.first, stream.end);
    const int further = i * in.n_heads;
    attend_split<D, T>(in, shared, ring, queries, range, part, [&] {
      if (mine >= T || shared.place[mine] < 0) return;
      const Softmax softmax = softmax_of(shared, mine);
      *reinterpret_cast<Softmax*>(peaks + static_cast<size_t>(shared.place[mine] + further) * 2) = softmax;
    });
    for_each_pair<D, T>([&](int m, int n, int at, int query, int dimension) {
      const int place = shared.place[query];
      if (place < 0) return;
      const float2 pair = {part[m][n][at], part[m][n][at + 1]};
      *reinterpret_cast<float2*>(splits + static_cast<size_t>(place + further) * D + dimension) = pair;
    });
  }
}

// Arrives with the work tile's splits of each of its rows, and merges those of which every split has arrived.
template <int D, int T>
__device__ __forceinline__ void merge_arrived(const Arguments& in, const int* work, int n_splits, const float* splits, const float* peaks,
                                              const int* split_start, const float* sinks, bf16* out, unsigned* semaphores,
                                              unsigned char* bytes) {
  const Shared<D, T> shared(bytes);
  int* const whole = shared.first;  // of each row of the tile: its number if it is whole, else -1
  const int group = in.n_heads / in.n_kv_heads, thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (thread < work[1]) {
    const int row = in.order[work[0] + thread];
    const unsigned ours = n_splits, all = splits_of(in.positions[row], in.window);
    unsigned* const semaphore = semaphores + static_cast<size_t>(row) * in.n_kv_heads + blockIdx.y;
    __threadfence();
    const bool is_whole = atomicAdd(semaphore, ours) + ours == all;
    __threadfence();
    if (is_whole) *semaphore = 0;
    whole[thread] = is_whole ? row : -1;
  }
  __syncthreads();
  for (int i = 0; i < work[1]; i++) {
    const int row = whole[i];
    if (row < 0) continue;
    for (int at = 4 * thread; at < group * D; at += 4 * Plan<D, T>::kThreads)
      merge_splits(splits, peaks, split_start[row], splits_of(in.positions[row], in.window), sinks, out, in.n_heads, D, row,
                   static_cast<int>(blockIdx.y) * group * D + at);
  }
}

}  // namespace attention

#define ATTEND(D, T)                                                                                                               \
  extern "C" __global__ void __launch_bounds__(attention::Plan<D, T>::kThreads, attention::Plan<D, T>::kBlocksOnSm) attend_rows_d##D##_t##T(   \
      const bf16* q, const bf16* keys, const bf16* values,                                  \
      const int* work_tiles, const int* order, const int* positions,                        \
      const int* seq_of_row, const int* block_start, const int* blocks,                     \
      const float* sinks, bf16* __restrict__ out, int n_work_tiles, int H, int KV, int, int window, float scale, float cap, float cap_by) { \
    await_earlier();                                                                                                               \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                          \
    if (static_cast<int>(blockIdx.x) >= n_work_tiles) return;                                                                      \
    const int* work = work_tiles + 2 * static_cast<size_t>(blockIdx.x);                                                            \
    if (work[1] == 0) return;                                                                                                      \
    const attention::Arguments in = {q, keys, values, order, positions, seq_of_row, block_start, blocks, H, KV, window, scale, cap, cap_by}; \
    attention::attend_rows<D, T>(in, work, sinks, out, bytes);                                                                            \
  }                                                                                                                                \
  extern "C" __global__ void __launch_bounds__(attention::Plan<D, T>::kThreads, attention::Plan<D, T>::kBlocksOnSm) attend_split_kv_d##D##_t##T(\
      const bf16* q, const bf16* keys, const bf16* values,                                  \
      const int* work_tiles, const int* order, const int* positions,                        \
      const int* seq_of_row, const int* block_start, const int* blocks,                     \
      float* __restrict__ splits, float* __restrict__ peaks, const int* split_start, int n_work_tiles, int H,         \
      int KV, int, int window, float scale, float cap, float cap_by) { \
    await_earlier();                                                                                                               \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                          \
    if (static_cast<int>(blockIdx.x) >= n_work_tiles) return;                                                                      \
    const int* work = work_tiles + 4 * static_cast<size_t>(blockIdx.x);                                                            \
    if (work[1] == 0) return;                                                                                                      \
    const attention::Arguments in = {q, keys, values, order, positions, seq_of_row, block_start, blocks, H, KV, window, scale, cap, cap_by}; \
    attention::attend_split_kv<D, T>(in, work, 1, splits, peaks, split_start, bytes);                                              \
  }                                                                                                                                \
  extern "C" __global__ void __launch_bounds__(attention::Plan<D, T>::kThreads, attention::Plan<D, T>::kBlocksOnSm) attend_merged_d##D##_t##T( \
      const bf16* q, const bf16* keys, const bf16* values,                                  \
      const int* work_tiles, const int* order, const int* positions,                        \
      const int* seq_of_row, const int* block_start, const int* blocks,                     \
      float* splits, float* peaks, const int* split_start, const float* sinks, bf16* out, unsigned* semaphores, int n_work_tiles, int H, \
      int KV, int, int window, float scale, float cap, float cap_by) { \
    await_earlier();                                                                                                               \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                          \
    if (static_cast<int>(blockIdx.x) >= n_work_tiles) return;                                                                      \
    const int* work = work_tiles + 4 * static_cast<size_t>(blockIdx.x);                                                            \
    if (work[1] == 0) return;                                                                                                      \
    const attention::Arguments in = {q, keys, values, order, positions, seq_of_row, block_start, blocks, H, KV, window, scale, cap, cap_by}; \
    attention::attend_split_kv<D, T>(in, work, work[3] + 1, splits, peaks, split_start, bytes);                                    \
    attention::merge_arrived<D, T>(in, work, work[3] + 1, splits, peaks, split_start, sinks, out, semaphores, bytes);              \
  }
