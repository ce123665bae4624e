// copy_blocks.cu: the named blocks in every half, and no others; what was never written stays as it was.
#include "../copy_blocks.cu"

#include "random.h"

int main() {
  Tally tally{"copy_blocks"};
  for (const int elements : {16 * 16, 2 * 16 * 64, 8 * 16 * 128}) {
    const int n_blocks = 9, n_halves = 4;
    Random random{uint64_t(elements)};
    auto cache = random.bf16s(size_t(n_halves) * n_blocks * elements);
    for (int i = 0; i < elements; i += 3) cache[i] = nan_bf16();
    const std::vector<int> pairs = {0, 8, 5, 1, 5, 2};
    auto wanted = cache;
    for (int half = 0; half < n_halves; half++)
      for (size_t i = 0; i < pairs.size(); i += 2) {
        const auto block = [&](auto& v, int b) { return v.begin() + (size_t(half) * n_blocks + b) * elements; };
        std::copy(block(cache, pairs[i]), block(cache, pairs[i]) + elements, block(wanted, pairs[i + 1]));
      }
    host::launch(dim3(3, n_halves), dim3(256), 0,
                 [&] { copy_blocks(cache.data(), pairs.data(), 3, elements, n_blocks, n_halves); });
    tally.check(same_bits(cache, wanted), "blocks of " + std::to_string(elements));
  }
  return tally.end();
}
