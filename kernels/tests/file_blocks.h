// A second reading of the file's blocks, whole block by whole block, to compare kernels with; and random blocks.
#pragma once
#include "../blocks.cuh"
#include "random.h"

inline float half_of(const unsigned char* at) {
  __half_raw raw;
  raw.x = static_cast<unsigned short>(at[0] | at[1] << 8);
  return __half2float(__half(raw));
}

// d code + m for 32 values whose nibbles are at `low`, with a fifth bit where there are any.
inline void small_block(float* out, const unsigned char* low, const unsigned char* fifth, float d, float m, int offset) {
  uint32_t bits = 0;
  if (fifth) bits = fifth[0] | fifth[1] << 8 | fifth[2] << 16 | uint32_t(fifth[3]) << 24;
  for (int i = 0; i < 16; i++) {
    const int first = (low[i] & 15) | (bits >> i & 1) << 4, second = (low[i] >> 4) | (bits >> (i + 16) & 1) << 4;
    out[i] = d * float(first - offset) + m, out[i + 16] = d * float(second - offset) + m;
  }
}

// q4_k and q5_k: eight runs of 32.
inline void super_block(float* out, const unsigned char* block, const unsigned char* low, const unsigned char* fifth) {
  const unsigned char* packed = block + 4;
  for (int run = 0; run < 8; run++) {
    int scale = packed[run] & 63, minimum = packed[run + 4] & 63;
    if (run >= 4) {
      scale = (packed[run + 4] & 15) + 16 * (packed[run - 4] >> 6);
      minimum = (packed[run + 4] >> 4) + 16 * (packed[run] >> 6);
    }
    const float d = half_of(block) * float(scale), m = half_of(block + 2) * float(minimum);
    for (int i = 0; i < 32; i++) {
      const int byte = low[32 * (run / 2) + i];
      int code = run % 2 ? byte >> 4 : byte & 15;
      if (fifth && fifth[i] >> run & 1) code += 16;
      out[32 * run + i] = d * float(code) - m;
    }
  }
}

inline void q6_block(float* out, const unsigned char* block) {
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < 32; i++) {
      const int a = block[64 * half + i], b = block[64 * half + 32 + i], high = block[128 + 32 * half + i];
      const int codes[4] = {(a & 15) + 16 * (high & 3), (b & 15) + 16 * (high >> 2 & 3),
                            (a >> 4) + 16 * (high >> 4 & 3), (b >> 4) + 16 * (high >> 6)};
      for (int run = 0; run < 4; run++) {
        const int at = 128 * half + 32 * run + i;
        const float scale = float(static_cast<signed char>(block[192 + at / 16]));
        out[at] = half_of(block + 208) * scale * float(codes[run] - 32);
      }
    }
}

inline void mxfp4_block(float* out, const unsigned char* block) {
  const float table[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int i = 0; i < 32; i++) {
    const int code = i < 16 ? block[1 + i] & 15 : block[1 + i - 16] >> 4;
    out[i] = std::ldexp(code < 8 ? table[code] : -table[code - 8], block[0] - 127);
  }
}

// All values of one block.
template <Format F>
std::vector<float> unpacked(const unsigned char* block) {
  std::vector<float> out(Block<F>::values);
  float* to = out.data();
  if (F == Format::kF32) std::memcpy(to, block, 4);
  if (F == Format::kF16) *to = half_of(block);
  if (F == Format::kBf16) {
    const uint32_t bits = uint32_t(block[0] | block[1] << 8) << 16;
    std::memcpy(to, &bits, 4);
  }
  if (F == Format::kQ4_0) small_block(to, block + 2, nullptr, half_of(block), 0, 8);
  if (F == Format::kQ4_1) small_block(to, block + 4, nullptr, half_of(block), half_of(block + 2), 0);
  if (F == Format::kQ5_0) small_block(to, block + 6, block + 2, half_of(block), 0, 16);
  if (F == Format::kQ5_1) small_block(to, block + 8, block + 4, half_of(block), half_of(block + 2), 0);
  if (F == Format::kQ8_0)
    for (int i = 0; i < 32; i++) to[i] = half_of(block) * float(static_cast<signed char>(block[2 + i]));
  if (F == Format::kQ4_K) super_block(to, block, block + 16, nullptr);
  if (F == Format::kQ5_K) super_block(to, block, block + 48, block + 16);
  if (F == Format::kQ6_K) q6_block(to, block);
  if (F == Format::kMxfp4) mxfp4_block(to, block);
  return out;
}

// Random bytes as blocks whose scales are finite: in a half whose exponent is all ones, its lowest bit is cleared.
template <Format F>
std::vector<unsigned char> random_blocks(Random& random, size_t n) {
  std::vector<unsigned char> out(n * Block<F>::bytes);
  for (auto& byte : out) byte = static_cast<unsigned char>(random.next());
  const auto finite_half = [](unsigned char* at) {
    if ((at[1] & 0x7c) == 0x7c) at[1] &= 0xfb;
  };
  for (size_t b = 0; b < n; b++) {
    unsigned char* block = out.data() + b * Block<F>::bytes;
    if (F == Format::kMxfp4) {
      if (block[0] > 250) block[0] = 250;
      if (b == 0) block[0] = 0;  // subnormal
      continue;
    }
    if (F == Format::kF32 || F == Format::kBf16) {
      block[Block<F>::bytes - 1] &= 0xbf;
      continue;
    }
    finite_half(F == Format::kQ6_K ? block + 208 : block);
    if (F == Format::kQ4_1 || F == Format::kQ5_1 || F == Format::kQ4_K || F == Format::kQ5_K) finite_half(block + 2);
  }
  return out;
}

// Calls `run.of<F>(name)` for every format.
template <typename Run>
void for_each_format(Run run) {
  run.template of<Format::kF32>("f32"), run.template of<Format::kF16>("f16"), run.template of<Format::kBf16>("bf16");
  run.template of<Format::kQ4_0>("q4_0"), run.template of<Format::kQ4_1>("q4_1");
  run.template of<Format::kQ5_0>("q5_0"), run.template of<Format::kQ5_1>("q5_1"), run.template of<Format::kQ8_0>("q8_0");
  run.template of<Format::kQ4_K>("q4_k"), run.template of<Format::kQ5_K>("q5_k"), run.template of<Format::kQ6_K>("q6_k");
  run.template of<Format::kMxfp4>("mxfp4");
}
