// Planted faults: threads that do not wait for each other, or wait in vain.
#include "../../common.cuh"

// Sound but for the barrier that was deleted between writing and reading. One block of n threads.
extern "C" __global__ void missing_barrier(const float* x, float* y, int n) {
  DYNAMIC_SHARED(float, row);
  row[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = row[n - 1 - threadIdx.x];
}

// The same with static shared memory, and a shuffle where a barrier should be: it orders no memory.
extern "C" __global__ void shuffle_for_barrier(const float* x, float* y) {
  __shared__ float row[32];
  row[threadIdx.x] = x[threadIdx.x];
  const float own = __shfl_xor_sync(kAllLanes, x[threadIdx.x], 0);
  y[threadIdx.x] = __fadd_rn(__fsub_rn(row[31 - threadIdx.x], own), own);
}

// Half of the threads wait at one barrier, the others at another.
extern "C" __global__ void divergent_barrier(float* y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncwarp();
  if (threadIdx.x < 32) y[threadIdx.x] = 0.0f;
  __syncthreads();
  if (threadIdx.x >= 32) __syncthreads();
}

// Some lanes of a warp leave before its barrier.
extern "C" __global__ void early_exit(float* y, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  __syncthreads();
  y[threadIdx.x] = 0.0f;
}

// A shuffle that names lanes which are elsewhere.
extern "C" __global__ void wrong_mask(float* y) {
  float v = 1.0f;
  if (threadIdx.x < 16) v = __shfl_xor_sync(kAllLanes, v, 1);
  y[threadIdx.x] = v;
}

// Takes a value from a lane outside its mask.
extern "C" __global__ void stray_lane(float* y) {
  float v = 1.0f;
  if (threadIdx.x < 16) v = __shfl_sync(0xffffu, v, 20);
  y[threadIdx.x] = v;
}

// Each block adds to one number without an atomic.
extern "C" __global__ void blocks_race(float* y) {
  if (threadIdx.x == 0) y[0] = __fadd_rn(__fmul_rn(y[0], 2.0f), static_cast<float>(blockIdx.x));
}

// Started early, and half of its threads do not wait for the kernel before.
extern "C" __global__ void forgotten_wait(const float* x, float* y) {
  if (threadIdx.x < 16) await_earlier();
  y[threadIdx.x] = x[threadIdx.x];
}
