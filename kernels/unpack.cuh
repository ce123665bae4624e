// Codes and scales of planes.cuh from registers, as the tensor core wants them: a few instructions for two codes.
//
// bf16 counts in steps of one from 128 to 256: with 0x4300 around them, seven bits are 128 more than they are. One
// exact sum takes the 128 away (and what else a format's codes are too large by):
//
//   q4_k, q4_1, u4  0x4300 | nibble        - 128
//   q5_1, q5_k  0x4300 | nibble | bit << 4 - 128
//   q6_k  0x4300 | nibble | two bits << 4  - 160
//   q8_0  0x4300 | low seven bits          - 128, or - 256 where the sign bit is set: 0xc300 | sign bit
//
// mxfp4's nibble has a sign, two bits of exponent and one of mantissa. In their places of a bf16 they are 2^126 times
// smaller than they mean, subnormal numbers among them; one exact product makes them twice what they mean. f8's bytes
// (four bits of exponent, three of mantissa) are likewise 2^120 times smaller.
//
// Proved by kernels/tests/gemm.cpp.
#pragma once

#include "planes.cuh"

namespace planes {

// x + y for two bf16 at once, where no sum rounds. (The sum has one instruction from sm_90 on, the fused one from sm_80.)
__device__ __forceinline__ uint32_t add_exact(uint32_t x, uint32_t y) {
#ifdef HOST_KERNEL_TEST
  uint32_t sums = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const float sum = __uint_as_float(x >> shift << 16) + __uint_as_float(y >> shift << 16);
    sums |= __float_as_uint(sum) >> 16 << shift;
  }
  return sums;
#else
  uint32_t sums;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(x), "r"(0x3f803f80u), "r"(y));
  return sums;
#endif
}

// x times a power of two, all of them two bf16, where no product rounds.
__device__ __forceinline__ uint32_t times_exact(uint32_t x, uint32_t power) {
#ifdef HOST_KERNEL_TEST
  uint32_t products = 0;
  for (int shift = 0; shift < 32; shift += 16)
    products |= __float_as_uint(__uint_as_float(x >> shift << 16) * __uint_as_float(power << 16)) >> 16 << shift;
  return products;
#else
  uint32_t products;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(products) : "r"(x), "r"(power), "r"(0x80008000u));
  return products;
#endif
}

// (bits & mask) | around: one instruction, which the compiler would not make of two constants.
__device__ __forceinline__ uint32_t bits_within(uint32_t bits, uint32_t mask, uint32_t around) {
#ifdef HOST_KERNEL_TEST
  return (bits & mask) | around;
#else
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(bits), "r"(mask), "r"(around));
  return out;
#endif
}

// Two codes as the weights that they mean, rounded.
__device__ __forceinline__ uint32_t rounded(uint32_t codes, Scales s) {
  const float low = __fmaf_rn(s.scale, __uint_as_float(codes << 16), -s.minimum);
  const float high = __fmaf_rn(s.scale, __uint_as_float(codes & 0xffff0000u), -s.minimum);
#ifdef HOST_KERNEL_TEST
  const uint32_t of_low = __bfloat16_as_ushort(__float2bfloat16_rn(low));
  return of_low | static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16;
#else
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#endif
}

// A lane's codes of a unit.
template <class F>
struct Codes;

template <>
struct Codes<Q8_0> {
  uint4 words;
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    words = *reinterpret_cast<const uint4*>(unit + lane * 16);
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint32_t of_step[2] = {step == 0 ? words.x : words.z, step == 0 ? words.y : words.w};
#pragma unroll
    for (int p = 0; p < 4; p++) {
      const uint32_t word = of_step[p / 2] >> (p % 2 * 8);
      a[p] = add_exact(bits_within(word, 0x007f007fu, 0x43004300u), bits_within(word, 0x00800080u, 0xc300c300u));
    }
  }
};

template <>
struct Codes<Q4_K> {
  uint2 nibbles;
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    nibbles = *reinterpret_cast<const uint2*>(unit + lane * 8);
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint32_t word = step == 0 ? nibbles.x : nibbles.y;
#pragma unroll
    for (int p = 0; p < 4; p++) a[p] = add_exact(bits_within(word >> (4 * p), 0x000f000fu, 0x43004300u), 0xc300c300u);
  }
};

