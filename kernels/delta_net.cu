// Gated DeltaNet: the token mixer of a layer that keeps a state instead of keys and values. For each row of a
// sequence, in the order of positions p:
//
//   x[c]     = silu(conv[c][0] * in[p - 3][c] + .. + conv[c][3] * in[p][c])                       delta_conv
//   q, k     = x / sqrt(sum(x^2) + 1e-6) for each key head; q also / sqrt(K)
//   g, beta  = e^(decay * softplus(a + dt_bias)), sigmoid(b) for each value head
//   d[v]     = (x[v] - g * sum over k of S[k][v] k[k]) * beta                                     delta_rule
//   S[k][v]  = g * S[k][v] + k[k] * d[v]
//   o[v]     = sum over k of S[k][v] q[k]
//   out[v]   = bf16(o[v] / sqrt(mean(o^2) + eps) * norm[v] * silu(z[v])) for each value head     delta_gate
//
// Value head h takes key head h / (HV / HK), or h % HK where `tiled` is not 0. `in` and S are 0 before position 0; in a
// sequence whose first row of the step has another position they come from its slot. Both are in the slot afterwards.
//
//   in        [rows, ld]           f32: a row's C = (2 HK) K + HV V channels (queries, keys, values), then z [HV V],
//                                  b [HV], a [HV]
//   conv      [C, 4]               f32
//   decay dt_bias [HV], norm [V]   f32
//   positions [rows]               consecutive ones of a sequence
//   of_rows   [rows]               which of the step's sequences; -1: padding, which gets zeros
//   sequences [n, 4]               first row, rows (0: padding), slot, 0
//   states    slots of `slot` f32, of a layer [3, C] inputs, the earliest first, and [HV, V / 8, K / 8, 32, 2] of S:
//             lane l of a warp has the columns 2 (l / 8) and one more of its eight, and every eighth group of k (Lane)
//   mixed     [rows, W]            f32: q, k, x[v] of all heads, then g and beta of each value head;
//                                  W = C + 2 HV, rounded up to 4. delta_rule overwrites x[v] with o
//   out       [rows, HV V]         bf16
//
// Launch: delta_conv: block (32, 4), grid (ceil(rows / 4), 2 HK + ceil(HV V / 128) + 1): a warp has one head, 128
// values, or all gates of a row. delta_rule_kK: block 128, grid (n, HV, ceil(V / 32)): a block has 32 columns of a
// head's state in registers over all rows of a sequence, and copies some rows to shared memory at a time. delta_gate:
// block (32, 4), grid (rows, ceil(HV / 4)). K is 16, 32, 64, 128 or 256, V a multiple of 8 up to 256. All pointers
// 16-byte aligned, `slot` a multiple of 4.
//
// A row has one order of sums: taps from the earliest on, fused; squares by lane (columns 4 l to 4 l + 3, then those
// 128 further on), then warp_sum; S k and S q by lane in two chains, then over eight lanes. So neither chunks nor other
// sequences nor slots move a bit.
// Moves per sequence and layer: 8 HV K V bytes (S) and, for each row, 4 ld + 16 W.
//
// Proved by kernels/tests/delta_net.cpp: against the definition in f64; chunks, batches and slots against one another.
// Source: Yang, Kautz and Hatamizadeh (2025), Gated Delta Networks, equation 10.
#include "gate.cuh"
#include "log.cuh"
#include "mma.cuh"

