// bf16 products for many tokens on Hopper, warp-specialised: one producer warp group issues TMA copies, GROUPS consumer
// warp groups run wgmma. A tile is TOKENS x 64 GROUPS, from stages of 64 values of k in shared memory. The sum is
// gemm.cuh's.
//
// Launch: 128 (GROUPS + 1) threads, kSharedBytes of dynamic shared memory, blocks in x as gemm_work_tiles.cuh has it.
//
// One producer thread issues a stage's copies (tma.cuh) once the consumers have released the ring's slot (`empty`); the
// consumers wait until the stage has arrived (`full`). So the first stages of the next tile are copied while the sums
// of this one are written. On an H100 this reaches 687 TFLOP/s with 2,048 rows of a 7B's gate_up; cuBLAS has 736, and
// public kernels of gemm_tile_wgmma.cuh's kind, where every thread issues cp.async, 515.
//
// Where no kernel writes the weights (`early`), the ring is filled with them before await_earlier. Expected, by calculation:
// 11 MB are on their way when the preceding kernel ends, 2.5 us of an H200's bandwidth. No card has run it.
//
// In-kernel split-K reduction, for products whose output tiles alone leave multiprocessors idle: expected and measured
// gain (H100, 256 rows of a 7B). o [3584, 3584] has 84 work tiles of 20 stages, 20,480 clocks, where 28 whole tiles
// take 57,344; with 4,000 clocks for the reduction 14 us at 1.75 GHz. Measured: 27 (38 by whole tiles of
// gemm_tile_wgmma.cuh, cuBLAS 15). down [3584, 18944] has 140 work tiles of 60 stages for 70 blocks, 70 us. Measured:
// 85 (167, cuBLAS 65).
//
// Tiles of at most 128 tokens keep their sums in registers between slices; those of 256 tokens accumulate in y. A fused
// gate saves writing and reading the sums, [M, 2 n] f32. The tile of 64 tokens is for decoding, which is bound by
// weight bandwidth. None of these three has been measured.
//
// Proved by kernels/tests/gemm_tma.cpp.
#pragma once

#include "gemm_narrow.cuh"
#include "gemm_stage.cuh"
#include "gemm_work_tiles.cuh"

namespace gemm {

// `early`: no kernel writes them, and the first stages' copies start before the preceding kernels have finished.
struct TmaWeights {
  const CUtensorMap& map;
  int early;
};

template <int TOKENS, int GROUPS, int STAGES>
struct TileTma {
  static constexpr int kTokens = TOKENS, kOutputs = 64 * GROUPS, kThreads = 128 * (GROUPS + 1), kDepth = 64;
  static constexpr int J = TOKENS / 8, kRowBytes = 2 * kDepth;
  static constexpr int kTokenBytes = TOKENS * kRowBytes, kStageBytes = kTokenBytes + kOutputs * kRowBytes;
  using WorkTiles = gemm::WorkTiles<TOKENS, kOutputs>;
  using Ring = StageRing<STAGES, kStageBytes>;
  static constexpr int kSharedBytes = Ring::kBytes;
  static_assert(kTokenBytes % Ring::kAlign == 0, "eight rows of an operand are aligned together");
  static constexpr bool kTotals = TOKENS <= 128;  // a thread has registers for the total of its sums, beside those of a slice
  static_assert(TOKENS <= 256 && kOutputs <= 256, "a TMA tile has at most 256 rows");

  // The weights of the first stages, as many as the ring holds; returns their number. `load_weights(to, barrier, k, first
  // output)` starts the copy of a stage's weights.
  template <class LoadWeights>
  static __device__ __forceinline__ int copy_weights(const Problem& p, const TmaWeights& w, Ring ring, bool split,
                                                     LoadWeights load_weights) {
    int n = 0;
    copy_early(w.map);
    for (WorkTiles work(p, split); work.left() && n < STAGES; work.next()) {
      const int output = work.corner().output;
#pragma unroll 1
      for (int k = work.begin(); k < work.end() && n < STAGES; k += kDepth, n++) {
        mbarrier_expect(&ring.full[ring.slot], kStageBytes);
        load_weights(ring.stage() + kTokenBytes, &ring.full[ring.slot], k, output);
        ring.next();
      }
    }
    return n;
  }

  // All stages; the weights of the first `ahead` are on their way.
  template <class LoadWeights>
  static __device__ __forceinline__ void copy(const Problem& p, const CUtensorMap& x, Ring ring, bool split, int ahead,
                                              LoadWeights load_weights) {
    for (WorkTiles work(p, split); work.left(); work.next()) {
      const Corner corner = work.corner();
      for (int k = work.begin(); k < work.end(); k += kDepth) {
        uint64_t* const full = &ring.full[ring.slot];
        if (ahead-- <= 0) {
          mbarrier_wait(&ring.empty[ring.slot], ring.parity ^ 1);
          mbarrier_expect(full, kStageBytes);
          load_weights(ring.stage() + kTokenBytes, full, k, corner.output);
        }
        tma_load(ring.stage(), x, full, k, corner.token);
        ring.next();
      }
    }
  }

