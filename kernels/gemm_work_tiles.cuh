// Work tiles of the persistent products.
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

}  // namespace gemm
