// The fast product of weights in planes: a block computes TOKENS x OUTPUTS from stages of UNITS x 64 values of k.
//
// Launch: 32 WARPS_T WARPS_O threads, kSharedBytes of dynamic shared memory, grid (tokens / TOKENS x outputs / OUTPUTS,
// 1), both rounded up; split: (.., segments).
//
// A stage holds the tokens' values (gemm_stage.cuh) and, as they are in global memory, the strips' units and supers.
// A lane's codes are one load of 16 bytes for 64 values of two outputs; they become bf16 in registers (unpack.cuh).
// The products of the values that share a scale go to a fragment from zero, which is added to the segment's sum with
// the scale: one fused multiply-add for each element, two where there are minima.
//
// The sums of x that minima want are the same for all outputs. Where a warp has few tokens it computes its own, on
// the tensor core with ones for weights; where it has many (SHARED_SUMS), the block's warps share the work, one stage
// ahead, so that the barrier of the next stage makes them visible.
#pragma once

#include "gemm_stage.cuh"
#include "unpack.cuh"

namespace gemm {

// STRIPS strips' units and supers, copied by a block of THREADS.
template <class F, int STRIPS, int UNITS, int THREADS>
class StripStage {
  static constexpr int kUnitChunks = UNITS * F::unit_bytes / 16, kChunks = kUnitChunks + F::super_bytes / 16;
  static constexpr int kTurns = ceil_div(STRIPS * kChunks, THREADS);
  static constexpr int kDepth = UNITS * planes::kUnit;
  static_assert(planes::kSuper % kDepth == 0, "a stage has one super");

  const unsigned char* first_;  // strip of the block
  int offset_[kTurns];          // this thread's next chunks from there
  unsigned in_, super_;         // bit t: the chunk of turn t is in the matrix; it belongs to a super
  int k_;

 public:
  static constexpr int kStripBytes = kChunks * 16, kBytes = STRIPS * kStripBytes;

  __device__ __forceinline__ StripStage(const void* w, int output, int N, int k, int K) : in_(0), super_(0), k_(k) {
    const int strip = output / planes::kOutputs, strips = ceil_div(N, planes::kOutputs);
    const int bytes = static_cast<int>(planes::strip_bytes<F>(K));
    first_ = static_cast<const unsigned char*>(w) + strip * planes::strip_bytes<F>(K);
#pragma unroll
    for (int t = 0; t < kTurns; t++) {
      const int i = threadIdx.x + t * THREADS, chunk = i % kChunks;
      const bool super = chunk >= kUnitChunks;
      in_ |= static_cast<unsigned>(i < STRIPS * kChunks && strip + i / kChunks < strips) << t;
      super_ |= static_cast<unsigned>(super) << t;
      offset_[t] = i / kChunks * bytes + (super ? planes::units(K) * F::unit_bytes + k / planes::kSuper * F::super_bytes +
                                                      (chunk - kUnitChunks) * 16
                                                : k / planes::kUnit * F::unit_bytes + chunk * 16);
    }
  }

