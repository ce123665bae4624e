// The product of bf16 weights for many tokens on Hopper: a block computes TOKENS x 64 GROUPS, a warp group 64 outputs,
// from stages of 64 values in shared memory.
//
// Launch: 128 GROUPS threads, kSharedBytes of dynamic shared memory, grid (tokens / TOKENS x outputs / kOutputs, 1),
// both rounded up. One block on a multiprocessor.
//
// Products run beside the warps that start them. The barrier of stage t stands behind each group's wait for the
// products of stage t - 2, so that the copy of stage t + STAGES - 2 may then go where stage t - 2 was, while the
// products of stages t - 1 and t keep the tensor cores busy.
//
// On an H100 it has the plain kernel's bits. The loop over a slice's stages is separate, because ptxas otherwise inserts a
// wait for all products after each stage (its note C7517, which static.sh rejects): 2,048 rows of a 7B's gate_up take
// 933 us, and 1,079 with these waits (cuBLAS 756, gemm_tile_tma.cuh 809).
//
// Proved by kernels/tests/gemm.cpp.
#pragma once

#include "gemm_stage.cuh"
#include "wgmma.cuh"

namespace gemm {

template <int TOKENS, int GROUPS, int STAGES>
struct TileWgmma {
  static constexpr int kTokens = TOKENS, kOutputs = 64 * GROUPS, kThreads = 128 * GROUPS, kDepth = 64;
  static constexpr int J = TOKENS / 8, kAlign = 1024;
  using X = Rows<TOKENS, kDepth, kThreads>;
  using W = Rows<kOutputs, kDepth, kThreads>;
  static constexpr int kStageBytes = X::kBytes + W::kBytes, kSharedBytes = STAGES * kStageBytes + kAlign;
  static constexpr int kAhead = STAGES - 2;  // stages that are copied before the first is computed
  static_assert(X::kBytes % kAlign == 0 && W::kBytes % kAlign == 0, "eight rows of an operand are aligned together");

  static __device__ __forceinline__ void run(const Problem& p) {
    DYNAMIC_SHARED(unsigned char, unaligned);
    unsigned char* const shared =
        unaligned + (kAlign - reinterpret_cast<uintptr_t>(unaligned) % kAlign) % kAlign;
    const Corner corner = corner_of<TOKENS, kOutputs>(p);
    const int group = threadIdx.x / 128;
    X x(p.x, corner.token, p.M, 0, p.K);
    W w(static_cast<const bf16*>(p.w), corner.output, p.N, 0, p.K);
    const int stages = ceil_div(p.K, kDepth);

    int to_copy = 0, copy_at = 0;  // the next stage to copy, and its place in the ring
    const auto copy = [&] {
      if (to_copy < stages) {
        unsigned char* const stage = shared + copy_at * kStageBytes;
        x.copy(stage, p.K);
        w.copy(stage + X::kBytes, p.K);
      }
      cp_async_commit();
      to_copy++;
      copy_at = copy_at + 1 == STAGES ? 0 : copy_at + 1;
    };
#pragma unroll
    for (int s = 0; s < kAhead; s++) copy();

    int at = 0;
    for (int k = 0; k < p.K;) {
      const int border = min(k + p.k_slice, p.K);
      const bool first = k == 0;
      float sum[1][J][4];
      begin_at_zero(sum[0]);
      // Nothing else touches the sums in here, or the compiler would wait for each stage's products (its C7517).
      for (; k < border; k += kDepth) {
        cp_async_wait<kAhead - 1>();
        wgmma_publish();
        __syncthreads();
        const unsigned char* const tokens = shared + at * kStageBytes;
        const unsigned char* const weights = tokens + X::kBytes + group * (64 * W::kRowBytes);
        wgmma_fence();
        // Past K both operands are zeros, which leave a sum as it is.
#pragma unroll
        for (int step = 0; step < kDepth / 16; step++) wgmma_start(sum[0], weights + 32 * step, tokens + 32 * step);
        wgmma_commit();
        copy();
        wgmma_wait_but_one();
        at = at + 1 == STAGES ? 0 : at + 1;
      }
      wgmma_wait();
      settle_tile<1, J>(p, sum, corner.token, corner.output + threadIdx.x / 32 * 16, first, border == p.K);
    }
  }
};

}  // namespace gemm
