// Split-K reduction: adds the partial sums of a product in the order of slices, with the bits of the product without
// split-K.
//
//   y[m][n] = (y[m][n] +, where `add`) partial[0][m][n] + .. + partial[S - 1][m][n]  (+ bias[n])
//
//   partial [S, M, N] f32; y [M, N] f32, rows `ldy` apart; bias [N] f32, or null
//
// Launch: a thread for an element; block 256, grid (M, N / 256 rounded up). Reads 4 (S + 1) bytes and writes 4 for each
// element, from the second-level cache where a step is small enough to be split at all.
//
// Proved by kernels/tests/gemm.cpp.
#include "gemm.cuh"

extern "C" __global__ void gemm_merge(const float* partial, const float* bias,
                                      float* __restrict__ y, int M, int N, int S, int ldy, int add) {
  await_earlier();
  const int n = blockIdx.y * blockDim.x + threadIdx.x, m = blockIdx.x;
  if (n >= N) return;
  float* const at = y + static_cast<size_t>(m) * ldy + n;
  partial += static_cast<size_t>(m) * N + n;
  float value = add ? __fadd_rn(*at, *partial) : *partial;
  for (int s = 1; s < S; s++) value = __fadd_rn(value, partial[static_cast<size_t>(s) * M * N]);
  *at = bias == nullptr ? value : __fadd_rn(value, bias[n]);
}
