// Seeded weights for benches: roughly normal with mean 0 and standard deviation `scale`, made where they are needed.
//
//   out[i] = bf16(scale * (a + b + c + d - 131070) * sqrt(3) / 65536)
//
// where a, b, c, d are the four 16-bit parts of SplitMix64's number i of the stream `seed` (the sum of four uniform
// numbers; at most 3.5 standard deviations from 0).
//
//   out  [n]  bf16, the numbers from number `first` on; n and first as n_high * 2^31 + n_low: more than a 32-bit integer
//             counts
//
// Launch: block 256, any one-dimensional grid; each thread strides over the rest. Moves 2 bytes per value.
//
// Proved by kernels/tests/fill.cpp: mean and spread, the same values whatever the grid, first values pinned,
// a part as in the whole.
#include "common.cuh"

namespace {

__device__ __forceinline__ uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    fill_bf16(bf16* __restrict__ out, int n_low, int n_high, int first_low, int first_high, unsigned seed, float scale) {
  await_earlier();
  const size_t n = (static_cast<size_t>(n_high) << 31) + static_cast<size_t>(n_low);
  const size_t first = (static_cast<size_t>(first_high) << 31) + static_cast<size_t>(first_low);
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  const uint64_t start = mix(static_cast<uint64_t>(seed) + 1);
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    const uint64_t bits = mix(start + (first + i + 1) * 0x9e3779b97f4a7c15ull);
    const int sum = static_cast<int>(bits & 0xffff) + static_cast<int>(bits >> 16 & 0xffff) +
                    static_cast<int>(bits >> 32 & 0xffff) + static_cast<int>(bits >> 48);
    const float normal = __fmul_rn(static_cast<float>(sum - 131070), 2.6428998e-5f);  // sqrt(3) / 65536
    narrow(__fmul_rn(normal, scale), out[i]);
  }
}
