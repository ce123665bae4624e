// The product of weights in planes on Hopper, with a warp group that copies and GROUPS that multiply: a tile is
// TOKENS x 64 GROUPS, from stages of 128 values (four units) in shared memory. The sum is gemm.cuh's.
//
// Launch: kThreads (128 for each warp group), kSharedBytes of dynamic shared memory, blocks in x as gemm_items.cuh has it.
//
// A stage is two boxes of x and, as they are in global memory, the strips' units and supers. Each of the four warps that
// copy asks for some of the strips, a lane for one: so no scheduler issues all of these instructions, of which there are
// eight a copy. Strips past N are not read: their warps multiply what lies there, whatever it is, since an output's sum comes
// from its own row alone and nobody stores these.
//
// A warp that multiplies has one strip. Codes become bf16 in registers, which is where wgmma takes its rows from; the
// products of a part, that is of values that share a scale and of 64 tokens, go to a fragment from nothing, and from there
// to the segment's sum with the scale. Two fragments take turns: while one is added the next part is multiplied, and beside
// both the next unit is unpacked.
//
// The sums of x that minima want are the same for all outputs: a warp group of their own computes them.
//
// What to expect, counted from sm_90a's machine code (not measured): the instructions that a scheduler issues, one a clock,
// for a unit of the tile, by the two warps that multiply, the one that copies and the one that sums up; beside it what
// gemm_tile_quantised.cuh's 64x128 issues for as many tokens and outputs.
//           128x128 (the tensor cores have 256 clocks of it)      64x128 (128 clocks)
//           multiply  copy  sum  in all  mma.sync                 multiply  copy  sum  in all  mma.sync
//   q8_0    249       24    -    273     371                      173       24    -    197     186
//   q4_k    409       32    33   474     544                      258       32    22   312     272
//   q6_k    432       32    -    464     634                      287       32    -    319     317
// So with many tokens 1.36, 1.15 and 1.37 times as fast, if mma.sync is held up by its instructions too; two fused
// multiply-adds for each sum are 256 of q4_k's and q6_k's. With 64 tokens unpacking costs as much as it saves: an H100's
// memory takes 302, 160 and 231 clocks for these weights, so q8_0 would wait for it, and the others for instructions.
//
// Proved by kernels/tests/gemm_quantised_tma.cpp.
#pragma once

#include "gemm_items.cuh"
#include "gemm_scaled.cuh"

namespace gemm {

template <class F, int TOKENS, int GROUPS, int STAGES>
struct TileQuantisedTma {
  static constexpr int kTokens = TOKENS, kOutputs = 64 * GROUPS, kMultiplying = 4 * GROUPS;  // warps
  static constexpr int kThreads = 32 * kMultiplying + (F::minima ? 256 : 128);
  static constexpr int kDepth = 128, kUnits = kDepth / planes::kUnit, kStrips = kOutputs / planes::kOutputs;
  static constexpr int J = TOKENS / 8, kHalves = TOKENS / 64;
  static constexpr int kScales = planes::kUnit / F::scaled;  // of an output in a unit
  static constexpr int kParts = kScales * kHalves;           // of a unit
  static_assert(TOKENS % 64 == 0 && kStrips == kMultiplying, "a part has 64 tokens, a warp one strip");
  static_assert(planes::kSuper % kDepth == 0, "a stage has one super");

  // A stage: x in boxes of 64 values, the strips, sums of x.
  using X = Rows<TOKENS, 64, 128>;
  static constexpr int kBoxes = kDepth / 64, kTokenBytes = kBoxes * X::kBytes;
  static constexpr int kStripBytes = kUnits * planes::unit_bytes<F> + F::super_bytes;
  static constexpr int kSumsAt = kTokenBytes + kStrips * kStripBytes;
  static constexpr int kStageBytes = ceil_div(kSumsAt + (F::minima ? kUnits * TOKENS * 4 : 0), 1024) * 1024;
  using Items = gemm::Items<TOKENS, kOutputs>;
  using Ring = gemm::Ring<STAGES, kStageBytes>;
  static constexpr int kSharedBytes = Ring::kBytes + (F::minima ? STAGES * 8 : 0);

  // The barriers that say that a slot's sums of x are there.
  static __device__ __forceinline__ uint64_t* summed(const Ring& ring) { return ring.empty + STAGES; }

