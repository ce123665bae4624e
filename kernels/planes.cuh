// How quantised weights lie in a device's memory. crates/cuda/src/quant_layout.rs writes it from the
// file's blocks when a model is loaded; nothing is rounded, and the size is the file's to within a few percent.
//
// A weight [N, K] is packed in strips of 16 outputs (the last one filled up with zeros), a strip along k in units of
// 32 values. A strip is all of its units, then, for blocks of 256 values, one `super` for each 256; the strips follow
// one another. So a strip is one contiguous stream, every part of it starts at a multiple of 16 bytes, and a warp's
// loads are 8 or 16 bytes a lane.
//
//   format  unit bytes: codes, scales      super              bits a weight (file)
//   q8_0     544         512    32         -                  8.5   (8.5)
//   q4_k     288         256    32         64: d, dmin        4.75  (4.5)
//   q6_k     416         256 low + 128 high, 32   32: d       6.625 (6.5625)
//   mxfp4    288         256    32         -                  4.5   (4.25)
//   q4_1     320         256    64         -                  5     (5; q4_0: 4.5)
//   q5_1     384         256 low + 64 high, 64    -           6     (6; q5_0: 5.5)
//   q5_k     352         256 low + 64 high, 32    64: d, dmin 5.75  (5.5)
//   u4       320         256    64         -                  5     (4.75; integers with zero points of AWQ and others)
//   f8       576         512    64         -                  9     (9; FP8, e4m3)
//
// Codes stand as mma.sync m16n8k16 wants its 16x16 operand. With lane = 4 g + t, a unit's step s (of two, 16 values
// each) and pair p (of four registers), a lane holds the two codes of
//
//   output g + 8 (p % 2),   k = 16 s + 8 (p / 2) + 2 t + {0, 1}
//
//   q8_0  word 2 s + p / 2 of the 16 bytes at 16 lane: byte p % 2 the first, byte 2 + p % 2 the second; signed
//   f8    as q8_0; the bits of a float of 8 bits
//   q4_k  word s of the 8 bytes at 8 lane: nibble p the first, nibble 4 + p the second
//   q6_k  the low four bits as q4_k; the high two in the word at 256 + 4 lane: with j = 4 s + p, bits 2 j and 2 j + 1 of
//         its low half are the first's, of its high half the second's; the code is 32 more than what it means
//   mxfp4  as q4_k; the code is twice the value of FP4 (e2m1) that the nibble stands for
//   q4_1, u4  as q4_k
//   q5_1, q5_k  the low four bits as q4_k; the fifth in the 16 bits at 256 + 2 lane: bit 4 s + p the first's, bit 8 more the
//         second's
//
// Behind the codes stand the scales, four or eight bytes for each g, those of output g before those of output g + 8:
//
//   q8_0  two halves d
//   q4_1, q5_1  two pairs of halves (d, m); q4_0 has m = -8 d, q5_0 m = -16 d
//   q4_k, q5_k  two pairs of bytes (scale, minimum);         super: two pairs of halves (d, dmin), 8 bytes for each g
//   q6_k  for each of two steps, two signed bytes (scale);   super: two halves d, 4 bytes for each g
//   mxfp4 two bf16: half of the block's power of two
//   u4    two pairs of halves (d, zero point)
//   f8    two f32 d
//
// What is added to the slice's sum (gemm.cuh), in f32:
//
//   q8_0, mxfp4  for each 32 values: fma(d, sum of x code, total)
//   q4_k  for each 32 values: fma(d scale, sum of x code, total), then fma(-(dmin minimum), sum of x, total)
//   q6_k  for each 16 values: fma(d scale, sum of x code, total)
//   the others, and Rounded<any>    nothing: each weight is rounded to bf16, and the product is that of bf16 weights. In
//                 f32 it is fma(d, code, m), of q4_k and q5_k fma(d scale, code, -(dmin minimum)), of u4
//                 fma(d, code, -(d zero)), where only the sum rounds, which is exact for u4; of q8_0, q6_k and mxfp4 the
//                 exact product of scale and code; of f8 d code, rounded
//
// Codes are exact in bf16, and so are d scale and dmin minimum in f32; the sum of x is the tensor core's, with ones
// for the weights.
//
// Proved by kernels/tests/planes.cpp (planes that quant_layout.rs has written, beside the file's own blocks) and the
// tests of quant_layout.rs.
#pragma once

#include "common.cuh"

