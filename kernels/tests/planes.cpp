// Planes written by crates/cuda/src/quant_layout.rs, read value by value by planes.cuh: each has the bits of
// the value that blocks.cuh, or here OfU4 and OfF8, read from the file's own block. tests/golden/planes.snap holds both; the tests of
// quant_layout.rs keep it up to date.
#include "../planes.cuh"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../blocks.cuh"
#include "tally.h"

namespace {

std::vector<uint4> bytes_of(const std::string& hex) {
  std::vector<uint4> out(hex.size() / 32 + 1);
  for (size_t i = 0; i < hex.size() / 2; i++)
    reinterpret_cast<unsigned char*>(out.data())[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return out;
}

// The blocks of quantised safetensors (crates/model/src/weights/ggml.rs), which no kernel reads.
struct OfU4 {
  static constexpr int values = 32, bytes = 19;
  static float value(const unsigned char* block, int i) {
    return __fmul_rn(blocks::half_at(block), static_cast<float>(blocks::nibble(block + 3, i) - block[2]));
  }
};
struct OfF8 {
  static constexpr int values = 32, bytes = 36;
  static float value(const unsigned char* block, int i) {
    const int bits = block[4 + i], exponent = bits >> 3 & 15, mantissa = bits & 7;
    const float size = std::ldexp(exponent == 0 ? mantissa : 8 + mantissa, std::max(exponent, 1) - 10);
    float d;
    std::memcpy(&d, block, sizeof d);
    return __fmul_rn(d, bits & 128 ? -size : size);
  }
};

template <class F, class OfFile>
void one_format(Tally& tally, const std::string& name, int n, int k, const std::string& rows, const std::string& strips) {
  tally.check(strips.size() / 2 == planes::strip_bytes<F>(k) * ((n + 15) / 16), name + ": another size");
  const std::vector<uint4> in_file = bytes_of(rows), on_device = bytes_of(strips);
  int wrong = 0;
  for (int row = 0; row < n; row++)
    for (int i = 0; i < k; i++) {
      const planes::Strip<F> strip(on_device.data(), row / 16, k);
      const planes::Scales s = strip.scales(row % 16, i);
      const float value = __fsub_rn(__fmul_rn(s.scale, static_cast<float>(strip.code(row % 16, i))), s.minimum);
      const size_t block = static_cast<size_t>(row) * k / OfFile::values + i / OfFile::values;
      const unsigned char* from = reinterpret_cast<const unsigned char*>(in_file.data()) + block * OfFile::bytes;
      wrong += value != OfFile::value(from, i % OfFile::values);
    }
  tally.check(wrong == 0, name + ": " + std::to_string(wrong) + " values are not the file's");
}

}  // namespace

int main() {
  Tally tally("planes");
  std::ifstream file("tests/golden/planes.snap");
  std::string line;
  int formats = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name, rows, strips;
    int n, k;
    if (!(words >> name >> n >> k >> rows >> strips)) continue;  // the snapshot's own head
    formats++;
    if (name == "q8_0") one_format<planes::Q8_0, Block<Format::kQ8_0>>(tally, name, n, k, rows, strips);
    if (name == "q4_k") one_format<planes::Q4_K, Block<Format::kQ4_K>>(tally, name, n, k, rows, strips);
    if (name == "mxfp4") one_format<planes::Mxfp4, Block<Format::kMxfp4>>(tally, name, n, k, rows, strips);
    if (name == "q6_k") one_format<planes::Q6_K, Block<Format::kQ6_K>>(tally, name, n, k, rows, strips);
    if (name == "q4_0") one_format<planes::Q4_1, Block<Format::kQ4_0>>(tally, name, n, k, rows, strips);
    if (name == "q4_1") one_format<planes::Q4_1, Block<Format::kQ4_1>>(tally, name, n, k, rows, strips);
    if (name == "q5_0") one_format<planes::Q5_1, Block<Format::kQ5_0>>(tally, name, n, k, rows, strips);
    if (name == "q5_1") one_format<planes::Q5_1, Block<Format::kQ5_1>>(tally, name, n, k, rows, strips);
    if (name == "q5_k") one_format<planes::Q5_K, Block<Format::kQ5_K>>(tally, name, n, k, rows, strips);
    if (name == "u4") one_format<planes::U4, OfU4>(tally, name, n, k, rows, strips);
    if (name == "f8") one_format<planes::F8, OfF8>(tally, name, n, k, rows, strips);
  }
  tally.check(formats == 11, "tests/golden/planes.snap has not eleven formats");
  return tally.end();
}
