// The read-only cache (__ldg), which no write of the launch reaches, nor of a launch before it that it may run beside.
//
// ThreadSanitizer is told of such a load as one by a thread of its own, which is ordered after what came before the launch
// and after nothing in it: so it reports a race with each such write, even an earlier one of the thread that loads. Without
// it, __ldg is an ordinary load, and a stale value is not found. Copies between two kernels count as the kernel before.
#pragma once
#include "fiber.h"

namespace host {

#ifdef HOST_TSAN
class ReadOnlyCache {
 public:
  // A launch begins; `early`: the one before it may still run.
  HOST_UNSEEN void begin(bool early) {
    if (!fiber_) fiber_ = __tsan_create_fiber(0);
    char* const before = &began_[n_++ % 2];
    char* const now = &began_[n_ % 2];
    __tsan_release(now);
    after_ = early && n_ > 1 ? before : now;
  }
  // By the thread of `reader`; whoever waits for `ends` is ordered after it.
  HOST_UNSEEN void read(const void* at, size_t bytes, void* reader, char* ends) {
    __tsan_switch_to_fiber(fiber_, 1);
    __tsan_acquire(after_);
    __tsan_read_range(const_cast<void*>(at), bytes);
    __tsan_release(ends);
    __tsan_switch_to_fiber(reader, 1);
  }

 private:
  void* fiber_ = nullptr;
  char began_[2] = {};
  char* after_ = nullptr;
  unsigned n_ = 0;
};
#else
class ReadOnlyCache {
 public:
  void begin(bool) {}
  void read(const void*, size_t, void*, char*) {}
};
#endif

}  // namespace host
