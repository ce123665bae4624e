// The products of quantised weights by Hopper's copies, on the CPU, to the bit: each against its format's plain kernel.
#include "boxes.h"
#include "gemm.h"

#include "../gemm_merge.cu"
#include "../gemm_q4_k.cu"
#include "../gemm_q6_k.cu"
#include "../gemm_q8_0.cu"
#include "../gemm_quantised_tma.cu"

namespace {

using test::Tokens;
using test::Weight;

using Plain = void (*)(const bf16*, const void*, const float*, float*, int, int, int, int, int, int);
using Whole = void (*)(CUtensorMap, const void*, const float*, float*, int, int, int, int, int, int);
using Split = void (*)(CUtensorMap, const void*, float*, int, int, int, int);

struct Kernel {
  std::string name, format;
  Plain plain;
  Whole whole;
  Split split;
  test::Tile tile;
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all = {
      {"gemm_q8_0_tma_64x128", "q8_0", gemm_q8_0, gemm_q8_0_tma_64x128, gemm_q8_0_tma_64x128_split, Tma_q8_0_64x128()},
      {"gemm_q8_0_tma_128x128", "q8_0", gemm_q8_0, gemm_q8_0_tma_128x128, gemm_q8_0_tma_128x128_split, Tma_q8_0_128x128()},
      {"gemm_q4_k_tma_64x128", "q4_k", gemm_q4_k, gemm_q4_k_tma_64x128, gemm_q4_k_tma_64x128_split, Tma_q4_k_64x128()},
      {"gemm_q4_k_tma_128x128", "q4_k", gemm_q4_k, gemm_q4_k_tma_128x128, gemm_q4_k_tma_128x128_split, Tma_q4_k_128x128()},
      {"gemm_q6_k_tma_64x128", "q6_k", gemm_q6_k, gemm_q6_k_tma_64x128, gemm_q6_k_tma_64x128_split, Tma_q6_k_64x128()},
      {"gemm_q6_k_tma_128x128", "q6_k", gemm_q6_k, gemm_q6_k_tma_128x128, gemm_q6_k_tma_128x128_split, Tma_q6_k_128x128()},
  };
  return all;
}

std::string shape(const Kernel& k, int M, int N, int K, int segment, unsigned blocks) {
  std::ostringstream out;
  out << k.name << " [" << M << ", " << N << ", " << K << "] in segments of " << segment << " by " << blocks
      << " blocks, order " << host::order();
  return out.str();
}

// With bias, an old y and rows of y wider than N, by `blocks` blocks; and without any of these.
void one_case(Tally& tally, const Kernel& k, int M, int N, int K, int segment, unsigned blocks,
              const std::vector<unsigned>& orders) {
  Noise noise{uint32_t(M * 104729 + N * 31 + K)};
  const Tokens x = test::tokens(noise, M, K);
  const Weight w = test::weight(k.format, noise, N, K);
  const int S = (K + segment - 1) / segment;
  const CUtensorMap xs = test::rows_map(x.data(), M, K, k.tile.tokens);
  for (const bool rich : {true, false}) {
    const int ldy = rich ? N + 3 : N;
    std::vector<float> bias(N), old(size_t(M) * ldy);
    for (float& v : bias) v = test::number(noise, 3.0f);
    for (float& v : old) v = test::number(noise, 3.0f);
    const float* const b = rich ? bias.data() : nullptr;
    std::vector<float> expected = old;
    host::order() = 0;
    host::launch(dim3((M + 7) / 8 * ((N + 15) / 16)), dim3(32), 0,
                 [&] { k.plain(x.data(), w.data(), b, expected.data(), M, N, K, segment, ldy, rich); });
    for (const unsigned order : orders) {
      host::order() = order;
      std::vector<float> y = old, parts(size_t(S) * M * N, NAN);
      const auto same = [&](const char* what) {
        const bool equal = std::memcmp(y.data(), expected.data(), y.size() * 4) == 0;
        tally.check(equal, shape(k, M, N, K, segment, blocks) + what + (rich ? ", with all" : ""));
      };
      host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared,
                   [&] { k.whole(xs, w.data(), b, y.data(), M, N, K, segment, ldy, rich); });
      same(": not the plain kernel's bits");
      y = old;
      host::launch(dim3(blocks), dim3(k.tile.threads), k.tile.shared,
                   [&] { k.split(xs, w.data(), parts.data(), M, N, K, segment); });
      host::launch(dim3((N + 255) / 256, M), dim3(256), 0,
                   [&] { gemm_merge(parts.data(), b, y.data(), M, N, S, ldy, rich); });
      same(": split has other bits");
    }
  }
  host::order() = 0;
}

}  // namespace

int main() {
  Tally tally("gemm_quantised_tma");
  test::tiles_table(tally, kernels(), "gemm_q");
  for (const Kernel& k : kernels()) {
    const int t = k.tile.tokens, o = k.tile.outputs;
    // One tile; several in one block, so that the ring goes on from tile to tile, and a tile follows one with other strips;
    // several in three blocks; few rows; rounds of the ring.
    one_case(tally, k, t, o, 512, 512, 1, {0, 1, 77});
    one_case(tally, k, t + 3, o + 24, 1280, 512, 1, {0, 77});
    one_case(tally, k, 2 * t - 1, 2 * o - 9, 768, 256, 3, {5});
    one_case(tally, k, 1, 16, 256, 256, 1, {1});
    one_case(tally, k, 5, o + 5, 2304, 1024, 2, {1234});
    // A k of half a stage, of one and a half, of a last segment that has half a stage alone.
    if (k.format == "q8_0")
      for (const int K : {32, 64, 96, 128, 288, 544, 608}) one_case(tally, k, t / 2 + 1, o + 5, K, 512, 2, {9});
  }
  return tally.end();
}
