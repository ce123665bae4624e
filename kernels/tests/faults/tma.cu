// Planted faults: TMA copies, and their barriers.
#include "../../tma.cuh"

enum TmaFault {
  kSoundTma,
  kNoWait,         // reads a tile without waiting for its copy
  kWrongPhase,     // waits for the phase that has ended already
  kNoArrival,      // does not release a slot
  kNoWaitForRoom,  // starts the next copy before the slot is released
  kTooFewBytes,    // expects fewer bytes than the tile has
  kNoInit,         // a barrier that was not initialised
  kLeft,           // ends with a copy in flight
  kMisaligned,     // a destination that is not aligned to eight rows
  kOverwritten,    // writes to the destination of a copy in flight
  kTooEarly,       // copies before await_earlier
};

// Adds up four rows of 64 bf16 of x, each column's pair by a lane: y[lane]. A ring of two slots; 64 threads, of which
// thread 32 copies; 4,096 bytes of shared memory.
extern "C" __global__ void tma_ring(const __grid_constant__ CUtensorMap x, float* y, int fault) {
  if (fault != kTooEarly) await_earlier();
  DYNAMIC_SHARED(unsigned char, shared);
  unsigned char* const ring = shared + (1024 - reinterpret_cast<uintptr_t>(shared) % 1024) % 1024;
  uint64_t* const full = reinterpret_cast<uint64_t*>(ring + 2048);
  uint64_t* const empty = full + 2;
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) {
      if (fault != kNoInit) mbarrier_init(&full[s], 1);
      mbarrier_init(&empty[s], 1);
    }
    mbarrier_publish();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    for (int row = 0; row < (fault == kLeft ? 5 : 4); row++) {
      const int slot = row % 2;
      if (fault != kNoWaitForRoom) mbarrier_wait(&empty[slot], row / 2 % 2 ^ 1);
      mbarrier_expect(&full[slot], fault == kTooFewBytes ? 64 : 128);
      tma_load(ring + slot * 1024 + (fault == kMisaligned ? 128 : 0), x, &full[slot], 0, row);
      if (fault == kOverwritten) ring[slot * 1024] = 0;
    }
  } else if (threadIdx.x < 32) {
    float sum = 0.0f;
    for (int row = 0; row < 4; row++) {
      const int slot = row % 2;
      if (fault != kNoWait) mbarrier_wait(&full[slot], row / 2 % 2 ^ (fault == kWrongPhase ? 1 : 0));
      const bf16* const values = reinterpret_cast<const bf16*>(ring + slot * 1024);
      sum = __fadd_rn(sum, __fadd_rn(widen(values[2 * threadIdx.x]), widen(values[2 * threadIdx.x + 1])));
      __syncwarp();
      if (fault != kNoArrival && threadIdx.x == 0) mbarrier_arrive(&empty[slot]);
    }
    y[threadIdx.x] = sum;
  }
}
