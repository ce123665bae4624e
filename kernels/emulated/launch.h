// Launches a kernel: block after block, with fresh shared memory each.
//
// Shared memory starts as NaN (0xff). Dynamic shared memory lies between inaccessible pages, and what
// the kernel declares is thread-local storage of the module that this is compiled into.
#pragma once
#include <link.h>
#include <sys/mman.h>

#include <functional>

#include "block.h"

namespace host {

// The seed of the order of threads and blocks: TRIBUNAL_EMULATED_ORDER, 0 if it is not set. Tests may set it.
inline unsigned& order() {
  static unsigned seed = [] {
    const char* set = std::getenv("TRIBUNAL_EMULATED_ORDER");
    return set ? static_cast<unsigned>(std::strtoul(set, nullptr, 10)) : 0;
  }();
  return seed;
}

// Forces the module to have thread-local storage, and the calling CPU thread to have its own.
inline thread_local volatile unsigned char shared_anchor = 0;

// The calling CPU thread's storage of this module: its kernels' static shared memory.
inline Bytes static_shared() {
  struct Search {
    uintptr_t inside;
    Bytes found;
  };
  shared_anchor = 0;
  Search search{reinterpret_cast<uintptr_t>(&static_shared), {}};
  const auto look = [](dl_phdr_info* info, size_t, void* data) {
    Search& s = *static_cast<Search*>(data);
    const ElfW(Phdr)* tls = nullptr;
    bool here = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const ElfW(Phdr)& p = info->dlpi_phdr[i];
      if (p.p_type == PT_TLS) tls = &p;
      const uintptr_t start = info->dlpi_addr + p.p_vaddr;
      here |= p.p_type == PT_LOAD && s.inside >= start && s.inside < start + p.p_memsz;
    }
    if (here && tls) s.found = {static_cast<unsigned char*>(info->dlpi_tls_data), tls->p_memsz};
    return here ? 1 : 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

// Dynamic shared memory: ends at an inaccessible page, except for less than 128 bytes of a known pattern.
class DynamicShared {
 public:
  static constexpr size_t kMost = 256 << 10, kPage = 4096, kAlign = 128;
  static constexpr unsigned char kPattern = 0xa5;
  DynamicShared() { map(); }
  ~DynamicShared() { munmap(map_, kMost + 2 * kPage); }
  DynamicShared(const DynamicShared&) = delete;
  DynamicShared& operator=(const DynamicShared&) = delete;

  Bytes make(size_t bytes) {
#ifdef HOST_TSAN  // to which new memory is unused memory
    munmap(map_, kMost + 2 * kPage);
    map();
#endif
    unsigned char* const at = end() - padded(bytes);
    ASAN_UNPOISON_MEMORY_REGION(map_ + kPage, kMost);
    std::memset(at - kAlign, kPattern, kAlign);
    std::memset(at, 0xff, bytes);
    std::memset(at + bytes, kPattern, padded(bytes) - bytes);
    ASAN_POISON_MEMORY_REGION(map_ + kPage, at - map_ - kPage);
    ASAN_POISON_MEMORY_REGION(at + bytes, padded(bytes) - bytes);
    return {at, bytes};
  }
  bool overrun(Bytes shared) const {
    ASAN_UNPOISON_MEMORY_REGION(map_ + kPage, kMost);
    const auto touched = [](unsigned char v) { return v != kPattern; };
    return std::any_of(shared.at - kAlign, shared.at, touched) || std::any_of(shared.at + shared.n, end(), touched);
  }

 private:
  void map() {
    void* at = mmap(nullptr, kMost + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(static_cast<char*>(at) + kPage, kMost, PROT_READ | PROT_WRITE))
      stop("no memory for shared memory");
    map_ = static_cast<unsigned char*>(at);
  }
  unsigned char* end() const { return map_ + kPage + kMost; }
  static size_t padded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
  unsigned char* map_;
};

// A kernel's call on its grid.
struct Launch {
  dim3 grid, size;
  size_t dynamic_bytes;
  const std::function<void()>* kernel;  // calls its function with its arguments
  const char* name;
  bool early = false;  // it may start while the kernel before it runs
  size_t n_blocks() const { return size_t(grid.x) * grid.y * grid.z; }
  uint3 block_at(size_t i) const {
    return {unsigned(i % grid.x), unsigned(i / grid.x % grid.y), unsigned(i / (size_t(grid.x) * grid.y))};
  }
};

// What runs blocks one after another, on one CPU thread.
class Worker {
 public:
  void begin(const Launch& l, char* ends = nullptr, ReadOnlyCache* cache = nullptr) {
    block_.ends = ends, block_.cache = cache;
    block_.grid = l.grid, block_.size = l.size, block_.kernel = l.kernel, block_.kernel_name = l.name;
    block_.early = l.early;
    block_.statics = static_shared();
  }
  void run(const Launch& l, size_t i) {
    block_.dynamic = dynamic_.make(l.dynamic_bytes);
    block_.async_view.begin(block_.dynamic.at, block_.dynamic.n);
    std::memset(block_.statics.at, 0xff, block_.statics.n);
    block_.run(l.block_at(i), order());
    if (dynamic_.overrun(block_.dynamic)) block_.fail("a write outside dynamic shared memory");
  }
  const Block& block() const { return block_; }

 private:
  Block block_;
  DynamicShared dynamic_;
};

}  // namespace host

#include "team.h"

#include "crash.h"

namespace host {

// Runs every block of a kernel's grid.
inline void launch(const Launch& l) {
  const size_t threads = size_t(l.size.x) * l.size.y * l.size.z;
  if (threads == 0 || threads > 1024 || l.size.z > 64) stop("a block has 1 to 1024 threads, 64 at most in z");
  if (l.n_blocks() == 0 || l.grid.x > 0x7fffffff || l.grid.y > 65535 || l.grid.z > 65535)
    stop("a grid has at least one block, 65535 at most in y and z");
  if (l.dynamic_bytes > 227 << 10) stop("a block has 227 KiB of shared memory at most");
  Team::the().run(l);
}
inline void launch(dim3 grid, dim3 size, size_t dynamic_bytes, const std::function<void()>& kernel,
                   const char* name = "kernel", bool early = false) {
  launch({grid, size, dynamic_bytes, &kernel, name, early});
}

// For asynchronous copies and ldmatrix, whose addresses must be in shared memory.
inline void require_shared(const Fiber& f, const void* at, size_t bytes, Site site) {
  if (!f.block->dynamic.hold(at, bytes) && !f.block->statics.hold(at, bytes))
    f.block->fail(site.text() + ": the address is not in shared memory");
}

}  // namespace host