template <>
struct Codes<Q4_1> : Codes<Q4_K> {};
template <>
struct Codes<U4> : Codes<Q4_K> {};

template <>
struct Codes<F8> : Codes<Q8_0> {
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint32_t of_step[2] = {step == 0 ? words.x : words.z, step == 0 ? words.y : words.w};
#pragma unroll
    for (int p = 0; p < 4; p++) {
      const uint32_t word = of_step[p / 2] >> (p % 2 * 8);
      a[p] = times_exact(bits_within(word << 4, 0x07f007f0u, word << 8 & 0x80008000u), 0x7b807b80u);
    }
  }
};

struct FiveBits {
  uint2 nibbles;
  uint32_t high;  // those of the first codes in the low half, of the second in the high one
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    nibbles = *reinterpret_cast<const uint2*>(unit + lane * 8);
    high = *reinterpret_cast<const unsigned short*>(unit + 256 + lane * 2);
    high = (high & 0xff) | (high & 0xff00) << 8;
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint32_t word = step == 0 ? nibbles.x : nibbles.y;
#pragma unroll
    for (int p = 0; p < 4; p++) {
      const int at = step * 4 + p;  // of the bit that belongs at 4
      const uint32_t low = bits_within(word >> (4 * p), 0x000f000fu, 0x43004300u);
      a[p] = add_exact(bits_within(at < 4 ? high << (4 - at) : high >> (at - 4), 0x00100010u, low), 0xc300c300u);
    }
  }
};
template <>
struct Codes<Q5_1> : FiveBits {};
template <>
struct Codes<Q5_K> : FiveBits {};

template <>
struct Codes<Q6_K> {
  uint2 nibbles;
  uint32_t high;
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    nibbles = *reinterpret_cast<const uint2*>(unit + lane * 8);
    high = *reinterpret_cast<const uint32_t*>(unit + 256 + lane * 4);
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint32_t word = step == 0 ? nibbles.x : nibbles.y;
#pragma unroll
    for (int p = 0; p < 4; p++) {
      const int at = 2 * (step * 4 + p);  // of the two bits that belong at 4
      const uint32_t low = bits_within(word >> (4 * p), 0x000f000fu, 0x43004300u);
      a[p] = add_exact(bits_within(at < 4 ? high << (4 - at) : high >> (at - 4), 0x00300030u, low), 0xc320c320u);
    }
  }
};

template <>
struct Codes<Mxfp4> {
  uint2 nibbles;
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    nibbles = *reinterpret_cast<const uint2*>(unit + lane * 8);
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint32_t word = step == 0 ? nibbles.x : nibbles.y;
#pragma unroll
    for (int p = 0; p < 4; p++) {
      // The nibble's lowest bit belongs at 6, its highest at 15.
      const uint32_t size = 4 * p < 6 ? word << (6 - 4 * p) : word >> (4 * p - 6);
      a[p] = times_exact(bits_within(size, 0x01c001c0u, word << (12 - 4 * p) & 0x80008000u), 0x7f007f00u);
    }
  }
};

template <class F>
struct Codes<Rounded<F>> : Codes<F> {};

__device__ __forceinline__ float low_half(uint32_t word) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(word)));
}
__device__ __forceinline__ float high_half(uint32_t word) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> 16)));
}
// d times byte `i` of a word, exactly: with 0x4b in front a byte is 2^23 more than it is, and one fused multiply-add
// takes d 2^23 away again. (d is a half: every product and every sum here has a few bits only.)
__device__ __forceinline__ float times_byte(float d, uint32_t word, int i) {
#ifdef HOST_KERNEL_TEST
  const uint32_t byte = 0x4b000000u | (word >> (8 * i) & 0xff);
#else
  const uint32_t byte = __byte_perm(word, 0x4b000000u, 0x7440 + i);
#endif
  return __fmaf_rn(__uint_as_float(byte), d, __fmul_rn(d, -8388608.0f));
}

// The scales of outputs g and g + 8: a super's, then a unit's within it. `at` gives those of the values of step
// `step` of the unit, `first` output g's and `second` output g + 8's.
template <class F>
struct UnitScales;

template <class F>
struct UnitScales<Rounded<F>> : UnitScales<F> {};

