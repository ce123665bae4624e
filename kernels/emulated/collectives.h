// What threads do together: barriers, shuffles, votes, reductions; and atomics and cached loads, which they do alone.
//
// A shuffle, vote or reduction orders no memory (CUDA promises none), so ThreadSanitizer still sees a race between
// threads that only shuffled. Reading a lane that takes no part is undefined in CUDA and stops the program here.
#pragma once
#include <type_traits>

#include "host.h"

inline void __syncthreads(HOST_SITE) { host::self().block->sync_block({"__syncthreads", file, line}); }

inline void __syncwarp(unsigned mask = ~0u, HOST_SITE) {
  host::Fiber& f = host::self();
  const host::Together nothing = [](void* const*, unsigned) { host::self().warp->rounds.n++; };  // in `collective`, unseen
  char* const round = f.warp->rounds.arrive();
  f.block->collective(f, mask, nothing, nullptr, {"__syncwarp", file, line});
  host::Rounds::depart(round);
}

namespace host {

// An aligned instruction that does nothing which the emulator models.
inline void only_aligned(Site site) {
  Fiber& f = self();
  f.block->aligned(f, [](void* const*, unsigned) {}, nullptr, site);
}

template <typename T>
struct ShuffleRequest {
  T given, taken;
  unsigned from;
  Site site;
};

template <typename T>
HOST_UNSEEN void shuffle_together(void* const* requests, unsigned lanes) {
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(lanes >> lane & 1)) continue;
    auto& r = *static_cast<ShuffleRequest<T>*>(requests[lane]);
    if (!(lanes >> r.from & 1))
      self().block->fail(r.site.text() + ": lane " + std::to_string(lane) + " reads lane " + std::to_string(r.from) +
                         ", which takes no part");
    r.taken = static_cast<const ShuffleRequest<T>*>(requests[r.from])->given;
  }
}

// The value that lane `from` of this warp gives.
template <typename T>
T take_from_lane(Fiber& f, unsigned mask, T value, unsigned from, Site site) {
  static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
  ShuffleRequest<T> request{value, value, from, site};
  f.block->collective(f, mask, shuffle_together<T>, &request, site);
  return request.taken;
}

struct VoteRequest {
  unsigned given, taken;
};

// kFold: what a vote or reduction makes of two lanes' values.
template <typename T, T (*kFold)(T, T)>
HOST_UNSEEN void fold_together(void* const* requests, unsigned lanes) {
  bool first = true;
  T all{};
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(lanes >> lane & 1)) continue;
    const T given = *static_cast<const T*>(requests[lane]);
    all = first ? given : kFold(all, given);
    first = false;
  }
  for (unsigned lane = 0; lane < 32; lane++)
    if (lanes >> lane & 1) *static_cast<T*>(requests[lane]) = all;
}

template <typename T>
T fold_add(T a, T b) { return a + b; }
template <typename T>
T fold_min(T a, T b) { return a < b ? a : b; }
template <typename T>
T fold_max(T a, T b) { return a < b ? b : a; }
template <typename T>
T fold_or(T a, T b) { return a | b; }
template <typename T>
T fold_and(T a, T b) { return a & b; }

template <typename T, T (*kFold)(T, T)>
T fold(unsigned mask, T value, Site site) {
  Fiber& f = self();
  f.block->collective(f, mask, fold_together<T, kFold>, &value, site);
  return value;
}

}  // namespace host

