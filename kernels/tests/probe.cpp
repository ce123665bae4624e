// probe.cu: tiles have the bits of tensor_core.h whatever their place, and rounds end with a number.
#include "../probe.cu"

#include <cmath>

#include "random.h"

int main() {
  Tally tally{"probe"};
  const int n = 3;
  std::vector<bf16> a(n * 256), b(n * 128);
  std::vector<float> d(n * 128);
  Noise noise{11};
  for (bf16& v : a) v = __float2bfloat16_rn(noise.next());
  for (bf16& v : b) v = __float2bfloat16_rn(noise.next());
  for (float& v : d) v = noise.next();
  std::vector<float> expected(d);
  for (int i = 0; i < n; i++) {
    host::Tile tile;
    std::memcpy(tile.a, a.data() + i * 256, sizeof tile.a);
    std::memcpy(tile.b, b.data() + i * 128, sizeof tile.b);
    std::memcpy(tile.d, d.data() + i * 128, sizeof tile.d);
    host::multiply(tile);
    std::memcpy(expected.data() + i * 128, tile.d, sizeof tile.d);
  }
  host::launch(dim3(n), dim3(32), 0, [&] { multiply_tiles(a.data(), b.data(), d.data(), n); });
  tally.check(std::memcmp(d.data(), expected.data(), d.size() * sizeof(float)) == 0, "a tile has other bits");
  std::vector<float> sums(2, NAN);
  host::launch(dim3(2), dim3(256), 0, [&] { multiply_rounds(sums.data(), 2); });
  tally.check(std::isfinite(sums[0]) && sums[0] != 0.0f && sums[0] == sums[1], "rounds end with a number");
  return tally.end();
}