template <>
struct UnitScales<Q8_0> {
  uint32_t halves;
  __device__ __forceinline__ void load_super(const unsigned char*, int) {}
  __device__ __forceinline__ void load(const unsigned char* unit, int g) {
    halves = word_at(unit + Q8_0::codes_bytes + g * 4);
  }
  __device__ __forceinline__ void at(int, Scales& first, Scales& second) const {
    first = {low_half(halves), 0.0f}, second = {high_half(halves), 0.0f};
  }
};

template <>
struct UnitScales<Mxfp4> {
  uint32_t two;  // bf16
  __device__ __forceinline__ void load_super(const unsigned char*, int) {}
  __device__ __forceinline__ void load(const unsigned char* unit, int g) {
    two = word_at(unit + Mxfp4::codes_bytes + g * 4);
  }
  __device__ __forceinline__ void at(int, Scales& first, Scales& second) const {
    first = {__uint_as_float(two << 16), 0.0f}, second = {__uint_as_float(two & 0xffff0000u), 0.0f};
  }
};

template <class F>
struct ScalesOfPairs {
  float d[2], dmin[2];
  uint32_t bytes;
  __device__ __forceinline__ void load_super(const unsigned char* super, int g) {
    const uint2 halves = *reinterpret_cast<const uint2*>(super + g * 8);
    d[0] = low_half(halves.x), dmin[0] = high_half(halves.x);
    d[1] = low_half(halves.y), dmin[1] = high_half(halves.y);
  }
  __device__ __forceinline__ void load(const unsigned char* unit, int g) {
    bytes = word_at(unit + F::codes_bytes + g * 4);
  }
  __device__ __forceinline__ void at(int, Scales& first, Scales& second) const {
    first = {times_byte(d[0], bytes, 0), times_byte(dmin[0], bytes, 1)};
    second = {times_byte(d[1], bytes, 2), times_byte(dmin[1], bytes, 3)};
  }
};
template <>
struct UnitScales<Q4_K> : ScalesOfPairs<Q4_K> {};
template <>
struct UnitScales<Q5_K> : ScalesOfPairs<Q5_K> {};

// Four bytes for each output.
template <class F>
struct Words {
  uint2 words;
  __device__ __forceinline__ void load_super(const unsigned char*, int) {}
  __device__ __forceinline__ void load(const unsigned char* unit, int g) {
    words = *reinterpret_cast<const uint2*>(unit + F::codes_bytes + g * 8);
  }
};
template <class F>
struct ScalesOfHalves : Words<F> {
  __device__ __forceinline__ void at(int, Scales& first, Scales& second) const {
    const uint2 pairs = this->words;
    first = {low_half(pairs.x), -high_half(pairs.x)}, second = {low_half(pairs.y), -high_half(pairs.y)};
  }
};
template <>
struct UnitScales<Q4_1> : ScalesOfHalves<Q4_1> {};
template <>
struct UnitScales<Q5_1> : ScalesOfHalves<Q5_1> {};

template <>
struct UnitScales<U4> : Words<U4> {
  static __device__ __forceinline__ Scales of(uint32_t pair) {
    return {low_half(pair), __fmul_rn(low_half(pair), high_half(pair))};
  }
  __device__ __forceinline__ void at(int, Scales& first, Scales& second) const { first = of(words.x), second = of(words.y); }
};

template <>
struct UnitScales<F8> : Words<F8> {
  __device__ __forceinline__ void at(int, Scales& first, Scales& second) const {
    first = {__uint_as_float(words.x), 0.0f}, second = {__uint_as_float(words.y), 0.0f};
  }
};

template <>
struct UnitScales<Q6_K> {
  float d[2];
  uint32_t bytes;
  __device__ __forceinline__ void load_super(const unsigned char* super, int g) {
    const uint32_t halves = word_at(super + g * 4);
    d[0] = low_half(halves), d[1] = high_half(halves);
  }
  __device__ __forceinline__ void load(const unsigned char* unit, int g) {
    bytes = word_at(unit + Q6_K::codes_bytes + g * 4);
  }
  __device__ __forceinline__ float scale(int which, int i) const {
    return __fmul_rn(d[which], static_cast<float>(static_cast<signed char>(bytes >> (8 * i))));
  }
  __device__ __forceinline__ void at(int step, Scales& first, Scales& second) const {
    first = {scale(0, step * 2), 0.0f}, second = {scale(1, step * 2 + 1), 0.0f};
  }
};

}  // namespace planes
