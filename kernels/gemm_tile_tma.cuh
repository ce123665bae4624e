// The product of bf16 weights for many tokens on Hopper, with a warp group that copies and GROUPS that multiply: a tile
// is TOKENS x 64 GROUPS, from stages of 64 values in shared memory. The sum is gemm.cuh's.
//
// Launch: 128 (GROUPS + 1) threads, kSharedBytes of dynamic shared memory, blocks in x as gemm_items.cuh has it.
//
// The last warp group's first thread asks for the boxes of a stage (tma.cuh) as soon as the warps that read the ring's
// slot before have said that they are done (`empty`); the others wait until it has come (`full`). So the next tile's
// first stages come while this one's sums go to memory.
//
// What to expect, counted: 256x128 in a stage of 48 KiB has 1,024 clocks of the tensor cores at full rate,
// and no thread that multiplies computes an address. Public kernels of this shape (TMA, a producer group, persistent
// blocks) reach 658 of 798 TFLOP/s on an H100, where cp.async by all threads, as in gemm_tile_wgmma.cuh, has 515.
// Measured: 687 with 2,048 rows of a 7B's gate_up (cuBLAS 736).
//
// What merging in the kernel was to give where tiles alone would leave multiprocessors idle, and what it gave (H100,
// 2026-11-24, the faster of this and the tiles alone): 256 rows of a 7B's o [3584, 3584] are 84 items of 20 stages, 20,480
// clocks, where 28 tiles have 57,344; then 128 KiB of sums a block to the second-level cache and three times as much from
// it for the last, about 4,000 clocks: 14 us at 1.75 GHz. Measured: 27 (38 by 28 tiles of wgmma with cp.async, cuBLAS 15).
// down [3584, 18944]: 140 items of 60 stages for 70 blocks, 122,880 clocks, 70 us, more than the 45 us that reading its
// weights takes. Measured: 85 (167, cuBLAS 65). Where the rest goes has not been looked for.
//
// The gate in the product has not been measured alone: 512 rows of gate_up [37888, 3584] write 19 MB and not 78, and
// gate.cu's 97 MB are not moved, 55 us at 3 TB/s.
//
// Between the segments of an item, sums stay in registers where tiles have at most 128 tokens. Before, they went to y and came
// back, as those of tiles of 256 tokens still do: 2,048 rows of a 7B's qkv, o and down moved 188, 147 and 264 MB beside their
// operands, 63, 49 and 88 us at 3 TB/s of the 150, 115 and 505 that were measured (cuBLAS 87, 74, 425; down by 256x128). Not
// measured since.
//
// A tile of 64 tokens is for decoding, where the weights' way from memory is what counts: 64 rows of o are 84 items with
// 128 KiB of weights each on their way at a time, 8.6 us at 3 TB/s and 4 to begin and to meet. Not measured (gemm_bf16_32x64_split
// 18.3, cuBLAS 11.7).
//
// The tiles of 128 and 256 tokens have the plain kernel's bits on an H100, and of the products that were tuned with 128 rows
// and more, few were faster otherwise (products/h100.txt); both was before sums stayed in registers.
//
// Proved by kernels/tests/gemm_tma.cpp.
#pragma once

#include "gemm_items.cuh"
#include "gemm_narrow.cuh"
#include "gemm_stage.cuh"

namespace gemm {

template <int TOKENS, int GROUPS, int STAGES>
struct TileTma {
  static constexpr int kTokens = TOKENS, kOutputs = 64 * GROUPS, kThreads = 128 * (GROUPS + 1), kDepth = 64;
  static constexpr int J = TOKENS / 8, kRowBytes = 2 * kDepth;
  static constexpr int kTokenBytes = TOKENS * kRowBytes, kStageBytes = kTokenBytes + kOutputs * kRowBytes;
  using Items = gemm::Items<TOKENS, kOutputs>;
  using Ring = gemm::Ring<STAGES, kStageBytes>;
  static constexpr int kSharedBytes = Ring::kBytes;
  static_assert(kTokenBytes % Ring::kAlign == 0, "eight rows of an operand are aligned together");
  static constexpr bool kTotals = TOKENS <= 128;  // a thread has registers for its sums of all segments, beside those at hand
  static_assert(TOKENS <= 256 && kOutputs <= 256, "a box has at most 256 rows");

