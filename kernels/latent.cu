// Latent attention's projections around a cache of compressed rows (multi-head latent attention). Attention over the rows
// is attend_plain.cu's, with one head of keys of C + R values, of which the first C are the value.
//
//   latent_norm    out[r]             = bf16(rms(x[r]) * weight), of the first n values of a row
//   latent_store   cache[slots[r]]    = bf16(rms(x[r][..C]) * weight), bf16(rotated(x[r][C..C + R]))
//   latent_rotate  q[r][h][C..C + R]  = bf16(rotated(x[r][h][P..P + R]) * growth[r])
//   latent_absorb  q[r][h][c]         = bf16(sum_k bf16(x[r][h][k]) keys[h][c][k] * growth[r])     c < C, k < P
//   latent_expand  out[r][h][v]       = bf16(sum_c attended[r][h][c] values[h][v][c])              v < V, c < C
//
//   rms(v)   = v / sqrt(mean(v^2) + eps)
//   rotated  pairs (i, i + R / 2), or where `interleaved` pairs (2 i, 2 i + 1), go to (i, i + R / 2): queries and keys alike
//
//   x          [rows, pitch]           f32: a product of other values too; h takes the P + R values from h (P + R) on
//   weight     [n], [C]                f32
//   cos sin    [context, R / 2]        f32, the rope's own scale in them
//   positions  [rows]                  rows of cos and sin
//   slots      [rows]                  block * 16 + offset, each in one row only; -1: the row is not stored
//   growth     [rows]                  f32, or null for 1
//   cache      [n_blocks, 16, C + R]   bf16, one layer's
//   q          [rows, H, C + R]        bf16
//   keys       [H, C, P]               bf16
//   values     [H, V, C]               bf16
//   attended   [rows, H, C + R]        bf16
//   out        [rows, n], [rows, H, V] bf16
//
// Launch: latent_norm and latent_store block 256, grid (rows); latent_rotate block (32, 4), grid (rows, ceil(H / 4));
// latent_absorb and latent_expand block 128, grid (ceil(rows / 16), H, ceil(C or V / 32)). C, P and V multiples of 8, R
// even. Squares: thread t adds columns t, t + 256 and so on, fused; threads are added by block_sum. Products: mma_bf16
// along k, 16 at a time, from 0. So a row's bits depend on nothing beside it.
//
// Proved by kernels/tests/latent.cpp.
#include "mma.cuh"
#include "rotary.cuh"

