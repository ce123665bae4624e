// Codes and scales of planes.cuh from registers, as the tensor core wants them: a few instructions for two codes.
//
// bf16 counts in steps of one from 128 to 256: with 0x4300 around them, seven bits are 128 more than they are. One
// exact sum takes the 128 away (and what else a format's codes are too large by):
//
//   q4_k  0x4300 | nibble                  - 128
//   q6_k  0x4300 | nibble | two bits << 4  - 160
//   q8_0  0x4300 | low seven bits          - 128, or - 256 where the sign bit is set: 0xc300 | sign bit
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

// A lane's codes of one unit, and its scales (of outputs g and g + 8).
template <class F>
struct Codes;

template <>
struct Codes<Q8_0> {
  uint4 of_block[2];
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    of_block[0] = *reinterpret_cast<const uint4*>(unit + lane * 16);
    of_block[1] = *reinterpret_cast<const uint4*>(unit + 512 + lane * 16);
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint4 block = of_block[step / 2];
    const uint32_t words[2] = {step % 2 ? block.z : block.x, step % 2 ? block.w : block.y};
#pragma unroll
    for (int p = 0; p < 4; p++) {
      const uint32_t word = words[p / 2] >> (p % 2 * 8);
      a[p] = add_exact((word & 0x007f007fu) | 0x43004300u, (word & 0x00800080u) | 0xc300c300u);
    }
  }
};

__device__ __forceinline__ uint32_t word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

template <>
struct Codes<Q4_K> {
  uint4 nibbles;
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    nibbles = *reinterpret_cast<const uint4*>(unit + lane * 16);
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
#pragma unroll
    for (int p = 0; p < 4; p++)
      a[p] = add_exact((word_of(nibbles, step) >> (4 * p) & 0x000f000fu) | 0x43004300u, 0xc300c300u);
  }
};

template <>
struct Codes<Q6_K> {
  uint4 nibbles;
  uint2 pairs;
  __device__ __forceinline__ void load(const unsigned char* unit, int lane) {
    nibbles = *reinterpret_cast<const uint4*>(unit + lane * 16);
    pairs = *reinterpret_cast<const uint2*>(unit + 512 + lane * 8);
  }
  __device__ __forceinline__ void unpack(uint32_t (&a)[4], int step) const {
    const uint32_t both = step < 2 ? pairs.x : pairs.y;
#pragma unroll
    for (int p = 0; p < 4; p++) {
      const int from = 2 * (step % 2 * 4 + p);  // of the bits that belong at 4
      const uint32_t high = (from < 4 ? both << (4 - from) : both >> (from - 4)) & 0x00300030u;
      const uint32_t low = word_of(nibbles, step) >> (4 * p) & 0x000f000fu;
      a[p] = add_exact(low | high | 0x43004300u, 0xc320c320u);
    }
  }
};

__device__ __forceinline__ float low_half(uint32_t word) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(word)));
}
__device__ __forceinline__ float high_half(uint32_t word) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> 16)));
}
__device__ __forceinline__ float byte_of(uint32_t word, int i) { return static_cast<float>(word >> (8 * i) & 0xff); }
__device__ __forceinline__ float signed_byte_of(uint32_t word, int i) {
  return static_cast<float>(static_cast<signed char>(word >> (8 * i)));
}

// The scales of outputs g and g + 8 for one unit; `super` is the one around it.
template <class F>
struct UnitScales;

template <>
struct UnitScales<Q8_0> {
  uint2 halves;
  __device__ __forceinline__ void load(const unsigned char* unit, const unsigned char*, int g) {
    halves = *reinterpret_cast<const uint2*>(unit + 1024 + g * 8);
  }
  // For the values of step `step`: of_first and of_second are output g's and output g + 8's.
  __device__ __forceinline__ void at(int step, Scales& of_first, Scales& of_second) const {
    const uint32_t both = step < 2 ? halves.x : halves.y;
    of_first = {low_half(both), 0.0f}, of_second = {high_half(both), 0.0f};
  }
};

template <>
struct UnitScales<Q4_K> {
  uint2 bytes, d;
  __device__ __forceinline__ void load(const unsigned char* unit, const unsigned char* super, int g) {
    bytes = *reinterpret_cast<const uint2*>(unit + 512 + g * 8);
    d = *reinterpret_cast<const uint2*>(super + g * 8);
  }
  __device__ __forceinline__ void at(int step, Scales& of_first, Scales& of_second) const {
    const uint32_t four = step < 2 ? bytes.x : bytes.y;
    of_first = {__fmul_rn(low_half(d.x), byte_of(four, 0)), __fmul_rn(high_half(d.x), byte_of(four, 1))};
    of_second = {__fmul_rn(low_half(d.y), byte_of(four, 2)), __fmul_rn(high_half(d.y), byte_of(four, 3))};
  }
};

template <>
struct UnitScales<Q6_K> {
  uint2 bytes;
  uint32_t d;
  __device__ __forceinline__ void load(const unsigned char* unit, const unsigned char* super, int g) {
    bytes = *reinterpret_cast<const uint2*>(unit + 768 + g * 8);
    d = *reinterpret_cast<const uint32_t*>(super + g * 4);
  }
  __device__ __forceinline__ void at(int step, Scales& of_first, Scales& of_second) const {
    const uint32_t four = step < 2 ? bytes.x : bytes.y;
    of_first = {__fmul_rn(low_half(d), signed_byte_of(four, step % 2 * 2)), 0.0f};
    of_second = {__fmul_rn(high_half(d), signed_byte_of(four, step % 2 * 2 + 1)), 0.0f};
  }
};

}  // namespace planes