namespace {

constexpr int kColumns = 32, kWarpColumns = 8;  // of a block of delta_rule, and of its warps
constexpr int kRuleThreads = 32 * kColumns / kWarpColumns;
constexpr int kMostDims = 256;
constexpr int kTaps = 4, kTail = kTaps - 1;

struct Heads {
  int key_heads, key_dim, value_heads, value_dim;
  __device__ __forceinline__ int keys() const { return key_heads * key_dim; }
  __device__ __forceinline__ int values() const { return value_heads * value_dim; }
  __device__ __forceinline__ int channels() const { return 2 * keys() + values(); }
  __device__ __forceinline__ int width() const { return (channels() + 2 * value_heads + 3) / 4 * 4; }
};

struct Sequence {
  int first, rows, slot;
  __device__ __forceinline__ Sequence(const int* sequences, int i)
      : first(sequences[4 * i]), rows(sequences[4 * i + 1]), slot(sequences[4 * i + 2]) {}
};

// Four values, 16-byte aligned where rows are.
__device__ __forceinline__ float4 load(const float* at, bool aligned) {
  return aligned ? *reinterpret_cast<const float4*>(at) : make_float4(at[0], at[1], at[2], at[3]);
}

__device__ __forceinline__ float add_squares(float sum, float4 v) {
  sum = __fmaf_rn(v.x, v.x, sum);
  sum = __fmaf_rn(v.y, v.y, sum);
  sum = __fmaf_rn(v.z, v.z, sum);
  return __fmaf_rn(v.w, v.w, sum);
}

__device__ __forceinline__ float4 times(float4 v, float by) {
  return {__fmul_rn(v.x, by), __fmul_rn(v.y, by), __fmul_rn(v.z, by), __fmul_rn(v.w, by)};
}

// ln(1 + e^x); x itself above 20, as in PyTorch.
__device__ __forceinline__ float softplus(float x) {
  if (x > 20.0f) return x;
  const float e = exp_f32(x);
  // Below 2^-24, ln(1 + e) is e.
  return e < 0x1p-24f ? e : static_cast<float>(log_f64(__dadd_rn(1.0, static_cast<double>(e))));
}

// The inputs of the four channels from c on, `back` rows before `row`.
struct Inputs {
  const float *in, *tail;
  int row, position, in_step, ld, channels;  // in_step: rows of the sequence before this one
  __device__ __forceinline__ float4 before(int back, int c) const {
    if (back <= in_step) return load(in + static_cast<size_t>(row - back) * ld + c, ld % 4 == 0);
    if (position < back) return {0.0f, 0.0f, 0.0f, 0.0f};
    return load(tail + (kTail - (back - in_step)) * channels + c, true);
  }
  __device__ __forceinline__ float4 convolved(const float* conv, int c) const {
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    const float4 of[4] = {load(conv + 4 * c, true), load(conv + 4 * c + 4, true), load(conv + 4 * c + 8, true),
                          load(conv + 4 * c + 12, true)};
#pragma unroll
    for (int tap = 0; tap < kTaps; tap++) {
      const float4 v = before(kTail - tap, c);
      const auto at = [tap](float4 w) { return tap == 0 ? w.x : tap == 1 ? w.y : tap == 2 ? w.z : w.w; };
      sum.x = __fmaf_rn(at(of[0]), v.x, sum.x);
      sum.y = __fmaf_rn(at(of[1]), v.y, sum.y);
      sum.z = __fmaf_rn(at(of[2]), v.z, sum.z);
      sum.w = __fmaf_rn(at(of[3]), v.w, sum.w);
    }
    return {Silu::of(sum.x), Silu::of(sum.y), Silu::of(sum.z), Silu::of(sum.w)};
  }
};

// A head of queries or keys, normed.
__device__ __forceinline__ void convolve_head(const Inputs& inputs, const float* conv, float* __restrict__ to,
                                              int first, int dim, bool is_query) {
  float4 held[kMostDims / 128];
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kMostDims / 128; i++) {
    const int c = 128 * i + 4 * static_cast<int>(threadIdx.x);
    if (c >= dim) continue;
    held[i] = inputs.convolved(conv, first + c);
    squares = add_squares(squares, held[i]);
  }
  float by = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(warp_sum(squares), 1e-6f)));
  if (is_query) by = __fdiv_rn(by, __fsqrt_rn(static_cast<float>(dim)));
#pragma unroll
  for (int i = 0; i < kMostDims / 128; i++) {
    const int c = 128 * i + 4 * static_cast<int>(threadIdx.x);
    if (c < dim) *reinterpret_cast<float4*>(to + first + c) = times(held[i], by);
  }
}

// A lane's part of a state: the k of each of its values, of two columns.
template <int K>
struct Lane {
  static constexpr int kValues = K / 8, kVector = kValues < 4 ? kValues : 4;
  struct __align__(4 * kVector) Vector {
    float values[kVector];
  };
  // Group i of kVector neighbours in k among K values.
  static __device__ __forceinline__ Vector of(const float* row, int i) {
    return reinterpret_cast<const Vector*>(row)[8 * i + static_cast<int>(threadIdx.x) % 8];
  }
};

// One level of a sum over eight neighbouring lanes: a lane and that `distance` further on have terms of the same sums;
// the one keeps the first half of the sums and the other the second. A sum's order is the same beside any others.
template <int N>
__device__ __forceinline__ void halve(float (&values)[N], float (&kept)[N / 2], int distance) {
  const bool is_second = static_cast<int>(threadIdx.x) & distance;
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    const float other = __shfl_xor_sync(kAllLanes, is_second ? values[i] : values[i + N / 2], distance);
    kept[i] = __fadd_rn(is_second ? values[i + N / 2] : values[i], other);
  }
}

