// What adapters (LoRA) add to a product, for the rows that take one:
//
//   hidden[j]  = sum over k of a[j][k] x[row][k]                                 adapter_shrink
//   y[row][n] += scale * sum over j of b[j][n] hidden[j]                         adapter_expand
//
//   x       [any, K]                       bf16: what the model's own product multiplies; K a multiple of 4
//   pairs   [adapters, matrices]           see Pair: what each adapter adds to each of the matrices of one input
//   items   [n_items, 1 + 8]               an adapter (-1: none), and the rows of x and y that take it (-1: none)
//   hidden  [n_items, matrices, most, 8]   f32, `most` the largest rank in `pairs`
//   y       [any, ldy]                     f32, the matrices' outputs side by side
//
// A row stands in one item at most. Different items may have different adapters, and one adapter several items.
//
// Launch: adapter_shrink  block 256, grid (n_items, matrices, most / 4 rounded up)
//         adapter_expand  block 256, grid (n_items, matrices, outputs of the widest matrix / 256 rounded up)
// x 8-byte, a 16-byte and hidden 32-byte aligned.
//
// One order for every sum, whatever the item and the row's place in it: over k, thread t takes columns 4 t to 4 t + 3,
// then those 1024 further on; then the lanes of a warp in order, then the warps. Over j in order, from zero. Every
// product is fused with its sum, and so is the last one, with y.
// Moves per item of 8 rows and for each matrix: 4 K rank + 16 K rank / 4 bytes, then 4 n rank + 64 n.
//
// Proved by kernels/tests/adapter.cpp: against f64 at odd ranks and widths, several adapters and none in one launch, a
// row alone as in any batch, and nothing else written.
#include "common.cuh"

// What one adapter adds to one matrix.
struct Pair {
  const float* a;  // [rank, K]
  const float* b;  // [rank, n]: the transpose of the adapter's own matrix
  int rank;        // 0: it adds nothing
  float scale;
  int first, n;  // the matrix's outputs among those of y
};

namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kRows = 8, kRanks = 4, kItem = 1 + kRows;

struct __align__(8) FourBf16 {
  bf16 x, y, z, w;
};

__device__ __forceinline__ float add_products(float sum, float4 a, const FourBf16& x) {
  sum = __fmaf_rn(a.x, widen(x.x), sum);
  sum = __fmaf_rn(a.y, widen(x.y), sum);
  sum = __fmaf_rn(a.z, widen(x.z), sum);
  return __fmaf_rn(a.w, widen(x.w), sum);
}

}  // namespace

// A block: four ranks of one matrix for the rows of one item.
extern "C" __global__ void __launch_bounds__(kThreads)
    adapter_shrink(const bf16* x, const Pair* pairs, const int* items,
                   float* __restrict__ hidden, int K, int matrices, int most) {
  await_earlier();
  // A column for each warp is left free, so that the threads of a warp read different banks.
  __shared__ float sums[kRanks * kRows][kWarps * 33];
  __shared__ float of_warps[kRanks * kRows][kWarps];
  const int* const item = items + static_cast<size_t>(blockIdx.x) * kItem;
  if (item[0] < 0) return;
  const Pair pair = pairs[static_cast<size_t>(item[0]) * matrices + blockIdx.y];
  const int first = static_cast<int>(blockIdx.z) * kRanks, t = threadIdx.x;
  if (first >= pair.rank) return;

  float total[kRanks][kRows];
#pragma unroll
  for (int j = 0; j < kRanks; j++)
#pragma unroll
    for (int r = 0; r < kRows; r++) total[j][r] = 0.0f;
  for (int k = 4 * t; k < K; k += 4 * kThreads) {
    float4 a[kRanks];
#pragma unroll
    for (int j = 0; j < kRanks; j++) {
      a[j] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (first + j < pair.rank)
        a[j] = *reinterpret_cast<const float4*>(pair.a + static_cast<size_t>(first + j) * K + k);
    }
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      const int row = item[1 + r];
      if (row < 0) continue;
      const FourBf16 four = *reinterpret_cast<const FourBf16*>(x + static_cast<size_t>(row) * K + k);
#pragma unroll
      for (int j = 0; j < kRanks; j++) total[j][r] = add_products(total[j][r], a[j], four);
    }
  }

#pragma unroll
  for (int j = 0; j < kRanks; j++)
#pragma unroll
    for (int r = 0; r < kRows; r++) sums[j * kRows + r][t / 32 * 33 + t % 32] = total[j][r];
  __syncthreads();
  {
    const float* const lanes = sums[t / kWarps] + t % kWarps * 33;
    float sum = lanes[0];
    for (int lane = 1; lane < 32; lane++) sum = __fadd_rn(sum, lanes[lane]);
    of_warps[t / kWarps][t % kWarps] = sum;
  }
  __syncthreads();
  if (t >= kRanks * kRows || first + t / kRows >= pair.rank) return;
  float sum = of_warps[t][0];
  for (int warp = 1; warp < kWarps; warp++) sum = __fadd_rn(sum, of_warps[t][warp]);
  const size_t place = (static_cast<size_t>(blockIdx.x) * matrices + blockIdx.y) * most + first;
  hidden[place * kRows + t] = sum;
}

// A thread: one output of one matrix for the rows of one item.
extern "C" __global__ void __launch_bounds__(kThreads)
    adapter_expand(const Pair* pairs, const int* items, const float* hidden,
                   float* __restrict__ y, int matrices, int most, int ldy) {
  await_earlier();
  const int* const item = items + static_cast<size_t>(blockIdx.x) * kItem;
  if (item[0] < 0) return;
  const Pair pair = pairs[static_cast<size_t>(item[0]) * matrices + blockIdx.y];
  const int n = static_cast<int>(blockIdx.z * kThreads + threadIdx.x);
  if (pair.rank == 0 || n >= pair.n) return;
  const float4* h = reinterpret_cast<const float4*>(
      hidden + (static_cast<size_t>(blockIdx.x) * matrices + blockIdx.y) * most * kRows);
  float total[kRows] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  for (int j = 0; j < pair.rank; j++, h += 2) {
    const float b = pair.b[static_cast<size_t>(j) * pair.n + n];
    const float4 low = h[0], high = h[1];
    total[0] = __fmaf_rn(b, low.x, total[0]), total[1] = __fmaf_rn(b, low.y, total[1]);
    total[2] = __fmaf_rn(b, low.z, total[2]), total[3] = __fmaf_rn(b, low.w, total[3]);
    total[4] = __fmaf_rn(b, high.x, total[4]), total[5] = __fmaf_rn(b, high.y, total[5]);
    total[6] = __fmaf_rn(b, high.z, total[6]), total[7] = __fmaf_rn(b, high.w, total[7]);
  }
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    const int row = item[1 + r];
    if (row < 0) continue;
    float* const at = y + static_cast<size_t>(row) * ldy + pair.first + n;
    *at = __fmaf_rn(pair.scale, total[r], *at);
  }
}
