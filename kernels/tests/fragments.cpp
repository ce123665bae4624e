// kernels/mma.cuh under emulation: a product through cp.async, ldmatrix and mma against sums in double, in several
// orders of threads; each form of ldmatrix against its definition.
#include "../mma.cuh"

#include "tally.h"

namespace {

Tally tally("fragments");

// y[m][n] = sum over k of x[m][k] w[n][k]: one warp a 16 x 8 tile, two stages of k = 16 on their way.
void product(const bf16* x, const bf16* w, float* y, int M, int N, int K) {
  DYNAMIC_SHARED(bf16, shared);  // [2][16 + 8][16]
  const int lane = threadIdx.x, m0 = blockIdx.x * 16, n0 = blockIdx.y * 8;
  const auto fetch = [&](int k0) {
    for (int i = lane; i < 48 && k0 < K; i += 32) {
      const int row = i / 2, at = k0 + i % 2 * 8;
      const bool is_x = row < 16, valid = is_x ? m0 + row < M : n0 + row - 16 < N;
      const bf16* from = is_x ? x + (m0 + row) * K + at : w + (n0 + row - 16) * K + at;
      cp_async_16(shared + k0 / 16 % 2 * 24 * 16 + row * 16 + i % 2 * 8, from, valid);
    }
    cp_async_commit();
  };
  float d[4] = {0, 0, 0, 0};
  fetch(0);
  for (int k0 = 0; k0 < K; k0 += 16) {
    fetch(k0 + 16);
    cp_async_wait<1>();
    __syncthreads();
    const bf16* stage = shared + k0 / 16 % 2 * 24 * 16;
    uint32_t a[4], b[2];
    ldmatrix_x4(a, stage + lane % 16 * 16 + lane / 16 * 8);
    ldmatrix_x2(b, stage + (16 + lane % 8) * 16 + lane / 8 % 2 * 8);
    mma_bf16(d, a, b);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) {
    const int m = m0 + lane / 4 + i / 2 * 8, n = n0 + lane % 4 * 2 + i % 2;
    if (m < M && n < N) y[m * N + n] = d[i];
  }
}

std::vector<float> run_product(const std::vector<bf16>& x, const std::vector<bf16>& w, int M, int N, int K) {
  std::vector<float> y(M * N, NAN);
  host::launch(dim3((M + 15) / 16, (N + 7) / 8), dim3(32), 2 * 24 * 16 * sizeof(bf16),
               [&] { product(x.data(), w.data(), y.data(), M, N, K); }, "product");
  return y;
}

void test_product() {
  const int M = 37, N = 20, K = 96;
  Noise noise{7};
  std::vector<bf16> x(M * K), w(N * K);
  for (bf16& v : x) narrow(noise.next(), v);
  for (bf16& v : w) narrow(noise.next(), v);
  const auto y = run_product(x, w, M, N, K);
  double worst = 0;
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += double(widen(x[m * K + k])) * widen(w[n * K + k]);
      worst = std::max(worst, std::fabs(sum - y[m * N + n]));
    }
  tally.check(worst < 1e-4, "a product is " + std::to_string(worst) + " from the sum in double");
  for (const unsigned order : {1, 2, 3}) {
    host::order() = order;
    const auto again = run_product(x, w, M, N, K);
    tally.check(!std::memcmp(y.data(), again.data(), y.size() * 4), "a product differs in thread order " + std::to_string(order));
  }
  host::order() = 0;
}

void test_ldmatrix() {
  uint32_t plain[32][4], trans[32][4], two[32][2], two_trans[32][2];
  host::launch(dim3(1), dim3(32), 4 * 64 * 2, [&] {
    DYNAMIC_SHARED(uint16_t, m);  // element (row, column) of matrix i is 100 i + 10 row + column
    const unsigned lane = threadIdx.x;
    for (unsigned c = 0; c < 8; c++) m[lane * 8 + c] = 100 * (lane / 8) + 10 * (lane % 8) + c;
    __syncwarp();
    ldmatrix_x4(plain[lane], m + lane * 8);
    ldmatrix_x4_trans(trans[lane], m + lane * 8);
    ldmatrix_x2(two[lane], lane < 16 ? m + lane * 8 : nullptr);
    ldmatrix_x2_trans(two_trans[lane], lane < 16 ? m + lane * 8 : nullptr);
  });
  bool rows = true, columns = true, twos = true;
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < 4; i++) {
      const unsigned g = lane / 4, t = lane % 4 * 2, at = 100 * i;
      rows &= plain[lane][i] == ((at + 10 * g + t) | (at + 10 * g + t + 1) << 16);
      columns &= trans[lane][i] == ((at + 10 * t + g) | (at + 10 * (t + 1) + g) << 16);
      if (i < 2) twos &= two[lane][i] == plain[lane][i] && two_trans[lane][i] == trans[lane][i];
    }
  tally.check(rows, "ldmatrix_x4");
  tally.check(columns, "ldmatrix_x4_trans");
  tally.check(twos, "ldmatrix_x2");
}

// What a copy's destination holds before and after the wait that it needs.
void test_copies_arrive_at_the_wait() {
  float early = 0, late = 0, zero = 1, second = 0;
  const float from[4] __attribute__((aligned(16))) = {1, 2, 3, 4};
  host::launch(dim3(1), dim3(1), 48, [&] {
    DYNAMIC_SHARED(float, shared);
    cp_async_16(shared, from, true);
    cp_async_commit();
    cp_async_16(shared + 4, nullptr, false);
    cp_async_commit();
    cp_async_16(shared + 8, from, true);
    cp_async_wait<2>();
    early = shared[0];
    cp_async_wait<1>();
    late = shared[0];
    cp_async_wait<0>();
    zero = shared[4], second = shared[8];
  });
  tally.check(std::isnan(early), "a copy arrives before its wait");
  tally.check(late == 1, "a copy does not arrive at its wait");
  tally.check(zero == 0, "a copy that is not valid leaves no zeros");
  tally.check(std::isnan(second), "a copy arrives that was never committed");
}

}  // namespace

int main() {
  test_product();
  test_ldmatrix();
  test_copies_arrive_at_the_wait();
  return tally.end();
}
