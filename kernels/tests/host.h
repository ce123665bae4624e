// Runs the source of a CUDA kernel on the CPU: `#include "host.h"`, then the .cu file, then `host::launch`.
//
// Every thread of a block is a fiber with its own stack; blocks run one after another. A fiber runs until it
// has to meet others (a barrier, a shuffle), so each run is the same. Offered: thread and block indices, static
// and dynamic shared memory (`HOST_SHARED`), __syncthreads, __syncwarp, shuffles, votes, atomics, the IEEE
// float intrinsics, and the toolkit's own __nv_bfloat16 and __half. A meeting that some thread never comes to
// ends the program with a message.
//
// Not offered: inline PTX, mma and wgmma, cp.async, TMA, clusters, textures; and it finds no data races and
// shows no rounding of fast-math intrinsics. A kernel that uses those keeps a plain version beside it.
// Build with -ffp-contract=off, or the compiler may fuse what the kernel rounds apart.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define HOST_KERNEL_TEST 1
#include <cuda_bf16.h>  // also dim3, uint3, float4, ...
#include <cuda_fp16.h>

// The toolkit's headers spell these for nvcc; here they mean nothing, and shared memory is simply static.
#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __launch_bounds__
#undef __shared__
#undef __constant__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static
#define __restrict__ __restrict
#define HOST_SHARED(T, name) T* name = reinterpret_cast<T*>(host::block().dynamic.get())

namespace host {

[[noreturn]] inline void stop(const char* why) {
  std::fprintf(stderr, "host.h: %s\n", why);
  std::exit(1);
}

// A place where `expected` fibers wait for each other, again and again.
struct Meeting {
  unsigned expected = 0, arrived = 0;
  unsigned long round = 0;
  void turn_if_all_are_here() {
    if (expected > 0 && arrived == expected) arrived = 0, round++;
  }
};

struct Warp {
  Meeting meeting;
  uint64_t exchange[32] = {};
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  uint3 thread;
  unsigned lane;
  Warp* warp;
  bool ended;
};

struct Block {
  dim3 grid, size;
  uint3 index;
  std::unique_ptr<char[]> dynamic;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Meeting meeting;
  Fiber* running = nullptr;
  ucontext_t scheduler;
  unsigned long moves = 0;  // arrivals and endings: a pass over all fibers without one is a deadlock
  std::function<void()> kernel;
};

inline Block& block() {
  static Block b;
  return b;
}
inline Fiber& self() { return *block().running; }

inline void meet(Meeting& m) {
  const unsigned long round = m.round;
  m.arrived++;
  block().moves++;
  m.turn_if_all_are_here();
  while (m.round == round) swapcontext(&self().context, &block().scheduler);
}

inline void fiber_main() {
  block().kernel();
  Fiber& f = self();
  f.ended = true;
  block().moves++;
  for (Meeting* m : {&f.warp->meeting, &block().meeting}) m->expected--, m->turn_if_all_are_here();
  swapcontext(&f.context, &block().scheduler);
}

inline void start_fibers() {
  constexpr size_t kStack = 64 << 10;
  Block& b = block();
  const unsigned n = b.fibers.size();
  b.meeting = {n, 0, 0};
  for (auto& w : b.warps) w = {};
  for (unsigned i = 0; i < n; i++) {
    Fiber& f = b.fibers[i];
    f.thread = {i % b.size.x, i / b.size.x % b.size.y, i / (b.size.x * b.size.y)};
    f.lane = i % 32;
    f.warp = &b.warps[i / 32];
    f.warp->meeting.expected++;
    f.ended = false;
    if (!f.stack) f.stack.reset(new char[kStack]);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, fiber_main, 0);
  }
}

inline void run_fibers() {
  Block& b = block();
  for (bool alive = true; alive;) {
    alive = false;
    const unsigned long moves = b.moves;
    for (Fiber& f : b.fibers) {
      if (f.ended) continue;
      alive = true;
      b.running = &f;
      swapcontext(&b.scheduler, &f.context);
    }
    if (alive && b.moves == moves) stop("threads wait for each other at different places");
  }
}

// Calls `kernel` (a lambda around the kernel's own call) for every thread of every block.
inline void launch(dim3 grid, dim3 size, size_t dynamic_bytes, std::function<void()> kernel) {
  Block& b = block();
  const size_t threads = size_t(size.x) * size.y * size.z;
  if (threads == 0 || threads > 1024) stop("a block has 1 to 1024 threads");
  b.grid = grid, b.size = size, b.kernel = std::move(kernel);
  b.fibers.resize(threads), b.warps.resize((threads + 31) / 32);
  for (unsigned i = 0; i < grid.x * grid.y * grid.z; i++) {
    b.index = {i % grid.x, i / grid.x % grid.y, i / (grid.x * grid.y)};
    b.dynamic.reset(new char[dynamic_bytes + 1]);
    std::memset(b.dynamic.get(), 0xCD, dynamic_bytes);  // shared memory starts as rubbish
    start_fibers();
    run_fibers();
  }
}

// The value that lane `from` of this warp has given; every lane of the warp calls it.
template <typename T>
T take_from_lane(T value, unsigned from) {
  static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
  Warp& w = *self().warp;
  std::memcpy(&w.exchange[self().lane], &value, sizeof(T));
  meet(w.meeting);
  std::memcpy(&value, &w.exchange[from % 32], sizeof(T));
  meet(w.meeting);
  return value;
}

}  // namespace host

#define threadIdx (host::self().thread)
#define blockIdx (host::block().index)
#define blockDim (host::block().size)
#define gridDim (host::block().grid)
#define warpSize 32

inline void __syncthreads() { host::meet(host::block().meeting); }
inline void __syncwarp(unsigned = ~0u) { host::meet(host::self().warp->meeting); }

template <typename T>
T __shfl_sync(unsigned, T v, int from, int width = 32) {
  const unsigned lane = host::self().lane;
  return host::take_from_lane(v, lane / width * width + from % width);
}
template <typename T>
T __shfl_xor_sync(unsigned, T v, int mask, int width = 32) {
  const unsigned lane = host::self().lane, from = lane ^ mask;
  return host::take_from_lane(v, from / width == lane / width ? from : lane);
}
template <typename T>
T __shfl_down_sync(unsigned, T v, unsigned by, int width = 32) {
  const unsigned lane = host::self().lane;
  return host::take_from_lane(v, lane % width + by < unsigned(width) ? lane + by : lane);
}
template <typename T>
T __shfl_up_sync(unsigned, T v, unsigned by, int width = 32) {
  const unsigned lane = host::self().lane;
  return host::take_from_lane(v, lane % width >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned, int vote) {
  unsigned all = 0;
  for (unsigned lane = 0; lane < 32; lane++) all |= unsigned(host::take_from_lane(vote != 0, lane)) << lane;
  return all;
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }

template <typename T>
T atomicAdd(T* at, T v) {
  return std::exchange(*at, *at + v);
}
template <typename T>
T atomicMax(T* at, T v) {
  return std::exchange(*at, std::max(*at, v));
}
template <typename T>
T atomicCAS(T* at, T old, T v) {
  return *at == old ? std::exchange(*at, v) : *at;
}

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
template <typename T>
T __ldg(const T* at) {
  return *at;
}
