// Rows of a weight in one of the file's formats, rounded to bf16 as a panel for gemm_bf16:
//
//   panel[r][k] = bf16(value of w[first_row + r][k])
//
//   w      [.., k] raw rows of the file (blocks.cuh); panel [n_rows, k] bf16
//
// For the quantised formats that have no product of their own. Their values have more bits than bf16: what is lost is one
// rounding of each weight, to 2^-9 of its size.
//
//   starts  [experts + 1] or null: rows of_expert e to of_expert (e + 1) are expert e's, and are left out where starts[e]
//           is starts[e + 1]: no row takes that expert
//
// Launch: a thread for eight values, which it stores at once; block 128, grid (n_rows, k / 8 / 128 rounded up), since only x may
// be past 65,535. k is a multiple of 32.
//
// From planes (planes.cuh), with the same launch: `w` is strips, and first_row and of_expert are multiples of 16.
//
// Proved by kernels/tests/dequantize.cpp.
#include "blocks.cuh"
#include "planes.cuh"

namespace {

// `value(row, k)` is the weight, in a type that bf16 is made of.
template <class Value>
__device__ __forceinline__ void dequantize_row(bf16* panel, const int* starts, int n_rows, int k, int of_expert, Value value) {
  const int at = (blockIdx.y * blockDim.x + threadIdx.x) * 8, row = blockIdx.x;
  if (row >= n_rows || at >= k) return;
  if (starts != nullptr && starts[row / of_expert] == starts[row / of_expert + 1]) return;
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint32_t low = __bfloat16_as_ushort(value(row, at + 2 * i));
    pairs[i] = low | static_cast<uint32_t>(__bfloat16_as_ushort(value(row, at + 2 * i + 1))) << 16;
  }
  uint4* const to = reinterpret_cast<uint4*>(panel + static_cast<size_t>(row) * k + at);
  *to = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

}  // namespace

#define PANEL_PARAMETERS \
  const void *w, bf16 *__restrict__ panel, const int *starts, int first_row, int n_rows, int k, int of_expert

#define PANEL(NAME, VALUE)                                                     \
  extern "C" __global__ void dequantize_##NAME(PANEL_PARAMETERS) {             \
    await_earlier();                                                           \
    dequantize_row(panel, starts, n_rows, k, of_expert, [&](int row, int at) { \
      row += first_row;                                                        \
      return VALUE;                                                            \
    });                                                                        \
  }
#define OF_ROWS(FORMAT) \
  __float2bfloat16_rn(value_of_row<FORMAT>(static_cast<const unsigned char*>(w) + row * row_bytes<FORMAT>(k), at))
#define OF_PLANES(FORMAT) planes::Strip<FORMAT>(w, row / planes::kOutputs, k).rounded(row % planes::kOutputs, at)

PANEL(q4_0, OF_ROWS(Format::kQ4_0))
PANEL(q4_1, OF_ROWS(Format::kQ4_1))
PANEL(q5_0, OF_ROWS(Format::kQ5_0))
PANEL(q5_1, OF_ROWS(Format::kQ5_1))
PANEL(q5_k, OF_ROWS(Format::kQ5_K))
PANEL(planes_q4_1, OF_PLANES(planes::Q4_1))
PANEL(planes_q5_1, OF_PLANES(planes::Q5_1))
PANEL(planes_q5_k, OF_PLANES(planes::Q5_K))
PANEL(planes_u4, OF_PLANES(planes::U4))
PANEL(planes_f8, OF_PLANES(planes::F8))
PANEL(planes_q8_0, OF_PLANES(planes::RoundedQ8_0))
PANEL(planes_q4_k, OF_PLANES(planes::RoundedQ4_K))
PANEL(planes_q6_k, OF_PLANES(planes::RoundedQ6_K))
PANEL(planes_mxfp4, OF_PLANES(planes::RoundedMxfp4))