  // Starts the copy of the next stage. Units behind the last one of a strip are zeros.
  __device__ __forceinline__ void copy(unsigned char* stage, int K) {
    const int next_super = F::super_bytes != 0 && (k_ + kDepth) % planes::kSuper == 0 ? F::super_bytes : 0;
#pragma unroll
    for (int t = 0; t < kTurns; t++) {
      const int i = threadIdx.x + t * THREADS;
      bool in = in_ >> t & 1;
      if (UNITS > 1) in = in && ((super_ >> t & 1) || k_ + i % kChunks * 16 / F::unit_bytes * planes::kUnit < K);
      if (t + 1 < kTurns || STRIPS * kChunks % THREADS == 0 || i < STRIPS * kChunks)
        cp_async_16(stage + i * 16, first_ + (in ? offset_[t] : 0), in);
      offset_[t] += F::super_bytes != 0 && (super_ >> t & 1) ? next_super : UNITS * F::unit_bytes;
    }
    k_ += kDepth;
  }
};

template <class F, int TOKENS, int OUTPUTS, int UNITS, int WARPS_T, int WARPS_O, int STAGES, bool SHARED_SUMS = false>
struct TileQuantised {
  static constexpr int kTokens = TOKENS, kOutputs = OUTPUTS, kThreads = 32 * WARPS_T * WARPS_O;
  static constexpr int I = OUTPUTS / WARPS_O / 16, J = TOKENS / WARPS_T / 8, kDepth = UNITS * planes::kUnit;
  using X = Rows<TOKENS, kDepth, kThreads>;
  using W = StripStage<F, OUTPUTS / 16, UNITS, kThreads>;
  static constexpr int kStageBytes = X::kBytes + W::kBytes;
  static constexpr bool kShared = F::minima && SHARED_SUMS;
  static constexpr int kSumsBytes = kShared ? 2 * TOKENS * UNITS * 2 * 4 : 0;  // of two stages
  static constexpr int kSharedBytes = STAGES * kStageBytes + kSumsBytes;
  static_assert(!kShared || TOKENS % 16 == 0, "sums are shared by 16 tokens");
  static constexpr int kGroups = 32 / F::scaled;  // of values that share a scale, in 32
  static constexpr int kAhead = kShared ? 1 : 0;  // stages that have arrived beside the one that is computed

  struct Warp {
    int lane, token, output;  // of the block's tile
  };

  // A sum of x over 32 values for 8 tokens, from two steps' fragments.
  static __device__ __forceinline__ void sum_of_x(float (&sum)[4], const uint32_t (&first)[2],
                                                  const uint32_t (&second)[2]) {
    const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
    mma_bf16(sum, ones, first);
    mma_bf16(sum, ones, second);
  }

  // This warp's part of the sums of x of a stage: [block of 32][TOKENS].
  static __device__ __forceinline__ void share_sums(float* sums, const unsigned char* stage, int lane) {
    constexpr int kWarps = WARPS_T * WARPS_O, kPairs = ceil_div(TOKENS, 16);  // of 8 tokens
    for (int part = threadIdx.x / 32; part < kPairs * UNITS * 2; part += kWarps) {
      const int token = part % kPairs * 16, block = part / kPairs;
      uint32_t b[2][2][2];
      load_b<X>(b[0], stage, token, 2 * block);
      load_b<X>(b[1], stage, token, 2 * block + 1);
#pragma unroll
      for (int j = 0; j < 2; j++) {
        float sum[4] = {};
        sum_of_x(sum, b[0][j], b[1][j]);
        if (lane < 4) {
          sums[block * TOKENS + token + 8 * j + 2 * lane] = sum[0];
          sums[block * TOKENS + token + 8 * j + 2 * lane + 1] = sum[1];
        }
      }
    }
  }

