// What the host tests share: a count of checks, and numbers to test with.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

// Under ThreadSanitizer a thread takes a hundred times as long: tests try so many times fewer cases, of the same kinds.
#if defined(__SANITIZE_THREAD__)
constexpr int kFewer = 8;
#else
constexpr int kFewer = 1;
#endif

struct Tally {
  const char* name;
  int passed = 0, failed = 0;
  explicit Tally(const char* of) : name(of) {}
  void check(bool ok, const std::string& what) {
    ok ? passed++ : failed++;
    if (!ok) std::fprintf(stderr, "%s: %s\n", name, what.c_str());
  }
  int end() const {  // main's last line
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
  }
};

// Numbers in [-2, 2) that depend on the seed alone.
struct Noise {
  uint32_t state;
  float next() {
    state = state * 1664525u + 1013904223u;
    return (float(state >> 8) / float(1 << 24) - 0.5f) * 4.0f;
  }
};
