// Seeded numbers for the host tests, and comparisons of results with what was wanted.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "../common.cuh"
#include "../emulated/dice.h"
#include "tally.h"

// Numbers that depend on the seed alone.
struct Random : host::Dice {
  // In 0..1.
  double uniform() { return double(next() >> 11) / double(uint64_t(1) << 53); }
  // In -2..2.
  float number() { return float(uniform() * 4 - 2); }
  unsigned below(unsigned n) { return unsigned(next() % n); }

  std::vector<float> numbers(size_t n) {
    std::vector<float> out(n);
    for (float& v : out) v = number();
    return out;
  }
  std::vector<bf16> bf16s(size_t n) {
    std::vector<bf16> out(n);
    for (bf16& v : out) narrow(number(), v);
    return out;
  }
};

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline bf16 nan_bf16() { return __ushort_as_bfloat16(0x7fff); }

// |got - wanted| against the most that one rounding to bf16 changes the larger of |wanted| and `floor`.
inline double roundings(double got, double wanted, double floor) {
  return std::fabs(got - wanted) / (std::ldexp(1.0, -8) * std::max(std::fabs(wanted), floor));
}
