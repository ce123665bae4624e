// Planted faults: a split-K reduction in the kernel.
#include "../../common.cuh"

enum ReductionFault {
  kSoundReduction,
  kFirstReduces,      // the first to arrive adds sums that are not written yet
  kOwnFirst,          // adds its own first: other bits
  kNoFence,           // arrives before its sums are visible
  kSemaphoreNotZero,  // the semaphore is not zero before
};

// y[lane] = x[0][lane] + x[1][lane] + x[2][lane] in this order, each by a block of a warp, through `parts` [3, 32].
extern "C" __global__ void reduction(const float* x, float* y, float* parts, unsigned* semaphore, int fault) {
  const int lane = static_cast<int>(threadIdx.x), own = static_cast<int>(blockIdx.x);
  parts[32 * own + lane] = x[32 * own + lane];
  if (fault == kSemaphoreNotZero && own == 0 && lane == 0) *semaphore = 1;
  if (fault == kNoFence || fault == kFirstReduces) {
    unsigned before = 0;
    __syncwarp();
    if (lane == 0) before = atomicInc(semaphore, 2);
    if (__shfl_sync(kAllLanes, before, 0) != (fault == kFirstReduces ? 0 : 2)) return;
  } else if (!last_arrival(semaphore, 3)) {
    return;
  }
  const int first = fault == kOwnFirst ? own : 0;
  float sum = parts[32 * first + lane];
  for (int s = 0; s < 3; s++)
    if (s != first) sum = __fadd_rn(sum, parts[32 * s + lane]);
  y[lane] = sum;
}
