// What shuffles an order of threads, blocks or copies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace host {

// Numbers from a seed (splitmix64).
struct Dice {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  template <typename T>
  void shuffle(T* at, size_t n) {
    for (size_t i = n; i > 1; i--) std::swap(at[i - 1], at[next() % i]);
  }
};

}  // namespace host
