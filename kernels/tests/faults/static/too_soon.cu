// Planted faults for scripts/cuda/static.sh: device memory is read before the kernel waits for those before it, and a kernel
// that does not wait.
#include "../../../common.cuh"

extern "C" __global__ void too_soon(const volatile float* x, float* y) {
  const float v = x[threadIdx.x];
  await_earlier();
  y[threadIdx.x] = v;
}

extern "C" __global__ void never_waits(float* y) { y[threadIdx.x] = 1.0f; }
