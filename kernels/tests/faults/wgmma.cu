// Planted faults: products of a warp group, and what they read of shared memory.
#include "../../wgmma.cuh"

enum WgmmaFault {
  kSoundCopies,         // operands by cp.async
  kSoundStores,         // operands by ordinary stores
  kNoPublish,           // copies that wgmma does not see
  kPublishTooEarly,     // before the copies have arrived
  kPublishTooLate,      // after the barrier
  kStoresNoPublish,     // stores that wgmma does not see
  kStoreAfterPublish,   // one more store
  kNoFirstFence,        // no wgmma_fence at all
  kNoSecondFence,       // sums are scaled between products
  kNoCommit,            // the wait covers nothing
  kNoProductWait,       // sums are read while products are on their way
  kSumsInFlight,        // sums are written meanwhile
  kOperandInFlight,     // an operand is written meanwhile
  kHalfWaits,           // half of each warp leaves before the wait
  kSoundTransposed,     // rows in registers, the other operand transposed
  kTransposedNoPublish, // copies that wgmma does not see
  kRowsInFlight,        // registers are written meanwhile
};

// A value of a row of 64 under the swizzle.
__device__ __forceinline__ int swizzled(int row, int column) { return row * 64 + (column / 8 ^ row % 8) * 8 + column % 8; }

// y[i], 128 values, each 128 from ones of [64, 64] by [64, 64] twice. One warp group; 17 KiB of shared memory.
extern "C" __global__ void ones_product(const bf16* ones, float* y, int fault) {
  DYNAMIC_SHARED(unsigned char, unaligned);
  bf16* const a = reinterpret_cast<bf16*>(unaligned + (1024 - reinterpret_cast<uintptr_t>(unaligned) % 1024) % 1024);
  const bool stores = fault == kSoundStores || fault == kStoresNoPublish || fault == kStoreAfterPublish;
  for (int i = threadIdx.x; i < 1024; i += 128) {  // eight values of a, then of b
    bf16* const to = a + swizzled(i / 8, i % 8 * 8);
    if (!stores) cp_async_16(to, ones, true);
    for (int e = 0; stores && e < 8; e++) to[e] = ones[e];
  }
  cp_async_commit();
  if (fault == kPublishTooEarly) wgmma_publish();
  cp_async_wait<0>();
  if (fault != kNoPublish && fault != kTransposedNoPublish && fault != kPublishTooEarly && fault != kPublishTooLate && fault != kStoresNoPublish) wgmma_publish();
  if (fault == kStoreAfterPublish && threadIdx.x == 127) narrow(2.0f, a[0]);
  __syncthreads();
  if (fault == kPublishTooLate) wgmma_publish();
  const bool transposed = fault >= kSoundTransposed;
  float sum[8][4] = {};
  uint32_t rows[4];
  for (int turn = 0; turn < 2; turn++) {
    for (uint32_t& pair : rows) pair = 0x3f803f80;  // ones
    if (fault != kNoFirstFence && (fault != kNoSecondFence || turn == 0)) wgmma_fence();
    for (int step = 0; step < 4; step++) {
      const unsigned char* const from = reinterpret_cast<const unsigned char*>(a) + 32 * step;
      if (transposed) wgmma_start_transposed(sum, rows, from + 8192 + 2016 * step, 0x2000);
      else wgmma_start(sum, from, from + 8192);
    }
    if (fault != kNoCommit) wgmma_commit();
    if (fault == kSumsInFlight) sum[0][0] = 1.0f;
    if (fault == kRowsInFlight) rows[0] = 0x40004000;  // twos
    if (fault == kOperandInFlight) reinterpret_cast<unsigned short*>(a)[threadIdx.x] = 0x4000;  // 2
    if (fault == kHalfWaits && threadIdx.x % 32 >= 16) return;
    if (fault != kNoProductWait) wgmma_wait();
    if (fault == kNoSecondFence) sum[0][0] = __fmul_rn(sum[0][0], 0.5f);
  }
  y[threadIdx.x] = sum[0][0];
}
