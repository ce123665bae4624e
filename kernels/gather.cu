// Gathers the columns of each row that several cards have computed, on the card that launches it. Nothing is added.
//
//   out[row][c] = piece i at (row, c)   where end[i - 1] <= c < end[i]
//
//   p0 .. p7  a card's piece each, in that card's memory; null where there is none, or where `out` has it already
//   e0 .. e7  the column at which each piece ends; width after the last one
//   out       [rows, width]
//   in_place  1: a piece has the width of `out`, and its columns stand where they stand there;
//             0: a piece has its own columns alone, [rows, end[i] - end[i - 1]]
//
// A column is 4 or 16 bytes, as the kernel's name says; everything is aligned to that.
//
// Launch: block 256, grid (rows, width / 256 rounded up). Reads what it writes, over the link between the cards but for
// its own. What other cards write meanwhile are other columns: the caller waits for the pieces, and for the readers of a
// piece before it is written again.
//
// Proved by kernels/tests/gather.cpp: pieces of any widths, none at all among them, in place and apart, nothing else
// written.
#include "common.cuh"

namespace {

constexpr int kPieces = 8;

template <typename T>
__device__ __forceinline__ void gather(const T* const (&pieces)[kPieces], const int (&ends)[kPieces], T* out, int width,
                                       int in_place) {
  const int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (c >= width) return;
  const size_t row = blockIdx.x;
  int first = 0;
#pragma unroll
  for (int i = 0; i < kPieces; i++) {
    if (c >= first && c < ends[i] && pieces[i]) {
      const size_t at = in_place ? row * width + c : row * (ends[i] - first) + (c - first);
      out[row * width + c] = pieces[i][at];
    }
    first = ends[i];
  }
}

}  // namespace

#define GATHER(name, T)                                                                                              \
  extern "C" __global__ void __launch_bounds__(256)                                                                  \
      name(const T* p0, const T* p1, const T* p2, const T* p3, const T* p4, const T* p5, const T* p6, const T* p7,   \
           int e0, int e1, int e2, int e3, int e4, int e5, int e6, int e7, T* out, int rows, int width,              \
           int in_place) {                                                                                           \
    await_earlier();                                                                                                 \
    if (static_cast<int>(blockIdx.x) >= rows) return;                                                                \
    const T* const pieces[kPieces] = {p0, p1, p2, p3, p4, p5, p6, p7};                                               \
    const int ends[kPieces] = {e0, e1, e2, e3, e4, e5, e6, e7};                                                      \
    gather(pieces, ends, out, width, in_place);                                                                      \
  }

GATHER(gather_16, uint4)
GATHER(gather_4, uint32_t)
