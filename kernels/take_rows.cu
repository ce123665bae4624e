// Copies of some rows:
//
//   out[i] = x[rows[i]]
//
//   x     [any, cols]  f32 or bf16
//   rows  [n]          which rows of x; one may stand several times
//   out   [n, cols]
//
// Launch: block 256, grid (n). Sixteen bytes at a time where a row is a multiple of that (x and out 16-byte aligned).
// Moves per row: 2 * cols * size of a value.
//
// Proved by kernels/tests/take_rows.cpp: whole and odd widths, repeated rows, a last row.
#include "common.cuh"

namespace {

template <typename T>
__device__ __forceinline__ void take_rows(const T* x, const int* rows, T* __restrict__ out,
                                          int cols) {
  constexpr int kVector = 16 / sizeof(T);
  const T* from = x + static_cast<size_t>(rows[blockIdx.x]) * cols;
  T* to = out + static_cast<size_t>(blockIdx.x) * cols;
  if (cols % kVector != 0) {
    for (int c = threadIdx.x; c < cols; c += blockDim.x) to[c] = from[c];
    return;
  }
  const uint4* from_vectors = reinterpret_cast<const uint4*>(from);
  uint4* to_vectors = reinterpret_cast<uint4*>(to);
  for (int i = threadIdx.x; i < cols / kVector; i += blockDim.x) to_vectors[i] = from_vectors[i];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    take_rows_f32(const float* x, const int* rows, float* __restrict__ out, int n, int cols) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) < n) take_rows(x, rows, out, cols);
}

extern "C" __global__ void __launch_bounds__(256)
    take_rows_bf16(const bf16* x, const int* rows, bf16* __restrict__ out, int n, int cols) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) < n) take_rows(x, rows, out, cols);
}
