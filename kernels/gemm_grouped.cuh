// Grouped products: the rows of each expert times that expert's weights, in one launch. The sum is gemm.cuh's, in one
// slice, so that a row's bits are those of a product with the expert's weights alone.
//
//   NAME_grouped   y[p][o]   = sum over k of x[row of p][k] w[expert of p][o][k]  (+ bias[expert of p][o])
//   NAME_gated     out[p][c] = bf16(f(gate, up)), gate and up those y of outputs 16 (c / 8) + c % 8 and 8 more
//
//   x      [*, K]          bf16
//   rows   [pairs]         the row of x of each pair of row and expert; null: that of the pair's number
//   w      [experts, N, K] each expert's as the product NAME reads it, one after another; N is a multiple of 16. Of
//                          NAME_gated, rows 16 i to 16 i + 7 are gates, the next eight the ups of the same columns
//   tiles  [*, 4]          expert, first pair, pairs, 0: pairs of one expert, at most as many as NAME has tokens; none:
//                          nothing is done (experts.cu writes them)
//   bias   [experts, N]    f32 or null
//   y      [pairs, N]      f32
//   out    [pairs, N / 2]  bf16; f of gate.cu: 0 silu, 1 gelu, 2 clamped
//
// Launch: threads and shared memory of the kernel NAME, grid (tiles x outputs / OUTPUTS rounded up): the output tiles
// of one tile of pairs are neighbours, which then read its rows from the second-level cache, and so do the next tiles
// of the same expert with its weights.
//
// Proved by kernels/tests/experts.cpp.
#pragma once

#include "gate.cuh"
#include "gemm_plain.cuh"
#include "gemm_stage.cuh"

namespace gemm {

struct Bf16Layout {
  static __device__ __forceinline__ size_t bytes(int N, int K) { return static_cast<size_t>(N) * K * 2; }
};
template <class F>
struct StripLayout {
  static __device__ __forceinline__ size_t bytes(int N, int K) { return N / planes::kOutputs * planes::strip_bytes<F>(K); }
};

// What a block computes: the pairs from `first` on, as a product of `p.M` rows; the outputs from `output` on.
struct Group {
  Problem p;
  int first, output;
};

struct GroupedInput {
  const bf16* x;
  const int* rows;
  const void* w;
  const int* tiles;
  const float* bias;
  int N, K;
};

template <class Layout>
__device__ __forceinline__ Group group_of(const GroupedInput& in, int outputs) {
  const int down = ceil_div(in.N, outputs);
  const int4 tile = reinterpret_cast<const int4*>(in.tiles)[blockIdx.x / down];
  const unsigned char* const w = static_cast<const unsigned char*>(in.w) + tile.x * Layout::bytes(in.N, in.K);
  const bool gathers = in.rows != nullptr;
  const bf16* const x = gathers ? in.x : in.x + static_cast<size_t>(tile.y) * in.K;
  const float* const bias = in.bias == nullptr ? nullptr : in.bias + static_cast<size_t>(tile.x) * in.N;
  const Problem p = {x, w, bias, nullptr, tile.z, in.N, in.K, in.K, in.N, 0, gathers ? in.rows + tile.y : nullptr};
  return {p, tile.y, static_cast<int>(blockIdx.x) % down * outputs};
}

// Sums as they are, or through a gate: a lane has a gate in [0] and [1], for two tokens, and its up in [2] and [3].
struct Sums {
  float* y;
  template <int I, int J>
  __device__ __forceinline__ void put(const Group& g, const float (&sum)[I][J][4], int token, int output) const {
    Problem p = g.p;
    p.y = y + static_cast<size_t>(g.first) * p.N;
    settle_tile<I, J>(p, sum, token, output, true, true);
  }
};
struct Gated {
  bf16* out;
  AnyGate gate;
  template <int I, int J>
  __device__ __forceinline__ void put(const Group& g, const float (&sum)[I][J][4], int token, int output) const {
    const int lane = threadIdx.x % 32, n = g.p.N / 2;
    const float* const bias = g.p.bias == nullptr ? nullptr : g.p.bias + output + lane / 4;
    token = unknown(token + lane % 4 * 2), output = unknown(output / 2 + lane / 4);
#pragma unroll
    for (int j = 0; j < J; j++)
#pragma unroll
      for (int t = 0; t < 2; t++) {
        const int row = token + 8 * j + t;
        bf16* const to = out + static_cast<size_t>(g.first + row) * n + output;
#pragma unroll
        for (int i = 0; i < I; i++) {
          if (row >= g.p.M || output + 8 * i >= n) continue;
          float of_gate = sum[i][j][t], up = sum[i][j][2 + t];
          if (bias != nullptr) of_gate = __fadd_rn(of_gate, bias[16 * i]), up = __fadd_rn(up, bias[16 * i + 8]);
          narrow(gate(of_gate, up), to[8 * i]);
        }
      }
  }
};

template <class Tile, class Layout, class To>
__device__ __forceinline__ void grouped(const GroupedInput& in, To to) {
  const Group g = group_of<Layout>(in, Tile::kOutputs);
  if (g.p.M == 0) return;
  const Corner within = Tile::of_warp();
  typename Tile::Gathered x(g.p.x, g.p.rows, g.p.M, in.K);
  Tile::multiply_over(g.p, g.output, x, 0, in.K, in.K,
                      [&](const float(&sum)[Tile::I][Tile::J][4], bool, bool) {
                        to.put(g, sum, within.token, g.output + within.output);
                      });
}

// 16 outputs and 8 tokens, by one warp.
template <class Weights, class Layout, class To>
__device__ __forceinline__ void grouped_plain(const GroupedInput& in, To to) {
  const Group g = group_of<Layout>(in, 16);
  if (g.p.M == 0) return;
  const Weights weights(g.p, g.output);
  float sum[1][1][4] = {};
  weights.sum(sum[0][0], g.p, g.output, 0, 0, in.K, threadIdx.x);
  to.put(g, sum, 0, g.output);
}

}  // namespace gemm

#define GROUPED_BY(NAME, BOUNDS, RUN)                                                                                 \
  extern "C" __global__ void BOUNDS NAME##_grouped(const bf16* x, const int* rows, const void* w, const int* tiles,   \
                                                   const float* bias, float* __restrict__ y, int N, int K) {          \
    await_earlier();                                                                                                  \
    RUN({x, rows, w, tiles, bias, N, K}, gemm::Sums{y});                                                              \
  }                                                                                                                   \
  extern "C" __global__ void BOUNDS NAME##_gated(const bf16* x, const int* rows, const void* w, const int* tiles,     \
                                                 const float* bias, bf16* __restrict__ out, int N, int K, int gate,   \
                                                 float limit, float alpha) {                                          \
    await_earlier();                                                                                                  \
    RUN({x, rows, w, tiles, bias, N, K}, gemm::Gated{out, {gate, limit, alpha}});                                     \
  }
