// Rows of the embedding table, read in the file's own format:
//
//   out[r][c] = table[ids[r]][c] * scale
//
//   table   [vocab, k]   rows of blocks as in blocks.cuh, unchanged from the file
//   ids     [n_rows]     in 0..vocab; any other id gives a row of NaN, so that it cannot pass for a token
//   out     [n_rows, k]  f32
//
//   add_places:  x[r][c] += positions[places[r]][c]
//
//   positions  [n, k]       f32
//   places     [n_rows]     in 0..n
//   x          [n_rows, k]  f32
//
// Launch: block 256, grid (n_rows, ceil(k / 256)). One thread computes one value; a row reads nothing of another.
// Moves per row: the table's row_bytes(k) and 4 k bytes out.
//
// Proved by kernels/tests/embed.cpp: every format against blocks.cuh read one value at a time on random blocks, ids
// outside of the table, and rows that are added.
#include "blocks.cuh"

namespace {

template <Format F>
__device__ __forceinline__ void embed(const void* table, const int* ids,
                                      float* __restrict__ out, int k, int vocab, float scale) {
  const int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (c >= k) return;
  const int id = ids[blockIdx.x];
  float value = __int_as_float(0x7fc00000);
  if (id >= 0 && id < vocab) {
    const auto* row = static_cast<const unsigned char*>(table) + static_cast<size_t>(id) * row_bytes<F>(k);
    value = __fmul_rn(value_of_row<F>(row, c), scale);
  }
  out[static_cast<size_t>(blockIdx.x) * k + c] = value;
}

}  // namespace

#define EMBED(name, format)                                                                                      \
  extern "C" __global__ void __launch_bounds__(256)                                                              \
      embed_##name(const void* table, const int* ids, float* __restrict__ out,         \
                   int n_rows, int k, int vocab, float scale) {                                                  \
    await_earlier();                                                                                             \
    if (static_cast<int>(blockIdx.x) < n_rows) embed<Format::format>(table, ids, out, k, vocab, scale);          \
  }

EMBED(f32, kF32)
EMBED(f16, kF16)
EMBED(bf16, kBf16)
EMBED(q4_0, kQ4_0)
EMBED(q4_1, kQ4_1)
EMBED(q5_0, kQ5_0)
EMBED(q5_1, kQ5_1)
EMBED(q8_0, kQ8_0)
EMBED(q4_k, kQ4_K)
EMBED(q5_k, kQ5_K)
EMBED(q6_k, kQ6_K)
EMBED(mxfp4, kMxfp4)

extern "C" __global__ void __launch_bounds__(256)
    add_places(const float* positions, const int* places, float* __restrict__ x, int n_rows, int k) {
  await_earlier();
  const int row = static_cast<int>(blockIdx.x), c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (row >= n_rows || c >= k) return;
  const size_t at = static_cast<size_t>(row) * k + c;
  x[at] = __fadd_rn(x[at], positions[static_cast<size_t>(places[row]) * k + c]);
}
