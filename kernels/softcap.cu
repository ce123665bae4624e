// A softcap on logits, in place:
//
//   x[r][c] = cap * tanh(x[r][c] / cap)      (softcap.cuh)
//
//   x   [rows, cols]  f32
//   by  -2 / cap
//
// Launch: block 256, grid (rows, ceil(cols / 256)). Moves 8 bytes a value.
//
// Proved by kernels/tests/softcap.cpp: against f64, infinities, NaN.
#include "softcap.cuh"

extern "C" __global__ void __launch_bounds__(256)
    softcap(float* __restrict__ x, int rows, int cols, float cap, float by) {
  await_earlier();
  const int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), row = static_cast<int>(blockIdx.x);
  if (row >= rows || c >= cols) return;
  float* const at = x + static_cast<size_t>(row) * cols + c;
  *at = capped(*at, cap, by);
}
