// The twelve formats in which a checkpoint stores weights, read value by value from the file's own bytes.
//
// A row of k values is k / Block<F>::values blocks of Block<F>::bytes bytes, one after another. Byte order is little
// endian; `half` is an IEEE f16. Offsets are in bytes from the start of a block; i is the value within the block.
//
//   format  values bytes  layout                                                  value i
//   f32          1     4  f32
//   f16          1     2  half
//   bf16         1     2  bf16
//   q4_0        32    18  half d @0, 16 bytes of nibbles @2                       d (nibble - 8)
//   q4_1        32    20  half d @0, half m @2, nibbles @4                        d nibble + m
//   q5_0        32    22  half d @0, 32 fifth bits @2, nibbles @6                 d (code - 16)
//   q5_1        32    24  half d @0, half m @2, 32 fifth bits @4, nibbles @8      d code + m
//   q8_0        32    34  half d @0, 32 signed bytes @2                           d code
//   q4_k       256   144  half d @0, half dmin @2, 12 bytes of 6-bit scales and   (d scale) nibble - dmin min
//                         minima @4, 128 bytes of nibbles @16
//   q5_k       256   176  as q4_k, but 32 bytes of fifth bits @16, nibbles @48    (d scale) code - dmin min
//   q6_k       256   210  128 bytes of nibbles @0, 64 bytes of bit pairs @128,    (d scale) (code - 32)
//                         16 signed scales @192, half d @208
//   mxfp4       32    17  exponent e @0, nibbles @1                               2^(e - 127) table[nibble]
//
// Nibbles of 32 values stand in 16 bytes: the low ones are values 0 to 15, the high ones 16 to 31. In blocks of 256,
// each 32 bytes hold 64 values: the low nibbles the first 32, the high ones the next. q4_k and q5_k have one scale and
// one minimum per 32 values, q6_k one scale per 16. mxfp4's table is that of FP4 (e2m1): 0, 0.5, 1, 1.5, 2, 3, 4, 6, then
// their negatives; its values are exact in bf16.
//
// Each product and sum is rounded by itself, in the order written above, so that a value has the bits that
// crates/cpu/src/unpack.rs gives it. A block may start at any even address (22, 34 and 210 bytes are no multiples of
// four), mxfp4's at any, so nothing wider than a half is loaded at once; rows that a product reads again and again are laid out anew.
//
// Proved by kernels/tests/blocks.cpp: random blocks of each format against a reading of their own, unpacked whole.
#pragma once

#include "common.cuh"

enum class Format { kF32, kF16, kBf16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K, kMxfp4 };

namespace blocks {

__device__ __forceinline__ float half_at(const unsigned char* at) {
  return __half2float(*reinterpret_cast<const __half*>(at));
}

// The code of value i of 32 whose nibbles stand at `at`.
__device__ __forceinline__ int nibble(const unsigned char* at, int i) {
  return (at[i % 16] >> (i / 16 * 4)) & 15;
}

// Value i's fifth bit, from 32 bits in four bytes, in its place.
__device__ __forceinline__ int fifth_bit(const unsigned char* bits, int i) {
  return ((bits[i / 8] >> (i % 8)) & 1) << 4;
}

// The nibble of value i of 256, from 128 bytes.
__device__ __forceinline__ int super_nibble(const unsigned char* at, int i) {
  return (at[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
}

// The 6-bit scale (first) or minimum (second) of the 32 values of `part`: twelve bytes hold eight of each.
__device__ __forceinline__ int six_bits(const unsigned char* at, int part, bool minimum) {
  if (part < 4) return at[part + (minimum ? 4 : 0)] & 63;
  const int low = minimum ? at[part + 4] >> 4 : at[part + 4] & 15;
  const int high = at[minimum ? part : part - 4] >> 6;
  return low | high << 4;
}

// d scale code - dmin minimum, as q4_k and q5_k have it.
__device__ __forceinline__ float scaled(const unsigned char* block, int i, int code) {
  const int part = i / 32;
  const float d = __fmul_rn(half_at(block), static_cast<float>(six_bits(block + 4, part, false)));
  const float minimum = __fmul_rn(half_at(block + 2), static_cast<float>(six_bits(block + 4, part, true)));
  return __fsub_rn(__fmul_rn(d, static_cast<float>(code)), minimum);
}

}  // namespace blocks

// How many values and bytes a block has, and value i of it.
template <Format F>
struct Block;

template <>
struct Block<Format::kF32> {
  static constexpr int values = 1, bytes = 4;
  static __device__ __forceinline__ float value(const unsigned char* block, int) {
    return *reinterpret_cast<const float*>(block);
  }
};

template <>
struct Block<Format::kF16> {
  static constexpr int values = 1, bytes = 2;
  static __device__ __forceinline__ float value(const unsigned char* block, int) { return blocks::half_at(block); }
};

template <>
struct Block<Format::kBf16> {
  static constexpr int values = 1, bytes = 2;
  static __device__ __forceinline__ float value(const unsigned char* block, int) {
    return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(block));
  }
};

template <>
struct Block<Format::kQ4_0> {
  static constexpr int values = 32, bytes = 18;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    return __fmul_rn(blocks::half_at(block), static_cast<float>(blocks::nibble(block + 2, i) - 8));
  }
};