namespace planes {

constexpr int kOutputs = 16, kUnit = 32, kSuper = 256;

// Bytes of a unit's codes, of its scales and of a super; values that share a scale; whether sums get minima, and whether
// weights are rounded to bf16.
template <int CODES, int SCALES, int SUPER, int SCALED, bool MINIMA, bool ROUNDED>
struct Layout {
  static constexpr int codes_bytes = CODES, scales_bytes = SCALES, super_bytes = SUPER, scaled = SCALED;
  static constexpr bool minima = MINIMA, rounded = ROUNDED;
};
struct Q8_0 : Layout<512, 32, 0, 32, false, false> {};
struct Q4_K : Layout<256, 32, 64, 32, true, false> {};
struct Q6_K : Layout<384, 32, 32, 16, false, false> {};
struct Mxfp4 : Layout<256, 32, 0, 32, false, false> {};
struct Q4_1 : Layout<256, 64, 0, 32, false, true> {};
struct Q5_1 : Layout<320, 64, 0, 32, false, true> {};
struct Q5_K : Layout<320, 32, 64, 32, false, true> {};
struct U4 : Layout<256, 64, 0, 32, false, true> {};
struct F8 : Layout<512, 64, 0, 32, false, true> {};

// The same bytes, with each weight rounded to bf16 instead of scaled sums.
template <class F>
struct Rounded : F {
  static constexpr bool minima = false, rounded = true;
};
using RoundedQ8_0 = Rounded<Q8_0>;
using RoundedQ4_K = Rounded<Q4_K>;
using RoundedQ6_K = Rounded<Q6_K>;
using RoundedMxfp4 = Rounded<Mxfp4>;

template <class F>
constexpr int unit_bytes = F::codes_bytes + F::scales_bytes;

// Bytes of one strip.
template <class F>
__host__ __device__ constexpr size_t strip_bytes(int K) {
  return static_cast<size_t>(K / kUnit) * unit_bytes<F> + static_cast<size_t>(K / kSuper) * F::super_bytes;
}

// Reading value by value, as the text above says: for plain kernels and tests.

__device__ __forceinline__ uint32_t word_at(const unsigned char* at) { return *reinterpret_cast<const uint32_t*>(at); }
__device__ __forceinline__ float half_at(const unsigned char* at) {
  return __half2float(*reinterpret_cast<const __half*>(at));
}

// Where a code of a unit stands.
struct Place {
  int lane, step, pair, second;
};
__device__ __forceinline__ Place place_of(int output, int k) {
  const int within = k % 16;
  return {output % 8 * 4 + within % 8 / 2, k % kUnit / 16, output / 8 + within / 8 * 2, within % 2};
}

__device__ __forceinline__ uint32_t byte(const unsigned char* unit, Place at) {
  const uint32_t word = word_at(unit + at.lane * 16 + (at.step * 2 + at.pair / 2) * 4);
  return word >> (8 * (at.pair % 2 + 2 * at.second)) & 0xff;
}
__device__ __forceinline__ int code(Q8_0, const unsigned char* unit, Place at) {
  return static_cast<signed char>(byte(unit, at));
}
__device__ __forceinline__ float code(F8, const unsigned char* unit, Place at) {
  // Exponent and mantissa, read as an f32, are 2^120 too small.
  const uint32_t bits = byte(unit, at);
  const float size = __fmul_rn(__uint_as_float((bits & 0x7f) << 20), 0x1p120f);
  return bits & 0x80 ? -size : size;
}
__device__ __forceinline__ int nibble(const unsigned char* unit, Place at) {
  return word_at(unit + at.lane * 8 + at.step * 4) >> (4 * (at.pair + 4 * at.second)) & 15;
}
__device__ __forceinline__ int code(Q4_K, const unsigned char* unit, Place at) { return nibble(unit, at); }
__device__ __forceinline__ int code(Q4_1, const unsigned char* unit, Place at) { return nibble(unit, at); }
__device__ __forceinline__ int code(U4, const unsigned char* unit, Place at) { return nibble(unit, at); }
__device__ __forceinline__ int five_bits(const unsigned char* unit, Place at) {
  const int high = *reinterpret_cast<const unsigned short*>(unit + 256 + at.lane * 2);
  return nibble(unit, at) | (high >> (at.step * 4 + at.pair + 8 * at.second) & 1) << 4;
}
__device__ __forceinline__ int code(Q5_1, const unsigned char* unit, Place at) { return five_bits(unit, at); }
__device__ __forceinline__ int code(Q5_K, const unsigned char* unit, Place at) { return five_bits(unit, at); }
__device__ __forceinline__ int code(Q6_K, const unsigned char* unit, Place at) {
  const int high = word_at(unit + 256 + at.lane * 4) >> (2 * (at.step * 4 + at.pair) + 16 * at.second) & 3;
  return (nibble(unit, at) | high << 4) - 32;
}
__device__ __forceinline__ int code(Mxfp4, const unsigned char* unit, Place at) {
  const int bits = nibble(unit, at), size = 0xc8643210u >> (4 * (bits & 7)) & 15;
  return bits & 8 ? -size : size;
}

// The scale of output `output` (of 16) and of the values around k, and the minimum where there is one.
struct Scales {
  float scale, minimum;
};
__device__ __forceinline__ Scales scales(Q8_0, const unsigned char* unit, const unsigned char*, int output, int) {
  return {half_at(unit + Q8_0::codes_bytes + output % 8 * 4 + output / 8 * 2), 0.0f};
}
__device__ __forceinline__ Scales scales_of_pairs(const unsigned char* pairs, const unsigned char* super, int output) {
  const unsigned char* at = pairs + output % 8 * 4 + output / 8 * 2;
  const unsigned char* d = super + output % 8 * 8 + output / 8 * 4;
  return {__fmul_rn(half_at(d), static_cast<float>(at[0])), __fmul_rn(half_at(d + 2), static_cast<float>(at[1]))};
}
__device__ __forceinline__ Scales scales(Q4_K, const unsigned char* unit, const unsigned char* super, int output, int) {
  return scales_of_pairs(unit + Q4_K::codes_bytes, super, output);
}
__device__ __forceinline__ Scales scales(Q5_K, const unsigned char* unit, const unsigned char* super, int output, int) {
  return scales_of_pairs(unit + Q5_K::codes_bytes, super, output);
}
__device__ __forceinline__ Scales scales_of_halves(const unsigned char* halves, int output) {
  const unsigned char* at = halves + output % 8 * 8 + output / 8 * 4;
  return {half_at(at), -half_at(at + 2)};
}
__device__ __forceinline__ Scales scales(Q4_1, const unsigned char* unit, const unsigned char*, int output, int) {
  return scales_of_halves(unit + Q4_1::codes_bytes, output);
}
__device__ __forceinline__ Scales scales(Q5_1, const unsigned char* unit, const unsigned char*, int output, int) {
  return scales_of_halves(unit + Q5_1::codes_bytes, output);
}
__device__ __forceinline__ Scales scales(U4, const unsigned char* unit, const unsigned char*, int output, int) {
  const unsigned char* at = unit + U4::codes_bytes + output % 8 * 8 + output / 8 * 4;
  return {half_at(at), __fmul_rn(half_at(at), half_at(at + 2))};
}
__device__ __forceinline__ Scales scales(F8, const unsigned char* unit, const unsigned char*, int output, int) {
  return {__uint_as_float(word_at(unit + F8::codes_bytes + output % 8 * 8 + output / 8 * 4)), 0.0f};
}
__device__ __forceinline__ Scales scales(Q6_K, const unsigned char* unit, const unsigned char* super, int output,
                                         int k) {
  const unsigned char* at = unit + Q6_K::codes_bytes + output % 8 * 4 + k % kUnit / 16 * 2 + output / 8;
  const float d = half_at(super + output % 8 * 4 + output / 8 * 2);
  return {__fmul_rn(d, static_cast<float>(static_cast<signed char>(*at))), 0.0f};
}
__device__ __forceinline__ Scales scales(Mxfp4, const unsigned char* unit, const unsigned char*, int output, int) {
  const unsigned char* at = unit + Mxfp4::codes_bytes + output % 8 * 4 + output / 8 * 2;
  return {__bfloat162float(*reinterpret_cast<const bf16*>(at)), 0.0f};
}

// One strip of a weight.
template <class F>
struct Strip {
  const unsigned char* bytes;
  int K;

