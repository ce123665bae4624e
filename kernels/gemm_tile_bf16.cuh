// The fast product of bf16 weights: a block computes TOKENS x OUTPUTS from stages of DEPTH values in shared memory.
//
// Launch: 32 WARPS_T WARPS_O threads, kSharedBytes of dynamic shared memory, grid (tokens / TOKENS x outputs / OUTPUTS,
// 1), both rounded up; split: (.., slices).
//
//   k ->   | stage t | t + 1 | .. | t + STAGES - 1 |     cp.async fills the ring; one barrier a stage
//             | step | step | .. |                       k16: ldmatrix of the next step, then mma.sync of this one
//
// A warp has 8 J tokens and 16 I outputs. Its last step of a stage loads the first fragments of the next stage: by
// then every warp has the rest of this stage in registers, so the barrier stands before that load, and the stage's
// memory is free for the copy that starts behind it.
//
// Proved by kernels/tests/gemm.cpp.
#pragma once

#include "gemm_stage.cuh"

namespace gemm {

template <int TOKENS, int OUTPUTS, int DEPTH, int WARPS_T, int WARPS_O, int STAGES>
struct TileBf16 {
  static constexpr int kTokens = TOKENS, kOutputs = OUTPUTS, kThreads = 32 * WARPS_T * WARPS_O;
  static constexpr int I = OUTPUTS / WARPS_O / 16, J = TOKENS / WARPS_T / 8, kSteps = DEPTH / 16;
  using X = Rows<TOKENS, DEPTH, kThreads>;
  using Gathered = GatheredRows<TOKENS, DEPTH, kThreads>;
  using W = Rows<OUTPUTS, DEPTH, kThreads>;
  static constexpr int kStageBytes = X::kBytes + W::kBytes, kSharedBytes = STAGES * kStageBytes;

  struct Fragments {
    uint32_t a[I][4], b[J][2];
  };

  static __device__ __forceinline__ void load(Fragments& f, const unsigned char* stage, int token, int output,
                                              int step) {
#pragma unroll
    for (int i = 0; i < I; i++) load_a<W>(f.a[i], stage + X::kBytes, output + 16 * i, step);
#pragma unroll
    for (int j = 0; j < J; j += 2) {
      uint32_t two[2][2];
      load_b<X>(two, stage, token + 8 * j, step);
#pragma unroll
      for (int e = 0; e < 4; e++) f.b[j + e / 2][e % 2] = two[e / 2][e % 2];
    }
  }

  // This warp's first token and output, of the block's.
  static __device__ __forceinline__ Corner of_warp() {
    const int warp = threadIdx.x / 32;
    return {warp % WARPS_T * (8 * J), warp / WARPS_T * (16 * I)};
  }

  template <bool SPLIT>
  static __device__ __forceinline__ void run(Problem p) {
    const Corner corner = corner_of<TOKENS, OUTPUTS>(p), within = of_warp();
    int k = 0, end = p.K;
    if (SPLIT) {
      k = blockIdx.y * p.k_slice, end = min(k + p.k_slice, p.K);
      p = of_slice(p, blockIdx.y);
    }
    X x(p.x, corner.token, p.M, k, p.K);
    multiply_over(p, corner.output, x, k, end, SPLIT ? end : min(p.k_slice, end),
                  [&](const float(&sum)[I][J][4], bool first, bool last) {
                    settle_tile<I, J>(p, sum, corner.token + within.token, corner.output + within.output, first, last);
                  });
  }

  // The sums over k .. end of the tokens that `x` copies and the outputs from `corner` on; `settle` takes those up to
  // each border.
  template <class Tokens, class Settle>
  static __device__ __forceinline__ void multiply_over(const Problem& p, int corner, Tokens& x, int k, int end,
                                                       int border, Settle settle) {
    DYNAMIC_SHARED(unsigned char, shared);
    const int token = of_warp().token, output = of_warp().output;
    W w(static_cast<const bf16*>(p.w), corner, p.N, k, p.K);
    const int stages = ceil_div(end - k, DEPTH);

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
    for (int s = 0; s < STAGES - 1; s++) copy();
    cp_async_wait<STAGES - 2>();
    __syncthreads();

    Fragments fragments[2];
    load(fragments[0], shared, token, output, 0);
    float sum[I][J][4] = {};
    int at = 0;
    bool first = true;
    for (int t = 0; t < stages; t++) {
#pragma unroll
      for (int step = 0; step < kSteps; step++) {
        if (step == 0) copy();
        if (step + 1 < kSteps) {
          load(fragments[(step + 1) % 2], shared + at * kStageBytes, token, output, step + 1);
        } else if (t + 1 < stages) {
          cp_async_wait<STAGES - 2>();
          __syncthreads();
          at = at + 1 == STAGES ? 0 : at + 1;
          load(fragments[(step + 1) % 2], shared + at * kStageBytes, token, output, 0);
        }
        if (k < end) {  // else behind the last step of a K that is no multiple of DEPTH
          const Fragments& f = fragments[step % 2];
#pragma unroll
          for (int i = 0; i < I; i++)
#pragma unroll
            for (int j = 0; j < J; j++) mma_bf16(sum[i][j], f.a[i], f.b[j]);
        }
        k += 16;
      }
      if (k >= border) {
        settle(sum, first, border == end);
#pragma unroll
        for (int e = 0; e < I * J * 4; e++) sum[e / (4 * J)][e / 4 % J][e % 4] = 0.0f;
        first = false;
        border = min(border + p.k_slice, end);
      }
    }
  }
  static_assert(J % 2 == 0, "tokens are loaded in sixteens");
  static_assert(kSteps % 2 == 0, "the first step of each stage reads the first fragments");
};

}  // namespace gemm
