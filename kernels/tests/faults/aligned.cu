// Planted faults: instructions that all lanes of a warp have to execute together.
#include "../../tma.cuh"

enum AlignedFault {
  kSoundAligned,
  kSkips,           // lanes `continue` before a matrix load that the others execute
  kReturns,         // lanes return before a product
  kTwoPlaces,       // half of the warp loads at another place in the source
  kHalfTransposes,  // half of the warp has gone on to the next instruction
  kHalfFrees,       // half of the warp gives registers back
};

// y[lane] from a matrix of ones, summed up four times. One warp, 512 bytes of shared memory.
extern "C" __global__ void aligned_loads(float* y, int fault) {
  DYNAMIC_SHARED(bf16, ones);
  const bool is_half = threadIdx.x >= 16;
  for (int i = threadIdx.x; i < 256; i += 32) narrow(1.0f, ones[i]);
  __syncwarp();
  float sum[4] = {};
  for (int step = 0; step < 4; step++) {
    if (fault == kSkips && is_half && step == 1) continue;
    uint32_t a[4];
    if (fault != kTwoPlaces || is_half) {
      ldmatrix_x4(a, ones + threadIdx.x * 8);
    } else {
      ldmatrix_x4(a, ones + threadIdx.x * 8);
    }
    if (fault == kHalfTransposes && is_half) a[0] = transpose_8x8(a[0]);
    if (fault == kReturns && is_half && step == 3) return;
    const uint32_t b[2] = {a[0], a[1]};
    mma_bf16(sum, a, b);
  }
  if (fault != kHalfFrees || is_half) registers_less<24>();
  y[threadIdx.x] = sum[0];
}
