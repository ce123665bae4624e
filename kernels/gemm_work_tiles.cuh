// Work tiles of the persistent products, and the ring of stages between the producer and the consumers.
//
// The grid has as many blocks in x as multiprocessors, or as work tiles where there are fewer. A work tile is an output
// tile or, with split-K, one slice of k of an output tile; a block computes every gridDim.x-th.
//
// Proved by kernels/tests/gemm_tma.cpp.
#pragma once

#include "gemm.cuh"
#include "tma.cuh"

namespace gemm {

// A block's work tiles, in order.
template <int TOKENS, int OUTPUTS>
struct WorkTiles {
  int tiles, n, at;  // output tiles; work tiles; the current work tile
  const Problem& p;
  bool split;
  __device__ __forceinline__ WorkTiles(const Problem& problem, bool splits) : at(blockIdx.x), p(problem), split(splits) {
    tiles = ceil_div(p.M, TOKENS) * ceil_div(p.N, OUTPUTS);
    n = split ? tiles * ceil_div(p.K, p.k_slice) : tiles;
  }
  __device__ __forceinline__ bool left() const { return at < n; }
  __device__ __forceinline__ void next() { at += gridDim.x; }
  __device__ __forceinline__ int tile() const { return at % tiles; }
  __device__ __forceinline__ Corner corner() const { return corner_at<TOKENS, OUTPUTS>(p, tile()); }
  __device__ __forceinline__ int slice() const { return at / tiles; }
  __device__ __forceinline__ int begin() const { return split ? slice() * p.k_slice : 0; }
  __device__ __forceinline__ int end() const { return split ? min(begin() + p.k_slice, p.K) : p.K; }
};

// STAGES slots of BYTES, aligned for TMA, each with a barrier that completes when the slot's stage has arrived (`full`)
// and one that completes when its readers have released it (`empty`). Producer and consumers each have a copy of this.
template <int STAGES, int BYTES>
struct Ring {
  static constexpr int kAlign = 1024, kBytes = STAGES * BYTES + kAlign + 2 * STAGES * 8;  // of shared memory
  static_assert(BYTES % kAlign == 0, "eight rows of an operand are aligned together");

  unsigned char* stages;
  uint64_t *full, *empty;
  int slot = 0;
  unsigned parity = 0;
  __device__ __forceinline__ explicit Ring(unsigned char* shared) {
    stages = shared + (kAlign - reinterpret_cast<uintptr_t>(shared) % kAlign) % kAlign;
    full = reinterpret_cast<uint64_t*>(stages + STAGES * BYTES);
    empty = full + STAGES;
  }
  // By one thread; mbarrier_publish and a barrier of the block must follow.
  __device__ __forceinline__ void init(int writers, int readers) const {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(&full[s], writers);
      mbarrier_init(&empty[s], readers);
    }
  }
  __device__ __forceinline__ unsigned char* stage() const { return stages + slot * BYTES; }
  __device__ __forceinline__ void next() {
    slot = slot + 1 == STAGES ? 0 : slot + 1;
    parity ^= slot == 0;
  }
};

}  // namespace gemm
