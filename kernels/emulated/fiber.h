// A thread of a kernel as a fiber: a stack of its own, and a switch that saves the callee's registers and nothing
// else (a few nanoseconds; ucontext's takes a system call). It does not decide who runs: see block.h.
//
// Sanitizers are told of each switch: ThreadSanitizer, that it orders nothing (only barriers do); AddressSanitizer, where
// the stack is.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_THREAD__)
#define HOST_TSAN 1
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* at);
void __tsan_release(void* at);
void __tsan_read_range(void* at, unsigned long bytes);
void __tsan_write_range(void* at, unsigned long bytes);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

#if defined(__SANITIZE_ADDRESS__)
#define HOST_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) (void(at), void(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) (void(at), void(bytes))
#endif

// For what a warp's lanes hand each other in registers: no memory of the kernel's, so no race.
#define HOST_UNSEEN __attribute__((no_sanitize("thread"), noinline))

namespace host {

// While one lives, ThreadSanitizer takes no note of the calling fiber's accesses: they are the emulator's own.
struct Unseen {
#ifdef HOST_TSAN
  Unseen() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__), AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
  ~Unseen() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__), AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  Unseen() {}
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

// The other way round, in the midst of that.
struct Seen {
#ifdef HOST_TSAN
  Seen() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__), AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  ~Seen() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__), AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
#else
  Seen() {}
#endif
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
};

[[noreturn]] inline void stop(const char* why) {
  std::fprintf(stderr, "emulated: %s\n", why);
  std::fflush(nullptr);
  std::_Exit(1);
}

// Saves where this stack stands in `*save` and goes on where `load` stood. System V x86-64: the callee keeps rbx,
// rbp and r12 to r15. noipa, so that the compiler assumes that any memory may have changed on return.
__attribute__((naked, noipa, no_sanitize("thread", "address", "undefined"))) inline void switch_stack(
    void** /*save, rdi*/, void* /*load, rsi*/) {
  __asm__(
      "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
      "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
      "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
}

// Stacks side by side, each above an inaccessible page: running over its end stops the program. The top of
// each holds a record of the thread that runs on it, found from any address on the stack without thread-local
// storage. Records and tops are staggered, or those of a warp's lanes would fall into one set of the cache.
class Stacks {
 public:
  static constexpr size_t kBytes = 128 << 10, kPage = 4096, kRecord = 192, kStagger = 32;
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() { release(); }

  void grow_to(unsigned n) {
    if (n <= n_) return;
    release();
    const size_t bytes = (n + 1) * kBytes;  // one more, to align the first
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) stop("no memory for the stacks of a block's threads");
    mapped_ = at, base_ = (reinterpret_cast<uintptr_t>(at) + kBytes - 1) & ~(kBytes - 1), n_ = n;
    for (unsigned i = 0; i < n; i++) mprotect(reinterpret_cast<void*>(base_ + i * kBytes), kPage, PROT_NONE);
  }
  const void* bottom(unsigned i) const { return reinterpret_cast<const void*>(base_ + i * kBytes); }
  void release() {
    if (n_) munmap(mapped_, (n_ + 1) * kBytes);
    n_ = 0;
  }

  static void* record_of(uintptr_t on_stack) {
    const uintptr_t slot = on_stack / kBytes;
    return reinterpret_cast<void*>((slot + 1) * kBytes - (slot % kStagger + 1) * kRecord);
  }
  void* record(unsigned i) const { return record_of(base_ + i * kBytes); }

  // Stack `i`, made to start at `entry`.
  void* start(unsigned i, void (*entry)()) const {
    void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(record(i)) - 8);  // as if it had been called
    *sp = nullptr;
    *--sp = reinterpret_cast<void*>(entry);
    return sp - 6;  // the registers that switch_stack takes; what is in them does not matter
  }

  bool hold(uintptr_t at) const { return at >= base_ && at < base_ + n_ * kBytes; }
  // Whether `at` is in the page below a stack.
  static bool overrun(uintptr_t at) { return at % kBytes < kPage; }

 private:
  void* mapped_ = nullptr;
  uintptr_t base_ = 0;
  unsigned n_ = 0;
};

}  // namespace host
