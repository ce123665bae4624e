// The pairs of row and expert of a step, sorted by expert: their tiles, and the sort of up to 64 rows by one block.
//
//   chosen   [rows, top_k]        experts of a row (route.cu), each once; -1: none
//   pairs    [rows top_k]         the row of each pair
//   places   [rows, top_k]        the pair of each choice; not written where there is none
//   starts   [n + 1]              each expert's first pair, and the end of the last one's
//   tiles    2 x [n_tiles, 4]     expert, first pair, pairs, 0, for tiles of tokens[0] and of tokens[1] pairs; unused ones
//                                 at the end have no pairs. n_tiles: at least (pairs + (tokens - 1) min(n, pairs)) /
//                                 tokens
//
// The pairs of an expert are in the order of rows. Proved by kernels/tests/experts.cpp.
#pragma once

#include "common.cuh"

__device__ __forceinline__ int tiles_of(int pairs, int tokens) { return (pairs + tokens - 1) / tokens; }

struct Pairs {
  int *pairs, *places, *starts;
  int4* tiles[2];
  int n_tiles[2], tokens[2];
};

// The sum of what the threads before this one have, of `all` that of the block; of three numbers each.
template <int THREADS>
__device__ __forceinline__ void sums_before(int (&own)[3], int (&all)[3]) {
  __shared__ int of_warp[THREADS / 32][3];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < 3; i++) {
    int sum = own[i];
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane >= distance) sum += before;
    }
    if (lane == 31) of_warp[warp][i] = sum;
    own[i] = sum - own[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 3; i++) {
    all[i] = 0;
    for (int w = 0; w < THREADS / 32; w++) {
      if (w < warp) own[i] += of_warp[w][i];
      all[i] += of_warp[w][i];
    }
  }
}

// Sorts the pairs of at most 64 rows. The rows of an expert are a mask of 64 bits: a pair's place is the number of
// bits before its own. `shared`: 3 n numbers.
template <int THREADS>
__device__ __forceinline__ void sort_few(const int* chosen, const Pairs& to, int rows, int top_k, int n, int* shared) {
  unsigned* const masks = reinterpret_cast<unsigned*>(shared);  // [n, 2]
  int* const firsts = shared + 2 * n;
  for (int i = threadIdx.x; i < 2 * n; i += THREADS) masks[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < rows * top_k; i += THREADS) {
    const int row = i / top_k;
    if (chosen[i] >= 0) atomicOr(&masks[2 * chosen[i] + row / 32], 1u << row % 32);
  }
  __syncthreads();
  // Each thread has some neighbouring experts.
  const int own = (n + THREADS - 1) / THREADS, from = min(static_cast<int>(threadIdx.x) * own, n), end = min(from + own, n);
  const auto pairs_of = [&](int e) { return __popc(masks[2 * e]) + __popc(masks[2 * e + 1]); };
  int at[3] = {}, all[3];  // pairs, and tiles of both lists
  for (int e = from; e < end; e++) {
    const int count = pairs_of(e);
    at[0] += count, at[1] += tiles_of(count, to.tokens[0]), at[2] += tiles_of(count, to.tokens[1]);
  }
  sums_before<THREADS>(at, all);
  for (int e = from; e < end; e++) {
    const int count = pairs_of(e), first = at[0];
    to.starts[e] = firsts[e] = first;
    at[0] += count;
#pragma unroll
    for (int list = 0; list < 2; list++)
      for (int done = 0; done < count; done += to.tokens[list])
        to.tiles[list][at[1 + list]++] = make_int4(e, first + done, min(to.tokens[list], count - done), 0);
  }
  if (threadIdx.x == 0) to.starts[n] = all[0];
#pragma unroll
  for (int list = 0; list < 2; list++)
    for (int i = all[1 + list] + threadIdx.x; i < to.n_tiles[list]; i += THREADS) to.tiles[list][i] = make_int4(0, 0, 0, 0);
  __syncthreads();
  for (int i = threadIdx.x; i < rows * top_k; i += THREADS) {
    const int e = chosen[i], row = i / top_k;
    if (e < 0) continue;
    const unsigned *const mask = masks + 2 * e, below = (1u << row % 32) - 1;
    const int pair = firsts[e] + (row < 32 ? __popc(mask[0] & below) : __popc(mask[0]) + __popc(mask[1] & below));
    to.pairs[pair] = row, to.places[i] = pair;
  }
}
