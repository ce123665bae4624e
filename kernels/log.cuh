// The natural logarithm of a double with the same bits on a card and under kernels/emulated: the math libraries of the
// two differ in the last place.
//
// Proved by kernels/tests/tail.cpp.
#pragma once

#include "common.cuh"

// ln x of a normal number; minus infinity for 0; infinity for itself, NaN for the rest. Within two units in the last
// place.
//
// x = m 2^n with m between sqrt(1/2) and sqrt(2); with s = (m - 1) / (m + 1), ln m = 2 (s + s^3/3 + s^5/5 + ...),
// where |s| < 0.172 makes s^23 vanish. ln 2 is taken in two parts, the first exact for every n.
__device__ __forceinline__ double log_f64(double x) {
  if (x == 0.0) return -INFINITY;
  if (!(x > 0.0 && x < INFINITY)) return x > 0.0 ? x : __int_as_float(0x7fc00000);
  const long long bits = __double_as_longlong(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = __longlong_as_double((bits & 0x000fffffffffffffll) | 0x3ff0000000000000ll);
  if (m > 1.4142135623730951) m = __dmul_rn(m, 0.5), exponent++;
  const double s = __ddiv_rn(__dsub_rn(m, 1.0), __dadd_rn(m, 1.0)), square = __dmul_rn(s, s);
  double p = 1.0 / 21;
#pragma unroll
  for (int odd = 19; odd >= 3; odd -= 2) p = __fma_rn(p, square, 1.0 / odd);
  const double n = static_cast<double>(exponent), twice = __dadd_rn(s, s);
  const double low = __fma_rn(n, 0x1.ef35793c76730p-45, __dmul_rn(__dmul_rn(twice, square), p));
  return __dadd_rn(__dmul_rn(n, 0x1.62e42fefa3800p-1), __dadd_rn(twice, low));
}
