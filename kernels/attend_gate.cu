// The gates of gated attention, on what each head has attended to:
//
//   out[r][c] = bf16(out[r][c] * gates[r][c])
//
//   out    [rows, n]  bf16; n = H D
//   gates  [rows, n]  f32: sigmoids, from rotate.cu
//
// Launch: block 256, grid (rows, ceil(n / 1024)): a thread takes four columns. n a multiple of 4, gates 16-byte and
// out 8-byte aligned.
// Moves per row: 8 n bytes.
//
// Proved by kernels/tests/attend_gate.cpp: each value, odd widths.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256)
    attend_gate(bf16* __restrict__ out, const float* gates, int rows, int n) {
  await_earlier();
  struct __align__(8) FourBf16 {
    bf16 values[4];
  };
  const int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 4;
  if (static_cast<int>(blockIdx.x) >= rows || c >= n) return;
  const size_t at = static_cast<size_t>(blockIdx.x) * n + c;
  FourBf16 four = *reinterpret_cast<const FourBf16*>(out + at);
  const float4 by = *reinterpret_cast<const float4*>(gates + at);
  narrow(__fmul_rn(widen(four.values[0]), by.x), four.values[0]);
  narrow(__fmul_rn(widen(four.values[1]), by.y), four.values[1]);
  narrow(__fmul_rn(widen(four.values[2]), by.z), four.values[2]);
  narrow(__fmul_rn(widen(four.values[3]), by.w), four.values[3]);
  *reinterpret_cast<FourBf16*>(out + at) = four;
}
