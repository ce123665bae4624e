// The pairs of row and expert of a step, sorted by expert, and the sum of each row's experts.
//
//   sort_pairs:     the pairs of each expert side by side, those of one expert in the order of rows
//   merge_experts:  to[r] = (to[r] +, where `add`) the sum of the row's experts (expert_sum.cuh)
//
//   chosen, pairs, places, starts, tiles:  as in pairs.cuh; places of no expert are -1
//   to       [rows, ld]           f32; `cols` of each row are written. May be `shared`
//
// Launch: sort_pairs: block 1024, grid (n), dynamic shared memory 4 n bytes; every block counts all pairs (with
// atomics on whole numbers, whose order does not matter), and sorts those of its own expert. merge_experts: block 256,
// grid (rows, cols / 1024 rounded up), a thread for four columns; cols and ld multiples of 4, everything 16-byte
// aligned.
//
// Proved by kernels/tests/experts.cpp.
#include "expert_sum.cuh"
#include "pairs.cuh"

namespace {

constexpr int kSortThreads = 1024, kSortWarps = kSortThreads / 32;

// The tiles of one expert, and after the last one those that nothing is done for.
__device__ __forceinline__ void put_tiles(int4* tiles, int n_tiles, int expert, int first, int n, int tile, int tokens,
                                          bool is_last) {
  const int own = tiles_of(n, tokens);
  for (int i = threadIdx.x; i < own; i += kSortThreads)
    tiles[tile + i] = make_int4(expert, first + i * tokens, min(tokens, n - i * tokens), 0);
  if (!is_last) return;
  for (int i = tile + own + threadIdx.x; i < n_tiles; i += kSortThreads) tiles[i] = make_int4(0, 0, 0, 0);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kSortThreads)
    sort_pairs(const int* chosen, int* __restrict__ places, int* __restrict__ pairs, int* __restrict__ starts,
               int4* __restrict__ tiles0, int4* __restrict__ tiles1, int rows, int top_k, int n, int tokens0,
               int n_tiles0, int tokens1, int n_tiles1) {
  await_earlier();
  DYNAMIC_SHARED(int, counts);
  __shared__ int before[3], of_warp[kSortWarps];  // pairs and tiles of the experts before this one
  const int expert = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < n; e += kSortThreads) counts[e] = 0;
  if (thread < 3) before[thread] = 0;
  __syncthreads();
  for (int i = thread; i < rows * top_k; i += kSortThreads)
    if (chosen[i] >= 0) atomicAdd(&counts[chosen[i]], 1);
  __syncthreads();
  for (int e = thread; e < expert; e += kSortThreads) {
    atomicAdd(&before[0], counts[e]);
    atomicAdd(&before[1], tiles_of(counts[e], tokens0));
    atomicAdd(&before[2], tiles_of(counts[e], tokens1));
  }
  __syncthreads();
  const int first = before[0], own = counts[expert];
  const bool is_last = expert == n - 1;
  if (thread == 0) {
    starts[expert] = first;
    if (is_last) starts[n] = first + own;
  }
  put_tiles(tiles0, n_tiles0, expert, first, own, before[1], tokens0, is_last);
  put_tiles(tiles1, n_tiles1, expert, first, own, before[2], tokens1, is_last);

  int at = first;  // the pair of the next row that takes this expert
  for (int chunk = 0; chunk < rows && at < first + own; chunk += kSortThreads) {
    const int row = chunk + thread;
    int choice = -1;
    for (int j = 0; row < rows && j < top_k; j++)
      if (chosen[static_cast<size_t>(row) * top_k + j] == expert) choice = j;
    const unsigned taking = __ballot_sync(kAllLanes, choice >= 0);
    if (thread % 32 == 0) of_warp[thread / 32] = __popc(taking);
    __syncthreads();
    int pair = at + __popc(taking & ((1u << (thread % 32)) - 1));
    int all = 0;
    for (int w = 0; w < kSortWarps; w++) {
      if (w < thread / 32) pair += of_warp[w];
      all += of_warp[w];
    }
    if (choice >= 0) pairs[pair] = row, places[static_cast<size_t>(row) * top_k + choice] = pair;
    at += all;
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(256)
    merge_experts(const float* outputs, const int* places, const float* weights, const float* shared,
                  const float* factors, float* to, int rows, int top_k, int cols, int ld, int add) {
  await_earlier();
  const int row = static_cast<int>(blockIdx.x), c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 4;
  if (row >= rows || c >= cols) return;
  float4 sum = ExpertSum{outputs, places, weights, shared, factors, top_k, cols, ld}.at(row, c);
  const size_t at = static_cast<size_t>(row) * ld + c;
  if (add) {
    const float4 old = *reinterpret_cast<const float4*>(to + at);
    sum = {__fadd_rn(old.x, sum.x), __fadd_rn(old.y, sum.y), __fadd_rn(old.z, sum.z), __fadd_rn(old.w, sum.w)};
  }
  *reinterpret_cast<float4*>(to + at) = sum;
}
