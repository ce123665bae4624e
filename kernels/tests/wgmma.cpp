// kernels/wgmma.cuh under emulation: every width of a product against sums of small whole numbers, which are exact.
#include "../wgmma.cuh"

#include "random.h"

namespace {

constexpr int kDepth = 64, kRows = 64;

// Where value `column` of a row of 64 stands under the swizzle.
int place(int row, int column) { return row * 64 + (column / 8 ^ row % 8) * 8 + column % 8; }

bf16 whole(Random& random) {
  bf16 value;
  narrow(float(int(random.below(9)) - 4), value);
  return value;
}

// One warp group: y [64, 8 J] = 1 + a b^T, with b by columns, or TRANSPOSED and a in registers.
template <int J, bool TRANSPOSED>
void product(const bf16* a, const bf16* b, float* y) {
  DYNAMIC_SHARED(bf16, shared);
  bf16* const rows = shared;                      // [64][64]
  bf16* const columns = shared + kRows * kDepth;  // [8 J][64]
  for (int i = threadIdx.x; i < kRows * kDepth; i += blockDim.x) rows[place(i / kDepth, i % kDepth)] = a[i];
  for (int i = threadIdx.x; i < 8 * J * kDepth; i += blockDim.x) {
    const int column = i / kDepth, k = i % kDepth;
    columns[TRANSPOSED ? column / 64 * (64 * kDepth) + place(k, column % 64) : place(column, k)] = b[i];
  }
  wgmma_publish();
  __syncthreads();
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  float d[J][4];
  for (int j = 0; j < J; j++)
    for (float& v : d[j]) v = 1.0f;
  const auto* const from = reinterpret_cast<const unsigned char*>(columns);
  for (int step = 0; step < kDepth / 16; step++) {
    wgmma_fence();
    uint32_t fragment[4];
    for (int i = 0; i < 4; i++)
      std::memcpy(&fragment[i], &rows[place(row + i % 2 * 8, step * 16 + lane % 4 * 2 + i / 2 * 8)], 4);
    if constexpr (TRANSPOSED) wgmma_start_transposed(d, fragment, from + 2048 * step, 64 * kDepth * 2);
    else wgmma_start(d, reinterpret_cast<const unsigned char*>(rows) + 32 * step, from + 32 * step);
    wgmma_commit();
    wgmma_wait();
  }
  for (int j = 0; j < J; j++)
    for (int i = 0; i < 4; i++) y[(row + i / 2 * 8) * 8 * J + 8 * j + lane % 4 * 2 + i % 2] = d[j][i];
}

template <int J, bool TRANSPOSED = false>
void test(Tally& tally) {
  Random random{uint64_t(J)};
  std::vector<bf16> a(kRows * kDepth), b(8 * J * kDepth);
  for (bf16& v : a) v = whole(random);
  for (bf16& v : b) v = whole(random);
  std::vector<float> y(kRows * 8 * J, NAN);
  host::launch(dim3(1), dim3(128), (kRows + 8 * J) * kDepth * 2, [&] { product<J, TRANSPOSED>(a.data(), b.data(), y.data()); });
  bool right = true;
  for (int m = 0; m < kRows; m++)
    for (int n = 0; n < 8 * J; n++) {
      float sum = 1.0f;
      for (int k = 0; k < kDepth; k++) sum += widen(a[m * kDepth + k]) * widen(b[n * kDepth + k]);
      right &= y[m * 8 * J + n] == sum;
    }
  tally.check(right, std::to_string(8 * J) + (TRANSPOSED ? " columns, transposed" : " columns"));
}

}  // namespace

int main() {
  Tally tally("wgmma");
  test<8>(tally);
  test<16>(tally);
  test<20>(tally);
  test<24>(tally);
  test<32>(tally);
  test<8, true>(tally);
  test<16, true>(tally);
  return tally.end();
}