template <typename T>
T __shfl_sync(unsigned mask, T v, int from, int width = 32, HOST_SITE) {
  host::Fiber& f = host::self();
  const unsigned w = width;
  return host::take_from_lane(f, mask, v, f.lane / w * w + unsigned(from) % w, {"__shfl_sync", file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, HOST_SITE) {
  host::Fiber& f = host::self();
  const unsigned w = width, from = f.lane ^ unsigned(bits);
  return host::take_from_lane(f, mask, v, from / w <= f.lane / w ? from : f.lane, {"__shfl_xor_sync", file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, HOST_SITE) {
  host::Fiber& f = host::self();
  const unsigned w = width, from = f.lane % w + by < w ? f.lane + by : f.lane;
  return host::take_from_lane(f, mask, v, from, {"__shfl_down_sync", file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, HOST_SITE) {
  host::Fiber& f = host::self();
  const unsigned from = f.lane % unsigned(width) >= by ? f.lane - by : f.lane;
  return host::take_from_lane(f, mask, v, from, {"__shfl_up_sync", file, line});
}

inline unsigned __ballot_sync(unsigned mask, int vote, HOST_SITE) {
  return host::fold<unsigned, host::fold_or>(mask, vote ? 1u << host::self().lane : 0, {"__ballot_sync", file, line});
}
inline int __any_sync(unsigned mask, int vote, HOST_SITE) {
  return host::fold<int, host::fold_or>(mask, vote != 0, {"__any_sync", file, line});
}
inline int __all_sync(unsigned mask, int vote, HOST_SITE) {
  return host::fold<int, host::fold_and>(mask, vote != 0, {"__all_sync", file, line});
}
#define HOST_REDUCE(name, T, fold_of) \
  inline T name(unsigned mask, T v, HOST_SITE) { return host::fold<T, host::fold_of>(mask, v, {#name, file, line}); }
HOST_REDUCE(__reduce_add_sync, int, fold_add)
HOST_REDUCE(__reduce_add_sync, unsigned, fold_add)
HOST_REDUCE(__reduce_min_sync, int, fold_min)
HOST_REDUCE(__reduce_min_sync, unsigned, fold_min)
HOST_REDUCE(__reduce_max_sync, int, fold_max)
HOST_REDUCE(__reduce_max_sync, unsigned, fold_max)
HOST_REDUCE(__reduce_or_sync, unsigned, fold_or)
HOST_REDUCE(__reduce_and_sync, unsigned, fold_and)
#undef HOST_REDUCE

// Atomics: real ones, because the blocks of a launch may run on several CPU threads.
namespace host {

// A T that is converted to, not deduced.
template <typename T>
using Given = std::common_type_t<T>;

template <typename T, typename F>
T atomic_update(T* at, F next) {
  T old, made;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  do made = next(old);
  while (!__atomic_compare_exchange(at, &old, &made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

inline char* fences() {
  static char address;
  return &address;
}

}  // namespace host

template <typename T>
T atomicAdd(T* at, host::Given<T> v) { return host::atomic_update(at, [&](T old) { return T(old + v); }); }
template <typename T>
T atomicSub(T* at, host::Given<T> v) { return host::atomic_update(at, [&](T old) { return T(old - v); }); }
template <typename T>
T atomicMax(T* at, host::Given<T> v) { return host::atomic_update(at, [&](T old) { return old < v ? v : old; }); }
template <typename T>
T atomicMin(T* at, host::Given<T> v) { return host::atomic_update(at, [&](T old) { return v < old ? v : old; }); }
template <typename T>
T atomicOr(T* at, host::Given<T> v) { return host::atomic_update(at, [&](T old) { return T(old | v); }); }
template <typename T>
T atomicAnd(T* at, host::Given<T> v) { return host::atomic_update(at, [&](T old) { return T(old & v); }); }
template <typename T>
T atomicExch(T* at, host::Given<T> v) { return host::atomic_update(at, [&](T) { return v; }); }
template <typename T>
T atomicCAS(T* at, host::Given<T> old, host::Given<T> v) { return host::atomic_update(at, [&](T now) { return now == old ? v : now; }); }
inline unsigned atomicInc(unsigned* at, unsigned top) {
  return host::atomic_update(at, [&](unsigned old) { return old >= top ? 0 : old + 1; });
}

// Through the read-only cache.
template <typename T>
T __ldg(const T* at) {
  host::Fiber& f = host::self();
  if (f.block->cache) f.block->cache->read(at, sizeof(T), f.tsan, f.block->ends);
  return *at;
}

inline void __threadfence_block() {}
inline void __threadfence() {
#ifdef HOST_TSAN  // which knows no fences: what came before one is seen after a later one
  __tsan_acquire(host::fences());
  __tsan_release(host::fences());
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
