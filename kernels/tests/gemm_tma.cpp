// The products that copy boxes, on the CPU, to the bit: each against the plain kernel, and with the gate against it and
// gate.cu.
#include "boxes.h"
#include "gemm.h"

#include "../gate.cu"
#include "../gemm_bf16.cu"
#include "../gemm_merge.cu"
#include "../gemm_tma.cu"

namespace {

using test::Tokens;
using test::Weight;

using Whole = void (*)(CUtensorMap, CUtensorMap, const float*, float*, int, int, int, int, int, int);
using Split = void (*)(CUtensorMap, CUtensorMap, float*, int, int, int, int);
using Merged = void (*)(CUtensorMap, CUtensorMap, const float*, float*, float4*, unsigned*, int, int, int, int, int, int);
using Gated = void (*)(CUtensorMap, CUtensorMap, bf16*, int, int, int);

struct Kernel {
  std::string name;
  Whole whole;
  Split split;
  Merged merged;
  Gated silu, gelu;
  test::Tile tile;
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all = {
      {"gemm_bf16_tma_64x128", gemm_bf16_tma_64x128, gemm_bf16_tma_64x128_split, gemm_bf16_tma_64x128_merged, gemm_silu_tma_64x128,
       gemm_gelu_tma_64x128, Tma_64x128()},
      {"gemm_bf16_tma_128x128", gemm_bf16_tma_128x128, gemm_bf16_tma_128x128_split, gemm_bf16_tma_128x128_merged, gemm_silu_tma_128x128,
       gemm_gelu_tma_128x128, Tma_128x128()},
      {"gemm_bf16_tma_256x128", gemm_bf16_tma_256x128, gemm_bf16_tma_256x128_split, gemm_bf16_tma_256x128_merged, gemm_silu_tma_256x128,
       gemm_gelu_tma_256x128, Tma_256x128()},
  };
  return all;
}

// Gates and ups, [2 n, K], eight of each at a time.
CUtensorMap gate_map(const void* at, int n, int K, int box) {
  const uint64_t row = uint64_t(K) * 2;
  return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(at), 4, 2,
                       {uint64_t(K), 8, 2, uint64_t(n) / 8}, {row, row * n, row * 8}, {64, 8, 2, uint32_t(box) / 16}});
}

std::vector<float> plain(const Tokens& x, const Weight& w, int segment, const std::vector<float>& bias,
                         const std::vector<float>& old, int ldy) {
  std::vector<float> y = old;
  host::launch(dim3((x.M + 7) / 8 * ((w.N + 15) / 16)), dim3(32), 0, [&] {
    gemm_bf16(x.data(), w.data(), bias.empty() ? nullptr : bias.data(), y.data(), x.M, w.N, w.K, segment, ldy, 1);
  });
  return y;
}

bool same(const void* a, const void* b, size_t bytes) { return std::memcmp(a, b, bytes) == 0; }

std::string shape(const Kernel& k, int M, int N, int K, int segment) {
  std::ostringstream out;
  out << k.name << " [" << M << ", " << N << ", " << K << "] in segments of " << segment << ", order " << host::order();
  return out.str();
}

