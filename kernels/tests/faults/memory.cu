// Planted faults: memory.
#include "../../mma.cuh"

// Reads 16 bytes from an address that is a multiple of 4 only.
extern "C" __global__ void misaligned_load(const float* x, float* y) {
  const float4 v = *reinterpret_cast<const float4*>(x + 1);
  y[threadIdx.x] = v.x;
}

// Writes n floats from y on, whatever was allocated.
extern "C" __global__ void overrun(float* y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = 1.0f;
}

// Writes one float past its dynamic shared memory of 4 n bytes.
extern "C" __global__ void shared_overrun(float* y, int n) {
  DYNAMIC_SHARED(float, row);
  row[threadIdx.x] = 1.0f;
  if (threadIdx.x == 0) row[n] = 2.0f;
  __syncthreads();
  y[threadIdx.x] = row[threadIdx.x];
}

// Adds up shared memory of which one element was never written.
extern "C" __global__ void uninitialised(float* y, int n) {
  DYNAMIC_SHARED(float, row);
  if (threadIdx.x > 0) row[threadIdx.x] = 1.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < n; i++) sum = __fadd_rn(sum, row[i]);
  y[threadIdx.x] = sum;
}

// Reads what cp.async brings without waiting for it. One warp, 512 bytes of shared memory.
extern "C" __global__ void missing_wait(const float* x, float* y) {
  DYNAMIC_SHARED(float, row);
  cp_async_16(row + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
  cp_async_commit();
  __syncthreads();
  y[threadIdx.x] = row[threadIdx.x];
}

// Fetches the next row into the buffer that other threads still read. One block of 64 threads, 256 bytes.
extern "C" __global__ void overtaken(const float* x, float* y) {
  DYNAMIC_SHARED(float, row);
  const int i = threadIdx.x;
  for (int step = 0; step < 2; step++) {
    if (i < 16) cp_async_16(row + 4 * i, x + 64 * step + 4 * i, true);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    y[64 * step + i] = row[63 - i];
    // here a barrier is missing
  }
}
