// The fast product of quantised weights (planes.cuh): a block computes TOKENS x OUTPUTS from stages of UNITS x 32 values
// of k.
//
// Launch: 32 WARPS threads, kSharedBytes of dynamic shared memory, grid (tokens / TOKENS x outputs / OUTPUTS,
// 1), both rounded up; split: (.., slices).
//
// A stage has the tokens' values (gemm_stage.cuh) and, as in global memory, the packed strips' units and supers.
// A lane's codes are one load for 32 values of two outputs; they become bf16 in registers (unpack.cuh).
// The products of the values that share a scale go to a fragment from zero, which is added to the slice's sum with
// the scale: one fused multiply-add for each element, two where there are minima. Of formats that are rounded
// (planes.cuh), each weight gets its scale in registers, and products go to the slice's sum.
//
// Expected of those, by counting: 3.5 instructions of a lane for each weight (two for bf16 codes, one fused multiply-add and
// half a conversion), which is 3.5 / 32 of a clock of a scheduler. At one row on an H200, q5_k at 5.75 bits a weight takes .17 ps
// of memory and .12 of instructions, where rounding through memory takes 5.75 + 16 + 16 bits. For more than 64 rows the
// weights go through memory once and are multiplied by TMA (crates/cuda/src/products.rs). Not measured.
//
// The sums of x that minima need are the same for all outputs. Where a warp has few tokens it computes its own, on
// the tensor core with ones for weights; where it has many (SHARED_SUMS), the block's warps share the work, one stage
// ahead, so that the barrier of the next stage makes them visible.
//
// Two blocks of 4 warps fit a multiprocessor of an H100 at 64x128, at least three at the others. With many tokens the
// limit is instruction issue, 5.8 (q8_0), 8.5 (q4_k) and 9.9 (q6_k) instructions for each mma.sync on sm_90a.
//
// Proved by kernels/tests/gemm.cpp.
#pragma once

#include "gemm_scaled.cuh"

namespace gemm {

// The units and supers of a warp's I strips, which the warp copies itself: 32 lanes take neighbouring chunks of 16 bytes.
template <class F, int I, int UNITS>
class StripStage {
  static constexpr int kUnitChunks = UNITS * planes::unit_bytes<F> / 16, kChunks = kUnitChunks + F::super_bytes / 16;
  static constexpr int kRounds = ceil_div(kChunks, 32), kDepth = UNITS * planes::kUnit;
  static_assert(planes::kSuper % kDepth == 0, "a stage has one super");
  static_assert(ceil_div(kUnitChunks, 32) == kRounds, "the supers' chunks are in the last round");

  const unsigned char* units_;  // the lane's first chunk of the next stage
  const unsigned char* last_;   // and its last one: of a unit, or of a super
  size_t strip_;                // bytes to the warp's next strip
  int strips_, k_;              // how many of the warp's strips there are

 public:
  static constexpr int kStripBytes = kChunks * 16, kBytes = I * kStripBytes;

  // For the strips from output `output` on and the values from k on.
  __device__ __forceinline__ StripStage(const void* w, int output, int N, int k, int K) : k_(k) {
    const int lane = threadIdx.x % 32, last = lane + (kRounds - 1) * 32;
    strip_ = planes::strip_bytes<F>(K);
    strips_ = min(ceil_div(N - output, planes::kOutputs), I);
    const unsigned char* strip = static_cast<const unsigned char*>(w) + output / planes::kOutputs * strip_;
    units_ = strip + static_cast<size_t>(k / planes::kUnit) * planes::unit_bytes<F> + lane * 16;
    last_ = units_ + (kRounds - 1) * 512;
    if (last >= kUnitChunks)
      last_ = strip + static_cast<size_t>(K / planes::kUnit) * planes::unit_bytes<F> + k / planes::kSuper * F::super_bytes +
              (last - kUnitChunks) * 16;
  }

