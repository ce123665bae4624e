// kernels/emulated/tensor_core.h against MMA-Sim's results: `mma tests/golden/mma.json`.
#include "../emulated/tensor_core.h"

#include "../emulated/dice.h"

#include <fstream>
#include <iterator>

#include "tally.h"

namespace {

Tally tally("mma");
const int kCards[] = {80, 89, 90, 100, 120};

// The text between `key` and the next quotation mark, from `at` on. The file is read where its writer put things.
std::string text_after(const std::string& line, const std::string& key, size_t at = 0) {
  const size_t start = line.find(key, at) + key.size();
  return line.find(key, at) == std::string::npos ? "" : line.substr(start, line.find('"', start) - start);
}

// Hexadecimal numbers of so many digits each, into rows of memory.
template <typename T>
void read_bits(const std::string& digits, T* to, size_t n) {
  const size_t each = digits.size() / n;
  for (size_t i = 0; i < n; i++) {
    const uint32_t bits = std::stoul(digits.substr(i * each, each), nullptr, 16);
    std::memcpy(&to[i], &bits, sizeof(T));
  }
}
std::string bits_of(const float (&d)[16][8]) {
  std::string out;
  char digits[16];
  for (const auto& row : d)
    for (const float v : row) {
      std::snprintf(digits, sizeof digits, "%08x", __float_as_uint(v));
      out += digits;
    }
  return out;
}

void test_case(const std::string& line) {
  const size_t results = line.find("\"d\": {");
  for (const int card : kCards) {
    host::tensor_core() = host::TensorCore::of(card);
    host::Tile t;
    read_bits(text_after(line, "\"a\": \""), t.a[0], 256);
    read_bits(text_after(line, "\"b\": \""), t.b[0], 128);
    read_bits(text_after(line, "\"c\": \""), t.d[0], 128);
    host::multiply(t);
    const std::string made = bits_of(t.d), wanted = text_after(line, "\"" + std::to_string(card) + "\": \"", results);
    size_t at = 0;
    while (at < made.size() && made[at] == wanted[at]) at++;
    const size_t from = at / 8 * 8;
    tally.check(made == wanted, text_after(line, "\"name\": \"") + ", sm_" + std::to_string(card) + ": number " +
                                    std::to_string(at / 8) + " is " + made.substr(from, 8) + ", not " +
                                    wanted.substr(from, 8));
  }
}

// Both ways of a product, on tiles of large, of small and of all numbers, with zeros, rows of zeros, and NaN.
void test_ways() {
  for (const int card : kCards) {
    host::tensor_core() = host::TensorCore::of(card);
    host::Dice dice{static_cast<uint64_t>(card)};
    bool alike = true;
    for (int round = 0; round < 4000; round++) {
      const int spread = 1 + dice.next() % 90, middle = spread < 30 ? int(dice.next() % 140) - 70 : 0;
      const auto number = [&](unsigned fraction, int from, bool special) -> uint32_t {
        const uint32_t sign = dice.next() % 2 << (fraction + 8);
        if (dice.next() % 8 == 0) return sign | (dice.next() % 4 == 0) << dice.next() % fraction;  // zero or subnormal
        if (special && dice.next() % 64 == 0) return sign | 0xff << fraction | dice.next() % 2;
        return sign | (127 + from + int(dice.next() % spread)) << fraction | dice.next() % (1u << fraction);
      };
      host::Tile t;
      for (auto& row : t.a) {
        const bool zero = dice.next() % 4 == 0;
        for (uint16_t& v : row) v = zero ? dice.next() % 2 << 15 : number(7, middle - spread / 2, round % 16 == 0);
      }
      for (auto& row : t.b)
        for (uint16_t& v : row) v = number(7, middle / 2 - spread / 2, round % 16 == 0);
      for (auto& row : t.d)
        for (float& v : row) v = __uint_as_float(number(23, std::max(middle - spread / 2, -120), round % 8 == 0));
      host::Tile by_parts = t;
      host::multiply(t);
      host::multiply(by_parts, true);
      alike &= !std::memcmp(t.d, by_parts.d, sizeof t.d);
    }
    tally.check(alike, "tiles by f32 and by parts, sm_" + std::to_string(card));
  }
}

// Tiles that golden_mma.py draws in the same way.
struct Draw {
  uint32_t state = 1;
  uint32_t spread;
  explicit Draw(uint32_t of) : spread(of) {}
  uint32_t bits() { return (state = state * 1664525u + 1013904223u) >> 8; }
  uint16_t half() {
    const uint32_t v = bits();
    return static_cast<uint16_t>((v & 1) << 15 | (127 - spread + (v >> 8) % (2 * spread)) << 7 | (v >> 1 & 0x7f));
  }
  float single() {
    const uint32_t v = bits();
    return __uint_as_float((v & 1) << 31 | (127 - spread + (v >> 8) % (2 * spread)) << 23 | (bits() & 0x7fffff));
  }
  void tile(host::Tile& t) {
    for (auto& row : t.a)
      for (uint16_t& v : row) v = half();
    for (auto& row : t.b)
      for (uint16_t& v : row) v = half();
    for (auto& row : t.d)
      for (float& v : row) v = single();
  }
};

void test_many(const std::string& line) {
  const auto number = [&](const char* key) { return std::stoul(line.substr(line.find(key) + std::strlen(key))); };
  for (const int card : kCards) {
    host::tensor_core() = host::TensorCore::of(card);
    Draw draw(number("\"spread\": "));
    uint64_t hash = 0xcbf29ce484222325u;
    bool alike = true;
    for (size_t i = number("\"tiles\": "); i > 0; i--) {
      host::Tile t;
      draw.tile(t);
      host::Tile by_parts = t;
      host::multiply(t);
      host::multiply(by_parts, true);
      alike &= !std::memcmp(t.d, by_parts.d, sizeof t.d);
      for (size_t at = 0; at < sizeof t.d; at++)
        hash = (hash ^ reinterpret_cast<const unsigned char*>(t.d)[at]) * 0x100000001b3u;
    }
    char made[20];
    std::snprintf(made, sizeof made, "%016zx", size_t(hash));
    tally.check(made == text_after(line, "\"" + std::to_string(card) + "\": \""),
                "many tiles of spread " + std::to_string(draw.spread) + ", sm_" + std::to_string(card));
    tally.check(alike, "tiles of spread " + std::to_string(draw.spread) + " by parts, sm_" + std::to_string(card));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) host::stop("usage: mma tests/golden/mma.json");
  std::ifstream file(argv[1]);
  for (std::string line; std::getline(file, line);) {
    if (line.find("{\"name\"") == 0) test_case(line);
    if (line.find("{\"spread\"") == 0) test_many(line);
  }
  test_ways();
  tally.check(tally.passed + tally.failed >= 60, "the golden file has too few cases");
  return tally.end();
}