// With bias, an old y and rows of y wider than N, by `blocks` blocks.
void one_case(Tally& tally, const Kernel& k, int M, int N, int K, int segment, unsigned blocks, unsigned order) {
  Noise noise{uint32_t(M * 104729 + N * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight("bf16", noise, N, K);
  const int ldy = N + 3, S = (K + segment - 1) / segment;
  std::vector<float> bias(N), old(size_t(M) * ldy);
  for (float& v : bias) v = test::number(noise, 3.0f);
  for (float& v : old) v = test::number(noise, 3.0f);
  const std::vector<float> expected = plain(x, w, segment, bias, old, ldy);
  const CUtensorMap xs = test::rows_map(x.data(), M, K, k.tile.tokens), ws = test::rows_map(w.data(), N, K, k.tile.outputs);
  host::order() = order;
  std::vector<float> y = old, parts(size_t(S) * M * N, NAN);
  host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared,
               [&] { k.whole(xs, ws, bias.data(), y.data(), M, N, K, segment, ldy, 1); });
  tally.check(same(y.data(), expected.data(), y.size() * 4), shape(k, M, N, K, segment) + ": not the plain kernel's bits");
  y = old;
  host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared, [&] { k.split(xs, ws, parts.data(), M, N, K, segment); });
  host::launch(dim3((N + 255) / 256, M), dim3(256), 0,
               [&] { gemm_merge(parts.data(), bias.data(), y.data(), M, N, S, ldy, 1); });
  tally.check(same(y.data(), expected.data(), y.size() * 4), shape(k, M, N, K, segment) + ": split has other bits");
  // Parts of whole tiles; the turns are as they were, so that the next product can have them as they are.
  const size_t tiles = size_t((M + k.tile.tokens - 1) / k.tile.tokens) * ((N + k.tile.outputs - 1) / k.tile.outputs);
  std::vector<float4> merged(tiles * S * k.tile.tokens * k.tile.outputs / 4, float4{NAN, NAN, NAN, NAN});
  std::vector<unsigned> turns(tiles * k.tile.outputs / 16);
  for (const int again : {0, 1}) {
    y = old;
    host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared, [&] {
      k.merged(xs, ws, bias.data(), y.data(), merged.data(), turns.data(), M, N, K, segment, ldy, 1);
    });
    tally.check(same(y.data(), expected.data(), y.size() * 4),
                shape(k, M, N, K, segment) + ": segments that meet have other bits, time " + std::to_string(again));
  }
  tally.check(std::all_of(turns.begin(), turns.end(), [](unsigned t) { return t == 0; }),
              shape(k, M, N, K, segment) + ": turns that are not over");
  host::order() = 0;
}

void one_gated_case(Tally& tally, const Kernel& k, int M, int n, int K, unsigned blocks, unsigned order) {
  Noise noise{uint32_t(M * 7919 + n * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight("bf16", noise, 2 * n, K);
  const std::vector<float> zero(size_t(M) * 2 * n);
  const std::vector<float> gate_up = plain(x, w, K, {}, zero, 2 * n);
  std::vector<bf16> expected(size_t(M) * n), out(size_t(M) * n + 8);
  const CUtensorMap xs = test::rows_map(x.data(), M, K, k.tile.tokens), ws = gate_map(w.data(), n, K, k.tile.outputs);
  for (const bool silu : {true, false}) {
    host::order() = 0;
    host::launch(dim3(M, (n + 1023) / 1024), dim3(256), 0,
                 [&] { (silu ? gate_silu : gate_gelu)(gate_up.data(), expected.data(), M, n); });
    host::order() = order;
    std::memset(static_cast<void*>(out.data()), 0xff, out.size() * 2);
    host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared, [&] { (silu ? k.silu : k.gelu)(xs, ws, out.data(), M, 2 * n, K); });
    tally.check(same(out.data(), expected.data(), expected.size() * 2),
                shape(k, M, n, K, K) + (silu ? ": silu" : ": gelu") + " has other bits than the gate by itself");
    tally.check(std::all_of(out.end() - 8, out.end(), [](bf16 v) { return __bfloat16_as_ushort(v) == 0xffff; }),
                shape(k, M, n, K, K) + ": wrote behind the rows");
  }
  host::order() = 0;
}

}  // namespace

int main() {
  Tally tally("gemm_tma");
  test::tiles_table(tally, kernels(), "gemm_bf16");
  for (const Kernel& k : kernels()) {
    const int t = k.tile.tokens, o = k.tile.outputs;
    // One tile; several in one block, so that the ring goes on from tile to tile; several in three blocks; a k of less
    // than a stage, of no whole number of them, of several rounds of the ring.
    for (const unsigned order : {0u, 1u, 77u, 1234u}) one_case(tally, k, t, o, 512, 512, 1, order);
    for (const unsigned order : {0u, 77u}) one_case(tally, k, t + 3, o + 24, 1280, 512, 1, order);
    one_case(tally, k, 2 * t - 1, 2 * o - 9, 768, 256, 3, 5);
    for (const int K : {16, 48, 272, 1104}) one_case(tally, k, t / 2 + 1, o + 5, K, 512, 2, 9);
    for (const unsigned order : {0u, 1u, 77u}) one_gated_case(tally, k, t + 5, o / 2 + 8, 272, 2, order);
    one_gated_case(tally, k, 3, 8, 48, 1, 3);
  }
  return tally.end();
}
