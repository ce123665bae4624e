// Planted faults: loads through the read-only cache of what was written since the launch, or by a launch before it that may
// still run.
#include "../../common.cuh"

enum CachedFault {
  kSoundCached,  // what was written before
  kOwnWrite,     // what the block wrote, behind a barrier
  kOtherBlock,   // what another block wrote, behind a semaphore
};

// y[i] = x[i]. Blocks of a warp; x has 32 values.
extern "C" __global__ void cached_loads(float* x, float* y, unsigned* semaphore, int fault) {
  await_earlier();
  if (fault == kOtherBlock && blockIdx.x == 0) x[threadIdx.x] = 3.0f;
  if (!last_arrival(semaphore, gridDim.x)) return;
  if (fault == kOwnWrite) x[threadIdx.x] = 3.0f;
  __syncthreads();
  y[threadIdx.x] = __ldg(&x[threadIdx.x]);
}
