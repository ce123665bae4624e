// TMA: asynchronous copies of tiles of a tensor into shared memory, and mbarriers that complete when they have arrived
// (sm_90a).
//
// One thread starts a copy; the TMA unit computes addresses, writes zeros for elements outside of the tensor and lays
// rows of 128 bytes out under the swizzle of 128 bytes, as wgmma.cuh's operands are.
//
// Here in PTX; under emulation kernels/emulated/tma.h has the same functions. On another generation's card they stop the
// kernel.
//
// Proved by kernels/tests/gemm_tma.cpp, kernels/tests/attend.cpp, kernels/tests/experts.cpp.
#pragma once

#include <cuda.h>

#include "wgmma.cuh"

#ifdef HOST_KERNEL_TEST
#include "emulated/tma.h"
#undef __grid_constant__
#define __grid_constant__
#else

#ifdef WGMMA_HERE
#define TMA_PTX(...) asm volatile(__VA_ARGS__)
#else
#define TMA_PTX(...) __trap()
#endif

// A barrier in shared memory, 8 aligned bytes. A phase ends when `count` threads have arrived and all expected bytes
// have been copied; the first phase has parity 0, the next 1, and so on.
__device__ __forceinline__ void mbarrier_init(uint64_t* at, unsigned count) {
  TMA_PTX("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(at)), "r"(count) : "memory");
}
// Makes barriers that this thread initialised visible to TMA; a barrier of the block must follow.
__device__ __forceinline__ void mbarrier_publish() { TMA_PTX("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }
__device__ __forceinline__ void mbarrier_arrive(uint64_t* at) {
  TMA_PTX("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(at)) : "memory");
}
// Arrives, and adds to the bytes that this phase expects.
__device__ __forceinline__ void mbarrier_expect(uint64_t* at, unsigned bytes) {
  TMA_PTX("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(at)), "r"(bytes)
          : "memory");
}
// Until the phase of this parity has ended. A barrier whose first phase has not ended counts as past the parity 1. A copy
// that does not arrive for 2^22 tries ends the kernel with an error instead of holding the card for ever; each try suspends
// the thread for a time of the card's choice. Tries and not time: a GPU that is itself suspended makes none.
__device__ __forceinline__ void mbarrier_wait(uint64_t* at, unsigned parity) {
  TMA_PTX("{\n.reg .pred done;\n.reg .u32 tries;\n"
          "mov.u32 tries, 4194304;\n"
          "again:\n"
          "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
          "@done bra ended;\n"
          "sub.u32 tries, tries, 1;\n"
          "setp.ne.u32 done, tries, 0;\n"
          "@done bra again;\n"
          "trap;\n"
          "ended:\n}\n" ::"r"(shared_address(at)),
          "r"(parity)
          : "memory");
}

// From here to await_earlier this thread may copy this map's memory, which no kernel writes; the emulator refuses all other
// copies before await_earlier.
__device__ __forceinline__ void copy_early(const CUtensorMap&) {}

// Starts the copy of the tile at these elements, the innermost first; `barrier` counts its bytes. `to` is aligned to
// 1024 bytes.
__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row) {
  TMA_PTX("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];\n" ::"r"(
              shared_address(to)),
          "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row)
          : "memory");
}
__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row,
                                         int half, int eight) {
  TMA_PTX("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];\n" ::
              "r"(shared_address(to)),
          "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(half), "r"(eight)
          : "memory");
}
__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row,
                                         int half, int eight, int head) {
  TMA_PTX("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];\n" ::
              "r"(shared_address(to)),
          "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(half), "r"(eight), "r"(head)
          : "memory");
}
__device__ __forceinline__ void tma_prefetch(const CUtensorMap& map) {
  TMA_PTX("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// Takes registers from this warp group, or gives it more: N for each thread. All its warps call it.
template <int N>
__device__ __forceinline__ void registers_less() {
  TMA_PTX("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(N));
}
template <int N>
__device__ __forceinline__ void registers_more() {
  TMA_PTX("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(N));
}

#endif

// STAGES slots of BYTES, aligned for TMA, each with a barrier that completes when the slot's stage has arrived (`full`)
// and one that completes when its readers have released it (`empty`). Producer and consumers each have a copy of this.
template <int STAGES, int BYTES>
struct StageRing {
  static constexpr int kStages = STAGES, kAlign = 1024, kBytes = STAGES * BYTES + kAlign + 2 * STAGES * 8;  // of shared memory
  static_assert(BYTES % kAlign == 0, "eight rows of an operand are aligned together");

  unsigned char* stages;
  uint64_t *full, *empty;
  int slot = 0;
  unsigned parity = 0;
  __device__ __forceinline__ explicit StageRing(unsigned char* shared) {
    stages = shared + (kAlign - reinterpret_cast<uintptr_t>(shared) % kAlign) % kAlign;
    full = reinterpret_cast<uint64_t*>(stages + STAGES * BYTES);
    empty = full + STAGES;
  }
  // By one thread; mbarrier_publish and a barrier of the block must follow.
  __device__ __forceinline__ void init(int writers, int readers) const {
    for (int s = 0; s < STAGES; s++) {
      mbarrier_init(&full[s], writers);
      mbarrier_init(&empty[s], readers);
    }
  }
  __device__ __forceinline__ unsigned char* stage() const { return stages + slot * BYTES; }
  __device__ __forceinline__ void next() {
    slot = slot + 1 == STAGES ? 0 : slot + 1;
    parity ^= slot == 0;
  }
};

// Adds the products of `n` stages of a ring: 8 J columns in rows of 64 values, 128 bytes, and `columns_bytes` behind them
// 64 rows for each warp group. Past K both operands are zeros, which leave a sum as it is.
template <int J, class Ring>
__device__ __forceinline__ void multiply_stages(float (&sum)[J][4], Ring& ring, int columns_bytes, int n) {
  const bool is_first_lane = threadIdx.x % 32 == 0;
  uint64_t* reading = nullptr;  // the slot before, which the products under way may still read
  // Nothing else touches the sums in here, or the compiler would wait for each stage's products (its C7517).
  for (; n > 0; n--) {
    mbarrier_wait(&ring.full[ring.slot], ring.parity);
    const unsigned char* const columns = ring.stage();
    const unsigned char* const rows = columns + columns_bytes + threadIdx.x / 128 * (64 * 128);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; step++) wgmma_start(sum, rows + 32 * step, columns + 32 * step);
    wgmma_commit();
    wgmma_wait_but_one();
    if (is_first_lane && reading != nullptr) mbarrier_arrive(reading);
    reading = &ring.empty[ring.slot];
    ring.next();
  }
  wgmma_wait();
  if (is_first_lane) mbarrier_arrive(reading);
}