namespace {

constexpr int kThreads = 256, kWarps = 4;

// 1 / sqrt(mean(v^2) + eps), the same in each thread of a block.
__device__ __forceinline__ float inverse_root(const float* v, int n, float eps) {
  __shared__ float scratch[32];
  float squares = 0.0f;
  for (int i = threadIdx.x; i < n; i += kThreads) squares = __fmaf_rn(v[i], v[i], squares);
  const float mean = __fdiv_rn(block_sum(squares, scratch), static_cast<float>(n));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

__device__ __forceinline__ void norm(const float* v, const float* weight, bf16* __restrict__ out, int n, float eps) {
  const float by = inverse_root(v, n, eps);
  for (int i = threadIdx.x; i < n; i += kThreads) narrow(__fmul_rn(__fmul_rn(v[i], by), weight[i]), out[i]);
}

// Pair i of `half`.
__device__ __forceinline__ void rotate_pair(const float* from, const float* cos, const float* sin, float growth,
                                            bf16* __restrict__ to, int i, int half, int interleaved) {
  const Pair pair = interleaved ? Pair{from[2 * i], from[2 * i + 1]} : Pair{from[i], from[i + half]};
  const Pair out = rotated(pair, cos[i], sin[i]);
  narrow(__fmul_rn(out.low, growth), to[i]);
  narrow(__fmul_rn(out.high, growth), to[i + half]);
}

__device__ __forceinline__ uint32_t pair_at(const bf16* at) { return *reinterpret_cast<const uint32_t*>(at); }
__device__ __forceinline__ uint32_t pair_at(const float* at) {
  struct __align__(4) TwoBf16 {
    bf16 low, high;
  } two;
  narrow(at[0], two.low), narrow(at[1], two.high);
  return pair_at(&two.low);
}

// Rows of `x` for each head, and where they go: the strides of rows and heads, in values.
template <typename T>
struct Product {
  const T* x;
  int x_row, x_head;
  const bf16* weights;  // [H, n, k]
  const float* growth;
  bf16* to;
  int to_row, to_head, rows, n, k;
};

// Sixteen rows by eight outputs of a head for each warp.
template <typename T>
__device__ __forceinline__ void by_head(const Product<T>& of) {
  const int head = blockIdx.y, first = blockIdx.x * 16, output = (blockIdx.z * kWarps + threadIdx.x / 32) * 8;
  const int lane = threadIdx.x % 32, g = lane / 4, t = 2 * (lane % 4);
  if (output >= of.n) return;
  const bf16* weights = of.weights + (static_cast<size_t>(head) * of.n + output + g) * of.k;
  float d[4] = {};
  for (int k0 = 0; k0 < of.k; k0 += 16) {
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) {
      const int row = first + g + i % 2 * 8, k = k0 + t + i / 2 * 8;
      const T* x = of.x + static_cast<size_t>(row) * of.x_row + head * of.x_head + k;
      a[i] = row < of.rows && k < of.k ? pair_at(x) : 0;
    }
    for (int i = 0; i < 2; i++) {
      const int k = k0 + t + i * 8;
      b[i] = k < of.k ? pair_at(weights + k) : 0;
    }
    mma_bf16(d, a, b);
  }
  for (int i = 0; i < 4; i++) {
    const int row = first + g + i / 2 * 8;
    if (row >= of.rows) continue;
    const float v = of.growth != nullptr ? __fmul_rn(d[i], of.growth[row]) : d[i];
    narrow(v, of.to[static_cast<size_t>(row) * of.to_row + head * of.to_head + output + t + i % 2]);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    latent_norm(const float* x, const float* weight, bf16* __restrict__ out, int rows, int pitch, int n, float eps) {
  await_earlier();
  const int row = blockIdx.x;
  if (row >= rows) return;
  norm(x + static_cast<size_t>(row) * pitch, weight, out + static_cast<size_t>(row) * n, n, eps);
}

// `x` is at the first row's compressed values.
extern "C" __global__ void __launch_bounds__(kThreads)
    latent_store(const float* x, const float* weight, const float* cos, const float* sin, const int* positions,
                 const int* slots, bf16* __restrict__ cache, int rows, int pitch, int C, int R, int interleaved, float eps) {
  await_earlier();
  const int row = blockIdx.x;
  if (row >= rows || slots[row] < 0) return;
  x += static_cast<size_t>(row) * pitch;
  bf16* to = cache + static_cast<size_t>(slots[row]) * (C + R);
  norm(x, weight, to, C, eps);
  const size_t angle = static_cast<size_t>(positions[row]) * (R / 2);
  for (int i = threadIdx.x; i < R / 2; i += kThreads)
    rotate_pair(x + C, cos + angle, sin + angle, 1.0f, to + C, i, R / 2, interleaved);
}

extern "C" __global__ void __launch_bounds__(128)
    latent_rotate(const float* x, const float* cos, const float* sin, const int* positions, const float* growth,
                  bf16* __restrict__ q, int rows, int pitch, int H, int C, int P, int R, int interleaved) {
  await_earlier();
  const int row = blockIdx.x, head = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || head >= H) return;
  x += static_cast<size_t>(row) * pitch + head * (P + R) + P;
  q += (static_cast<size_t>(row) * H + head) * (C + R) + C;
  const size_t angle = static_cast<size_t>(positions[row]) * (R / 2);
  const float by = growth != nullptr ? growth[row] : 1.0f;
  for (int i = threadIdx.x; i < R / 2; i += 32)
    rotate_pair(x, cos + angle, sin + angle, by, q, i, R / 2, interleaved);
}

extern "C" __global__ void __launch_bounds__(32 * kWarps)
    latent_absorb(const float* x, const bf16* keys, const float* growth, bf16* __restrict__ q, int rows, int pitch, int H,
                  int C, int P, int R) {
  await_earlier();
  by_head<float>({x, pitch, P + R, keys, growth, q, H * (C + R), C + R, rows, C, P});
}

extern "C" __global__ void __launch_bounds__(32 * kWarps)
    latent_expand(const bf16* attended, const bf16* values, bf16* __restrict__ out, int rows, int H, int C, int R, int V) {
  await_earlier();
  by_head<bf16>({attended, H * (C + R), C + R, values, nullptr, out, H * V, V, rows, V, C});
}