  // `settle(work, sum, first, last)` takes the sums of a slice.
  template <class Settle>
  static __device__ __forceinline__ void multiply(const Problem& p, Ring ring, bool split, Settle settle) {
    for (WorkTiles work(p, split); work.left(); work.next()) {
      const int end = work.end();
      for (int k = work.begin(); k < end; k += p.k_slice) {
        const int border = min(k + p.k_slice, end);
        const bool first = k == work.begin();
        float sum[1][J][4];
        begin_at_zero(sum[0]);
        multiply_stages(sum[0], ring, kTokenBytes, ceil_div(border - k, kDepth));
        settle(work, sum, first, border == end);
      }
    }
  }

  // Initialises the barriers and waits for the preceding kernels; the warp groups then take their roles.
  template <class LoadWeights, class Settle>
  static __device__ __forceinline__ void run(const Problem& p, const CUtensorMap& x, const TmaWeights& w, bool split,
                                             LoadWeights load_weights, Settle settle) {
    DYNAMIC_SHARED(unsigned char, shared);
    const Ring ring(shared);
    if (threadIdx.x == 0) {
      tma_prefetch(x);
      tma_prefetch(w.map);
      ring.init(1, 4 * GROUPS);
      mbarrier_publish();
    }
    __syncthreads();
    const bool copies = threadIdx.x == 128 * GROUPS;
    const int ahead = copies && w.early ? copy_weights(p, w, ring, split, load_weights) : 0;
    await_earlier();
    if (threadIdx.x >= 128 * GROUPS) {
      registers_less<24>();
      if (copies) copy(p, x, ring, split, ahead, load_weights);
    } else {
      registers_more<240>();
      multiply(p, ring, split, settle);
    }
  }

  // y, or the sums of slices where `split`.
  static __device__ __forceinline__ void run(const Problem& p, const CUtensorMap& x, const TmaWeights& w, bool split) {
    float total[J][4];  // of the slices so far, where a thread has the registers; otherwise they are in y
    run(p, x, w, split,
        [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w.map, full, k, output); },
        [&](const WorkTiles& work, float(&sum)[1][J][4], bool first, bool last) {
          const Corner corner = work.corner();
          const int output = corner.output + threadIdx.x / 32 * 16;
          Problem to = split ? of_slice(p, work.slice()) : p;
          if constexpr (kTotals) {
            if (!(first && last)) {
              if (!gather(p, total, sum[0], corner.token, output, first, last)) return;
              to.add = 0, first = true;
            }
          }
          settle_tile<1, J>(to, sum, corner.token, output, first, last && !split);
        });
  }
  // Takes a slice's sums to those of the slices before; after the last they are in `sum`, and it is true.
  static __device__ __forceinline__ bool gather(const Problem& p, float (&total)[J][4], float (&sum)[J][4], int token, int output,
                                                bool first, bool last) {
    if (first && p.add) add_old(p, sum, token, output);
#pragma unroll
    for (int e = 0; e < J * 4; e++) {
      float& to = sum[e / 4][e % 4];
      if (!first) to = __fadd_rn(total[e / 4][e % 4], to);
      if (!last) total[e / 4][e % 4] = to;
    }
    return last;
  }

