// The TMA products on the CPU, to the bit: each against the plain kernel, with a fused gate against it and gate.cu,
// with rotated heads against it and rotate.cu.
#include "gemm.h"

#include "../gate.cu"
#include "../gemm_bf16.cu"
#include "../gemm_merge.cu"
#include "../gemm_tma.cu"
#include "../rotate.cu"

namespace {

using test::Tokens;
using test::Weight;

using Whole = void (*)(CUtensorMap, CUtensorMap, int, const float*, float*, int, int, int, int, int, int);
using Split = void (*)(CUtensorMap, CUtensorMap, int, float*, int, int, int, int);
using Reduced = void (*)(CUtensorMap, CUtensorMap, int, const float*, float*, float4*, unsigned*, int, int, int, int, int, int);
using Gated = void (*)(CUtensorMap, CUtensorMap, int, bf16*, int, int, int);
using Rotated = decltype(&gemm_heads_tma_64x128);

// What products.rs knows of a kernel.
struct Tile {
  int tokens, outputs, threads, shared;
  template <class Of>
  Tile(Of) : tokens(Of::kTokens), outputs(Of::kOutputs), threads(Of::kThreads), shared(Of::kSharedBytes) {}
};

struct Kernel {
  std::string name;
  Whole whole;
  Split split;
  Reduced reduced;
  Gated silu, gelu;
  Rotated heads;
  Tile tile;
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all = {
      {"gemm_bf16_tma_64x128", gemm_bf16_tma_64x128, gemm_bf16_tma_64x128_split, gemm_bf16_tma_64x128_merged, gemm_silu_tma_64x128,
       gemm_gelu_tma_64x128, gemm_heads_tma_64x128, Tma_64x128()},
      {"gemm_bf16_tma_128x128", gemm_bf16_tma_128x128, gemm_bf16_tma_128x128_split, gemm_bf16_tma_128x128_merged, gemm_silu_tma_128x128,
       gemm_gelu_tma_128x128, gemm_heads_tma_128x128, Tma_128x128()},
      {"gemm_bf16_tma_256x128", gemm_bf16_tma_256x128, gemm_bf16_tma_256x128_split, gemm_bf16_tma_256x128_merged, gemm_silu_tma_256x128,
       gemm_gelu_tma_256x128, nullptr, Tma_256x128()},
  };
  return all;
}

// Whether the rows of tiles.txt for TMA kernels are those of the kernels.
void tiles_table(Tally& tally) {
  std::ifstream file("kernels/tests/tiles.txt");
  std::string line;
  size_t rows = 0;
  while (std::getline(file, line)) {
    if (line[0] == '#' || line.find(" tma ") == std::string::npos) continue;
    bool found = false;
    for (const Kernel& k : kernels()) {
      std::ostringstream row;
      row << k.name << " tma " << k.tile.tokens << " " << k.tile.outputs << " " << k.tile.threads << " " << k.tile.shared;
      found |= row.str() == line;
    }
    tally.check(found, "tiles.txt: " + line);
    rows++;
  }
  tally.check(rows == kernels().size(), "tiles.txt has " + std::to_string(rows) + " kernels");
}

// Rows of K values, in TMA tiles of `box` rows.
CUtensorMap rows_map(const void* at, int rows, int K, int box) {
  return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(at), 2, 2, {uint64_t(K), uint64_t(rows)},
                       {uint64_t(K) * 2}, {64, uint32_t(box)}});
}

// Gates and ups, [2 n, K], eight of each at a time.
CUtensorMap gate_map(const void* at, int n, int K, int box) {
  const uint64_t row = uint64_t(K) * 2;
  return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(at), 4, 2,
                       {uint64_t(K), 8, 2, uint64_t(n) / 8}, {row, row * n, row * 8}, {64, 8, 2, uint32_t(box) / 16}});
}

// Heads of D dimensions, eight pairs at a time.
CUtensorMap heads_map(const void* at, int heads, int D, int K, int box) {
  const uint64_t row = uint64_t(K) * 2;
  return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(at), 5, 2,
                       {uint64_t(K), 8, 2, uint64_t(D) / 16, uint64_t(heads)}, {row, row * D / 2, row * 8, row * D},
                       {64, 8, 2, uint32_t(D) / 16, uint32_t(box / D)}});
}

std::vector<float> plain(const Tokens& x, const Weight& w, int k_slice, const std::vector<float>& bias,
                         const std::vector<float>& old, int ldy) {
  std::vector<float> y = old;
  host::launch(dim3((x.M + 7) / 8 * ((w.N + 15) / 16)), dim3(32), 0, [&] {
    gemm_bf16(x.data(), w.data(), bias.empty() ? nullptr : bias.data(), y.data(), x.M, w.N, w.K, k_slice, ldy, 1);
  });
  return y;
}

bool same(const void* a, const void* b, size_t bytes) { return std::memcmp(a, b, bytes) == 0; }

