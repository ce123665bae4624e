// A planted fault for scripts/cuda/static.sh: more values than a thread has registers.
#include "../../../common.cuh"

extern "C" __global__ void __launch_bounds__(1024) spilled(const float* x, float* y) {
  await_earlier();
  float v[96];
#pragma unroll
  for (int i = 0; i < 96; i++) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; i++) y[i * 1024 + threadIdx.x] = __fmul_rn(v[i], v[(i * 37 + 5) % 96]);
}
