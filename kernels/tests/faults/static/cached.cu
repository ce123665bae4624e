// A planted fault for scripts/cuda/static.sh: loads through the read-only cache, which may be stale in a kernel that starts
// early. The compiler chooses them where nothing else may point to what is read.
#include "../../../common.cuh"

extern "C" __global__ void cached(const float* __restrict__ x, float* __restrict__ y) {
  await_earlier();
  y[threadIdx.x] = x[threadIdx.x];
}
