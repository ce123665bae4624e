// A copy of the recurrent state of a sequence, in every layer:
//
//   states[to] = states[from]
//
//   states  [n_slots, n]  16 bytes each; a slot has n of them
//
// Launch: block 256, any grid in x: threads take every so many pieces. Slots differ.
// Moves 32 n bytes. Bits are copied, so a state that was never written stays so.
//
// Proved by kernels/tests/copy_state.cpp: every piece, no other slot, grids of any size.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256)
    copy_state(uint4* __restrict__ states, int from, int to, int n) {
  await_earlier();
  const uint4* of = states + static_cast<size_t>(from) * n;
  uint4* const into = states + static_cast<size_t>(to) * n;
  const int all = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += all) into[i] = of[i];
}