std::string shape(const Kernel& k, int M, int N, int K, int k_slice) {
  std::ostringstream out;
  out << k.name << " [" << M << ", " << N << ", " << K << "] in slices of " << k_slice << ", order " << host::order();
  return out.str();
}

// With bias, an old y and rows of y wider than N, by `blocks` blocks.
void one_case(Tally& tally, const Kernel& k, int M, int N, int K, int k_slice, unsigned blocks, unsigned order) {
  Noise noise{uint32_t(M * 104729 + N * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight("bf16", noise, N, K);
  const int ldy = N + 3, S = (K + k_slice - 1) / k_slice;
  std::vector<float> bias(N), old(size_t(M) * ldy);
  for (float& v : bias) v = test::number(noise, 3.0f);
  for (float& v : old) v = test::number(noise, 3.0f);
  const std::vector<float> expected = plain(x, w, k_slice, bias, old, ldy);
  const CUtensorMap xs = rows_map(x.data(), M, K, k.tile.tokens), ws = rows_map(w.data(), N, K, k.tile.outputs);
  const int early = order % 2;
  host::order() = order;
  std::vector<float> y = old, parts(size_t(S) * M * N, NAN);
  host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared,
               [&] { k.whole(xs, ws, early, bias.data(), y.data(), M, N, K, k_slice, ldy, 1); });
  tally.check(same(y.data(), expected.data(), y.size() * 4), shape(k, M, N, K, k_slice) + ": not the plain kernel's bits");
  y = old;
  host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared, [&] { k.split(xs, ws, early, parts.data(), M, N, K, k_slice); });
  host::launch(dim3(M, (N + 255) / 256), dim3(256), 0,
               [&] { gemm_merge(parts.data(), bias.data(), y.data(), M, N, S, ldy, 1); });
  tally.check(same(y.data(), expected.data(), y.size() * 4), shape(k, M, N, K, k_slice) + ": split has other bits");
  // Sums of whole tiles; the semaphores are 0 again, as the next product needs them.
  const size_t tiles = size_t((M + k.tile.tokens - 1) / k.tile.tokens) * ((N + k.tile.outputs - 1) / k.tile.outputs);
  std::vector<float4> sums(tiles * S * k.tile.tokens * k.tile.outputs / 4, float4{NAN, NAN, NAN, NAN});
  std::vector<unsigned> semaphores(tiles * k.tile.outputs / 16);
  for (const int again : {0, 1}) {
    y = old;
    host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared, [&] {
      k.reduced(xs, ws, early, bias.data(), y.data(), sums.data(), semaphores.data(), M, N, K, k_slice, ldy, 1);
    });
    tally.check(same(y.data(), expected.data(), y.size() * 4),
                shape(k, M, N, K, k_slice) + ": slices reduced in the kernel have other bits, time " + std::to_string(again));
  }
  tally.check(std::all_of(semaphores.begin(), semaphores.end(), [](unsigned s) { return s == 0; }),
              shape(k, M, N, K, k_slice) + ": semaphores that are not 0");
  host::order() = 0;
}

