// kernels/common.cuh under emulation: exp_f32 against double, the sums against their written order.
#include "../common.cuh"

#include "tally.h"

namespace {

Tally tally("common");

// Every 97th float from -110 to 89, so subnormal results too: the error in units of the result's last place.
void test_exp() {
  double worst = 0;
  float at = 0;
  for (const float from : {-0.0f, 0.0f})
    for (uint32_t bits = __float_as_uint(from);; bits += 97) {
      const float x = __uint_as_float(bits);
      if (x > 88.7f || x < -110.0f) break;
      const double wanted = std::exp(double(x));
      const double unit = std::ldexp(1.0, std::max(std::ilogb(wanted), -126) - 23);
      const double error = std::fabs(exp_f32(x) - wanted) / unit;
      if (error > worst) worst = error, at = x;
    }
  tally.check(worst < 1.0, "exp_f32(" + std::to_string(at) + ") is wrong by " + std::to_string(worst) + " units");
  std::printf("exp_f32: at most %.3f units in the last place\n", worst);
  tally.check(exp_f32(-INFINITY) == 0 && exp_f32(-1e30f) == 0, "exp_f32 of -infinity is not 0");
  tally.check(exp_f32(0) == 1 && exp_f32(-0.0f) == 1, "exp_f32(0) is not 1");
  tally.check(std::isinf(exp_f32(89)) && std::isinf(exp_f32(INFINITY)), "exp_f32 of large numbers is not infinite");
  tally.check(std::isnan(exp_f32(NAN)), "exp_f32 of NaN is a number");
}

void test_sums() {
  constexpr int n = 96;
  float given[n], by_warp[n], largest[n], by_block[n];
  Noise noise{3};
  for (float& v : given) v = noise.next();
  host::launch(dim3(1), dim3(n), 0, [&] {
    __shared__ float scratch[32];
    const int i = threadIdx.x;
    by_warp[i] = warp_sum(given[i]);
    largest[i] = warp_max(given[i]);
    by_block[i] = block_sum(given[i], scratch);
  });
  float total = 0;
  bool warps = true, peaks = true, blocks = true;
  for (int w = 0; w < n; w += 32) {
    float lanes[32];
    std::copy(given + w, given + w + 32, lanes);
    for (int d = 16; d > 0; d /= 2)
      for (int i = 0; i < d; i++) lanes[i] += lanes[i + d];
    total = w ? total + lanes[0] : lanes[0];
    for (int i = w; i < w + 32; i++)
      warps &= by_warp[i] == lanes[0], peaks &= largest[i] == *std::max_element(given + w, given + w + 32);
  }
  for (const float v : by_block) blocks &= v == total;
  tally.check(warps, "warp_sum is not the sum in pairs at distance 16, 8, 4, 2, 1");
  tally.check(peaks, "warp_max");
  tally.check(blocks, "block_sum is not the warps' sums in order");
}

}  // namespace

int main() {
  test_exp();
  test_sums();
  return tally.end();
}
