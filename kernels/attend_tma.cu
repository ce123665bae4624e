// attend_tma.cuh for heads of 64 and 128 dimensions: formula, shapes and launch geometry stand there.
//
// Proved by kernels/tests/attend.cpp.
#include "attend_tma.cuh"

#define ATTEND_TMA(D)                                                                                                            \
  extern "C" __global__ void __launch_bounds__(attention::WidePlan<D>::kThreads, 1) attend_rows_tma_d##D##_t128(                 \
      const __grid_constant__ CUtensorMap keys, const __grid_constant__ CUtensorMap values, const bf16* __restrict__ q,          \
      const int* __restrict__ items, const int* __restrict__ order, const int* __restrict__ positions,                           \
      const int* __restrict__ seq_of_row, const int* __restrict__ block_start, const int* __restrict__ blocks,                   \
      bf16* __restrict__ out, int n_items, int H, int KV, int, int window, float scale) {                                        \
    await_earlier();                                                                                                             \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                        \
    const int* item = items + 2 * static_cast<size_t>(blockIdx.x);                                                               \
    if (static_cast<int>(blockIdx.x) >= n_items || item[1] == 0) return;                                                         \
    const attention::Arguments in = {q,         nullptr,     nullptr, order, positions, seq_of_row,                              \
                                     block_start, blocks, H,     KV,    window,    scale};                                       \
    attention::Wide<D>::rows(in, keys, values, item, out, bytes);                                                                \
  }                                                                                                                              \
  extern "C" __global__ void __launch_bounds__(attention::WidePlan<D>::kThreads, 1) attend_parts_tma_d##D##_t128(                \
      const __grid_constant__ CUtensorMap keys, const __grid_constant__ CUtensorMap values, const bf16* __restrict__ q,          \
      const int* __restrict__ items, const int* __restrict__ order, const int* __restrict__ positions,                           \
      const int* __restrict__ seq_of_row, const int* __restrict__ block_start, const int* __restrict__ blocks,                   \
      float* __restrict__ parts, float* __restrict__ peaks, const int* __restrict__ part_start, int n_items, int H, int KV, int, \
      int window, float scale) {                                                                                                 \
    await_earlier();                                                                                                             \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                        \
    const int* item = items + 4 * static_cast<size_t>(blockIdx.x);                                                               \
    if (static_cast<int>(blockIdx.x) >= n_items || item[1] == 0) return;                                                         \
    const attention::Arguments in = {q,         nullptr,     nullptr, order, positions, seq_of_row,                              \
                                     block_start, blocks, H,     KV,    window,    scale};                                       \
    attention::Wide<D>::parts(in, keys, values, item, parts, peaks, part_start, bytes);                                          \
  }

ATTEND_TMA(64)
ATTEND_TMA(128)
