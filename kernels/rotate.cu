// Head norm and rotary embedding of a step's queries and keys, and the cache's writes:
//
//   head = q_norm or k_norm ? v / sqrt(mean(v^2) + eps) * norm : v              (queries and keys)
//   out[i]         = head[i] * cos[p][i] - head[i + R/2] * sin[p][i]            (i < R/2, p the row's position)
//   out[i + R/2]   = head[i + R/2] * cos[p][i] + head[i] * sin[p][i]
//   out[i]         = head[i]                                                    (i >= R)
//
// Where `norm_last`, the norm comes after the rotation. Queries are multiplied by the row's `growth`. Values are not
// rotated; they have a norm where there is `v_norm`, by the same formula. Keys and values go to the row's slot, queries (not scaled) to q_out. Of gated attention, each head has a gate
// behind the values, whose sigmoid goes to `gates`, for attend_gate.cu.
//
//   qkv           [n_rows, (H + 2 KV) D]  f32: queries, keys, values; H more heads where there are gates
//   q_norm k_norm v_norm  [D]             f32 or null
//   cos sin       [context, R / 2]        f32, the rope's own scale in them
//   positions     [n_rows]                rows of cos and sin
//   slots         [n_rows]                block * 16 + offset, each in one row only; -1: the row is not stored
//   growth        [n_rows]                f32, or null for 1
//   q_out         [n_rows, H, D]          bf16
//   keys values   [n_blocks, KV, 16, D]   bf16, one layer's cache
//   gates         [n_rows, H, D]          f32, or null: no gates
//
// Launch: block (32, 4), grid (n_rows, ceil((H + 2 KV) / 4)), or of 2 H + 2 KV heads. A warp owns a head of a row and reads nothing of
// another. Lane l takes the V pairs (i, i + D/2) from i = V l, then those 32 V further on, where V is 4 if D is a
// multiple of 256, 2 if of 128, else 1. Squares are fused with their sum, the lower half's first, lanes are added
// by warp_sum; the other products and sums are rounded one by one. Where R < D or `norm_last`, lane l takes the pairs i and
// the values behind them that are l more than a multiple of 32.
// Moves per row: 6 (H + 2 KV) D bytes and a row of cos and of sin; 8 H D more with gates. All pointers 16-byte aligned, D a multiple of 16, R even.
//
// Proved by kernels/tests/rotate.cpp: against f64 for each head size with and without norms, of values too; other slots untouched;
// a row alone as in a batch; a row without a slot leaves the cache unchanged; gates.
#include "gate.cuh"
#include "rotary.cuh"