void one_gated_case(Tally& tally, const Kernel& k, int M, int n, int K, unsigned blocks, unsigned order) {
  Noise noise{uint32_t(M * 7919 + n * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight("bf16", noise, 2 * n, K);
  const std::vector<float> zero(size_t(M) * 2 * n);
  const std::vector<float> gate_up = plain(x, w, K, {}, zero, 2 * n);
  std::vector<bf16> expected(size_t(M) * n), out(size_t(M) * n + 8);
  const CUtensorMap xs = rows_map(x.data(), M, K, k.tile.tokens), ws = gate_map(w.data(), n, K, k.tile.outputs);
  const int early = order % 2;
  for (const bool silu : {true, false}) {
    host::order() = 0;
    host::launch(dim3(M, (n + 1023) / 1024), dim3(256), 0,
                 [&] { (silu ? gate_silu : gate_gelu)(gate_up.data(), expected.data(), M, n); });
    host::order() = order;
    std::memset(static_cast<void*>(out.data()), 0xff, out.size() * 2);
    host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared, [&] { (silu ? k.silu : k.gelu)(xs, ws, early, out.data(), M, 2 * n, K); });
    tally.check(same(out.data(), expected.data(), expected.size() * 2),
                shape(k, M, n, K, K) + (silu ? ": silu" : ": gelu") + " has other bits than the gate by itself");
    tally.check(std::all_of(out.end() - 8, out.end(), [](bf16 v) { return __bfloat16_as_ushort(v) == 0xffff; }),
                shape(k, M, n, K, K) + ": wrote behind the rows");
  }
  host::order() = 0;
}

struct Stored {
  std::vector<bf16> queries, keys, values;
  Stored(size_t q, size_t kv) : queries(q), keys(kv), values(kv) {
    for (auto* all : {&queries, &keys, &values}) std::memset(static_cast<void*>(all->data()), 0xff, all->size() * 2);
  }
  bool operator==(const Stored& other) const {
    return same(queries.data(), other.queries.data(), queries.size() * 2) && same(keys.data(), other.keys.data(), keys.size() * 2) &&
           same(values.data(), other.values.data(), values.size() * 2);
  }
};

// Queries, keys and values of M rows, of which some have no slot: by the product and rotate.cu, and by both in one.
void one_case_of_heads(Tally& tally, const Kernel& k, int M, int H, int KV, int D, int K, int k_slice, bool biased, unsigned blocks,
                       unsigned order) {
  constexpr int kContext = 50;
  const int heads = H + 2 * KV, N = heads * D, S = (K + k_slice - 1) / k_slice;
  Noise noise{uint32_t(M * 104729 + N * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight("bf16", noise, N, K);
  std::vector<float> bias(biased ? N : 0), cos(kContext * D / 2), sin(cos.size());
  for (auto* all : {&bias, &cos, &sin})
    for (float& v : *all) v = test::number(noise, 2.0f);
  std::vector<int> positions(M), slots(M);
  for (int row = 0; row < M; row++) {
    positions[row] = row * 7 % kContext;
    slots[row] = row % 5 == 3 ? -1 : M - 1 - row;
  }
  const size_t cached = size_t(M + 15) / 16 * 16 * KV * D;
  Stored expected(size_t(M) * H * D, cached);
  host::order() = 0;
  const std::vector<float> qkv = plain(x, w, k_slice, bias, std::vector<float>(size_t(M) * N), N);
  host::launch(dim3(M, (heads + 3) / 4), dim3(32, 4), 0, [&] {
    rotate(qkv.data(), nullptr, nullptr, nullptr, cos.data(), sin.data(), positions.data(), slots.data(), nullptr, expected.queries.data(),
           expected.keys.data(), expected.values.data(), nullptr, M, H, KV, D, D, 0, 1e-6f);
  });
  const CUtensorMap xs = rows_map(x.data(), M, K, k.tile.tokens), ws = heads_map(w.data(), heads, D, K, k.tile.outputs);
  const size_t tiles = size_t((M + k.tile.tokens - 1) / k.tile.tokens) * ((N + k.tile.outputs - 1) / k.tile.outputs);
  std::vector<float4> parts(tiles * S * k.tile.tokens * k.tile.outputs / 4, float4{NAN, NAN, NAN, NAN});
  std::vector<unsigned> semaphores(tiles * k.tile.outputs / 16);
  const int early = order % 2;
  host::order() = order;
  for (const bool reduces : {false, true}) {
    Stored stored(size_t(M) * H * D, cached);
    host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared, [&] {
      k.heads(xs, ws, early, biased ? bias.data() : nullptr, cos.data(), sin.data(), positions.data(), slots.data(), stored.queries.data(),
              stored.keys.data(), stored.values.data(), reduces ? parts.data() : nullptr, reduces ? semaphores.data() : nullptr, M, N, K,
              k_slice, H, KV, D);
    });
    tally.check(stored == expected, shape(k, M, N, K, k_slice) + ": heads of " + std::to_string(D) +
                                        (reduces ? ", slices reduced in the kernel," : "") + " have other bits than rotate.cu's");
  }
  host::order() = 0;
}

}  // namespace

int main() {
  Tally tally("gemm_tma");
  tiles_table(tally);
  for (const Kernel& k : kernels()) {
    const int t = k.tile.tokens, o = k.tile.outputs;
    // One tile; several in one block, so that the ring continues from tile to tile; several in three blocks; a k of
    // less than a stage, of no whole number of them, of several rounds of the ring.
    for (const unsigned order : {0u, 1u, 77u, 1234u}) one_case(tally, k, t, o, 512, 512, 1, order);
    for (const unsigned order : {0u, 77u}) one_case(tally, k, t + 3, o + 24, 1280, 512, 1, order);
    one_case(tally, k, 2 * t - 1, 2 * o - 9, 768, 256, 3, 5);
    for (const int K : {16, 48, 272, 1104}) one_case(tally, k, t / 2 + 1, o + 5, K, 512, 2, 9);
    for (const unsigned order : {0u, 1u, 77u}) one_gated_case(tally, k, t + 5, o / 2 + 8, 272, 2, order);
    one_gated_case(tally, k, 3, 8, 48, 1, 3);
    if (k.heads == nullptr) continue;
    for (const unsigned order : {0u, 1u, 77u}) {
      one_case_of_heads(tally, k, t + 5, 3, 1, 64, 272, 512, false, 2, order);
      one_case_of_heads(tally, k, t - 3, 2, 1, 128, 768, 256, true, 3, order);
    }
    one_case_of_heads(tally, k, 3, 4, 2, 64, 1280, 512, true, 3, 9);
  }
  return tally.end();
}