  __device__ __forceinline__ Strip(const void* w, int strip, int k)
      : bytes(static_cast<const unsigned char*>(w) + strip * strip_bytes<F>(k)), K(k) {}
  __device__ __forceinline__ const unsigned char* unit(int k) const {
    return bytes + static_cast<size_t>(k / kUnit) * unit_bytes<F>;
  }
  __device__ __forceinline__ const unsigned char* super(int k) const {
    return bytes + static_cast<size_t>(K / kUnit) * unit_bytes<F> + k / kSuper * F::super_bytes;
  }
  // `output` counts from the strip's first.
  __device__ __forceinline__ auto code(int output, int k) const {
    return planes::code(F(), unit(k), place_of(output, k));
  }
  __device__ __forceinline__ Scales scales(int output, int k) const {
    return planes::scales(F(), unit(k), super(k), output, k);
  }
  // The weight of a format that is rounded: where something is subtracted, the product is exact, so that this is the
  // fused multiply-add.
  __device__ __forceinline__ bf16 rounded(int output, int k) const {
    static_assert(F::rounded, "the products of other formats scale sums");
    const Scales s = scales(output, k);
    return __float2bfloat16_rn(__fsub_rn(__fmul_rn(s.scale, static_cast<float>(code(output, k))), s.minimum));
  }
};

}  // namespace planes
