// fill.cu: mean and spread, another seed other numbers, the same ones whatever the grid.
#include "../fill.cu"

#include "random.h"

namespace {

std::vector<bf16> fill(int n, unsigned blocks, unsigned seed, float scale, int first = 0) {
  std::vector<bf16> out(n + 1, nan_bf16());
  host::launch(dim3(blocks), dim3(256), 0, [&] { fill_bf16(out.data(), n, 0, first, 0, seed, scale); });
  return out;
}

}  // namespace

int main() {
  Tally tally{"fill"};
  const int n = 100003;
  const auto weights = fill(n, 7, 5, 0.02f);
  double sum = 0, squares = 0, largest = 0;
  for (int i = 0; i < n; i++) {
    const double v = widen(weights[i]);
    sum += v, squares += v * v, largest = std::max(largest, std::fabs(v));
  }
  tally.check(std::fabs(sum / n) < 3e-4, "the mean is " + std::to_string(sum / n));
  tally.check(std::fabs(std::sqrt(squares / n) - 0.02) < 2e-4, "the spread is " + std::to_string(std::sqrt(squares / n)));
  tally.check(largest > 0.055 && largest <= 0.0702, "the largest is " + std::to_string(largest));
  tally.check(widen(weights[n]) != widen(weights[n]), "writes past the end");
  tally.check(same_bits(weights, fill(n, 3, 5, 0.02f)), "another grid gives other numbers");
  const uint16_t first[] = {0x3bea, 0xbc1f, 0xbcc8, 0x3b99};  // those of crates/model/src/weights/seeded.rs
  tally.check(std::memcmp(weights.data(), first, sizeof first) == 0, "the first numbers are others");
  tally.check(!same_bits(weights, fill(n, 7, 6, 0.02f)), "another seed gives the same numbers");
  const auto part = fill(500, 1, 5, 0.02f, 70001);
  tally.check(std::memcmp(part.data(), weights.data() + 70001, 1000) == 0, "a part has other numbers than the whole");
  return tally.end();
}
