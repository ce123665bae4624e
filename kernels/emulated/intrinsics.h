// CUDA's intrinsics that one thread computes alone, for g++. IEEE roundings only: kernels use no others.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

namespace host {
template <typename To, typename From>
To bits_as(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  std::memcpy(&out, &v, sizeof out);
  return out;
}
}  // namespace host

inline int __float_as_int(float v) { return host::bits_as<int>(v); }
inline unsigned __float_as_uint(float v) { return host::bits_as<unsigned>(v); }
inline float __int_as_float(int v) { return host::bits_as<float>(v); }
inline float __uint_as_float(unsigned v) { return host::bits_as<float>(v); }
inline long long __double_as_longlong(double v) { return host::bits_as<long long>(v); }
inline double __longlong_as_double(long long v) { return host::bits_as<double>(v); }
inline int __float2int_rn(float v) { return static_cast<int>(std::nearbyint(v)); }
inline int __float2int_rz(float v) { return static_cast<int>(v); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline double __int2double_rn(int v) { return v; }
inline float __double2float_rn(double v) { return static_cast<float>(v); }

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __brev(unsigned v) {
  unsigned out = 0;
  for (int i = 0; i < 32; i++) out |= (v >> i & 1) << (31 - i);
  return out;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t(y) << 32 | x;
  unsigned out = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned pick = selector >> 4 * i & 0xf, byte = bytes >> 8 * (pick & 7) & 0xff;
    out |= (pick & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
  }
  return out;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return (uint64_t(high) << 32 | low) << (by & 31) >> 32;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (uint64_t(high) << 32 | low) >> (by & 31);
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += int(int8_t(a >> 8 * i)) * int8_t(b >> 8 * i);
  return c;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return uint64_t(a) * b >> 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned __int128>(a) * b >> 64;
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

// Loads and stores with hints to the cache.
template <typename T>
T __ldcg(const T* at) { return *at; }
template <typename T>
T __ldcs(const T* at) { return *at; }
template <typename T>
void __stcg(T* at, T v) { *at = v; }
template <typename T>
void __stcs(T* at, T v) { *at = v; }