// The last level, where nothing is left to halve.
__device__ __forceinline__ float both(float v, int distance) {
  return __fadd_rn(v, __shfl_xor_sync(kAllLanes, v, distance));
}

// Rows of keys, queries, 32 values and two heads' gates in shared memory.
template <int K>
struct Rows {
  static constexpr int kWidth = 2 * K + kColumns + 4, kPieces = kWidth / 4;
  static constexpr int kRows = K > 128 ? 4 : 8;  // that a block copies at a time

  // Starts the copies of `n` rows.
  static __device__ __forceinline__ void copy(float* to, const float* mixed, const Heads& heads, int n, int head,
                                              int key_head, int column) {
    const int gates = heads.channels() + 2 * head / 4 * 4;
    for (int i = threadIdx.x; i < n * kPieces; i += kRuleThreads) {
      const int row = i / kPieces, at = i % kPieces * 4;
      int from = gates;
      bool valid = true;
      if (at < K) {
        from = heads.keys() + key_head * K + at;
      } else if (at < 2 * K) {
        from = key_head * K + at - K;
      } else if (at < 2 * K + kColumns) {
        const int c = column + at - 2 * K;
        valid = c < heads.value_dim;
        from = 2 * heads.keys() + head * heads.value_dim + c;
      }
      cp_async_16(to + row * kWidth + at, mixed + static_cast<size_t>(row) * heads.width() + from, valid);
    }
  }
};

// The last inputs of a sequence, for its next step: each block of the sequence writes some channels.
__device__ __forceinline__ void keep_tail(const float* in, float* __restrict__ tail, const Sequence& of, int position,
                                          int ld, int channels) {
  const int block = static_cast<int>(blockIdx.y * gridDim.z + blockIdx.z);
  const int n_blocks = static_cast<int>(gridDim.y * gridDim.z);
  for (int c = block * kRuleThreads + static_cast<int>(threadIdx.x); c < channels; c += n_blocks * kRuleThreads) {
    float kept[kTail];
#pragma unroll
    for (int i = 0; i < kTail; i++) {
      const int row = of.rows - kTail + i;  // of the sequence's in this step
      if (row >= 0)
        kept[i] = in[static_cast<size_t>(of.first + row) * ld + c];
      else
        kept[i] = position + row < 0 ? 0.0f : tail[(kTail + row) * channels + c];
    }
#pragma unroll
    for (int i = 0; i < kTail; i++) tail[i * channels + c] = kept[i];
  }
}

