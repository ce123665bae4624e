// Kernels without a fault, for the tests of the emulated driver.
#include "../../common.cuh"

// y[i] = x[i] * by. Any grid and block in x.
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, int n, float by) {
  await_earlier();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __fmul_rn(x[i], by);
}

// y[block][i] = x[block][n - 1 - i] through shared memory. One block of n threads a row, 4 n bytes of shared memory.
extern "C" __global__ void reverse(const float* __restrict__ x, float* __restrict__ y, int n) {
  DYNAMIC_SHARED(float, row);
  row[threadIdx.x] = x[blockIdx.x * n + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * n + threadIdx.x] = row[n - 1 - threadIdx.x];
}

// counts[0] += 1 for each thread; counts[1] becomes the number of blocks seen by the last one.
extern "C" __global__ void count(int* counts, double pad, unsigned char flag) {
  __shared__ int in_block;
  if (threadIdx.x == 0) in_block = pad < 0 ? 1 : 0;
  __syncthreads();
  atomicAdd(&in_block, flag);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&counts[0], in_block), atomicAdd(&counts[1], 1);
}
