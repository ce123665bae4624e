// A router's choice of experts for each row, and the factor of a shared expert:
//
//   score[e]  = softmax over all experts of logit[e], or 1 / (1 + e^-logit[e])
//   by[e]     = score[e] (+ bias[e])
//   of `groups` groups of neighbouring experts, the `top_groups` with the largest sums of their `best_of` (1 or 2) largest `by`
//   of their experts, the `top_k` with the largest `by`; of equal ones the lower numbers, of groups as of experts
//   weight[e] = score[e] (/ (sum of the chosen scores + more)) * scale (* factor[e])
//
// The chosen experts are in the order of their numbers, and so is the sum. Where a logit or a bias is not a number, or
// a softmax has no finite largest logit, the first experts are chosen, with weights that are not numbers.
//
//   logits   [rows, parts, width]  f32: products with the parts of the router's weights, which add up to them
//            (crates/cuda/src/experts.rs); width is n, or n + 1 with a shared expert's gate
//   bias, factor  [n]              f32 or null
//   slots    [rows]                or null; -1: padding, which takes no expert
//   chosen   [rows, top_k]         experts; -1 for padding
//   weights  [rows, top_k]         f32
//   places   [rows, top_k]         -1 for padding, else not written
//   factors  [rows]                f32: the sigmoid of the last logit, where width is n + 1
//
// route_and_sort: the same for at most 64 rows, and their pairs sorted (pairs.cuh) by the last block to arrive at a
// semaphore, which is 0 before and after.
//
// Launch: block 128, grid (rows), dynamic shared memory 16 n + 8 top_k bytes. One block owns a row and reads nothing of
// another before the sort. An expert's rank is counted against all others: n^2 / 128 comparisons a thread.
//
// Proved by kernels/tests/experts.cpp: against the definition in f64, with ties, groups and what is not a number; a row
// alone as in a batch. The CPU's is crates/cpu/src/routing.rs.
#include "gate.cuh"
#include "pairs.cuh"

namespace {

constexpr int kRouteThreads = 128;

// Larger floats have larger numbers, and different ones other numbers.
__device__ __forceinline__ int ordered(float v) {
  const int bits = __float_as_int(v);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

struct Routing {
  int n, top_k, is_sigmoid, groups, top_groups, best_of, is_normalised;
  float more, scale;
};

// A row's experts in shared memory.
struct Experts {
  float *scores, *by;
  int *keys, *taken;
  float* chosen_scores;
  int* chosen;
  __device__ __forceinline__ Experts(float* shared, int n, int top_k) {
    scores = shared, by = scores + n;
    keys = reinterpret_cast<int*>(by + n), taken = keys + n;
    chosen_scores = reinterpret_cast<float*>(taken + n), chosen = reinterpret_cast<int*>(chosen_scores + top_k);
  }
};

// How many of `n` are before number i: larger ones, and equal ones with a lower number.
template <typename Counts>
__device__ __forceinline__ int rank_of(const int* keys, int i, int n, Counts counts) {
  int rank = 0;
  const int key = keys[i];
  for (int other = 0; other < n; other++)
    rank += counts(other) && (keys[other] > key || (keys[other] == key && other < i));
  return rank;
}

// Scores of the row; whether they are numbers. The sum of a softmax is in the order of experts.
__device__ __forceinline__ bool score(const Experts& of, const float* logits, const float* bias, int parts, int width,
                                      const Routing& routing) {
  __shared__ int bad;
  if (threadIdx.x == 0) bad = 0;
  __syncthreads();
  for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) {
    float logit = logits[e];
    for (int part = 1; part < parts; part++) logit = __fadd_rn(logit, logits[part * width + e]);
    of.scores[e] = logit;
    if (logit != logit || (bias != nullptr && bias[e] != bias[e])) atomicOr(&bad, 1);
  }
  __syncthreads();
  if (bad) return false;
  if (routing.is_sigmoid) {
    for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) of.scores[e] = sigmoid(of.scores[e]);
  } else {
    float peak = -INFINITY, total = 0.0f;
    for (int e = 0; e < routing.n; e++) peak = fmaxf(peak, of.scores[e]);
    if (!(fabsf(peak) < INFINITY)) return false;
    __syncthreads();
    for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) of.by[e] = exp_f32(__fsub_rn(of.scores[e], peak));
    __syncthreads();
    for (int e = 0; e < routing.n; e++) total = __fadd_rn(total, of.by[e]);
    for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) of.scores[e] = __fdiv_rn(of.by[e], total);
    __syncthreads();
  }
  for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) {
    of.by[e] = bias != nullptr ? __fadd_rn(of.scores[e], bias[e]) : of.scores[e];
    of.keys[e] = ordered(of.by[e]);
  }
  __syncthreads();
  return true;
}

// Marks the experts of the groups that are taken.
__device__ __forceinline__ void take_groups(const Experts& of, const Routing& routing) {
  const int of_group = routing.n / routing.groups;
  int* const keys = of.taken;  // of groups
  for (int group = threadIdx.x; group < routing.groups; group += kRouteThreads) {
    const int first = group * of_group;
    int best = first, second = -1;
    for (int e = first + 1; e < first + of_group; e++) {
      if (of.keys[e] > of.keys[best]) {
        second = best, best = e;
      } else if (second < 0 || of.keys[e] > of.keys[second]) {
        second = e;
      }
    }
    keys[group] = ordered(routing.best_of == 1 ? of.by[best] : __fadd_rn(of.by[best], of.by[second]));
  }
  __syncthreads();
  // The ranks of groups lie where `by` is no longer read.
  int* const ranks = reinterpret_cast<int*>(of.by);
  for (int group = threadIdx.x; group < routing.groups; group += kRouteThreads)
    ranks[group] = rank_of(keys, group, routing.groups, [](int) { return true; });
  __syncthreads();
  for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) of.taken[e] = ranks[e / of_group] < routing.top_groups;
  __syncthreads();
}

