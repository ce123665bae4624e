// The products on the CPU: against double precision, and to the bit: each kernel against the plain one, a split
// product against the whole one, a row alone against the row in a batch, weights rounded in registers against bf16 rows.
#include "gemm.h"

#include "../gemm_bf16.cu"
#include "../gemm_merge.cu"
#include "../gemm_mxfp4.cu"
#include "../gemm_q4_1.cu"
#include "../gemm_q4_k.cu"
#include "../gemm_q5_1.cu"
#include "../gemm_q5_k.cu"
#include "../gemm_q6_k.cu"
#include "../gemm_q8_0.cu"
#include "../gemm_u4.cu"
#include "../gemm_f8.cu"

namespace {

using test::Tokens;
using test::Weight;

using Whole = void (*)(const bf16*, const void*, const float*, float*, int, int, int, int, int, int);
using Split = void (*)(const bf16*, const void*, float*, int, int, int, int);

// A kernel, and what products.rs knows of it.
struct Kernel {
  std::string name, format;
  Whole whole;
  Split split;
  int tokens, outputs, threads, shared;
  bool plain;

  Kernel(const char* n, const char* f, Whole w, Split s)
      : name(n), format(f), whole(w), split(s), tokens(8), outputs(16), threads(32), shared(0), plain(true) {}
  // How tiles.txt says whether there is a kernel for slices.
  std::string twin() const {
    return split != nullptr ? "split" : name.find("wgmma") != std::string::npos ? "wgmma" : "whole";
  }
  template <class Tile>
  Kernel(const char* n, const char* f, Whole w, Split s, Tile)
      : name(n), format(f), whole(w), split(s), tokens(Tile::kTokens), outputs(Tile::kOutputs),
        threads(Tile::kThreads), shared(Tile::kSharedBytes), plain(false) {}
};

#define QUANTISED(f, F)                                                                   \
  {"gemm_" #f, #f, gemm_##f, gemm_##f##_split},                                           \
  {"gemm_" #f "_8x16", #f, gemm_##f##_8x16, gemm_##f##_8x16_split, F##_8x16()},           \
  {"gemm_" #f "_8x64", #f, gemm_##f##_8x64, gemm_##f##_8x64_split, F##_8x64()},           \
  {"gemm_" #f "_16x64", #f, gemm_##f##_16x64, gemm_##f##_16x64_split, F##_16x64()},       \
  {"gemm_" #f "_32x64", #f, gemm_##f##_32x64, gemm_##f##_32x64_split, F##_32x64()},       \
  {"gemm_" #f "_64x128", #f, gemm_##f##_64x128, gemm_##f##_64x128_split, F##_64x128()}

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all = {
      {"gemm_bf16", "bf16", gemm_bf16, gemm_bf16_split},
      {"gemm_bf16_16x16", "bf16", gemm_bf16_16x16, gemm_bf16_16x16_split, Bf16_16x16()},
      {"gemm_bf16_16x64", "bf16", gemm_bf16_16x64, gemm_bf16_16x64_split, Bf16_16x64()},
      {"gemm_bf16_32x64", "bf16", gemm_bf16_32x64, gemm_bf16_32x64_split, Bf16_32x64()},
      {"gemm_bf16_64x64", "bf16", gemm_bf16_64x64, gemm_bf16_64x64_split, Bf16_64x64()},
      {"gemm_bf16_128x128", "bf16", gemm_bf16_128x128, nullptr, Bf16_128x128()},
      {"gemm_bf16_wgmma_128x128", "bf16", gemm_bf16_wgmma_128x128, nullptr, Bf16_wgmma_128x128()},
      {"gemm_bf16_wgmma_256x128", "bf16", gemm_bf16_wgmma_256x128, nullptr, Bf16_wgmma_256x128()},
      QUANTISED(q8_0, Q8_0), QUANTISED(mxfp4, Mxfp4), QUANTISED(q4_k, Q4_K), QUANTISED(q6_k, Q6_K),
      QUANTISED(q4_1, Q4_1), QUANTISED(q5_1, Q5_1), QUANTISED(q5_k, Q5_K),
      QUANTISED(u4, U4), QUANTISED(f8, F8),
      QUANTISED(q8_0_rounded, RoundedQ8_0), QUANTISED(mxfp4_rounded, RoundedMxfp4),
      QUANTISED(q4_k_rounded, RoundedQ4_K), QUANTISED(q6_k_rounded, RoundedQ6_K),
  };
  return all;
}

const Kernel& plain_of(const std::string& format) {
  for (const Kernel& k : kernels())
    if (k.plain && k.format == format) return k;
  std::abort();
}

struct Epilogue {
  std::vector<float> bias;  // empty: none
  std::vector<float> y;     // empty: nothing to add to
  int ldy = 0;              // 0: N
};

dim3 grid(const Kernel& k, int M, int N, int S) {
  const unsigned m = (M + k.tokens - 1) / k.tokens, n = (N + k.outputs - 1) / k.outputs;
  return dim3(m * n, S);
}

std::vector<float> whole(const Kernel& k, const Tokens& x, const Weight& w, int k_slice, const Epilogue& e = {}) {
  const int ldy = e.ldy ? e.ldy : w.N;
  std::vector<float> y = e.y.empty() ? std::vector<float>(size_t(x.M) * ldy, NAN) : e.y;
  const float* bias = e.bias.empty() ? nullptr : e.bias.data();
  host::launch(grid(k, x.M, w.N, 1), dim3(k.threads), k.shared, [&] {
    k.whole(x.data(), w.data(), bias, y.data(), x.M, w.N, w.K, k_slice, ldy, !e.y.empty());
  });
  return y;
}

std::vector<float> split(const Kernel& k, const Tokens& x, const Weight& w, int k_slice, const Epilogue& e = {}) {
  const int ldy = e.ldy ? e.ldy : w.N, S = (w.K + k_slice - 1) / k_slice;
  std::vector<float> y = e.y.empty() ? std::vector<float>(size_t(x.M) * ldy, NAN) : e.y;
  std::vector<float> parts(size_t(S) * x.M * w.N, NAN);
  const float* bias = e.bias.empty() ? nullptr : e.bias.data();
  host::launch(grid(k, x.M, w.N, S), dim3(k.threads), k.shared,
               [&] { k.split(x.data(), w.data(), parts.data(), x.M, w.N, w.K, k_slice); });
  host::launch(dim3(x.M, (w.N + 255) / 256), dim3(256), 0,
               [&] { gemm_merge(parts.data(), bias, y.data(), x.M, w.N, S, ldy, !e.y.empty()); });
  return y;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> numbers(Noise& noise, size_t n) {
  std::vector<float> out(n);
  for (float& v : out) v = test::number(noise, 3.0f);
  return out;
}

std::string shape(const Kernel& k, int M, int N, int K, int k_slice) {
  std::ostringstream out;
  out << k.name << " [" << M << ", " << N << ", " << K << "] in slices of " << k_slice;
  return out.str();
}

void one_plain_case(Tally& tally, const Kernel& k, int M, int N, int K, int k_slice) {
  Noise noise{uint32_t(M * 7919 + N * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight(k.format, noise, N, K);
  const std::string name = shape(k, M, N, K, k_slice);
  const std::vector<float> y = whole(k, x, w, k_slice);
  const double error = test::worst(x, w, y);
  tally.check(error <= 1.0, name + ": " + std::to_string(error) + " of the bound from f64");
  tally.check(same(y, split(k, x, w, k_slice)), name + ": split differs from whole");
  if (test::is_rounded(k.format))
    tally.check(same(y, whole(plain_of("bf16"), x, test::as_rows(w), k_slice)), name + ": not the product of the rounded weights");
  for (const int m : {0, M / 2, M - 1}) {
    const std::vector<float> alone = whole(k, x.rows(m, 1), w, k_slice);
    const bool equal = std::memcmp(alone.data(), y.data() + size_t(m) * N, N * sizeof(float)) == 0;
    tally.check(equal, name + ": row " + std::to_string(m) + " alone differs from the row in a batch");
  }
}

// Bias, the old y, and rows of y wider than N: whole as split, as the definition says, and nothing beside the rows.
void epilogue(Tally& tally, const Kernel& k) {
  const int M = 5, N = 21, K = k.format == "bf16" ? 272 : 512, k_slice = 256, ldy = 27;
  Noise noise{7};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight(k.format, noise, N, K);
  Epilogue e{numbers(noise, N), numbers(noise, M * ldy), ldy};
  const std::vector<float> y = whole(k, x, w, k_slice, e);
  if (k.split == nullptr)
    return tally.check(same(y, whole(plain_of(k.format), x, w, k_slice, e)), k.name + ": bias or add");
  tally.check(same(y, split(k, x, w, k_slice, e)), k.name + ": split differs from whole with bias and add");
  std::vector<float> parts(size_t(2) * M * N);
  host::launch(grid(k, M, N, 2), dim3(k.threads), k.shared,
               [&] { k.split(x.data(), w.data(), parts.data(), M, N, K, k_slice); });
  bool right = true, untouched = true;
  for (int m = 0; m < M; m++)
    for (int n = 0; n < ldy; n++) {
      const float old = e.y[m * ldy + n], now = y[m * ldy + n];
      if (n >= N) {
        untouched &= old == now;
      } else {
        right &= now == ((old + parts[m * N + n]) + parts[(M + m) * N + n]) + e.bias[n];
      }
    }
  tally.check(right, k.name + ": bias or add");
  tally.check(untouched, k.name + ": wrote beside the rows of y");
}

// The kernel beside the plain one of its format.
void one_fast_case(Tally& tally, const Kernel& k, int M, int N, int K, int k_slice,
                   const std::vector<unsigned>& orders = {0, 1, 77}) {
  Noise noise{uint32_t(M * 104729 + N * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight(k.format, noise, N, K);
  const Kernel& plain = plain_of(k.format);
  const std::string name = shape(k, M, N, K, k_slice);
  const std::vector<float> expected = whole(plain, x, w, k_slice);
  for (const unsigned order : orders) {
    host::order() = order;
    const std::string when = name + ", order " + std::to_string(order);
    tally.check(same(whole(k, x, w, k_slice), expected), when + ": not the plain kernel's bits");
    if (k.split != nullptr) tally.check(same(split(k, x, w, k_slice), expected), when + ": split has other bits");
  }
  host::order() = 0;
}

void segments_table(Tally& tally) {
  std::ifstream file("kernels/tests/k_slices.txt");
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    int n, k;
    words >> n >> k;
    for (const bool in_one_wave : {false, true}) {
      int k_slice = 0, slices = 0;
      words >> k_slice >> slices;
      tally.check(gemm::k_slice(n, k, in_one_wave) == k_slice && gemm::k_slices(n, k, in_one_wave) == slices, "k_slices.txt: " + line);
    }
    rows++;
  }
  tally.check(rows >= 20, "kernels/tests/k_slices.txt is missing or short");
}

// tiles.txt is what products.rs launches with, and what scripts/cuda/static.sh holds to each card's limits.
void tiles_table(Tally& tally) {
  std::ifstream file("kernels/tests/tiles.txt");
  std::string line;
  size_t rows = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, split;
    int tokens, outputs, threads, shared;
    words >> name >> split >> tokens >> outputs >> threads >> shared;
    if (split == "tma") continue;
    bool found = false;
    for (const Kernel& k : kernels())
      found |= k.name == name && k.twin() == split && k.tokens == tokens && k.outputs == outputs &&
               k.threads == threads && k.shared == shared;
    tally.check(found, "tiles.txt: " + line);
    rows++;
  }
  tally.check(rows == kernels().size(), "tiles.txt has " + std::to_string(rows) + " kernels");
}

void plain_kernels(Tally& tally) {
  for (const Kernel& k : kernels()) {
    if (!k.plain) continue;
    const bool k_quants = test::has_supers(k.format);
    one_plain_case(tally, k, 1, 16, 256, 256);
    one_plain_case(tally, k, 9, 40, 768, 256);
    one_plain_case(tally, k, 3, 33, 1280, 512);
    if (!k_quants) one_plain_case(tally, k, 11, 7, 96, 256);
    if (!k_quants) one_plain_case(tally, k, 5, 19, 544, 256);
    if (k.format == "bf16") one_plain_case(tally, k, 17, 23, 272, 256);
    if (k.format == "bf16") one_plain_case(tally, k, 2, 5, 16, 256);
  }
}

// Shapes that fill no tile, one tile and several; a k of one step, of less than the ring and of several rounds of it.
void fast_kernels(Tally& tally) {
  for (const Kernel& k : kernels()) {
    if (k.plain) continue;
    const int t = k.tokens, o = k.outputs;
    one_fast_case(tally, k, 1, 16, 256, 256);
    one_fast_case(tally, k, t, o, 512, 512);
    one_fast_case(tally, k, t + 3, o + 24, 1280, 512);
    one_fast_case(tally, k, 2 * t - 1, o - 9, 768, 256);
    one_fast_case(tally, k, 18 * t - 5, o + 1, test::has_supers(k.format) ? 256 : 32, 256, {77});
    if (k.format == "bf16")
      for (const int K : {16, 48, 272, 1104}) one_fast_case(tally, k, t / 2 + 1, o + 5, K, 512);
    if (k.format != "bf16" && !test::has_supers(k.format))
      for (const int K : {32, 96, 544}) one_fast_case(tally, k, t / 2 + 1, o + 5, K, 256);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[2]) == "--tiles") {
    std::printf(
        "# kernel; split: has a twin for slices, whole: has none, wgmma: none, and Hopper alone runs it; tokens and\n"
        "# outputs of a tile, threads, dynamic shared memory. Written by kernels/tests/gemm.cpp (gemm GOLDEN --tiles).\n");
    for (const Kernel& k : kernels())
      std::printf("%s %s %d %d %d %d\n", k.name.c_str(), k.twin().c_str(), k.tokens, k.outputs, k.threads, k.shared);
    return 0;
  }
  Tally tally("gemm");
  segments_table(tally);
  tiles_table(tally);
  plain_kernels(tally);
  fast_kernels(tally);
  for (const Kernel& k : kernels()) epilogue(tally, k);
  return tally.end();
}