  // y, with a split-K reduction in the kernel: each work tile's sums go to `parts`, and the last warp to arrive at a
  // semaphore adds all slices of its rows in order. Semaphores are 0 before and after.
  //
  //   parts       [tiles, slices, TOKENS / 8, 128 GROUPS] float4, aligned to 16 bytes
  //   semaphores  [tiles, 4 GROUPS]
  static constexpr int kMultiplying = 128 * GROUPS, kWarps = 4 * GROUPS;
  static __device__ __forceinline__ void run_reduced(const Problem& p, const CUtensorMap& x, const TmaWeights& w,
                                                    float4* parts, unsigned* semaphores) {
    run_reduced(p, x, w, parts, semaphores,
               [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w.map, full, k, output); },
               [&](const float(&sum)[1][J][4], int token, int output) {
                 Problem to = p;
                 to.add = 0;
                 settle_tile<1, J>(to, sum, token, output, true, true);
               });
  }
  // `put(sum, token, output)` takes the sums of all slices.
  template <class LoadWeights, class Put>
  static __device__ __forceinline__ void run_reduced(const Problem& p, const CUtensorMap& x, const TmaWeights& w, float4* parts,
                                                    unsigned* semaphores, LoadWeights load_weights, Put put) {
    const int slices = ceil_div(p.K, p.k_slice);
    run(p, x, w, true, load_weights,
        [&](const WorkTiles& work, const float(&sum)[1][J][4], bool, bool) {
          const size_t of_tile = static_cast<size_t>(work.tile()) * slices;
          float4* const part = parts + (of_tile + work.slice()) * (J * kMultiplying) + threadIdx.x;
#pragma unroll
          for (int j = 0; j < J; j++) part[j * kMultiplying] = make_float4(sum[0][j][0], sum[0][j][1], sum[0][j][2], sum[0][j][3]);
          if (!last_arrival(semaphores + work.tile() * kWarps + threadIdx.x / 32, slices)) return;
          const Corner corner = work.corner();
          const int output = corner.output + threadIdx.x / 32 * 16;
          float all[1][J][4];
          fold(p, all[0], parts + of_tile * (J * kMultiplying) + threadIdx.x, slices, corner.token, output);
          put(all, corner.token, output);
        });
  }

  // The warp's sums of all slices, its own among them, read from `parts` and added in order.
  static __device__ __forceinline__ void fold(const Problem& p, float (&sum)[J][4], const float4* parts, int slices, int token,
                                              int output) {
#pragma unroll
    for (int j = 0; j < J; j++) take(sum[j], parts[j * kMultiplying]);
    if (p.add) add_old(p, sum, token, output);
    for (int s = 1; s < slices; s++) {
      parts += J * kMultiplying;
#pragma unroll
      for (int j = 0; j < J; j++) {
        float next[4];
        take(next, parts[j * kMultiplying]);
#pragma unroll
        for (int e = 0; e < 4; e++) sum[j][e] = __fadd_rn(sum[j][e], next[e]);
      }
    }
  }
  static __device__ __forceinline__ void take(float (&to)[4], float4 from) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
  }
  static __device__ __forceinline__ void add_old(const Problem& p, float (&sum)[J][4], int token, int output) {
    const int lane = threadIdx.x % 32;
    token += lane % 4 * 2, output += lane / 4;
#pragma unroll
    for (int j = 0; j < J; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = token + 8 * j + e % 2, column = output + e / 2 * 8;
        if (row < p.M && column < p.N) sum[j][e] = __fadd_rn(p.y[static_cast<size_t>(row) * p.ldy + column], sum[j][e]);
      }
    }
  }

  // The product with a fused gate, whose tile has the gates and ups of the same outputs. `w`, [2 n, K], is mapped as
  // [n / 8, 2, 8, K]: eight gates, their eight ups, the next eight. A warp's 16 rows are then eight outputs' gates, and
  // their ups in the same lane.
  //
  //   out[m][c] = bf16(f(gate) * up), as gate.cu has it from sums in f32
  //
  // There is one slice of k, and p.N is 2 n with n a multiple of 8. A tile is TOKENS x kOutputs / 2 outputs.
  template <typename F>
  static __device__ __forceinline__ void run_gated(const Problem& p, const CUtensorMap& x, const TmaWeights& w, bf16* out) {
    run(p, x, w, false,
        [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w.map, full, k, 0, 0, output / 16); },
        [&](const WorkTiles& work, const float(&sum)[1][J][4], bool, bool) {
          const Corner corner = work.corner();
          put_gated<F>(sum[0], corner.token, (corner.output + threadIdx.x / 32 * 16) / 2, p.M, p.N / 2, out);
        });
  }

  // The product with fused rotary embedding and KV store (gemm_narrow.cuh). `w`, [heads D, K], is mapped as
  // [heads, D / 16, 2, 8, K]: of a head, eight dimensions of its first half, the eight of the second that they are
  // rotated with, the next eight. A warp's 16 rows are then eight pairs, each in one lane. Slices are reduced as by
  // run_reduced where `parts` is given, and in registers otherwise.
  template <int D>
  static __device__ __forceinline__ void run_heads(const Problem& p, const CUtensorMap& x, const TmaWeights& w, const Heads& heads,
                                                   float4* parts, unsigned* semaphores) {
    static_assert(kTotals && kOutputs % D == 0, "a tile has whole heads, and a thread all of their sums");
    const auto load = [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w.map, full, k, 0, 0, 0, output / D); };
    if (parts != nullptr) {
      run_reduced(p, x, w, parts, semaphores, load,
                 [&](const float(&sum)[1][J][4], int token, int output) { put_heads<D>(sum[0], token, output, p.M, p.bias, heads); });
      return;
    }
    float total[J][4];
    run(p, x, w, false, load, [&](const WorkTiles& work, float(&sum)[1][J][4], bool first, bool last) {
      const Corner corner = work.corner();
      const int output = corner.output + threadIdx.x / 32 * 16;
      if (gather(p, total, sum[0], corner.token, output, first, last)) put_heads<D>(sum[0], corner.token, output, p.M, p.bias, heads);
    });
  }
};

}  // namespace gemm