  // Of warp `warp` of four, which copies its part of the strips; the first copies x too.
  static __device__ __forceinline__ void copy(const Problem& p, const CUtensorMap& x, Ring ring, bool split, int warp) {
    constexpr int kOwn = kStrips / 4;
    const int lane = threadIdx.x % 32, own = warp * kOwn;
    for (Items item(p, split); item.left(); item.next()) {
      const Corner corner = item.corner();
      const int end = item.end();
      const int strips = max(0, min(ceil_div(p.N - corner.output, planes::kOutputs) - own, kOwn));  // that there are
      const planes::Strip<F> strip(p.w, corner.output / planes::kOutputs + own + lane, p.K);
      for (int k = item.begin(); k < end; k += kDepth) {
        const unsigned units = min(kUnits, (end - k) / planes::kUnit) * planes::unit_bytes<F>;
        uint64_t* const full = &ring.full[ring.slot];
        unsigned char* const stage = ring.stage();
        mbarrier_wait(&ring.empty[ring.slot], ring.parity ^ 1);
        if (lane == 0) {
          mbarrier_expect(full, strips * (units + F::super_bytes) + (warp == 0 ? kTokenBytes : 0));
#pragma unroll
          for (int box = 0; box < kBoxes; box++)
            if (warp == 0) tma_load(stage + box * X::kBytes, x, full, k + 64 * box, corner.token);
        }
        __syncwarp();
        if (lane < strips) {
          unsigned char* const to = stage + kTokenBytes + (own + lane) * kStripBytes;
          bulk_load(to, strip.unit(k), units, full);
          if (F::super_bytes != 0) bulk_load(to + kUnits * planes::unit_bytes<F>, strip.super(k), F::super_bytes, full);
        }
        ring.next();
      }
    }
  }

  // Where the sums of x of 16 tokens stand: four floats for each lane % 4, its two of the first eight tokens, then of the
  // others, so that a warp that adds them loads 16 bytes a lane.
  static __device__ __forceinline__ unsigned char* sums_of(unsigned char* stage, int unit, int token) {
    return stage + kSumsAt + (unit * TOKENS + token) * 4 + threadIdx.x % 4 * 16;
  }

  // Of warp `warp` of four, which sums up its part of the tokens.
  static __device__ __forceinline__ void sum(const Problem& p, Ring ring, bool split, int warp) {
    constexpr int kOwn = TOKENS / 4;
    const int lane = threadIdx.x % 32;
    for (Items item(p, split); item.left(); item.next()) {
      const int end = item.end();
      for (int k = item.begin(); k < end; k += kDepth) {
        unsigned char* const stage = ring.stage();
        mbarrier_wait(&ring.full[ring.slot], ring.parity);
#pragma unroll
        for (int unit = 0; unit < kUnits; unit++) {
#pragma unroll
          for (int token = 0; token < kOwn; token += 16) {
            uint32_t b[2][2][2];
            load_two_steps<X>(b, stage + unit / 2 * X::kBytes + warp * (kOwn * X::kRowBytes), token, unit % 2 * 2);
            float sum[2][4] = {};
#pragma unroll
            for (int j = 0; j < 2; j++) sum_of_x(sum[j], b[0][j], b[1][j]);
            auto* const to = reinterpret_cast<float2*>(sums_of(stage, unit, warp * kOwn + token));
#pragma unroll
            for (int j = 0; j < 2; j++)
              if (lane < 4) to[j] = make_float2(sum[j][0], sum[j][1]);
          }
        }
        __syncwarp();
        if (lane == 0) mbarrier_arrive(&summed(ring)[ring.slot]);
        ring.next();
      }
    }
  }

  // A unit of the warp's strip, ready to be multiplied.
  struct Unit {
    uint32_t a[2][4];
    planes::Scales scale[kScales][2];
  };

  // What a warp has in its registers beside the sums.
  struct Work {
    Ring ring;
    const int strip_at;  // the warp's strip within a stage
    Unit units[2];
    planes::UnitScales<F> scales;  // of the unit that was unpacked last
    __device__ __forceinline__ Work(const Ring& from, int at) : ring(from), strip_at(at) {}

    // Unpacks a stage's unit.
    __device__ __forceinline__ void unpack(const unsigned char* stage, int unit) {
      const int lane = threadIdx.x % 32;
      const unsigned char* const strip = stage + strip_at;
      const unsigned char* const at = strip + unit * planes::unit_bytes<F>;
      planes::Codes<F> codes;
      codes.load(at, lane);
      if (F::super_bytes != 0 && unit == 0) scales.load_super(strip + kUnits * planes::unit_bytes<F>, lane / 4);
      scales.load(at, lane / 4);
      Unit& to = units[unit % 2];
#pragma unroll
      for (int s = 0; s < 2; s++) {
        codes.unpack(to.a[s], s);
        wgmma_hold(to.a[s]);
      }
#pragma unroll
      for (int s = 0; s < kScales; s++) scales.at(s, to.scale[s][0], to.scale[s][1]);
    }

    // Starts a part of a stage with these tokens.
    __device__ __forceinline__ void start(float (&products)[8][4], WgmmaTokens tokens, int part) {
      const int at = part / kParts, step = part / kHalves % kScales;  // its unit; its step of the unit
      const Unit& unit = units[at % 2];
      const int box = at / 2 * X::kBytes + part % kHalves * (64 * X::kRowBytes);
      const WgmmaTokens values = tokens + (box + 32 * (at % 2 * 2 + step));
      wgmma_fence();
      wgmma_start<false>(products, unit.a[step], values);
      if constexpr (kScales == 1) wgmma_start<true>(products, unit.a[1], values + 32);
      wgmma_commit();
    }

