// A thread's asynchronous copies into shared memory (cp.async). What hardware may do late is done as late as it may:
// a copy's bytes arrive at the wait that it has to arrive at, and until then its destination is poisoned. So a wait
// that is missing shows, and so does a copy into a buffer that others still read.
#pragma once
#include <cstring>
#include <vector>

#include "fiber.h"

namespace host {

struct alignas(16) Chunk {
  uint32_t words[4];
};
constexpr Chunk kPoison = {{~0u, ~0u, ~0u, ~0u}};  // NaN in f32, bf16 and f16

class AsyncCopies {
 public:
  void add(void* to, const void* from, bool valid) {
    if (reinterpret_cast<uintptr_t>(to) % 16 || (valid && reinterpret_cast<uintptr_t>(from) % 16))
      stop("cp_async_16: an address that is not a multiple of 16");
    *static_cast<Chunk*>(to) = kPoison;
    pending_.push_back({static_cast<Chunk*>(to), valid ? static_cast<const Chunk*>(from) : nullptr, group_});
  }
  void commit() { group_++; }
  // Until at most `left` committed groups are on their way. Copies that were never committed stay on theirs. `arrived`
  // takes each destination.
  template <typename F>
  void wait(unsigned left, F arrived) {
    size_t n = 0;
    for (; n < pending_.size() && pending_[n].group + left < group_; n++) {
      *pending_[n].to = pending_[n].from ? *pending_[n].from : Chunk{};
      arrived(pending_[n].to);
    }
    pending_.erase(pending_.begin(), pending_.begin() + n);
  }
  void clear() { pending_.clear(), group_ = 0; }

 private:
  struct Copy {
    Chunk* to;
    const Chunk* from;
    unsigned group;
  };
  std::vector<Copy> pending_;
  unsigned group_ = 0;
};

}  // namespace host
