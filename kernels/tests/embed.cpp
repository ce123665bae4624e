// embed.cu: rows of each format, scaled; ids that the table does not have.
#include "../embed.cu"

#include "file_blocks.h"

namespace {

template <Format F>
auto kernel_of() {
  if constexpr (F == Format::kF32) return embed_f32;
  if constexpr (F == Format::kF16) return embed_f16;
  if constexpr (F == Format::kBf16) return embed_bf16;
  if constexpr (F == Format::kQ4_0) return embed_q4_0;
  if constexpr (F == Format::kQ4_1) return embed_q4_1;
  if constexpr (F == Format::kQ5_0) return embed_q5_0;
  if constexpr (F == Format::kQ5_1) return embed_q5_1;
  if constexpr (F == Format::kQ8_0) return embed_q8_0;
  if constexpr (F == Format::kQ4_K) return embed_q4_k;
  if constexpr (F == Format::kQ5_K) return embed_q5_k;
  if constexpr (F == Format::kQ6_K) return embed_q6_k;
  if constexpr (F == Format::kMxfp4) return embed_mxfp4;
}

struct Check {
  Tally& tally;
  template <Format F>
  void of(const char* name) {
    Random random{uint64_t(F)};
    const int vocab = 5, k = Block<F>::values > 1 ? 3 * Block<F>::values : 300;
    const auto table = random_blocks<F>(random, size_t(vocab) * k / Block<F>::values);
    const std::vector<int> ids = {4, 0, -1, 2, 4, 5};
    const float scale = 1.7f;
    std::vector<float> out(ids.size() * k, -1);
    host::launch(dim3(ids.size(), (k + 255) / 256), dim3(256), 0,
                 [&] { kernel_of<F>()(table.data(), ids.data(), out.data(), int(ids.size()), k, vocab, scale); });
    int wrong = 0;
    for (size_t r = 0; r < ids.size(); r++)
      for (int c = 0; c < k; c++) {
        const float got = out[r * k + c];
        if (ids[r] < 0 || ids[r] >= vocab) {
          wrong += got == got;
          continue;
        }
        const auto block = unpacked<F>(table.data() + ids[r] * row_bytes<F>(k) + row_bytes<F>(c));
        wrong += got != block[c % Block<F>::values] * scale;
      }
    tally.check(wrong == 0, std::string(name) + ": " + std::to_string(wrong) + " values differ");
  }
};

void places_case(Tally& tally, int k) {
  Random random{uint64_t(k)};
  const std::vector<int> places = {2, 0, 6, 2};
  const auto positions = random.numbers(size_t(7) * k), before = random.numbers(places.size() * k);
  auto x = before;
  host::launch(dim3(places.size(), (k + 255) / 256), dim3(256), 0,
               [&] { add_places(positions.data(), places.data(), x.data(), int(places.size()), k); });
  int wrong = 0;
  for (size_t i = 0; i < x.size(); i++) wrong += x[i] != before[i] + positions[size_t(places[i / k]) * k + i % k];
  tally.check(wrong == 0, std::to_string(wrong) + " of rows of " + std::to_string(k) + " that are added differ");
}

}  // namespace

int main() {
  Tally tally{"embed"};
  for (const int k : {1, 32, 300}) places_case(tally, k);
  for_each_format(Check{tally});
  return tally.end();
}