// The chosen experts in the order of their numbers, with their scores.
__device__ __forceinline__ void choose(const Experts& of, const Routing& routing) {
  if (routing.groups > 1) {
    take_groups(of, routing);
  } else {
    for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) of.taken[e] = 1;
    __syncthreads();
  }
  int* const is_chosen = reinterpret_cast<int*>(of.by);
  for (int e = threadIdx.x; e < routing.n; e += kRouteThreads)
    is_chosen[e] = of.taken[e] && rank_of(of.keys, e, routing.n, [&](int other) { return of.taken[other] != 0; }) < routing.top_k;
  __syncthreads();
  for (int e = threadIdx.x; e < routing.n; e += kRouteThreads) {
    if (!is_chosen[e]) continue;
    int at = 0;
    for (int other = 0; other < e; other++) at += is_chosen[other];
    of.chosen[at] = e, of.chosen_scores[at] = of.scores[e];
  }
  __syncthreads();
}

// What the router gives a row.
struct Choices {
  float* factors;
  int* places;
  float* weights;
  int* chosen;
};

__device__ __forceinline__ void route_row(const float* logits, const float* bias, const float* factor, const int* slots,
                                          const Choices& to, int row, int parts, int width, const Routing& routing,
                                          float* shared) {
  const int n = routing.n, top_k = routing.top_k;
  const size_t first = static_cast<size_t>(row) * top_k;
  if (slots != nullptr && slots[row] < 0) {
    for (int i = threadIdx.x; i < top_k; i += kRouteThreads)
      to.chosen[first + i] = -1, to.weights[first + i] = 0.0f, to.places[first + i] = -1;
    if (threadIdx.x == 0 && width > n) to.factors[row] = 0.0f;
    return;
  }
  logits += static_cast<size_t>(row) * parts * width;
  if (threadIdx.x == 0 && width > n) {
    float logit = logits[n];
    for (int part = 1; part < parts; part++) logit = __fadd_rn(logit, logits[part * width + n]);
    to.factors[row] = sigmoid(logit);
  }
  const Experts of(shared, n, top_k);
  if (!score(of, logits, bias, parts, width, routing)) {
    for (int i = threadIdx.x; i < top_k; i += kRouteThreads)
      to.chosen[first + i] = i, to.weights[first + i] = __int_as_float(0x7fc00000);
    return;
  }
  choose(of, routing);
  float total = 0.0f;
  for (int i = 0; i < top_k; i++) total = __fadd_rn(total, of.chosen_scores[i]);
  total = __fadd_rn(total, routing.more);
  for (int i = threadIdx.x; i < top_k; i += kRouteThreads) {
    const float score = of.chosen_scores[i];
    const float weight = __fmul_rn(routing.is_normalised ? __fdiv_rn(score, total) : score, routing.scale);
    to.chosen[first + i] = of.chosen[i];
    to.weights[first + i] = factor != nullptr ? __fmul_rn(weight, factor[of.chosen[i]]) : weight;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kRouteThreads)
    route(const float* logits, const float* bias, const float* factor, const int* slots, float* __restrict__ factors,
          int* __restrict__ places, float* __restrict__ weights, int* __restrict__ chosen, int rows, int n,
          int parts, int width, int top_k, int is_sigmoid, int groups, int top_groups, int best_of, int is_normalised, float more,
          float scale) {
  await_earlier();
  DYNAMIC_SHARED(float, shared);
  const int row = static_cast<int>(blockIdx.x);
  if (row >= rows) return;
  const Routing routing = {n, top_k, is_sigmoid, groups, top_groups, best_of, is_normalised, more, scale};
  route_row(logits, bias, factor, slots, {factors, places, weights, chosen}, row, parts, width, routing, shared);
}

extern "C" __global__ void __launch_bounds__(kRouteThreads)
    route_and_sort(const float* logits, const float* bias, const float* factor, const int* slots, float* factors, int* places,
                   float* weights, int* chosen, int rows, int n, int parts, int width, int top_k, int is_sigmoid, int groups,
                   int top_groups, int best_of, int is_normalised, float more, float scale, int* pairs, int* starts,
                   int4* tiles0, int4* tiles1, int tokens0, int n_tiles0, int tokens1, int n_tiles1, unsigned* semaphore) {
  await_earlier();
  DYNAMIC_SHARED(float, shared);
  __shared__ int is_last;
  const int row = static_cast<int>(blockIdx.x);
  if (row >= rows) return;
  const Routing routing = {n, top_k, is_sigmoid, groups, top_groups, best_of, is_normalised, more, scale};
  route_row(logits, bias, factor, slots, {factors, places, weights, chosen}, row, parts, width, routing, shared);
  __syncthreads();
  if (threadIdx.x < 32) {
    const bool last = last_arrival(semaphore, rows);
    if (threadIdx.x == 0) is_last = last;
  }
  __syncthreads();
  if (!is_last) return;
  const Pairs to = {pairs, places, starts, {tiles0, tiles1}, {n_tiles0, n_tiles1}, {tokens0, tokens1}};
  sort_few<kRouteThreads>(chosen, to, rows, top_k, n, reinterpret_cast<int*>(shared));
}