  // `load_weights(to, barrier, k, first output)` asks for a stage's box of weights.
  template <class LoadWeights>
  static __device__ __forceinline__ void copy(const Problem& p, const CUtensorMap& x, Ring ring, bool split,
                                              LoadWeights load_weights) {
    for (Items item(p, split); item.left(); item.next()) {
      const Corner corner = item.corner();
      for (int k = item.begin(); k < item.end(); k += kDepth) {
        mbarrier_wait(&ring.empty[ring.slot], ring.parity ^ 1);
        uint64_t* const full = &ring.full[ring.slot];
        mbarrier_expect(full, kStageBytes);
        tma_load(ring.stage(), x, full, k, corner.token);
        load_weights(ring.stage() + kTokenBytes, full, k, corner.output);
        ring.next();
      }
    }
  }

  // `settle(item, sum, first, last)` takes the sums of a segment.
  template <class Settle>
  static __device__ __forceinline__ void multiply(const Problem& p, Ring ring, bool split, Settle settle) {
    const int group = threadIdx.x / 128;
    const bool speaks = threadIdx.x % 32 == 0;
    for (Items item(p, split); item.left(); item.next()) {
      const int end = item.end();
      for (int k = item.begin(); k < end;) {
        const int border = min(k + p.segment, end);
        const bool first = k == item.begin();
        float sum[1][J][4];
        begin_at_zero(sum[0]);
        uint64_t* reading = nullptr;  // the slot before, which the products under way may still read
        // Nothing else touches the sums in here, or the compiler would wait for each stage's products (its C7517).
        for (; k < border; k += kDepth) {
          mbarrier_wait(&ring.full[ring.slot], ring.parity);
          const unsigned char* const tokens = ring.stage();
          const unsigned char* const weights = tokens + kTokenBytes + group * (64 * kRowBytes);
          wgmma_fence();
          // Past K both operands are zeros, which leave a sum as it is.
#pragma unroll
          for (int step = 0; step < kDepth / 16; step++) wgmma_start(sum[0], weights + 32 * step, tokens + 32 * step);
          wgmma_commit();
          wgmma_wait_but_one();
          if (speaks && reading != nullptr) mbarrier_arrive(reading);
          reading = &ring.empty[ring.slot];
          ring.next();
        }
        wgmma_wait();
        if (speaks) mbarrier_arrive(reading);
        settle(item, sum, first, border == end);
      }
    }
  }

  // Readies the barriers, then the groups part.
  template <class LoadWeights, class Settle>
  static __device__ __forceinline__ void run(const Problem& p, const CUtensorMap& x, const CUtensorMap& w, bool split,
                                             LoadWeights load_weights, Settle settle) {
    DYNAMIC_SHARED(unsigned char, shared);
    const Ring ring(shared);
    if (threadIdx.x == 0) {
      tma_prefetch(x);
      tma_prefetch(w);
      ring.init(1, 4 * GROUPS);
      mbarrier_publish();
    }
    __syncthreads();
    if (threadIdx.x >= 128 * GROUPS) {
      registers_less<24>();
      if (threadIdx.x == 128 * GROUPS) copy(p, x, ring, split, load_weights);
    } else {
      registers_more<240>();
      multiply(p, ring, split, settle);
    }
  }

  // y, or the sums of segments where `split`.
  static __device__ __forceinline__ void run(const Problem& p, const CUtensorMap& x, const CUtensorMap& w, bool split) {
    float total[J][4];  // of the segments so far, where a thread has the registers; otherwise they are in y
    run(p, x, w, split,
        [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w, full, k, output); },
        [&](const Items& item, float(&sum)[1][J][4], bool first, bool last) {
          const Corner corner = item.corner();
          const int output = corner.output + threadIdx.x / 32 * 16;
          Problem to = split ? of_segment(p, item.segment()) : p;
          if constexpr (kTotals) {
            if (!(first && last)) {
              if (!gather(p, total, sum[0], corner.token, output, first, last)) return;
              to.add = 0, first = true;
            }
          }
          settle_tile<1, J>(to, sum, corner.token, output, first, last && !split);
        });
  }
  // Takes a segment's sums to those of the segments before; after the last they are in `sum`, and it is true.
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

