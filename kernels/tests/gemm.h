// For the tests of products: random problems in each format, and what the result must be in double precision.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../planes.cuh"
#include "../split_k.h"
#include "tally.h"

namespace test {

// A number between -size and size.
inline float number(Noise& noise, float size) { return noise.next() * 0.5f * size; }
inline unsigned char byte(Noise& noise) { return static_cast<unsigned char>((noise.next(), noise.state >> 16)); }

inline bf16 to_bf16(float v) { return __float2bfloat16_rn(v); }
inline float from(bf16 v) { return __bfloat162float(v); }

// A weight as a kernel takes it, aligned to 16 bytes, and the values that it stands for.
struct Weight {
  std::string format;
  int N, K;
  std::vector<uint4> memory;
  std::vector<double> values;  // [N, K]
  unsigned char* bytes() { return reinterpret_cast<unsigned char*>(memory.data()); }
  const void* data() const { return memory.data(); }
};

inline Weight bf16_weight(Noise& noise, int N, int K) {
  Weight w{"bf16", N, K, std::vector<uint4>((size_t(N) * K * 2 + 15) / 16), std::vector<double>(size_t(N) * K)};
  for (size_t i = 0; i < w.values.size(); i++) {
    const bf16 v = to_bf16(number(noise, 0.5f));
    reinterpret_cast<bf16*>(w.bytes())[i] = v;
    w.values[i] = from(v);
  }
  return w;
}

inline void put_half(unsigned char* at, float v) { *reinterpret_cast<__half*>(at) = __float2half_rn(v); }
inline float get_half(const unsigned char* at) { return __half2float(*reinterpret_cast<const __half*>(at)); }

// Random bytes are random codes and scales; only the halves need a size that a model's have.
inline void put_halves(planes::Q8_0, Noise& n, unsigned char* unit, unsigned char*) {
  for (int i = 0; i < 16; i++) put_half(unit + planes::Q8_0::codes_bytes + 2 * i, number(n, 0.01f));
}
inline void put_halves(planes::Q4_K, Noise& n, unsigned char*, unsigned char* super) {
  for (int i = 0; i < 32; i++) put_half(super + 2 * i, number(n, 0.002f));
}
inline void put_halves(planes::Q6_K, Noise& n, unsigned char*, unsigned char* super) {
  for (int i = 0; i < 16; i++) put_half(super + 2 * i, number(n, 0.0005f));
}

inline void put_halves(planes::Mxfp4, Noise& n, unsigned char* unit, unsigned char*) {
  for (int i = 0; i < 16; i++) reinterpret_cast<bf16*>(unit + planes::Mxfp4::codes_bytes)[i] = to_bf16(std::ldexp(1.0f, -6 - byte(n) % 5));
}

inline void put_halves(planes::Q4_1, Noise& n, unsigned char* unit, unsigned char*) {
  for (int i = 0; i < 32; i++) put_half(unit + planes::Q4_1::codes_bytes + 2 * i, number(n, 0.01f));
}
inline void put_halves(planes::Q5_1, Noise& n, unsigned char* unit, unsigned char*) {
  for (int i = 0; i < 32; i++) put_half(unit + planes::Q5_1::codes_bytes + 2 * i, number(n, 0.01f));
}
inline void put_halves(planes::U4, Noise& n, unsigned char* unit, unsigned char*) {
  for (int i = 0; i < 32; i += 2) {
    put_half(unit + planes::U4::codes_bytes + 2 * i, number(n, 0.01f));
    put_half(unit + planes::U4::codes_bytes + 2 * i + 2, byte(n) % 16);
  }
}
inline void put_halves(planes::F8, Noise& n, unsigned char* unit, unsigned char*) {
  for (int i = 0; i < 16; i++) reinterpret_cast<float*>(unit + planes::F8::codes_bytes)[i] = number(n, 0.001f);
}
inline void put_halves(planes::Q5_K, Noise& n, unsigned char*, unsigned char* super) {
  put_halves(planes::Q4_K(), n, nullptr, super);
}

template <class F>
Weight quantised_weight(const char* name, Noise& noise, int N, int K) {
  const int strips = (N + 15) / 16;
  const size_t bytes = planes::strip_bytes<F>(K) * strips;
  Weight w{name, N, K, std::vector<uint4>(bytes / 16), std::vector<double>(size_t(N) * K)};
  for (size_t i = 0; i < bytes; i++) w.bytes()[i] = byte(noise);
  for (int s = 0; s < strips; s++) {
    const planes::Strip<F> strip(w.data(), s, K);
    for (int k = 0; k < K; k += planes::kUnit)
      put_halves(F(), noise, const_cast<unsigned char*>(strip.unit(k)), const_cast<unsigned char*>(strip.super(k)));
    for (int o = 0; o < 16 && s * 16 + o < N; o++)
      for (int k = 0; k < K; k++) {
        double& value = w.values[size_t(s * 16 + o) * K + k];
        const planes::Scales scales = strip.scales(o, k);
        value = double(scales.scale) * strip.code(o, k) - double(scales.minimum);
        if constexpr (F::rounded) value = from(to_bf16(float(value)));
      }
  }
  return w;
}

inline Weight weight(const std::string& format, Noise& noise, int N, int K) {
  if (format == "q8_0") return quantised_weight<planes::Q8_0>("q8_0", noise, N, K);
  if (format == "q4_k") return quantised_weight<planes::Q4_K>("q4_k", noise, N, K);
  if (format == "q6_k") return quantised_weight<planes::Q6_K>("q6_k", noise, N, K);
  if (format == "mxfp4") return quantised_weight<planes::Mxfp4>("mxfp4", noise, N, K);
  if (format == "q4_1") return quantised_weight<planes::Q4_1>("q4_1", noise, N, K);
  if (format == "q5_1") return quantised_weight<planes::Q5_1>("q5_1", noise, N, K);
  if (format == "q5_k") return quantised_weight<planes::Q5_K>("q5_k", noise, N, K);
  if (format == "q8_0_rounded") return quantised_weight<planes::RoundedQ8_0>("q8_0_rounded", noise, N, K);
  if (format == "q4_k_rounded") return quantised_weight<planes::RoundedQ4_K>("q4_k_rounded", noise, N, K);
  if (format == "q6_k_rounded") return quantised_weight<planes::RoundedQ6_K>("q6_k_rounded", noise, N, K);
  if (format == "mxfp4_rounded") return quantised_weight<planes::RoundedMxfp4>("mxfp4_rounded", noise, N, K);
  if (format == "u4") return quantised_weight<planes::U4>("u4", noise, N, K);
  if (format == "f8") return quantised_weight<planes::F8>("f8", noise, N, K);
  return bf16_weight(noise, N, K);
}

// Whether products are those of the weights rounded to bf16.
inline bool is_rounded(const std::string& format) {
  for (const char* rounded : {"q4_1", "q5_1", "q5_k", "u4", "f8"})
    if (format == rounded) return true;
  return format.find("_rounded") != std::string::npos;
}
// Whether k is a multiple of 256.
inline bool has_supers(const std::string& format) { return format.find("_k") == 2; }

// The values, which are bf16, as rows of bf16.
inline Weight as_rows(const Weight& w) {
  Weight rows{"bf16", w.N, w.K, std::vector<uint4>((w.values.size() * 2 + 15) / 16), w.values};
  for (size_t i = 0; i < w.values.size(); i++) reinterpret_cast<bf16*>(rows.bytes())[i] = to_bf16(float(w.values[i]));
  return rows;
}

// Rows of activations, aligned as a kernel wants them.
struct Tokens {
  int M, K;
  std::vector<uint4> memory;
  bf16* data() { return reinterpret_cast<bf16*>(memory.data()); }
  const bf16* data() const { return reinterpret_cast<const bf16*>(memory.data()); }
  Tokens rows(int first, int n) const {
    Tokens part{n, K, std::vector<uint4>((size_t(n) * K * 2 + 15) / 16)};
    std::copy(data() + size_t(first) * K, data() + size_t(first + n) * K, part.data());
    return part;
  }
};
inline Tokens tokens(Noise& noise, int M, int K) {
  Tokens x{M, K, std::vector<uint4>((size_t(M) * K * 2 + 15) / 16)};
  for (size_t i = 0; i < size_t(M) * K; i++) x.data()[i] = to_bf16(number(noise, 2.0f));
  return x;
}

// The largest error of y beside double precision, in units of what the definition may lose: the tensor core cuts off
// each step's sum at 2^-23 of its largest part, and each addition rounds at 2^-24. `q4_k`'s minima and products are
// sums of their own, and may be larger than what is left of both.
inline double worst(const Tokens& x, const Weight& w, const std::vector<float>& y) {
  double error = 0;
  for (int m = 0; m < x.M; m++)
    for (int n = 0; n < w.N; n++) {
      double sum = 0, size = 0;
      for (int k = 0; k < x.K; k++) {
        const double part = double(from(x.data()[size_t(m) * x.K + k])) * w.values[size_t(n) * x.K + k];
        sum += part, size += std::fabs(part) * (w.format == "q4_k" ? 4 : 1);
      }
      const double unit = std::ldexp(size, -23) * (2.0 + std::sqrt(x.K / 16.0));
      const double off = std::fabs(sum - double(y[size_t(m) * w.N + n])) / std::max(unit, 1e-30);
      error = std::isnan(off) ? INFINITY : std::max(error, off);
    }
  return error;
}

}  // namespace test
