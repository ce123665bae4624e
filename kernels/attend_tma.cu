// attend_tma.cuh for heads of 64 and 128 dimensions, attend_tma_d256.cuh for those of 256: formula, shapes and launch
// geometry stand there.
//
// Proved by kernels/tests/attend.cpp.
#include "attend_tma_d256.cuh"

#define ATTEND_TMA(NAME, KERNEL, THREADS)                                                                                 \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) attend_rows_tma_##NAME(                                        \
      const __grid_constant__ CUtensorMap keys, const __grid_constant__ CUtensorMap values, const bf16* q,                \
      const int* work_tiles, const int* order, const int* positions, const int* seq_of_row, const int* block_start,       \
      const int* blocks, const float* sinks, bf16* __restrict__ out, int n_work_tiles, int H, int KV, int, int window,    \
      float scale, float cap, float cap_by) {                                                                             \
    await_earlier();                                                                                                      \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                 \
    if (static_cast<int>(blockIdx.x) >= n_work_tiles) return;                                                             \
    const int* work = work_tiles + 2 * static_cast<size_t>(blockIdx.x);                                                   \
    if (work[1] == 0) return;                                                                                             \
    const attention::Arguments in = {q,      nullptr, nullptr, order, positions, seq_of_row, block_start, blocks, H, KV,  \
                                     window, scale,   cap,     cap_by};                                                   \
    KERNEL::rows(in, keys, values, work, sinks, out, bytes);                                                              \
  }                                                                                                                       \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) attend_split_kv_tma_##NAME(                                    \
      const __grid_constant__ CUtensorMap keys, const __grid_constant__ CUtensorMap values, const bf16* q,                \
      const int* work_tiles, const int* order, const int* positions, const int* seq_of_row, const int* block_start,       \
      const int* blocks, float* __restrict__ splits, float* __restrict__ peaks, const int* split_start, int n_work_tiles, \
      int H, int KV, int, int window, float scale, float cap, float cap_by) {                                             \
    await_earlier();                                                                                                      \
    DYNAMIC_SHARED(unsigned char, bytes);                                                                                 \
    if (static_cast<int>(blockIdx.x) >= n_work_tiles) return;                                                             \
    const int* work = work_tiles + 4 * static_cast<size_t>(blockIdx.x);                                                   \
    if (work[1] == 0) return;                                                                                             \
    const attention::Arguments in = {q,      nullptr, nullptr, order, positions, seq_of_row, block_start, blocks, H, KV,  \
                                     window, scale,   cap,     cap_by};                                                   \
    KERNEL::split_kv(in, keys, values, work, splits, peaks, split_start, bytes);                                          \
  }

ATTEND_TMA(d64_t128, attention::Wide<64>, attention::WidePlan<64>::kThreads)
ATTEND_TMA(d128_t128, attention::Wide<128>, attention::WidePlan<128>::kThreads)
ATTEND_TMA(d256_t64, attention::Wide256, attention::Wide256::kThreads)