  // y, where segments are items of their own and meet in the kernel: each item's sums go to `parts`, and the warp that
  // is the last to bring its rows of a tile adds them all in order. `turns` are 0 before and after.
  //
  //   parts  [tiles, segments, TOKENS / 8, 128 GROUPS] float4, aligned to 16 bytes
  //   turns  [tiles, 4 GROUPS]
  static constexpr int kMultiplying = 128 * GROUPS, kWarps = 4 * GROUPS;
  static __device__ __forceinline__ void run_merged(const Problem& p, const CUtensorMap& x, const CUtensorMap& w,
                                                    float4* parts, unsigned* turns) {
    run_merged(p, x, w, parts, turns,
               [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w, full, k, output); },
               [&](const float(&sum)[1][J][4], int token, int output) {
                 Problem to = p;
                 to.add = 0;
                 settle_tile<1, J>(to, sum, token, output, true, true);
               });
  }
  // `put(sum, token, output)` takes the sums of all segments.
  template <class LoadWeights, class Put>
  static __device__ __forceinline__ void run_merged(const Problem& p, const CUtensorMap& x, const CUtensorMap& w, float4* parts,
                                                    unsigned* turns, LoadWeights load_weights, Put put) {
    const int segments = ceil_div(p.K, p.segment);
    run(p, x, w, true, load_weights,
        [&](const Items& item, const float(&sum)[1][J][4], bool, bool) {
          const size_t of_tile = static_cast<size_t>(item.tile()) * segments;
          float4* const part = parts + (of_tile + item.segment()) * (J * kMultiplying) + threadIdx.x;
#pragma unroll
          for (int j = 0; j < J; j++) part[j * kMultiplying] = make_float4(sum[0][j][0], sum[0][j][1], sum[0][j][2], sum[0][j][3]);
          if (!last_to_come(turns + item.tile() * kWarps + threadIdx.x / 32, segments)) return;
          const Corner corner = item.corner();
          const int output = corner.output + threadIdx.x / 32 * 16;
          float all[1][J][4];
          fold(p, all[0], parts + of_tile * (J * kMultiplying) + threadIdx.x, segments, corner.token, output);
          put(all, corner.token, output);
        });
  }

  // The warp's sums of all segments, its own among them, read from `parts` and added in order.
  static __device__ __forceinline__ void fold(const Problem& p, float (&sum)[J][4], const float4* parts, int segments, int token,
                                              int output) {
#pragma unroll
    for (int j = 0; j < J; j++) take(sum[j], parts[j * kMultiplying]);
    if (p.add) add_old(p, sum, token, output);
    for (int s = 1; s < segments; s++) {
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

  // What a fused gate needs beside: the gates and ups of the same outputs in one tile. `w`, [2 n, K], is seen as
  // [n / 8, 2, 8, K]: eight gates, their eight ups, the next eight. A warp's 16 rows are then eight outputs' gates, and
  // their ups in the same lane.
  //
  //   out[m][c] = bf16(f(gate) * up), as gate.cu has it from sums in f32
  //
  // There is one segment of k, and p.N is 2 n with n a multiple of 8. A tile is TOKENS x kOutputs / 2 outputs.
  template <typename F>
  static __device__ __forceinline__ void run_gated(const Problem& p, const CUtensorMap& x, const CUtensorMap& w, bf16* out) {
    run(p, x, w, false,
        [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w, full, k, 0, 0, output / 16); },
        [&](const Items& item, const float(&sum)[1][J][4], bool, bool) {
          const Corner corner = item.corner();
          put_gated<F>(sum[0], corner.token, (corner.output + threadIdx.x / 32 * 16) / 2, p.M, p.N / 2, out);
        });
  }

  // Queries, keys and values that the product itself turns and stores (gemm_narrow.cuh). `w`, [heads D, K], is seen as
  // [heads, D / 16, 2, 8, K]: of a head, eight dimensions of its first half, the eight of the second that they are turned
  // with, the next eight. A warp's 16 rows are then eight pairs, each in one lane. Segments meet in the kernel where there is
  // room for their `parts`, as in run_merged, and in registers otherwise.
  template <int D>
  static __device__ __forceinline__ void run_heads(const Problem& p, const CUtensorMap& x, const CUtensorMap& w, const Heads& heads,
                                                   float4* parts, unsigned* turns) {
    static_assert(kTotals && kOutputs % D == 0, "a tile has whole heads, and a thread all of their sums");
    const auto load = [&](unsigned char* to, uint64_t* full, int k, int output) { tma_load(to, w, full, k, 0, 0, 0, output / D); };
    if (parts != nullptr) {
      run_merged(p, x, w, parts, turns, load,
                 [&](const float(&sum)[1][J][4], int token, int output) { put_heads<D>(sum[0], token, output, p.M, p.bias, heads); });
      return;
    }
    float total[J][4];
    run(p, x, w, false, load, [&](const Items& item, float(&sum)[1][J][4], bool first, bool last) {
      const Corner corner = item.corner();
      const int output = corner.output + threadIdx.x / 32 * 16;
      if (gather(p, total, sum[0], corner.token, output, first, last)) put_heads<D>(sum[0], corner.token, output, p.M, p.bias, heads);
    });
  }
};

}  // namespace gemm