  // Starts the copy of the next stage. Strips and units that there are not become zeros.
  __device__ __forceinline__ void copy(unsigned char* stage, int K) {
    const int lane = threadIdx.x % 32, last = lane + (kRounds - 1) * 32;
    const bool of_unit = F::super_bytes == 0 || last < kUnitChunks;
#pragma unroll
    for (int i = 0; i < I; i++) {
      unsigned char* to = stage + i * kStripBytes + lane * 16;
#pragma unroll
      for (int t = 0; t + 1 < kRounds; t++) {
        const bool in = i < strips_ && (UNITS == 1 || k_ + (lane + t * 32) * 16 / planes::unit_bytes<F> * planes::kUnit < K);
        cp_async_16(to + t * 512, units_ + i * strip_ + t * 512, in);
      }
      const bool in = i < strips_ && (UNITS == 1 || !of_unit || k_ + last * 16 / planes::unit_bytes<F> * planes::kUnit < K);
      if (last < kChunks) cp_async_16(to + (kRounds - 1) * 512, last_ + i * strip_, in);
    }
    k_ += kDepth;
    units_ += UNITS * planes::unit_bytes<F>;
    last_ += of_unit ? UNITS * planes::unit_bytes<F> : k_ % planes::kSuper == 0 ? F::super_bytes : 0;
  }
};

template <class F, int TOKENS, int OUTPUTS, int UNITS, int WARPS, int STAGES, bool SHARED_SUMS = false>
struct TileQuantised {
  static constexpr int kTokens = TOKENS, kOutputs = OUTPUTS, kThreads = 32 * WARPS;
  static constexpr int I = OUTPUTS / WARPS / 16, J = TOKENS / 8, kDepth = UNITS * planes::kUnit;
  using X = Rows<TOKENS, kDepth, kThreads>;
  using Gathered = GatheredRows<TOKENS, kDepth, kThreads>;
  using W = StripStage<F, I, UNITS>;
  static constexpr int kStageBytes = X::kBytes + WARPS * W::kBytes;
  static constexpr bool kShared = F::minima && SHARED_SUMS;
  static constexpr int kSumsBytes = kShared ? 2 * TOKENS * UNITS * 4 : 0;  // of two stages
  static constexpr int kSharedBytes = STAGES * kStageBytes + kSumsBytes;
  static_assert(!kShared || TOKENS % 16 == 0, "sums are shared by 16 tokens");
  static constexpr int kGroups = 32 / F::scaled;  // of values that share a scale, in 32
  static constexpr int kAhead = kShared ? 1 : 0;  // stages that have arrived beside the one that is computed

  // This warp's part of the sums of x of a stage: [unit][TOKENS].
  static __device__ __forceinline__ void share_sums(float* sums, const unsigned char* stage) {
    const int lane = threadIdx.x % 32;
    constexpr int kPairs = ceil_div(TOKENS, 16), kParts = kPairs * UNITS;  // of 8 tokens; of the stage
    static_assert(kParts % WARPS == 0, "each warp has as much to do");
#pragma unroll
    for (int round = 0; round < kParts / WARPS; round++) {
      const int part = round * WARPS + threadIdx.x / 32, token = part % kPairs * 16, unit = part / kPairs;
      uint32_t b[2][2][2];
      load_b<X>(b[0], stage, token, 2 * unit);
      load_b<X>(b[1], stage, token, 2 * unit + 1);
#pragma unroll
      for (int j = 0; j < 2; j++) {
        float sum[4] = {};
        sum_of_x(sum, b[0][j], b[1][j]);
        if (lane < 4) {
          sums[unit * TOKENS + token + 8 * j + 2 * lane] = sum[0];
          sums[unit * TOKENS + token + 8 * j + 2 * lane + 1] = sum[1];
        }
      }
    }
  }

  // Adds the values of unit `unit` of the stage: the weights are unpacked once, then tokens pass by.
  static __device__ __forceinline__ void multiply(float (&total)[I][J][4], const unsigned char* stage,
                                                  const unsigned char* strips, const float* sums,
                                                  planes::UnitScales<F> (&scales)[I], int unit) {
    constexpr int kTogether = J == 1 ? 1 : 2;
    const int lane = threadIdx.x % 32;
    uint32_t a[I][2][4];
    planes::Scales scale[I][kGroups][2];
#pragma unroll
    for (int i = 0; i < I; i++) {
      const unsigned char* at = strips + i * W::kStripBytes + unit * planes::unit_bytes<F>;
      planes::Codes<F> codes;
      codes.load(at, lane);
#pragma unroll
      for (int s = 0; s < 2; s++) codes.unpack(a[i][s], s);
      scales[i].load(at, lane / 4);
#pragma unroll
      for (int s = 0; s < kGroups; s++) scales[i].at(s, scale[i][s][0], scale[i][s][1]);
      if constexpr (F::rounded) {
#pragma unroll
        for (int p = 0; p < 8; p++) a[i][p / 4][p % 4] = planes::rounded(a[i][p / 4][p % 4], scale[i][p / 4 * (kGroups - 1)][p % 2]);
      }
    }
#pragma unroll
    for (int begin = 0; begin < J; begin += kTogether) {
      uint32_t b[2][kTogether][2];
      load_two_steps<X>(b, stage, 8 * begin, 2 * unit);
#pragma unroll
      for (int j = 0; j < kTogether; j++) {
        float of_x[4] = {};
        if constexpr (kShared) {
          const float* from = sums + unit * TOKENS + 8 * (begin + j) + lane % 4 * 2;
          of_x[0] = from[0], of_x[1] = from[1];
        } else if constexpr (F::minima) {
          sum_of_x(of_x, b[0][j], b[1][j]);
        }
#pragma unroll
        for (int i = 0; i < I; i++) add(total[i][begin + j], a[i], b[0][j], b[1][j], scale[i], of_x);
      }
    }
  }

