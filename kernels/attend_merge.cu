// Merges each row's KV splits in order, as attend_rows does in registers (attention.cuh):
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

namespace {

struct __align__(8) FourBf16 {
  bf16 values[4];
};

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    attend_merge(const float* splits, const float* peaks, const int* split_start,
                 const int* positions, const float* sinks, bf16* __restrict__ out, int R, int H, int D, int window) {
  await_earlier();
  const int row = blockIdx.x, at = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 4;
  if (row >= R || at >= H * D || split_start[row] < 0) return;
  const int head = at / D, position = positions[row];
  const int n_splits = position / kSplit - first_seen(position, window) / kSplit + 1;
  const size_t first = split_start[row], width = static_cast<size_t>(H) * D;
  float so_far[4] = {};
  Softmax running = begin_softmax(sinks, head);
  for (int i = 0; i < n_splits; i++) {
    const float2 softmax = *reinterpret_cast<const float2*>(peaks + ((first + i) * H + head) * 2);
    const float4 part = *reinterpret_cast<const float4*>(splits + (first + i) * width + at);
    const Factors by = fold(running, softmax.x, softmax.y);
    so_far[0] = folded(so_far[0], part.x, by);
    so_far[1] = folded(so_far[1], part.y, by);
    so_far[2] = folded(so_far[2], part.z, by);
    so_far[3] = folded(so_far[3], part.w, by);
  }
  FourBf16 four;
#pragma unroll
  for (int i = 0; i < 4; i++) four.values[i] = attended(so_far[i], running.total);
  *reinterpret_cast<FourBf16*>(out + static_cast<size_t>(row) * width + at) = four;
}