// N rows: changes the state of two columns, and writes the rows' outputs, which have one order of sums for any N. Many
// rows at once fill the time that a sum over lanes takes.
template <int K, int N>
__device__ __forceinline__ void advance(float2 (&state)[K / 8], const float* row, int column, int gate, float* out,
                                        int ld, bool is_in) {
  using L = Lane<K>;
  constexpr int kGroups = L::kValues / L::kVector;
  const bool is_second = threadIdx.x & 4;
  float outs[2 * N];  // of the first column, then of the second
#pragma unroll
  for (int n = 0; n < N; n++, row += Rows<K>::kWidth) {
    typename L::Vector k[kGroups];
    float sums[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
    for (int i = 0; i < kGroups; i++) {
      k[i] = L::of(row, i);
#pragma unroll
      for (int j = 0; j < L::kVector; j++) {
        const float2 s = state[i * L::kVector + j];
        sums[0][j % 2] = __fmaf_rn(s.x, k[i].values[j], sums[0][j % 2]);
        sums[1][j % 2] = __fmaf_rn(s.y, k[i].values[j], sums[1][j % 2]);
      }
    }
    const float g = row[2 * K + kColumns + gate], beta = row[2 * K + kColumns + gate + 1];
    float of_columns[2] = {__fadd_rn(sums[0][0], sums[0][1]), __fadd_rn(sums[1][0], sums[1][1])}, of_own[1];
    halve(of_columns, of_own, 4);
    const float sum = both(both(of_own[0], 2), 1);
    const float own = __fmul_rn(__fsub_rn(row[2 * K + column], __fmul_rn(g, sum)), beta);
    const float other = __shfl_xor_sync(kAllLanes, own, 4);
    const float2 delta = is_second ? make_float2(other, own) : make_float2(own, other);
    float of_outs[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
    for (int i = 0; i < kGroups; i++) {
      const auto q = L::of(row + K, i);
#pragma unroll
      for (int j = 0; j < L::kVector; j++) {
        float2& s = state[i * L::kVector + j];
        s.x = __fmaf_rn(k[i].values[j], delta.x, __fmul_rn(s.x, g));
        s.y = __fmaf_rn(k[i].values[j], delta.y, __fmul_rn(s.y, g));
        of_outs[0][j % 2] = __fmaf_rn(s.x, q.values[j], of_outs[0][j % 2]);
        of_outs[1][j % 2] = __fmaf_rn(s.y, q.values[j], of_outs[1][j % 2]);
      }
    }
    outs[n] = __fadd_rn(of_outs[0][0], of_outs[0][1]), outs[N + n] = __fadd_rn(of_outs[1][0], of_outs[1][1]);
  }
  float own[N];
  halve(outs, own, 4);
  if constexpr (N == 1) {
    const float o = both(both(own[0], 2), 1);
    if (is_in && threadIdx.x % 4 == 0) *out = o;
  } else {
    float half[N / 2], quarter[N / 4];
    halve(own, half, 2);
    halve(half, quarter, 1);
    const int first = static_cast<int>(threadIdx.x / 2 % 2 * 2 + threadIdx.x % 2) * (N / 4);
#pragma unroll
    for (int i = 0; i < N / 4; i++)
      if (is_in) out[static_cast<size_t>(first + i) * ld] = quarter[i];
  }
}

template <int K>
__device__ __forceinline__ void delta_rule(const float* in, const int* positions, const int* sequences,
                                           float* __restrict__ states, float* mixed, const Heads& heads, int n, int ld,
                                           int slot, int tiled) {
  using R = Rows<K>;
  constexpr int kRows = R::kRows;
  __shared__ float4 stages[2][kRows * R::kPieces];
  if (static_cast<int>(blockIdx.x) >= n) return;
  const Sequence of(sequences, static_cast<int>(blockIdx.x));
  if (of.rows == 0) return;
  const int head = static_cast<int>(blockIdx.y), first_column = static_cast<int>(blockIdx.z) * kColumns;
  const int key_head = tiled ? head % heads.key_heads : head / (heads.value_heads / heads.key_heads);
  const int position = positions[of.first];
  float* const of_slot = states + static_cast<size_t>(of.slot) * slot;
  mixed += static_cast<size_t>(of.first) * heads.width();
  const auto copy = [&](int from) {
    float* const to = reinterpret_cast<float*>(stages[from / kRows % 2]);
    const float* const rows = mixed + static_cast<size_t>(from) * heads.width();
    R::copy(to, rows, heads, min(kRows, of.rows - from), head, key_head, first_column);
  };
  copy(0);
  cp_async_commit();

  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const bool is_in = first_column + warp * kWarpColumns < heads.value_dim;
  const int column = warp * kWarpColumns + lane / 8 * 2 + lane / 4 % 2;  // the one that this lane has sums of
  const int gate = head % 2 * 2, ld_mixed = heads.width();
  const int strip = (head * heads.value_dim + first_column) / kWarpColumns + warp;
  float2* const kept =
      reinterpret_cast<float2*>(of_slot + kTail * heads.channels()) + static_cast<size_t>(strip) * K * 4 + lane;
  float2 state[K / 8];
#pragma unroll
  for (int i = 0; i < K / 8; i++) state[i] = position > 0 && is_in ? kept[32 * i] : make_float2(0.0f, 0.0f);
  keep_tail(in, of_slot, of, position, ld, heads.channels());

  float* const out = mixed + 2 * heads.keys() + head * heads.value_dim + first_column + column;
  for (int from = 0; from < of.rows; from += kRows) {
    if (from + kRows < of.rows) copy(from + kRows);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    const float* row = reinterpret_cast<const float*>(stages[from / kRows % 2]);
    float* const to = out + static_cast<size_t>(from) * ld_mixed;
    if (of.rows - from >= kRows) {
      advance<K, kRows>(state, row, column, gate, to, ld_mixed, is_in);
    } else {
      for (int i = 0; i < of.rows - from; i++, row += R::kWidth)
        advance<K, 1>(state, row, column, gate, to + static_cast<size_t>(i) * ld_mixed, ld_mixed, is_in);
    }
    __syncthreads();
  }
  if (!is_in) return;
#pragma unroll
  for (int i = 0; i < K / 8; i++) kept[32 * i] = state[i];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    delta_conv(const float* in, const float* conv, const float* decay, const float* dt_bias, const int* positions,
               const int* of_rows, const int* sequences, const float* states, float* __restrict__ mixed, int rows,
               int ld, int slot, int HK, int K, int HV, int V) {
  await_earlier();
  const Heads heads = {HK, K, HV, V};
  const int row = static_cast<int>(blockIdx.x * 4 + threadIdx.y), lane = static_cast<int>(threadIdx.x);
  if (row >= rows || of_rows[row] < 0) return;  // the same for all lanes of a warp
  const Sequence of(sequences, of_rows[row]);
  int unit = static_cast<int>(blockIdx.y);
  float* const to = mixed + static_cast<size_t>(row) * heads.width();
  const float* const tail = states + static_cast<size_t>(of.slot) * slot;
  const Inputs inputs = {in, tail, row, positions[row], row - of.first, ld, heads.channels()};
  if (unit < 2 * HK) {
    convolve_head(inputs, conv, to, unit * K, K, unit < HK);
    return;
  }
  unit -= 2 * HK;
  const int c = unit * 128 + 4 * lane;
  if (unit < (heads.values() + 127) / 128) {
    const int at = 2 * heads.keys() + c;
    if (c < heads.values()) *reinterpret_cast<float4*>(to + at) = inputs.convolved(conv, at);
    return;
  }
  const float* b = in + static_cast<size_t>(row) * ld + heads.channels() + heads.values();
  for (int head = lane; head < HV; head += 32) {
    const float a = b[HV + head];
    float* const gates = to + heads.channels() + 2 * head;
    gates[0] = exp_f32(__fmul_rn(decay[head], softplus(__fadd_rn(a, dt_bias[head]))));
    gates[1] = sigmoid(b[head]);
  }
  if (HV % 2 != 0 && lane < 2) to[heads.channels() + 2 * HV + lane] = 0.0f;  // read, and not used
}

#define DELTA_RULE(K)                                                                                                  \
  extern "C" __global__ void __launch_bounds__(kRuleThreads)                                                           \
      delta_rule_k##K(const float* in, const int* positions, const int* sequences, float* __restrict__ states,         \
                      float* mixed, int n, int ld, int slot, int HK, int HV, int V, int tiled) {                       \
    await_earlier();                                                                                                   \
    delta_rule<K>(in, positions, sequences, states, mixed, {HK, K, HV, V}, n, ld, slot, tiled);                        \
  }

DELTA_RULE(16)
DELTA_RULE(32)
DELTA_RULE(64)
DELTA_RULE(128)
DELTA_RULE(256)

extern "C" __global__ void __launch_bounds__(128)
    delta_gate(const float* in, const float* mixed, const float* norm, const int* of_rows, bf16* __restrict__ out,
               int rows, int ld, int HK, int K, int HV, int V, float eps) {
  await_earlier();
  const Heads heads = {HK, K, HV, V};
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y * 4 + threadIdx.y);
  if (row >= rows || head >= HV) return;
  const bool is_padding = of_rows[row] < 0;
  const float* values = mixed + static_cast<size_t>(row) * heads.width() + 2 * heads.keys() + head * V;
  const float* z = in + static_cast<size_t>(row) * ld + heads.channels() + head * V;
  bf16* const to = out + static_cast<size_t>(row) * heads.values() + head * V;
  float4 held[kMostDims / 128];
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kMostDims / 128; i++) {
    const int c = 128 * i + 4 * static_cast<int>(threadIdx.x);
    if (c >= V) continue;
    held[i] = is_padding ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : load(values + c, true);
    squares = add_squares(squares, held[i]);
  }
  const float mean = __fdiv_rn(warp_sum(squares), static_cast<float>(V));
  const float by = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
#pragma unroll
  for (int i = 0; i < kMostDims / 128; i++) {
    const int c = 128 * i + 4 * static_cast<int>(threadIdx.x);
    if (c >= V) continue;
    const float4 v = times(held[i], by), w = load(norm + c, true), gate = load(z + c, ld % 4 == 0);
    const auto put = [&](int j, float x, float weight, float g) {
      narrow(is_padding ? 0.0f : __fmul_rn(__fmul_rn(x, weight), Silu::of(g)), to[c + j]);
    };
    put(0, v.x, w.x, gate.x), put(1, v.y, w.y, gate.y), put(2, v.z, w.z, gate.z), put(3, v.w, w.w, gate.w);
  }
}