  // Adds the 32 values of block `block` of the stage to the sums: the weights are unpacked once, then tokens pass by.
  static __device__ __forceinline__ void multiply(float (&total)[I][J][4], const unsigned char* stage,
                                                  const float* sums, const planes::Codes<F> (&codes)[I],
                                                  const planes::UnitScales<F> (&scales)[I], const Warp& at,
                                                  int block) {
    constexpr int kTogether = J == 1 ? 1 : 2;
    uint32_t a[I][2][4];
    planes::Scales scale[I][kGroups][2];
#pragma unroll
    for (int i = 0; i < I; i++) {
#pragma unroll
      for (int s = 0; s < 2; s++) codes[i].unpack(a[i][s], block % 2 * 2 + s);
#pragma unroll
      for (int s = 0; s < kGroups; s++) scales[i].at(block % 2 * 2 + s, scale[i][s][0], scale[i][s][1]);
    }
#pragma unroll
    for (int begin = 0; begin < J; begin += kTogether) {
      uint32_t b[2][kTogether][2];
#pragma unroll
      for (int s = 0; s < 2; s++) load_b<X>(b[s], stage, at.token + 8 * begin, 2 * block + s);
#pragma unroll
      for (int j = 0; j < kTogether; j++) {
        float of_x[4] = {};
        if constexpr (kShared) {
          const float* from = sums + block * TOKENS + at.token + 8 * (begin + j) + at.lane % 4 * 2;
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
    float products[2][4] = {};
    mma_bf16(products[0], a[0], first);
    mma_bf16(products[kGroups - 1], a[1], second);
#pragma unroll
    for (int s = 0; s < kGroups; s++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        total[c] = __fmaf_rn(scale[s][c / 2].scale, products[s][c], total[c]);
        if (F::minima) total[c] = __fmaf_rn(-scale[s][c / 2].minimum, of_x[c % 2], total[c]);
      }
  }

  // Adds a stage's values before `left`, which is a multiple of 32.
  static __device__ __forceinline__ void multiply_stage(float (&total)[I][J][4], const unsigned char* stage,
                                                        const float* sums, const Warp& at, int left) {
    const unsigned char* strips = stage + X::kBytes + at.output / 16 * W::kStripBytes;
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
      planes::Codes<F> codes[I];
      planes::UnitScales<F> scales[I];
#pragma unroll
      for (int i = 0; i < I; i++) {
        const unsigned char* unit = strips + i * W::kStripBytes + u * F::unit_bytes;
        codes[i].load(unit, at.lane);
        scales[i].load(unit, strips + i * W::kStripBytes + UNITS * F::unit_bytes, at.lane / 4);
      }
#pragma unroll
      for (int h = 0; h < 2; h++)
        if (64 * u + 32 * h < left) multiply(total, stage, sums, codes, scales, at, 2 * u + h);
    }
  }

  template <bool SPLIT>
  static __device__ __forceinline__ void run(Problem p) {
    DYNAMIC_SHARED(unsigned char, shared);
    float* const sums = reinterpret_cast<float*>(shared + STAGES * kStageBytes);
    const Corner corner = corner_of<TOKENS, OUTPUTS>(p);
    const int warp = threadIdx.x / 32;
    const Warp at = {static_cast<int>(threadIdx.x % 32), warp % WARPS_T * (8 * J), warp / WARPS_T * (16 * I)};
    int k = 0, end = p.K;
    if (SPLIT) {
      k = blockIdx.y * p.segment, end = min(k + p.segment, p.K);
      p = of_segment(p, blockIdx.y);
    }
    X x(p.x, corner.token, p.M, k, p.K);
    W w(p.w, corner.output, p.N, k, p.K);
    const int stages = ceil_div(end - k, kDepth);

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
    if constexpr (kShared) {
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      share_sums(sums, shared, at.lane);
    }

    float total[I][J][4] = {};
    int in_ring = 0, border = SPLIT ? end : min(p.segment, end);
    bool first = true;
    for (int t = 0; t < stages; t++) {
      cp_async_wait<STAGES - 2 - kAhead>();
      __syncthreads();
      const int next = in_ring + 1 == STAGES ? 0 : in_ring + 1;
      float* const of_stage = sums + t % 2 * (kSumsBytes / 8);
      copy();
      if constexpr (kShared) {
        if (t + 1 < stages)
          share_sums(sums + (t + 1) % 2 * (kSumsBytes / 8), shared + next * kStageBytes, at.lane);
      }
      multiply_stage(total, shared + in_ring * kStageBytes, of_stage, at, end - k);
      in_ring = next;
      k += kDepth;
      if (k >= border) {
        settle_tile<I, J>(p, total, corner.token + at.token, corner.output + at.output, first, border == end);
#pragma unroll
        for (int e = 0; e < I * J * 4; e++) total[e / (4 * J)][e / 4 % J][e % 4] = 0.0f;
        first = false;
        border = min(border + p.segment, end);
      }
    }
  }
};

}  // namespace gemm
