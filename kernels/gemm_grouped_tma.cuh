// Grouped products with bf16 weights on Hopper, of many rows for each expert. Arrays and bits are gemm_grouped.cuh's;
// the place of `w` is taken by a tensor map of [1, experts, N, K] in tiles of 64 x 128 x 1 x 1, the first argument.
//
//   n_tiles  number of `tiles`; those without pairs are the last ones
//
// Launch: block 384, as many blocks as multiprocessors, or as work tiles where there are fewer (tiles x outputs / 128
// rounded up), kSharedBytes of dynamic shared memory.
//
// One producer warp group gathers rows of x by cp.async and copies weights by TMA; two consumer groups run wgmma, each
// for 64 outputs of a tile of at most 256 pairs. Pairs are wgmma's columns: the narrowest of five widths that holds a
// tile's is taken, so an expert of up to 256 rows reads its weights once.
//
// Expected, by calculation: the experts of a 30B-A3B take 390 us a layer for 2,048 tokens, and 870 by gemm_grouped.cuh's
// tiles of 128 x 128. No card has run it.
//
// Proved by kernels/tests/experts.cpp.
#pragma once

#include "gemm_grouped.cuh"
#include "tma.cuh"

namespace gemm {

struct GroupedTma {
  static constexpr int kTokens = 256, kOutputs = 128, kConsumers = 256, kThreads = kConsumers + 128, kDepth = 64;
  static constexpr int kRowBytes = 2 * kDepth, kTokenBytes = kTokens * kRowBytes, kWeightBytes = kOutputs * kRowBytes;
  using Ring = StageRing<4, kTokenBytes + kWeightBytes>;
  static constexpr int kSharedBytes = Ring::kBytes;
  static constexpr int kLag = 2;  // stages that a producer starts before it waits for the rows of an earlier one

  // A block's tiles of pairs and outputs, in order.
  struct Work {
    const GroupedInput& in;
    int down, end, at;
    int4 tile;  // expert, first pair, pairs
    __device__ __forceinline__ Work(const GroupedInput& input, int n_tiles) : in(input), at(blockIdx.x) {
      down = ceil_div(in.N, kOutputs), end = n_tiles * down;
      fetch();
    }
    __device__ __forceinline__ void fetch() {
      tile = at < end ? reinterpret_cast<const int4*>(in.tiles)[at / down] : make_int4(0, 0, 0, 0);
    }
    __device__ __forceinline__ bool left() const { return tile.z > 0; }
    __device__ __forceinline__ void next() { at += gridDim.x, fetch(); }
    __device__ __forceinline__ int output() const { return at % down * kOutputs; }
    // Columns of the products.
    __device__ __forceinline__ int width() const {
      return tile.z <= 64 ? 64 : tile.z <= 128 ? 128 : tile.z <= 160 ? 160 : tile.z <= 192 ? 192 : 256;
    }
  };

  // The producers. A stage is announced to the consumers when this thread's rows of it have arrived, kLag stages later.
  static __device__ __forceinline__ void copy(const GroupedInput& in, const CUtensorMap& w, Ring ring, int n_tiles) {
    constexpr int kRowsAtOnce = 16;
    __shared__ int row_of[kTokens];  // of each pair; -1: none. A warp writes and reads its own
    const int thread = threadIdx.x - kConsumers, chunk = thread % 8, first = thread / 8;
    Ring announced = ring;
    int started = 0;
    const auto announce = [&] {
      wgmma_publish();
      __syncwarp();
      if (thread % 32 == 0) mbarrier_arrive(&announced.full[announced.slot]);
      announced.next();
    };
    for (Work work(in, n_tiles); work.left(); work.next()) {
      __syncwarp();
      for (int pair = first + chunk * kRowsAtOnce; pair < kTokens; pair += 8 * kRowsAtOnce)
        row_of[pair] = pair >= work.tile.z ? -1 : in.rows == nullptr ? work.tile.y + pair : in.rows[work.tile.y + pair];
      __syncwarp();
      for (int k = 0; k < in.K; k += kDepth) {
        mbarrier_wait(&ring.empty[ring.slot], ring.parity ^ 1);
        unsigned char* const stage = ring.stage();
        if (thread == 0) {
          mbarrier_expect(&ring.full[ring.slot], kWeightBytes);
          tma_load(stage + kTokenBytes, w, &ring.full[ring.slot], k, work.output(), work.tile.x, 0);
        }
        const int value = k + chunk * 8;
#pragma unroll 4
        for (int pair = first; pair < work.width(); pair += kRowsAtOnce) {
          // Rows that there are not, and values past K, are zeros.
          const int row = row_of[pair];
          const bool is_there = row >= 0 && value < in.K;
          const bf16* const from = in.x + (is_there ? static_cast<size_t>(row) * in.K + value : 0);
          cp_async_16(stage + pair * kRowBytes + (chunk ^ pair % 8) * 16, from, is_there);
        }
        cp_async_commit();
        ring.next();
        if (started++ >= kLag) {
          cp_async_wait<kLag>();
          announce();
        }
      }
    }
    cp_async_wait<0>();
    for (int left = min(started, kLag); left > 0; left--) announce();
  }

  // A work tile's sums, of 8 J columns.
  template <int J, class To>
  static __device__ __forceinline__ void multiply(const Work& work, Ring& ring, To to) {
    const GroupedInput& in = work.in;
    float sum[1][J][4];
    begin_at_zero(sum[0]);
    multiply_stages(sum[0], ring, kTokenBytes, ceil_div(in.K, kDepth));
    const float* const bias = in.bias == nullptr ? nullptr : in.bias + static_cast<size_t>(work.tile.x) * in.N;
    const Problem p = {nullptr, nullptr, bias, nullptr, work.tile.z, in.N, in.K, in.K, in.N, 0};
    to.put(Group{p, work.tile.y, work.output()}, sum, 0, work.output() + static_cast<int>(threadIdx.x) / 32 * 16);
  }

  // Initialises the barriers; the warp groups then take their roles.
  template <class To>
  static __device__ __forceinline__ void run(const GroupedInput& in, const CUtensorMap& w, int n_tiles, To to) {
    DYNAMIC_SHARED(unsigned char, shared);
    Ring ring(shared);
    if (threadIdx.x == 0) {
      tma_prefetch(w);
      ring.init(1 + 4, kConsumers / 32);
      mbarrier_publish();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
      registers_less<56>();
      copy(in, w, ring, n_tiles);
    } else {
      registers_more<224>();
      for (Work work(in, n_tiles); work.left(); work.next()) {
        switch (work.width()) {
          case 64: multiply<8>(work, ring, to); break;
          case 128: multiply<16>(work, ring, to); break;
          case 160: multiply<20>(work, ring, to); break;
          case 192: multiply<24>(work, ring, to); break;
          default: multiply<32>(work, ring, to);
        }
      }
    }
  }
};

}  // namespace gemm