  // Adds 32 values of 16 outputs and 8 tokens.
  static __device__ __forceinline__ void add(float (&total)[4], const uint32_t (&a)[2][4], const uint32_t (&first)[2],
                                             const uint32_t (&second)[2], const planes::Scales (&scale)[kGroups][2],
                                             const float (&of_x)[4]) {
    if constexpr (F::rounded) {
      mma_bf16(total, a[0], first);
      mma_bf16(total, a[1], second);
      return;
    }
    float products[2][4] = {};
    mma_bf16(products[0], a[0], first);
    mma_bf16(products[kGroups - 1], a[1], second);
#pragma unroll
    for (int s = 0; s < kGroups; s++) add_scaled<F>(total, scale[s], products[s], of_x);
  }

  // Adds a stage's values, of the last stage (RAGGED) those before `left`, which is a multiple of 32.
  template <bool RAGGED>
  static __device__ __forceinline__ void multiply_stage(float (&total)[I][J][4], const unsigned char* stage,
                                                        const unsigned char* strips, const float* sums, int left) {
    const int lane = threadIdx.x % 32;
    planes::UnitScales<F> scales[I];
#pragma unroll
    for (int i = 0; i < I; i++)
      scales[i].load_super(strips + i * W::kStripBytes + UNITS * planes::unit_bytes<F>, lane / 4);
#pragma unroll(J >= 8 ? 1 : UNITS)
    for (int u = 0; u < UNITS; u++)
      if (!RAGGED || planes::kUnit * u < left) multiply(total, stage, strips, sums, scales, u);
  }

  // This warp's first token and output, of the block's.
  static __device__ __forceinline__ Corner of_warp() { return {0, static_cast<int>(threadIdx.x) / 32 * (16 * I)}; }

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
                  [&](const float(&total)[I][J][4], bool first, bool last) {
                    settle_tile<I, J>(p, total, corner.token, corner.output + within.output, first, last);
                  });
  }

  // The sums over k .. end of the tokens that `x` copies and the outputs from `corner` on; `settle` takes those up to
  // each border.
  template <class Tokens, class Settle>
  static __device__ __forceinline__ void multiply_over(const Problem& p, int corner, Tokens& x, int k, int end,
                                                       int border, Settle settle) {
    DYNAMIC_SHARED(unsigned char, shared);
    float* const sums = reinterpret_cast<float*>(shared + STAGES * kStageBytes);
    const int output = of_warp().output;
    const int strips_at = X::kBytes + threadIdx.x / 32 * W::kBytes;
    W w(p.w, corner + output, p.N, k, p.K);
    const int stages = ceil_div(end - k, kDepth);

    int to_copy = 0, copy_at = 0;  // the next stage to copy, and its place in the ring
    const auto copy = [&] {
      if (to_copy < stages) {
        unsigned char* const stage = shared + copy_at * kStageBytes;
        x.copy(stage, p.K);
        w.copy(stage + strips_at, p.K);
      }
      cp_async_commit();
      to_copy++;
      copy_at = copy_at + 1 == STAGES ? 0 : copy_at + 1;
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) copy();
    if constexpr (kShared) {
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      share_sums(sums, shared);
    }

    float total[I][J][4] = {};
    int in_ring = 0;
    bool first = true;
    for (int t = 0; t < stages; t++) {
      cp_async_wait<STAGES - 2 - kAhead>();
      __syncthreads();
      const int next = in_ring + 1 == STAGES ? 0 : in_ring + 1;
      float* const of_stage = sums + t % 2 * (kSumsBytes / 8);
      copy();
      if constexpr (kShared) {
        if (t + 1 < stages)
          share_sums(sums + (t + 1) % 2 * (kSumsBytes / 8), shared + next * kStageBytes);
      }
      const unsigned char* const stage = shared + in_ring * kStageBytes;
      if (k + kDepth <= end) {
        multiply_stage<false>(total, stage, stage + strips_at, of_stage, 0);
      } else {
        multiply_stage<true>(total, stage, stage + strips_at, of_stage, end - k);
      }
      in_ring = next;
      k += kDepth;
      if (k >= border) {
        settle(total, first, border == end);
#pragma unroll
        for (int e = 0; e < I * J * 4; e++) total[e / (4 * J)][e / 4 % J][e % 4] = 0.0f;
        first = false;
        border = min(border + p.k_slice, end);
      }
    }
  }
};

}  // namespace gemm
