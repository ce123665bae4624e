// blocks.cuh: each value of random blocks of each format, against a reading of whole blocks; rows of several blocks.
#include "file_blocks.h"

namespace {

struct Check {
  Tally& tally;
  template <Format F>
  void of(const char* name) {
    Random random{uint64_t(F)};
    constexpr int kBlocks = 40, k = kBlocks * Block<F>::values;
    const auto row = random_blocks<F>(random, kBlocks);
    tally.check(row.size() == row_bytes<F>(k), std::string(name) + ": row_bytes");
    int wrong = 0;
    for (int b = 0; b < kBlocks; b++) {
      const unsigned char* block = row.data() + size_t(b) * Block<F>::bytes;
      const auto wanted = unpacked<F>(block);
      for (int i = 0; i < Block<F>::values; i++) {
        wrong += dequantize<F>(block, i) != wanted[i];
        wrong += value_of_row<F>(row.data(), b * Block<F>::values + i) != wanted[i];
      }
    }
    tally.check(wrong == 0, std::string(name) + ": " + std::to_string(wrong) + " values differ");
  }
};

}  // namespace

int main() {
  Tally tally{"blocks"};
  for_each_format(Check{tally});
  return tally.end();
}
