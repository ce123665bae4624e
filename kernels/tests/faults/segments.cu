// Planted faults: segments' sums that meet in the kernel.
#include "../../common.cuh"

enum MeetingFault {
  kSoundMeeting,
  kFirstFolds,    // who comes first adds what is not there yet
  kAsTheyCome,    // adds its own first: other bits
  kNoFence,       // says that it has come before others can see what it wrote
  kTurnsNotZero,  // somebody's turn is counted from what was there
};

// y[lane] = x[0][lane] + x[1][lane] + x[2][lane] in this order, each by a block of a warp, through `parts` [3, 32].
extern "C" __global__ void meeting(const float* x, float* y, float* parts, unsigned* turn, int fault) {
  const int lane = static_cast<int>(threadIdx.x), own = static_cast<int>(blockIdx.x);
  parts[32 * own + lane] = x[32 * own + lane];
  if (fault == kTurnsNotZero && own == 0 && lane == 0) *turn = 1;
  if (fault == kNoFence || fault == kFirstFolds) {
    unsigned before = 0;
    __syncwarp();
    if (lane == 0) before = atomicInc(turn, 2);
    if (__shfl_sync(kAllLanes, before, 0) != (fault == kFirstFolds ? 0 : 2)) return;
  } else if (!last_to_come(turn, 3)) {
    return;
  }
  const int first = fault == kAsTheyCome ? own : 0;
  float sum = parts[32 * first + lane];
  for (int s = 0; s < 3; s++)
    if (s != first) sum = __fadd_rn(sum, parts[32 * s + lane]);
  y[lane] = sum;
}