namespace {

constexpr int kHeadsInBlock = 4;

template <typename T, int V>
struct __align__(sizeof(T) * V) Pack {
  T values[V];
};

template <int V>
__device__ __forceinline__ Pack<float, V> load(const float* at) {
  return *reinterpret_cast<const Pack<float, V>*>(at);
}

template <int V>
__device__ __forceinline__ void store(const Pack<float, V>& from, bf16* at) {
  Pack<bf16, V> narrowed;
#pragma unroll
  for (int i = 0; i < V; i++) narrow(from.values[i], narrowed.values[i]);
  *reinterpret_cast<Pack<bf16, V>*>(at) = narrowed;
}

// 1 / sqrt(mean(head^2) + eps), the same in each lane.
template <int V>
__device__ __forceinline__ float inverse_root(const float* head, int dim, float eps) {
  float squares = 0.0f;
  for (int i = V * static_cast<int>(threadIdx.x); i < dim / 2; i += 32 * V) {
    const auto low = load<V>(head + i), high = load<V>(head + dim / 2 + i);
#pragma unroll
    for (int v = 0; v < V; v++) squares = __fmaf_rn(low.values[v], low.values[v], squares);
#pragma unroll
    for (int v = 0; v < V; v++) squares = __fmaf_rn(high.values[v], high.values[v], squares);
  }
  const float mean = __fdiv_rn(warp_sum(squares), static_cast<float>(dim));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

template <int V>
__device__ __forceinline__ void rotate_head(const float* head, const float* norm, const float* cos, const float* sin,
                                            float growth, bf16* __restrict__ out, int dim, float eps) {
  const float by = norm ? inverse_root<V>(head, dim, eps) : 1.0f;
  for (int i = V * static_cast<int>(threadIdx.x); i < dim / 2; i += 32 * V) {
    auto low = load<V>(head + i), high = load<V>(head + dim / 2 + i);
    if (norm) {
      const auto low_weight = load<V>(norm + i), high_weight = load<V>(norm + dim / 2 + i);
#pragma unroll
      for (int v = 0; v < V; v++) {
        low.values[v] = __fmul_rn(__fmul_rn(low.values[v], by), low_weight.values[v]);
        high.values[v] = __fmul_rn(__fmul_rn(high.values[v], by), high_weight.values[v]);
      }
    }
    const auto c = load<V>(cos + i), s = load<V>(sin + i);
    Pack<float, V> rotated_low, rotated_high;
#pragma unroll
    for (int v = 0; v < V; v++) {
      const Pair pair = rotated({low.values[v], high.values[v]}, c.values[v], s.values[v]);
      rotated_low.values[v] = __fmul_rn(pair.low, growth), rotated_high.values[v] = __fmul_rn(pair.high, growth);
    }
    store<V>(rotated_low, out + i);
    store<V>(rotated_high, out + dim / 2 + i);
  }
}

// The same for heads of which `rotary` values are rotated, and for norms after the rotation.
__device__ __forceinline__ void rotate_part(const float* head, const float* norm, const float* cos, const float* sin,
                                            float growth, bf16* __restrict__ out, int dim, int rotary, bool norm_last,
                                            float eps) {
  const int lane = static_cast<int>(threadIdx.x), half = rotary / 2;
  const float first = norm && !norm_last ? inverse_root<1>(head, dim, eps) : 1.0f;
  const auto at = [&](int i) { return norm && !norm_last ? __fmul_rn(__fmul_rn(head[i], first), norm[i]) : head[i]; };
  const auto pair_at = [&](int i) { return rotated({at(i), at(i + half)}, cos[i], sin[i]); };
  float last = 1.0f;
  if (norm && norm_last) {
    float squares = 0.0f;
    for (int i = lane; i < half; i += 32) {
      const Pair pair = pair_at(i);
      squares = __fmaf_rn(pair.high, pair.high, __fmaf_rn(pair.low, pair.low, squares));
    }
    for (int i = rotary + lane; i < dim; i += 32) squares = __fmaf_rn(head[i], head[i], squares);
    const float mean = __fdiv_rn(warp_sum(squares), static_cast<float>(dim));
    last = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
  }
  const auto put = [&](int i, float v) {
    if (norm && norm_last) v = __fmul_rn(__fmul_rn(v, last), norm[i]);
    narrow(__fmul_rn(v, growth), out[i]);
  };
  for (int i = lane; i < half; i += 32) {
    const Pair pair = pair_at(i);
    put(i, pair.low);
    put(i + half, pair.high);
  }
  for (int i = rotary + lane; i < dim; i += 32) put(i, at(i));
}

// Values: a head without a rotation, normed where there is a norm.
template <int V>
__device__ __forceinline__ void store_value(const float* head, const float* norm, bf16* __restrict__ out, int dim,
                                            float eps) {
  const float by = norm ? inverse_root<V>(head, dim, eps) : 1.0f;
  const auto put = [&](int i) {
    auto values = load<V>(head + i);
    if (norm) {
      const auto weight = load<V>(norm + i);
#pragma unroll
      for (int v = 0; v < V; v++) values.values[v] = __fmul_rn(__fmul_rn(values.values[v], by), weight.values[v]);
    }
    store<V>(values, out + i);
  };
  for (int i = V * static_cast<int>(threadIdx.x); i < dim / 2; i += 32 * V) put(i), put(dim / 2 + i);
}

struct Step {
  const float *qkv, *q_norm, *k_norm, *v_norm, *cos, *sin;
  const int *positions, *slots;
  const float* growth;
  bf16 *q_out, *keys, *values;
  float* gates;
  int rotary, norm_last;
};

template <int V>
__device__ __forceinline__ void rotate_head(const Step& step, int row, int head, int n_heads, int n_kv_heads, int dim,
                                            float eps) {
  const auto rotate_to = [&](const float* from, const float* norm, size_t angle, float growth, bf16* to) {
    if (step.rotary == dim && !step.norm_last)
      rotate_head<V>(from, norm, step.cos + angle, step.sin + angle, growth, to, dim, eps);
    else
      rotate_part(from, norm, step.cos + angle, step.sin + angle, growth, to, dim, step.rotary, step.norm_last, eps);
  };
  const int stored = n_heads + 2 * n_kv_heads;
  const size_t all = static_cast<size_t>(stored) + (step.gates != nullptr ? n_heads : 0);
  const float* from = step.qkv + (static_cast<size_t>(row) * all + head) * dim;
  const size_t angle = static_cast<size_t>(step.positions[row]) * (step.rotary / 2);
  if (head < n_heads) {
    bf16* to = step.q_out + (static_cast<size_t>(row) * n_heads + head) * dim;
    rotate_to(from, step.q_norm, angle, step.growth != nullptr ? step.growth[row] : 1.0f, to);
    return;
  }
  if (head >= stored) {
    float* to = step.gates + (static_cast<size_t>(row) * n_heads + head - stored) * dim;
    for (int i = threadIdx.x; i < dim; i += 32) to[i] = sigmoid(from[i]);
    return;
  }
  const bool is_key = head < n_heads + n_kv_heads;
  const int kv = head - n_heads - (is_key ? 0 : n_kv_heads), slot = step.slots[row];
  if (slot < 0) return;
  const size_t at = ((static_cast<size_t>(slot / 16) * n_kv_heads + kv) * 16 + slot % 16) * dim;
  if (is_key)
    rotate_to(from, step.k_norm, angle, 1.0f, step.keys + at);
  else
    store_value<V>(from, step.v_norm, step.values + at, dim, eps);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * kHeadsInBlock)
    rotate(const float* qkv, const float* q_norm, const float* k_norm, const float* v_norm,
           const float* cos, const float* sin, const int* positions,
           const int* slots, const float* growth, bf16* __restrict__ q_out, bf16* __restrict__ keys,
           bf16* __restrict__ values, float* __restrict__ gates, int n_rows, int H, int KV, int D, int R, int norm_last, float eps) {
  await_earlier();
  const int row = blockIdx.x, head = blockIdx.y * kHeadsInBlock + threadIdx.y;
  if (row >= n_rows || head >= H + 2 * KV + (gates != nullptr ? H : 0)) return;  // the same for all lanes of a warp
  const Step step = {qkv, q_norm, k_norm, v_norm, cos, sin, positions, slots, growth, q_out, keys, values, gates, R, norm_last};
  if (D % 256 == 0)
    rotate_head<4>(step, row, head, H, KV, D, eps);
  else if (D % 128 == 0)
    rotate_head<2>(step, row, head, H, KV, D, eps);
  else
    rotate_head<1>(step, row, head, H, KV, D, eps);
}
