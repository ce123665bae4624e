// route.cu, experts.cu and the grouped products: the router's choice against its definition in f64, with ties, groups
// and what is not a number; pairs sorted and tiled; each grouped product against the product with the expert's weights
// alone, bit for bit, however rows share tiles; the sum of a row's experts, also with the norm behind it; few rows routed
// and sorted in one launch.
#include "../gemm_bf16.cu"
#include "../gemm_grouped_tma.cu"
#include "../gemm_mxfp4.cu"
#include "../gemm_q4_1.cu"
#include "../gemm_q4_k.cu"
#include "../gemm_q5_1.cu"
#include "../gemm_q5_k.cu"
#include "../gemm_q6_k.cu"
#include "../gemm_q8_0.cu"
#include "../gemm_u4.cu"
#include "../gemm_f8.cu"
#include "../experts.cu"
#include "../norm.cu"
#include "../route.cu"

#include <algorithm>
#include <functional>
#include <numeric>

#include "gemm.h"
#include "random.h"

namespace {

struct Router {
  int n, top_k, sigmoid = 0, groups = 1, top_groups = 1, normalised = 1, parts = 1, best_of = 2;
  bool biased = false, gated = false, factors = false;
  float more = 0, scale = 1;
  int width() const { return n + gated; }
  float factor(int e) const { return factors ? 1.0f + float(e % 7) / 8 : 1.0f; }
};

struct Routed {
  std::vector<int> chosen, places;
  std::vector<float> weights, factors;
};

Routed run(const Router& r, const std::vector<float>& logits, const std::vector<float>& bias, const std::vector<int>& slots) {
  const int rows = int(slots.size());
  Routed out{std::vector<int>(rows * r.top_k, -7), std::vector<int>(rows * r.top_k, -7), std::vector<float>(rows * r.top_k, NAN),
             std::vector<float>(rows, NAN)};
  std::vector<float> factors;
  for (int e = 0; e < r.n && r.factors; e++) factors.push_back(r.factor(e));
  host::launch(dim3(rows), dim3(128), 16 * r.n + 8 * r.top_k, [&] {
    route(logits.data(), r.biased ? bias.data() : nullptr, r.factors ? factors.data() : nullptr, slots.data(), out.factors.data(), out.places.data(),
          out.weights.data(), out.chosen.data(), rows, r.n, r.parts, r.width(), r.top_k, r.sigmoid, r.groups, r.top_groups, r.best_of,
          r.normalised, r.more, r.scale);
  });
  return out;
}

// The `k` best of some experts, the lower numbers first among equal ones.
std::vector<int> best(const std::vector<double>& by, std::vector<int> among, int k) {
  std::stable_sort(among.begin(), among.end(), [&](int a, int b) { return by[a] > by[b]; });
  among.resize(k);
  std::sort(among.begin(), among.end());
  return among;
}

// The choice of one row by its definition: experts, then weights.
std::pair<std::vector<int>, std::vector<double>> wanted(const Router& r, const float* logits, const std::vector<float>& bias) {
  std::vector<double> scores(r.n), by(r.n);
  double peak = -INFINITY, total = 0, sum = r.more;
  for (int e = 0; e < r.n; e++) {
    for (int p = 0; p < r.parts; p++) scores[e] += logits[p * r.width() + e];
    peak = std::max(peak, scores[e]);
  }
  for (double& s : scores) s = r.sigmoid ? 1 / (1 + std::exp(-s)) : std::exp(s - peak), total += s;
  for (int e = 0; e < r.n; e++) {
    if (!r.sigmoid) scores[e] /= total;
    by[e] = scores[e] + (r.biased ? bias[e] : 0);
  }
  const int of_group = r.n / r.groups;
  std::vector<int> groups(r.groups), among;
  std::iota(groups.begin(), groups.end(), 0);
  if (r.groups > 1) {
    std::vector<double> sums(r.groups);
    for (int g = 0; g < r.groups; g++) {
      std::vector<double> own(by.begin() + g * of_group, by.begin() + (g + 1) * of_group);
      std::sort(own.rbegin(), own.rend());
      sums[g] = own[0] + (r.best_of > 1 ? own[1] : 0);
    }
    groups = best(sums, groups, r.top_groups);
  }
  for (const int g : groups)
    for (int e = g * of_group; e < (g + 1) * of_group; e++) among.push_back(e);
  const std::vector<int> chosen = best(by, among, r.top_k);
  std::vector<double> weights;
  for (const int e : chosen) sum += scores[e];
  for (const int e : chosen) weights.push_back((r.normalised ? scores[e] / sum : scores[e]) * r.scale * r.factor(e));
  return {chosen, weights};
}

void one_router(Tally& tally, const Router& r, const std::string& name) {
  const int rows = 40;
  Random random{uint64_t(r.n) * 31 + r.groups};
  std::vector<float> logits = random.numbers(size_t(rows) * r.parts * r.width()), bias = random.numbers(r.n);
  // Of some rows many experts are equal, also across groups.
  for (int row = 0; row < rows; row += 3)
    for (int p = 0; p < r.parts; p++)
      for (int e = 0; e < r.n; e++) logits[(row * r.parts + p) * r.width() + e] = float(random.below(3));
  if (r.biased)
    for (float& b : bias) b = float(random.below(4)) / 4;
  std::vector<int> slots(rows, 5);
  slots[7] = -1;
  const Routed all = run(r, logits, bias, slots);
  bool right = true, near = true;
  for (int row = 0; row < rows; row++) {
    if (row == 7) continue;
    const auto [chosen, weights] = wanted(r, logits.data() + size_t(row) * r.parts * r.width(), bias);
    for (int i = 0; i < r.top_k; i++) {
      right &= all.chosen[row * r.top_k + i] == chosen[i];
      near &= std::fabs(all.weights[row * r.top_k + i] - weights[i]) < 2e-6 * r.scale;
    }
    if (r.gated) {
      double logit = 0;
      for (int p = 0; p < r.parts; p++) logit += logits[(size_t(row) * r.parts + p) * r.width() + r.n];
      near &= std::fabs(all.factors[row] - 1 / (1 + std::exp(-logit))) < 1e-6;
    }
  }
  tally.check(right, name + ": other experts");
  tally.check(near, name + ": other weights");
  const auto none = [&](int i) { return all.chosen[i] == -1 && all.weights[i] == 0 && all.places[i] == -1; };
  bool padded = true;
  for (int i = 0; i < r.top_k; i++) padded &= none(7 * r.top_k + i);
  tally.check(padded, name + ": padding takes an expert");
  const size_t stride = size_t(r.parts) * r.width();
  for (const unsigned order : {1u, 9u}) {
    host::order() = order;
    const Routed alone = run(r, std::vector<float>(logits.begin() + 9 * stride, logits.begin() + 10 * stride), bias, {3});
    const auto of_row = [&](auto& v) { return std::vector(v.begin() + 9 * r.top_k, v.begin() + 10 * r.top_k); };
    tally.check(alone.chosen == of_row(all.chosen) && same_bits(alone.weights, of_row(all.weights)), name + ": a row alone differs");
  }
  host::order() = 0;
}

void without_numbers(Tally& tally) {
  const auto routed = [](Router r, std::vector<float> logits) { return run(r, logits, {0, 0, 0, 0}, {1}); };
  Router softmax{4, 2}, sigmoid{4, 2};
  sigmoid.sigmoid = 1, sigmoid.biased = true;
  for (const auto& [r, logits] : std::vector<std::pair<Router, std::vector<float>>>{
           {softmax, {0, NAN, 1, 2}}, {softmax, {0, INFINITY, 1, 2}}, {softmax, std::vector<float>(4, -INFINITY)}, {sigmoid, {NAN, 0, 1, 2}}}) {
    const Routed out = routed(r, logits);
    tally.check(out.chosen == std::vector<int>{0, 1} && out.weights[0] != out.weights[0] && out.weights[1] != out.weights[1],
                "what is not a number has a weight that is one");
  }
  sigmoid.normalised = 0, sigmoid.top_k = 1;
  const Routed infinite = routed(sigmoid, {0, INFINITY, 1, 2});
  tally.check(infinite.chosen[0] == 1 && infinite.weights[0] == 1, "an infinite logit");
}

struct Sorted {
  std::vector<int> pairs, places, starts;
  std::vector<int4> tiles[2];
};

int most_tiles(int pairs, int n, int tokens) { return (pairs + (tokens - 1) * std::min(n, pairs)) / tokens; }

Sorted sorted(const std::vector<int>& chosen, int top_k, int n, int tokens0, int tokens1) {
  const int all = int(chosen.size()), rows = all / top_k;
  Sorted out{std::vector<int>(all, -7), std::vector<int>(all, -1), std::vector<int>(n + 1, -7), {}};
  out.tiles[0].resize(most_tiles(all, n, tokens0)), out.tiles[1].resize(most_tiles(all, n, tokens1));
  host::launch(dim3(n), dim3(1024), 4 * n, [&] {
    sort_pairs(chosen.data(), out.places.data(), out.pairs.data(), out.starts.data(), out.tiles[0].data(),
               out.tiles[1].data(), rows, top_k, n, tokens0, int(out.tiles[0].size()), tokens1, int(out.tiles[1].size()));
  });
  return out;
}

enum class Load { kEven, kOne, kEach };

// Experts of rows, some of which are padding: at random, one for all, or one for each.
std::vector<int> choices(int rows, int top_k, int n, Load load) {
  Random random{uint64_t(rows) * 7 + n};
  std::vector<int> chosen;
  for (int row = 0; row < rows; row++) {
    std::vector<int> all(n);
    std::iota(all.begin(), all.end(), 0);
    if (load == Load::kEven)
      for (int i = n - 1; i > 0; i--) std::swap(all[i], all[random.below(unsigned(i + 1))]);
    if (load == Load::kEach) std::rotate(all.begin(), all.begin() + row * top_k % n, all.end());
    all.resize(top_k);
    std::sort(all.begin(), all.end());
    if (row % 11 == 10) std::fill(all.begin(), all.end(), -1);
    chosen.insert(chosen.end(), all.begin(), all.end());
  }
  return chosen;
}

void one_sort(Tally& tally, int rows, int top_k, int n, Load load) {
  const std::vector<int> chosen = choices(rows, top_k, n, load);
  for (const unsigned order : {0u, 5u}) {
    host::order() = order;
    const Sorted s = sorted(chosen, top_k, n, 8, 64);
    const std::string name = std::to_string(rows) + " rows of " + std::to_string(n) + " experts";
    int at = 0;
    bool right = true;
    for (int e = 0; e < n; e++) {
      right &= s.starts[e] == at;
      for (int i = 0; i < rows * top_k; i++)
        if (chosen[i] == e) right &= s.pairs[at] == i / top_k && s.places[i] == at, at++;
    }
    right &= s.starts[n] == at;
    for (int i = 0; i < rows * top_k; i++) right &= chosen[i] >= 0 || s.places[i] == -1;
    tally.check(right, name + ": pairs, places or starts");
    for (const int list : {0, 1}) {
      const int tokens = list ? 64 : 8;
      size_t tile = 0;
      bool tiled = true;
      for (int e = 0; e < n; e++)
        for (int first = s.starts[e]; first < s.starts[e + 1]; first += tokens, tile++) {
          const int4 t = s.tiles[list][tile];
          tiled &= t.x == e && t.y == first && t.z == std::min(tokens, s.starts[e + 1] - first);
        }
      for (; tile < s.tiles[list].size(); tile++) tiled &= s.tiles[list][tile].z == 0;
      tally.check(tiled, name + ": tiles");
    }
  }
  host::order() = 0;
}

using Whole = void (*)(const bf16*, const void*, const float*, float*, int, int, int, int, int, int);
// The last argument is the number of tiles, which those by TMA need.
using Grouped = std::function<void(const bf16*, const int*, const void*, const int*, const float*, float*, int, int, int)>;
using GatedProduct =
    std::function<void(const bf16*, const int*, const void*, const int*, const float*, bf16*, int, int, int, float, float, int)>;

constexpr int kExperts = 5;

CUtensorMap experts_map(const void* w, int N, int K) {
  const uint64_t row = uint64_t(K) * 2;
  return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(w), 4, 2, {uint64_t(K), uint64_t(N), kExperts, 1},
                       {row, row * N, row * N * kExperts}, {64, 128, 1, 1}});
}
Grouped without_tiles(void (*run)(const bf16*, const int*, const void*, const int*, const float*, float*, int, int)) {
  return [run](auto x, auto rows, auto w, auto tiles, auto bias, auto y, int N, int K, int) { run(x, rows, w, tiles, bias, y, N, K); };
}
GatedProduct without_tiles(void (*run)(const bf16*, const int*, const void*, const int*, const float*, bf16*, int, int, int, float, float)) {
  return [run](auto x, auto rows, auto w, auto tiles, auto bias, auto out, int N, int K, int gate, float limit, float alpha, int) {
    run(x, rows, w, tiles, bias, out, N, K, gate, limit, alpha);
  };
}
void by_tma(const bf16* x, const int* rows, const void* w, const int* tiles, const float* bias, float* y, int N, int K, int n_tiles) {
  gemm_bf16_tma_256x128_grouped(experts_map(w, N, K), x, rows, tiles, bias, y, N, K, n_tiles);
}
void gated_by_tma(const bf16* x, const int* rows, const void* w, const int* tiles, const float* bias, bf16* out, int N, int K, int gate,
                  float limit, float alpha, int n_tiles) {
  gemm_bf16_tma_256x128_gated(experts_map(w, N, K), x, rows, tiles, bias, out, N, K, n_tiles, gate, limit, alpha);
}