template <>
struct Block<Format::kQ4_1> {
  static constexpr int values = 32, bytes = 20;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    const float product = __fmul_rn(blocks::half_at(block), static_cast<float>(blocks::nibble(block + 4, i)));
    return __fadd_rn(product, blocks::half_at(block + 2));
  }
};

template <>
struct Block<Format::kQ5_0> {
  static constexpr int values = 32, bytes = 22;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    const int code = blocks::nibble(block + 6, i) | blocks::fifth_bit(block + 2, i);
    return __fmul_rn(blocks::half_at(block), static_cast<float>(code - 16));
  }
};

template <>
struct Block<Format::kQ5_1> {
  static constexpr int values = 32, bytes = 24;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    const int code = blocks::nibble(block + 8, i) | blocks::fifth_bit(block + 4, i);
    return __fadd_rn(__fmul_rn(blocks::half_at(block), static_cast<float>(code)), blocks::half_at(block + 2));
  }
};

template <>
struct Block<Format::kQ8_0> {
  static constexpr int values = 32, bytes = 34;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    return __fmul_rn(blocks::half_at(block), static_cast<float>(static_cast<signed char>(block[2 + i])));
  }
};

template <>
struct Block<Format::kQ4_K> {
  static constexpr int values = 256, bytes = 144;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    return blocks::scaled(block, i, blocks::super_nibble(block + 16, i));
  }
};

template <>
struct Block<Format::kQ5_K> {
  static constexpr int values = 256, bytes = 176;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    const int fifth = ((block[16 + i % 32] >> (i / 32)) & 1) << 4;
    return blocks::scaled(block, i, blocks::super_nibble(block + 48, i) | fifth);
  }
};

template <>
struct Block<Format::kQ6_K> {
  static constexpr int values = 256, bytes = 210;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    // Each half of the block has 64 bytes of nibbles and 32 of bit pairs for its four quarters of 32 values.
    const int half = i / 128, quarter = i / 32 % 4, at = i % 32;
    const int low = block[half * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4) & 15;
    const int high = block[128 + half * 32 + at] >> (quarter * 2) & 3;
    const float scale = static_cast<float>(static_cast<signed char>(block[192 + i / 16]));
    const float d = __fmul_rn(blocks::half_at(block + 208), scale);
    return __fmul_rn(d, static_cast<float>((low | high << 4) - 32));
  }
};

template <>
struct Block<Format::kMxfp4> {
  static constexpr int values = 32, bytes = 17;
  static __device__ __forceinline__ float value(const unsigned char* block, int i) {
    const int code = blocks::nibble(block + 1, i), e = block[0];
    // Twice the table's numbers, for the codes of one sign, are 0, 1, 2, 3, 4, 6, 8, 12.
    const int doubled = (0xc8643210u >> (4 * (code & 7))) & 15;
    const float size = __fmul_rn(static_cast<float>(doubled), 0.5f);
    const float scale = __int_as_float(e == 0 ? 0x00400000 : e << 23);  // 2^-127 is subnormal
    return __fmul_rn(code & 8 ? -size : size, scale);
  }
};

// Value i of the block at `block`.
template <Format F>
__device__ __forceinline__ float dequantize(const void* block, int i) {
  return Block<F>::value(static_cast<const unsigned char*>(block), i);
}

// Value k of the row at `row`.
template <Format F>
__device__ __forceinline__ float value_of_row(const void* row, int k) {
  const unsigned char* block = static_cast<const unsigned char*>(row) + static_cast<size_t>(k / Block<F>::values) * Block<F>::bytes;
  return dequantize<F>(block, k % Block<F>::values);
}

// Bytes of a row of k values.
template <Format F>
__host__ __device__ constexpr size_t row_bytes(int k) {
  return static_cast<size_t>(k / Block<F>::values) * Block<F>::bytes;
}
