// The tensor core's arithmetic on one m16n8k16 tile of bf16 with f32 accumulation, bit for bit, as the MMA-Sim paper
// found it on cards (Xie et al., arXiv 2511.10909, the truncated fused dot product-add):
//
//   The products of a group and the accumulator are aligned to the largest exponent among them, cut off toward zero
//   at F bits behind the point, and added exactly; the sum is cut off toward zero to f32. Hopper takes all 16
//   products at once with F = 25; Ampere and Ada take 8, then the other 8, with F = 24.
//
// A product's exponent is the sum of its factors' exponents: it is not normalized first. Subnormals count, with the
// exponent of the least normal number. Sums that are zero are +0; every NaN is 0x7fffffff; what is too large is
// infinite. tests/golden/mma.json has the package's own results (scripts/golden_mma.py).
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "fiber.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are handed over within this file only

namespace host {

// A generation's way of adding up.
struct TensorCore {
  int fraction_bits, products_at_once, zero_exponent;
  static TensorCore of(int capability) {
    return capability >= 90 ? TensorCore{25, 16, -133} : TensorCore{24, 8, -132};
  }
};

// The one in use: TRIBUNAL_EMULATED_SM, 90 if it is not set. Tests may set it.
inline TensorCore& tensor_core() {
  static TensorCore chosen = [] {
    const char* set = std::getenv("TRIBUNAL_EMULATED_SM");
    return TensorCore::of(set ? std::atoi(set) : 90);
  }();
  return chosen;
}

struct Tile {
  uint16_t a[16][16], b[16][8];  // bf16, both by rows
  float d[16][8];
  void put_a(unsigned row, unsigned pair, uint32_t v) { std::memcpy(&a[row][2 * pair], &v, 4); }
  void put_b(unsigned pair, unsigned column, uint32_t v) {
    b[2 * pair][column] = static_cast<uint16_t>(v), b[2 * pair + 1][column] = static_cast<uint16_t>(v >> 16);
  }
};

// Eight numbers at a time.
using Ints = int32_t __attribute__((vector_size(32)));
using Floats = float __attribute__((vector_size(32)));
// Four, where they are wider.
using FourInts = int32_t __attribute__((vector_size(16)));
using FourFloats = float __attribute__((vector_size(16)));
using FourLongs = int64_t __attribute__((vector_size(32)));
using FourDoubles = double __attribute__((vector_size(32)));

// Numbers as signs (0 or -1), significands and exponents; of zeros the exponent is one that no maximum takes.
constexpr int kNever = -1000;
struct Parts {
  Ints sign, significand, exponent;
  Floats value;
};
inline Parts parts_of_bf16(const uint16_t* at) {
  using Halves = uint16_t __attribute__((vector_size(16)));
  Halves halves;
  std::memcpy(&halves, at, sizeof halves);
  const Ints v = __builtin_convertvector(halves, Ints);
  const Ints biased = v >> 7 & 0xff, fraction = v & 0x7f, normal = biased != 0;
  const Ints significand = fraction | (normal & 0x80);
  const Ints exponent = (normal ? biased : Ints{} + 1) - 127;
  return {-(v >> 15), significand, significand == 0 ? Ints{} + kNever : exponent, (Floats)(v << 16)};
}

inline bool any(const Ints& v) {
  int64_t words[4];
  std::memcpy(words, &v, sizeof words);
  return words[0] | words[1] | words[2] | words[3];
}
// Whether an exponent is beyond +-60, and so a product of two may be beyond what f32 holds exactly.
inline bool extreme(const Ints& exponent) { return any((exponent != kNever) & ((exponent > 60) | (exponent < -60))); }

inline bool is_special(uint16_t v) { return (v >> 7 & 0xff) == 0xff; }  // infinite or NaN

// One row of a, as many numbers.
struct Row {
  int32_t sign[16], significand[16], exponent[16];
  float value[16];
  bool zero = true, extreme = false;
};
HOST_UNSEEN inline void take_apart(const uint16_t* at, Row& row) {
  for (int k = 0; k < 16; k += 8) {
    const Parts p = parts_of_bf16(at + k);
    std::memcpy(row.sign + k, &p.sign, sizeof p.sign);
    std::memcpy(row.significand + k, &p.significand, sizeof p.significand);
    std::memcpy(row.exponent + k, &p.exponent, sizeof p.exponent);
    std::memcpy(row.value + k, &p.value, sizeof p.value);
    row.zero &= !any(p.significand), row.extreme |= extreme(p.exponent);
  }
}

// Four sums, in units of the last bit that is kept, cut off to f32.
inline void put_sums(const Ints& products, const Ints& before, const Ints& top, const TensorCore& core, int at, float* d) {
  const auto half = [&](const Ints& v) {
    int32_t numbers[8];
    std::memcpy(numbers, &v, sizeof v);
    FourInts four;
    std::memcpy(&four, numbers + at, sizeof four);
    return four;
  };
  // In double every step is exact: the sum, the power of two, and bits cleared below f32's.
  const FourLongs power = (__builtin_convertvector(half(top), FourLongs) - core.fraction_bits + 1023) << 52;
  const FourDoubles sum = __builtin_convertvector(half(products), FourDoubles) + __builtin_convertvector(half(before), FourDoubles);
  const FourDoubles exact = sum * (FourDoubles)power;
  FourDoubles made = (FourDoubles)((FourLongs)exact & ~((int64_t(1) << 29) - 1));
  const FourLongs tiny = (made < 0x1p-126) & (made > -0x1p-126) & (made != 0.0);
  if (tiny[0] | tiny[1] | tiny[2] | tiny[3])
    for (int j = 0; j < 4; j++)
      if (tiny[j]) made[j] = __builtin_trunc(exact[j] * 0x1p149) * 0x1p-149;
  const FourFloats rounded = __builtin_convertvector(made, FourFloats) + 0.0f;  // +0, not -0
  std::memcpy(d + at, &rounded, sizeof rounded);
}

// d of one row of a, for products k to k + kAtOnce: aligned, cut off, added, cut off. Where no factor is extreme, f32 aligns: a
// product is exact in it, and so is its multiple by a power of two, which the conversion to an integer cuts off.
template <int kAtOnce>
HOST_UNSEEN inline void add_products(const Row& a, const Parts* b, int k, const TensorCore& core, bool by_parts, float* d) {
  Ints bits;
  std::memcpy(&bits, d, sizeof bits);
  const Ints biased = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
  const Ints normal = biased != 0;
  const Ints significand = fraction | (normal & 0x800000);
  const Ints exponent = significand == 0 ? Ints{} + core.zero_exponent : (normal ? biased : Ints{} + 1) - 127;
  Ints top = exponent;
#pragma GCC unroll 16
  for (int i = k; i < k + kAtOnce; i++) {
    const Ints e = b[i].exponent + a.exponent[i];
    top = e > top ? e : top;
  }
  Ints sum{}, before;  // 16 products below 2^27: no overflow
  if (by_parts || any((top < -90) & (top != core.zero_exponent))) {
    const auto cut = [&](Ints magnitude, Ints e, Ints sign) {  // aligned to `top`, toward zero
      const Ints down = top - e, most = Ints{} + 31;
      return ((magnitude >> (down > most ? most : down)) ^ sign) - sign;
    };
    for (int i = k; i < k + kAtOnce; i++) {
      const Ints product = b[i].significand * a.significand[i];  // 14 bits behind the point
      sum += cut(product << (core.fraction_bits - 14), b[i].exponent + a.exponent[i], b[i].sign ^ a.sign[i]);
    }
    before = cut(significand << (core.fraction_bits - 23), exponent, bits >> 31);
  } else {
    const Ints within = top < -90 ? Ints{} - 90 : top;  // of zeros alone
    const Floats scale = (Floats)((core.fraction_bits - within + 127) << 23);
#pragma GCC unroll 16
    for (int i = k; i < k + kAtOnce; i++) sum += __builtin_convertvector(b[i].value * a.value[i] * scale, Ints);
    before = __builtin_convertvector((Floats)bits * scale, Ints);
  }
  for (int half = 0; half < 8; half += 4) put_sums(sum, before, top, core, half, d);
}

inline float wide(uint16_t bf16) {
  const uint32_t bits = uint32_t(bf16) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

// A group's sum with an infinity or a NaN in it; `sum` is what was made of it as if they were numbers.
HOST_UNSEEN inline float special_sum(const Tile& t, int row, int column, int k, int n, float before, float sum) {
  double all = before - before;  // 0, or NaN where `before` is special
  bool special = all != 0;
  if (special) all = before;
  for (int i = k; i < k + n; i++) {
    if (!is_special(t.a[row][i]) && !is_special(t.b[i][column])) continue;
    all += double(wide(t.a[row][i])) * double(wide(t.b[i][column]));
    special = true;
  }
  if (!special) return sum;
  if (all == all) return static_cast<float>(all);
  const uint32_t nan = 0x7fffffff;
  std::memcpy(&sum, &nan, sizeof sum);
  return sum;
}

HOST_UNSEEN inline bool any_special(const uint16_t* v, int n) {
  using Halves = uint16_t __attribute__((vector_size(32)));
  Halves found{};
  for (int i = 0; i < n; i += 16) {
    Halves halves;
    std::memcpy(&halves, v + i, sizeof halves);
    found |= (Halves)((halves & 0x7f80) == 0x7f80);
  }
  return host::any((Ints)found);
}
HOST_UNSEEN inline bool any_special(const float* d) {
  bool any = false;
  for (int j = 0; j < 8; j++) any |= d[j] - d[j] != 0;
  return any;
}

// d += a b. `by_parts`: without f32, and row by row, as where a factor is extreme.
HOST_UNSEEN inline void multiply(Tile& t, bool by_parts = false) {
  const TensorCore core = tensor_core();
  const bool special = any_special(t.a[0], 16 * 16) | any_special(t.b[0], 16 * 8);
  Parts b[16];
  for (int k = 0; k < 16; k++) {
    b[k] = parts_of_bf16(t.b[k]);
    by_parts |= extreme(b[k].exponent);
  }
  for (int row = 0; row < 16; row++) {
    Row a;
    take_apart(t.a[row], a);
    if (!by_parts && a.zero && !any_special(t.d[row])) {  // as of rows that pad a tile; b has nothing special
      for (float& v : t.d[row]) v += 0.0f;
      continue;
    }
    for (int k = 0; k < 16; k += core.products_at_once) {
      float before[8];
      std::memcpy(before, t.d[row], sizeof before);
      const auto add = core.products_at_once == 16 ? add_products<16> : add_products<8>;
      add(a, b, k, core, by_parts || a.extreme, t.d[row]);
      if (!special && !any_special(before)) continue;
      for (int j = 0; j < 8; j++)
        t.d[row][j] = special_sum(t, row, j, k, core.products_at_once, before[j], t.d[row][j]);
    }
  }
}

}  // namespace host
