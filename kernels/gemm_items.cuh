// What the products with a warp group that copies have in common: what each of a grid's blocks works on, and the ring of
// stages between those who copy and those who multiply.
//
// As many blocks in x as multiprocessors, or as items where there are fewer. An item is a tile or, where sums go to
// segments, one segment of a tile; a block takes every gridDim.x-th.
//
// Proved by kernels/tests/gemm_tma.cpp.
#pragma once

#include "gemm.cuh"
#include "tma.cuh"

namespace gemm {

// A block's items, one after another.
template <int TOKENS, int OUTPUTS>
struct Items {
  int tiles, n, at;  // tiles; items; the next item
  const Problem& p;
  bool split;
  __device__ __forceinline__ Items(const Problem& problem, bool splits) : at(blockIdx.x), p(problem), split(splits) {
    tiles = ceil_div(p.M, TOKENS) * ceil_div(p.N, OUTPUTS);
    n = split ? tiles * ceil_div(p.K, p.segment) : tiles;
  }
  __device__ __forceinline__ bool left() const { return at < n; }
  __device__ __forceinline__ void next() { at += gridDim.x; }
  __device__ __forceinline__ int tile() const { return at % tiles; }
  __device__ __forceinline__ Corner corner() const { return corner_at<TOKENS, OUTPUTS>(p, tile()); }
  __device__ __forceinline__ int segment() const { return at / tiles; }
  __device__ __forceinline__ int begin() const { return split ? segment() * p.segment : 0; }
  __device__ __forceinline__ int end() const { return split ? min(begin() + p.segment, p.K) : p.K; }
};

// STAGES slots of BYTES, each aligned as boxes want it, with a barrier that says that a slot's stage has come (`full`) and
// one that those who read it are done (`empty`). Each who walks around the ring has one of these.
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