struct Kernel {
  std::string name, format;
  Whole plain;
  Grouped grouped;
  GatedProduct gated;
  int tokens, outputs, threads, shared;
  bool persistent = false;  // a grid of any size
};

#define PLAIN(format) {"gemm_" #format, #format, gemm_##format, without_tiles(gemm_##format##_grouped), without_tiles(gemm_##format##_gated), 8, 16, 32, 0}
#define TILE(format, Tile, size)                                                                        \
  {"gemm_" #format "_" #size, #format, gemm_##format, without_tiles(gemm_##format##_##size##_grouped),  \
   without_tiles(gemm_##format##_##size##_gated), Tile::kTokens, Tile::kOutputs, Tile::kThreads, Tile::kSharedBytes}

const std::vector<Kernel> kernels = {
    PLAIN(bf16), TILE(bf16, Bf16_16x64, 16x64), TILE(bf16, Bf16_64x64, 64x64), TILE(bf16, Bf16_128x128, 128x128),
    {"gemm_bf16_tma_256x128", "bf16", gemm_bf16, by_tma, gated_by_tma, gemm::GroupedTma::kTokens, gemm::GroupedTma::kOutputs,
     gemm::GroupedTma::kThreads, gemm::GroupedTma::kSharedBytes, true},
    PLAIN(q8_0), TILE(q8_0, Q8_0_8x64, 8x64), TILE(q8_0, Q8_0_32x64, 32x64), TILE(q8_0, Q8_0_64x128, 64x128),
    PLAIN(q4_k), TILE(q4_k, Q4_K_8x64, 8x64), TILE(q4_k, Q4_K_32x64, 32x64), TILE(q4_k, Q4_K_64x128, 64x128),
    PLAIN(mxfp4), TILE(mxfp4, Mxfp4_8x64, 8x64), TILE(mxfp4, Mxfp4_32x64, 32x64), TILE(mxfp4, Mxfp4_64x128, 64x128),
    PLAIN(q6_k), TILE(q6_k, Q6_K_8x64, 8x64), TILE(q6_k, Q6_K_32x64, 32x64), TILE(q6_k, Q6_K_64x128, 64x128),
    PLAIN(q4_1), TILE(q4_1, Q4_1_8x64, 8x64), TILE(q4_1, Q4_1_32x64, 32x64), TILE(q4_1, Q4_1_64x128, 64x128),
    PLAIN(q5_1), TILE(q5_1, Q5_1_8x64, 8x64), TILE(q5_1, Q5_1_32x64, 32x64), TILE(q5_1, Q5_1_64x128, 64x128),
    PLAIN(q5_k), TILE(q5_k, Q5_K_8x64, 8x64), TILE(q5_k, Q5_K_32x64, 32x64), TILE(q5_k, Q5_K_64x128, 64x128),
    PLAIN(u4), TILE(u4, U4_8x64, 8x64), TILE(u4, U4_32x64, 32x64), TILE(u4, U4_64x128, 64x128),
    PLAIN(f8), TILE(f8, F8_8x64, 8x64), TILE(f8, F8_32x64, 32x64), TILE(f8, F8_64x128, 64x128),
    PLAIN(q8_0_rounded), TILE(q8_0_rounded, RoundedQ8_0_8x64, 8x64), TILE(q8_0_rounded, RoundedQ8_0_32x64, 32x64),
    TILE(q8_0_rounded, RoundedQ8_0_64x128, 64x128),
    PLAIN(q4_k_rounded), TILE(q4_k_rounded, RoundedQ4_K_8x64, 8x64), TILE(q4_k_rounded, RoundedQ4_K_32x64, 32x64),
    TILE(q4_k_rounded, RoundedQ4_K_64x128, 64x128),
    PLAIN(mxfp4_rounded), TILE(mxfp4_rounded, RoundedMxfp4_8x64, 8x64), TILE(mxfp4_rounded, RoundedMxfp4_32x64, 32x64),
    TILE(mxfp4_rounded, RoundedMxfp4_64x128, 64x128),
    PLAIN(q6_k_rounded), TILE(q6_k_rounded, RoundedQ6_K_8x64, 8x64), TILE(q6_k_rounded, RoundedQ6_K_32x64, 32x64),
    TILE(q6_k_rounded, RoundedQ6_K_64x128, 64x128),
};

// The weights of all experts, one after another.
struct Stack {
  std::vector<test::Weight> experts;
  std::vector<uint4> memory;
  Stack(const std::string& format, Noise& noise, int n, int N, int K) {
    for (int e = 0; e < n; e++) {
      experts.push_back(test::weight(format, noise, N, K));
      memory.insert(memory.end(), experts[e].memory.begin(), experts[e].memory.end());
    }
  }
};

constexpr int kGates = 3;

void one_product(Tally& tally, const Kernel& k, int rows, int N, int K, Load load, const std::vector<unsigned>& orders) {
  const int n = kExperts, top_k = 2;
  Noise noise{uint32_t(rows * 131 + N * 7 + K)};
  const test::Tokens x = test::tokens(noise, rows, K);
  const Stack stack(k.format, noise, n, N, K);
  const Sorted s = sorted(choices(rows, top_k, n, load), top_k, n, k.tokens, k.tokens);
  const int pairs = s.starts[n];
  // What each expert's weights alone give all rows.
  std::vector<std::vector<float>> alone;
  for (const test::Weight& w : stack.experts) {
    alone.emplace_back(size_t(rows) * N, NAN);
    host::launch(dim3((rows + 7) / 8 * ((N + 15) / 16)), dim3(32), 0,
                 [&] { k.plain(x.data(), w.data(), nullptr, alone.back().data(), rows, N, K, (K + 255) / 256 * 256, N, 0); });
  }
  std::vector<float> expected(size_t(pairs) * N), biased = expected, biases;
  for (int i = 0; i < n * N; i++) biases.push_back(noise.next());
  std::vector<bf16> narrowed[2][kGates];  // without and with biases
  test::Tokens of_pairs{pairs, K, std::vector<uint4>((size_t(pairs) * K * 2 + 15) / 16)};
  for (int e = 0; e < n; e++)
    for (int p = s.starts[e]; p < s.starts[e + 1]; p++) {
      std::copy_n(alone[e].begin() + size_t(s.pairs[p]) * N, N, expected.begin() + size_t(p) * N);
      for (int o = 0; o < N; o++) biased[size_t(p) * N + o] = __fadd_rn(expected[size_t(p) * N + o], biases[e * N + o]);
      std::copy_n(x.data() + size_t(s.pairs[p]) * K, K, of_pairs.data() + size_t(p) * K);
    }
  for (const bool with_bias : {false, true})
    for (int gate = 0; gate < kGates; gate++)
      for (int p = 0; p < pairs; p++)
        for (int c = 0; c < N / 2; c++) {
          const float* sums = (with_bias ? biased : expected).data() + size_t(p) * N + c / 8 * 16 + c % 8;
          narrowed[with_bias][gate].push_back(test::to_bf16(AnyGate{gate, 7, 1.702f}(sums[0], sums[8])));
        }
  const std::string shape = k.name + " of " + std::to_string(rows) + " rows by [" + std::to_string(N) + ", " + std::to_string(K) + "]";
  const int n_tiles = int(s.tiles[0].size()), work_tiles = n_tiles * ((N + k.outputs - 1) / k.outputs);
  const dim3 grid(k.persistent ? std::min(work_tiles, 3) : work_tiles);
  const int* tiles = reinterpret_cast<const int*>(s.tiles[0].data());
  for (const unsigned order : orders) {
    host::order() = order;
    const std::string when = shape + ", order " + std::to_string(order);
    std::vector<float> y(size_t(pairs) * N + 1, NAN);
    const auto launch = [&](const bf16* from, const int* gathered, bool with_bias = false) {
      const float* const bias = with_bias ? biases.data() : nullptr;
      std::fill(y.begin(), y.end(), NAN), y.back() = 7;
      host::launch(grid, dim3(k.threads), k.shared, [&] { k.grouped(from, gathered, stack.memory.data(), tiles, bias, y.data(), N, K, n_tiles); });
      return std::memcmp(y.data(), (with_bias ? biased : expected).data(), expected.size() * 4) == 0 && y.back() == 7;
    };
    tally.check(launch(x.data(), s.pairs.data()), when + ": not the bits of each expert alone");
    tally.check(launch(of_pairs.data(), nullptr), when + ": other bits where rows are side by side");
    tally.check(launch(x.data(), s.pairs.data(), true), when + ": other bits with biases");
    for (int i = 0; i < 2 * kGates; i++) {
      const int gate = i / 2, with_bias = i % 2;
      if (gate == 2 && !with_bias) continue;  // with biases alone
      std::vector<bf16> out(narrowed[with_bias][gate].size(), nan_bf16());
      host::launch(grid, dim3(k.threads), k.shared, [&] {
        k.gated(x.data(), s.pairs.data(), stack.memory.data(), tiles, with_bias ? biases.data() : nullptr, out.data(), N, K, gate, 7,
                1.702f, n_tiles);
      });
      tally.check(same_bits(out, narrowed[with_bias][gate]), when + ": gated otherwise, gate " + std::to_string(gate));
    }
  }
  host::order() = 0;
}

// One launch gives the bits of two, however blocks arrive; the semaphore is 0 again.
void one_route_and_sort(Tally& tally, const Router& r, int rows, bool one_expert) {
  Random random{uint64_t(rows) * 5 + r.n};
  std::vector<float> logits = random.numbers(size_t(rows) * r.width());
  for (int row = 0; one_expert && row < rows; row++) logits[size_t(row) * r.width() + r.n / 2] = 9;
  std::vector<int> slots(rows, 5);
  for (int row = 10; row < rows; row += 11) slots[row] = -1;
  const Routed routed = run(r, logits, {}, slots);
  const Sorted expected = sorted(routed.chosen, r.top_k, r.n, 8, 64);
  const int all = rows * r.top_k;
  for (const unsigned order : {0u, 3u, 8u}) {
    host::order() = order;
    Routed out{std::vector<int>(all, -7), std::vector<int>(all, -7), std::vector<float>(all, NAN), std::vector<float>(rows, NAN)};
    Sorted s{std::vector<int>(all, -7), {}, std::vector<int>(r.n + 1, -7), {}};
    for (const int list : {0, 1}) s.tiles[list].resize(expected.tiles[list].size());
    unsigned semaphore = 0;
    host::launch(dim3(rows), dim3(128), 16 * r.n + 8 * r.top_k, [&] {
      route_and_sort(logits.data(), nullptr, nullptr, slots.data(), out.factors.data(), out.places.data(), out.weights.data(),
                     out.chosen.data(), rows, r.n, 1, r.width(), r.top_k, r.sigmoid, 1, 0, r.best_of, r.normalised, r.more, r.scale,
                     s.pairs.data(), s.starts.data(), s.tiles[0].data(), s.tiles[1].data(), 8, int(s.tiles[0].size()), 64,
                     int(s.tiles[1].size()), &semaphore);
    });
    const std::string name = std::to_string(rows) + " rows of " + std::to_string(r.n) + " experts in one launch";
    tally.check(out.chosen == routed.chosen && same_bits(out.weights, routed.weights) && (!r.gated || same_bits(out.factors, routed.factors)),
                name + ": routed otherwise");
    tally.check(s.pairs == expected.pairs && out.places == expected.places && s.starts == expected.starts, name + ": sorted otherwise");
    for (const int list : {0, 1})
      tally.check(std::memcmp(s.tiles[list].data(), expected.tiles[list].data(), s.tiles[list].size() * sizeof(int4)) == 0,
                  name + ": other tiles");
    tally.check(semaphore == 0, name + ": the semaphore is not 0");
  }
  host::order() = 0;
}

void routes_and_sorts(Tally& tally) {
  for (const int rows : {1, 2, 31, 32, 33, 64}) {
    one_route_and_sort(tally, {128, 8}, rows, rows == 33);
    one_route_and_sort(tally, {5, 2}, rows, rows == 64);
  }
  Router large{300, 10};
  large.gated = true;
  one_route_and_sort(tally, large, 64, true);
}

// The sum of experts with the norm behind it has the bits of both launches, with and without a norm of the sum.
void merge_and_norm(Tally& tally, int rows, int cols) {
  const int top_k = 3, n = 5;
  Random random{uint64_t(cols)};
  const Sorted s = sorted(choices(rows, top_k, n, Load::kEven), top_k, n, 8, 8);
  const auto outputs = random.numbers(size_t(s.starts[n]) * cols), weights = random.numbers(rows * top_k),
             factors = random.numbers(rows), shared = random.numbers(rows * cols), old = random.numbers(rows * cols),
             add_norm = random.numbers(cols), weight = random.numbers(cols);
  for (const int kind : {0, 1, 2, 3, 4}) {
    const float* const more = kind > 0 ? shared.data() : nullptr;
    const float* const factor = kind > 1 ? factors.data() : nullptr;
    const float* const norm = kind > 2 ? add_norm.data() : nullptr;
    const float scale = kind == 4 ? 0.37f : 1.0f;
    std::vector<float> sums(old.size(), NAN), x = old, expected = old;
    std::vector<bf16> out(old.size(), nan_bf16()), narrowed = out;
    host::launch(dim3(rows, (cols + 1023) / 1024), dim3(256), 0, [&] {
      merge_experts(outputs.data(), s.places.data(), weights.data(), more, factor, sums.data(), rows, top_k, cols, cols, 0);
    });
    host::launch(dim3(rows), dim3(256), 4 * cols, [&] {
      residual_norm(expected.data(), sums.data(), 1, nullptr, norm, weight.data(), narrowed.data(), rows, cols, 1e-6f, scale, 0);
    });
    host::launch(dim3(rows), dim3(256), 4 * cols, [&] {
      residual_norm_of_experts(x.data(), outputs.data(), s.places.data(), weights.data(), more, factor, top_k, norm, weight.data(),
                               out.data(), rows, cols, 1e-6f, scale, 0);
    });
    tally.check(same_bits(x, expected) && same_bits(out, narrowed),
                std::to_string(cols) + " columns of experts with a norm: other bits, kind " + std::to_string(kind));
  }
}

void merge(Tally& tally) {
  merge_and_norm(tally, 12, 48), merge_and_norm(tally, 3, 2880);
  const int rows = 7, top_k = 3, n = 5, cols = 48, ld = 64;
  Random random{3};
  const std::vector<int> chosen = choices(rows, top_k, n, Load::kEven);
  std::vector<int> padded = chosen;
  std::fill(padded.begin() + 3, padded.begin() + 6, -1);
  const Sorted s = sorted(padded, top_k, n, 8, 8);
  const auto outputs = random.numbers(size_t(s.starts[n]) * cols), weights = random.numbers(rows * top_k),
             factors = random.numbers(rows), shared = random.numbers(rows * ld), old = random.numbers(rows * ld);
  for (const int kind : {0, 1, 2, 3}) {
    const bool with_shared = kind > 0, with_factors = kind > 1, add = kind == 3;
    std::vector<float> to = old;
    host::launch(dim3(rows, 1), dim3(256), 0, [&] {
      merge_experts(outputs.data(), s.places.data(), weights.data(), with_shared ? shared.data() : nullptr,
                    with_factors ? factors.data() : nullptr, to.data(), rows, top_k, cols, ld, add);
    });
    bool right = true;
    for (int row = 0; row < rows; row++)
      for (int c = 0; c < ld; c++) {
        float sum = 0;
        for (int j = 0; j < top_k; j++) {
          const int pair = s.places[row * top_k + j];
          if (pair >= 0 && c < cols) sum = __fadd_rn(sum, __fmul_rn(weights[row * top_k + j], outputs[size_t(pair) * cols + c]));
        }
        if (with_shared) sum = __fadd_rn(sum, __fmul_rn(with_factors ? factors[row] : 1.0f, shared[row * ld + c]));
        right &= to[row * ld + c] == (c >= cols ? old[row * ld + c] : add ? __fadd_rn(old[row * ld + c], sum) : sum);
      }
    tally.check(right, "the sum of experts, kind " + std::to_string(kind));
  }
}

}  // namespace

int main() {
  Tally tally{"experts"};
  if (kFewer > 1) {  // of each kind one
    one_router(tally, {8, 3, 1, 4, 2}, "sigmoid in groups");
    one_sort(tally, 40, 2, 5, Load::kEven);
    one_route_and_sort(tally, {8, 3}, 40, false);
    for (const size_t i : {0, 1, 4, 7, 11}) one_product(tally, kernels[i], 9, 80, 256, Load::kEven, {1});
    merge(tally);
    return tally.end();
  }
  one_router(tally, {8, 3}, "softmax");
  Router softmax{128, 8};
  one_router(tally, softmax, "softmax of 128");
  softmax.factors = true;
  one_router(tally, softmax, "softmax of 128, a factor for each expert");
  softmax.factors = false, softmax.normalised = 0, softmax.scale = 2.5f, softmax.parts = 3, softmax.gated = true;
  one_router(tally, softmax, "softmax in parts, with a shared expert");
  Router sigmoid{160, 8, 1};
  sigmoid.biased = true, sigmoid.more = 1e-20f, sigmoid.scale = 2.5f;
  one_router(tally, sigmoid, "sigmoid");
  sigmoid.groups = 8, sigmoid.top_groups = 4;
  one_router(tally, sigmoid, "sigmoid in groups");
  Router by_best{160, 6, 0, 8, 3};
  by_best.best_of = 1;
  one_router(tally, by_best, "softmax in groups by their best expert");
  without_numbers(tally);
  routes_and_sorts(tally);
  for (const Load load : {Load::kEven, Load::kOne, Load::kEach}) {
    one_sort(tally, 1, 8, 128, load);
    one_sort(tally, 70, 2, 5, load);
    one_sort(tally, 2100, 3, 8, load);
  }
  for (const Kernel& k : kernels) {
    const bool k_quants = test::has_supers(k.format);
    one_product(tally, k, 1, 16, 256, Load::kEven, {0});
    if (k.persistent) {
      one_product(tally, k, 2 * k.tokens + 3, 96, 544, Load::kEven, {0});
      // As many rows of an expert as each width holds.
      for (const int rows : {120, 300, 380, 460}) one_product(tally, k, rows, 32, 80, Load::kEven, {unsigned(rows)});
    } else {
      one_product(tally, k, 2 * k.tokens + 3, 96, k_quants ? 512 : 544, Load::kEven, {0, 77});
    }
    one_product(tally, k, k.tokens + 1, 176, 256, Load::kOne, {1});
    one_product(tally, k, 9, 48, 768, Load::kEach, {0});
    if (k.format == "bf16") one_product(tally, k, k.tokens / 2 + 1, 32, 48, Load::kEven, {0});
  }
  merge(tally);
  return tally.end();
}
