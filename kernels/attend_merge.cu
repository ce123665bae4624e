// Merges each row's KV splits in order (attention.cuh), as attend_rows does in registers:
//
//   out[row][head] = the running output over the row's splits / its total
//
//   splits       [n_splits, H, D]  f32: sums of weighted values of one split
//   peaks        [n_splits, H, 2]  f32: the split's peak, and the sum of its weights
//   split_start  [R]               the index of a row's first split; the others follow. -1: the row has none, and its
//                                  output is not written (attend_rows writes it)
//   positions    [R]
//   sinks        [H]               f32 or null
//   out          [R, H, D]         bf16
//
// Launch: block 128, grid (R, ceil(H D / 512)): a thread takes four dimensions of one head (D is a multiple of 16).
// Moves per row: (4 D + 8) H bytes a split, and 2 H D bytes out. splits 16-byte and out 8-byte aligned.
//
// Proved by kernels/tests/attend.cpp: bit-equal to attend_rows.
#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(128)
    attend_merge(const float* splits, const float* peaks, const int* split_start,
                 const int* positions, const float* sinks, bf16* __restrict__ out, int R, int H, int D, int window) {
  await_earlier();
  const int row = blockIdx.x, at = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 4;
  if (row >= R || at >= H * D || split_start[row] < 0) return;
  merge_splits(splits, peaks, split_start[row], splits_of(positions[row], window), sinks, out, H, D, row, at);
}