    // Adds a part that is done.
    __device__ __forceinline__ void add(float (&total)[1][J][4], float (&done)[8][4], unsigned char* stage, int part) {
      const int half = part % kHalves, unit = part / kParts;
#pragma unroll
      for (int j = 0; j < 8; j++) wgmma_hold(done[j]);
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        float4 of_x = {};
        if (F::minima) of_x = *reinterpret_cast<const float4*>(sums_of(stage, unit, half * 64 + 8 * j));
        const float of_eight[2][2] = {{of_x.x, of_x.y}, {of_x.z, of_x.w}};
#pragma unroll
        for (int i = 0; i < 2; i++)
          add_scaled<F>(total[0][half * 8 + j + i], units[unit % 2].scale[part / kHalves % kScales], done[j + i], of_eight[i]);
      }
    }

    // Adds a whole stage, whose first unit has been unpacked, and unpacks the next stage's. Where no other follows (!more) it
    // is this one's first unit again, which nobody uses. No product runs on from one stage to the next: ptxas would have
    // all of them wait (its C7514).
    __device__ __forceinline__ void stage(float (&total)[1][J][4], bool more) {
      unsigned char* const here = ring.stage();
      const WgmmaTokens tokens = here;
      Ring next = ring;
      if (more) next.next();
      float products[2][8][4];  // of parts in turn
      start(products[0], tokens, 0);
      if constexpr (F::minima) mbarrier_wait(&summed(ring)[ring.slot], ring.parity);
      const auto prepare = [&](int unit) {
        if (unit < kUnits) {
          unpack(here, unit);
        } else {
          mbarrier_wait(&next.full[next.slot], next.parity);
          unpack(next.stage(), 0);
        }
      };
#pragma unroll
      for (int part = 0; part < kUnits * kParts; part++) {
        const bool begins = part % kParts == 0;  // a unit, so that the one before it is done
        if (begins && kParts == 1) prepare(part + 1);
        if (part + 1 < kUnits * kParts) start(products[(part + 1) % 2], tokens, part + 1);
        if (begins && kParts > 1) prepare(part / kParts + 1);
        if (part + 1 < kUnits * kParts) {
          wgmma_wait_but_one();
        } else {
          wgmma_wait();
        }
        add(total, products[part % 2], here, part);
      }
      leave();
    }

    // Done with this slot.
    __device__ __forceinline__ void leave() {
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(&ring.empty[ring.slot]);
      ring.next();
    }

    // Adds the first units of a stage, one part after another.
    __device__ __forceinline__ void rest(float (&total)[1][J][4], int units) {
      mbarrier_wait(&ring.full[ring.slot], ring.parity);
#pragma unroll
      for (int unit = 0; unit < kUnits - 1; unit++) {
        if (unit >= units) break;
        unpack(ring.stage(), unit);
#pragma unroll
        for (int part = unit * kParts; part < (unit + 1) * kParts; part++) {
          float products[8][4];
          start(products, ring.stage(), part);
          wgmma_wait();
          add(total, products, ring.stage(), part);
        }
      }
      leave();
    }
  };

  static __device__ __forceinline__ void multiply(const Problem& p, const Ring& ring, bool split) {
    const int warp = threadIdx.x / 32;
    Work work(ring, kTokenBytes + warp * kStripBytes);
    for (Items item(p, split); item.left(); item.next()) {
      const int begin = item.begin(), end = item.end();
      for (int k = begin; k < end;) {
        const int border = min(k + p.segment, end);
        const bool first = k == begin;
        float total[1][J][4] = {};
        if (k + kDepth <= border) {
          mbarrier_wait(&work.ring.full[work.ring.slot], work.ring.parity);
          work.unpack(work.ring.stage(), 0);
          for (; k + kDepth <= border; k += kDepth) work.stage(total, k + 2 * kDepth <= border);
        }
        // Segments, and rows of more than one super, have whole stages.
        if (F::super_bytes == 0 && k < border) work.rest(total, (border - k) / planes::kUnit);
        k = border;
        const Corner corner = item.corner();
        const Problem to = split ? of_segment(p, item.segment()) : p;
        settle_tile<1, J>(to, total, corner.token, corner.output + warp * planes::kOutputs, first, border == end && !split);
      }
    }
  }

  // y, or the sums of segments where `split`: readies the barriers, then the groups part.
  static __device__ __forceinline__ void run(const Problem& p, const CUtensorMap& x, bool split) {
    DYNAMIC_SHARED(unsigned char, shared);
    const Ring ring(shared);
    if (threadIdx.x == 0) {
      tma_prefetch(x);
      ring.init(4, kMultiplying);
      for (int s = 0; F::minima && s < STAGES; s++) mbarrier_init(&summed(ring)[s], 4);
      mbarrier_publish();
    }
    __syncthreads();
    const int warp = threadIdx.x / 32;
    if (warp < kMultiplying) {
      registers_more<F::minima ? 216 : 232>();
      multiply(p, ring, split);
    } else if (warp < kMultiplying + 4) {
      registers_less<40>();
      copy(p, x, ring, split, warp - kMultiplying);
    } else if (F::minima) {
      registers_less<40>();
      sum(p, ring, split, warp - kMultiplying - 4);
    }
  }
};

}  // namespace gemm
