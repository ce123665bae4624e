// The host's half of kernels/tma.cuh: barriers in shared memory that count arrivals and bytes, and copies of boxes of a
// tensor into shared memory that say to such a barrier when they have come.
//
// What hardware may do late is done as late as it may: what is asked for is poison from that moment on until nobody
// can run without it (another order brings some earlier, and not in the order in which they were asked for). So a wait
// that is missing shows, and so does a copy into a buffer that others still read, or that another copy is on its way to.
#pragma once
#include <cuda.h>

#include "host.h"

namespace host {

// What cuTensorMapEncodeTiled writes, as the emulator lays it out. Rows of a box are 128 bytes, and lie in shared memory
// under the swizzle of 128 bytes: all that the kernels use.
struct TensorMap {
  static constexpr uint64_t kMagic = 0x70616d726f736e74u;
  static constexpr unsigned kMostRanks = 5;
  uint64_t magic, address;
  uint32_t rank, element_bytes;
  uint64_t sizes[kMostRanks];        // elements, the innermost first
  uint64_t strides[kMostRanks - 1];  // bytes from one to the next, of all but the innermost
  uint32_t box[kMostRanks];          // elements
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap), "it must fit");

inline CUtensorMap encode(const TensorMap& map) {
  CUtensorMap out{};
  std::memcpy(&out, &map, sizeof map);
  return out;
}
inline TensorMap decode(const CUtensorMap& map) {
  TensorMap out;
  std::memcpy(&out, &map, sizeof out);
  return out;
}

// A barrier: how many arrivals a phase takes, how many are still to come, bytes that are still to come, and the phase's
// parity. It stands in the barrier's own eight bytes.
struct PhaseBarrier {
  uint64_t count : 12, arrivals : 12, parity : 1, bytes : 38, initialised : 1;
  static PhaseBarrier read(const uint64_t* at) {
    PhaseBarrier b;
    std::memcpy(&b, at, sizeof b);
    return b;
  }
  void write(uint64_t* at) const { std::memcpy(at, this, sizeof *this); }
};
static_assert(sizeof(PhaseBarrier) == 8);

HOST_UNSEEN inline PhaseBarrier barrier_at(Fiber& f, const uint64_t* at, Site site) {
  const Unseen unseen;
  require_shared(f, at, 8, site);
  if (reinterpret_cast<uintptr_t>(at) % 8) f.block->fail(site.text() + ": a barrier not aligned to 8 bytes");
  const PhaseBarrier b = PhaseBarrier::read(at);
  if (*at == ~uint64_t{0} || !b.initialised) f.block->fail(site.text() + ": the barrier was not initialised");
  return b;
}

// After arrivals or bytes: ends the phase once both have come.
HOST_UNSEEN inline void settle_phase(Block& block, uint64_t* at, PhaseBarrier b) {
  const Unseen unseen;
  if (b.arrivals == 0 && b.bytes == 0) {
    b.parity ^= 1;
    b.arrivals = b.count;
    b.write(at);
    block.wake(at);
  } else {
    b.write(at);
  }
}

HOST_UNSEEN inline void arrive(uint64_t* at, uint64_t bytes, Site site) {
  Fiber& f = self();
#ifdef HOST_TSAN
  __tsan_release(at);
#endif
  const Unseen unseen;
  PhaseBarrier b = barrier_at(f, at, site);
  if (b.arrivals == 0) f.block->fail(site.text() + ": more arrivals than the barrier counts");
  b.arrivals--;
  b.bytes += bytes;
  settle_phase(*f.block, at, b);
}

// Bytes that were on their way.
HOST_UNSEEN inline void have_come(Block& block, uint64_t* at, size_t bytes, Site site) {
  PhaseBarrier b = PhaseBarrier::read(at);
  if (b.bytes < bytes) block.fail(site.text() + ": more bytes than the barrier expects");
  b.bytes -= bytes;
  settle_phase(block, at, b);
}

// Where bytes come, nobody has written since they were asked for: no thread, and no other copy.
HOST_UNSEEN inline void require_untouched(const Block& block, const unsigned char* at, size_t bytes, Site site) {
  if (!std::all_of(at, at + bytes, [](unsigned char v) { return v == 0xff; }))
    block.fail(site.text() + ": something else was written where it was still on its way to");
}

// One box on its way.
struct BoxCopy {
  TensorMap map;
  int at[TensorMap::kMostRanks];
  unsigned char* to;
  uint64_t* barrier;
  Site site;

  size_t bytes() const {
    size_t n = map.element_bytes;
    for (unsigned i = 0; i < map.rank; i++) n *= map.box[i];
    return n;
  }

  // Puts a row of 128 bytes, or zeros where it is outside of the tensor, to its place under the swizzle.
  HOST_UNSEEN void put_row(size_t row, const unsigned (&index)[TensorMap::kMostRanks]) const {
    bool inside = true;
    uint64_t from = map.address;
    for (unsigned i = 1; i < map.rank; i++) {
      const int64_t at_i = int64_t(at[i]) + index[i];
      inside &= at_i >= 0 && uint64_t(at_i) < map.sizes[i];
      from += at_i * map.strides[i - 1];
    }
    for (unsigned e = 0; e < map.box[0]; e++) {
      const int64_t column = int64_t(at[0]) + e;
      const bool there = inside && column >= 0 && uint64_t(column) < map.sizes[0];
      uintptr_t place = reinterpret_cast<uintptr_t>(to) + row * 128 + e * map.element_bytes;
      place ^= (place >> 7 & 7) << 4;
      auto* const out = reinterpret_cast<unsigned char*>(place);
      if (there)
        std::memcpy(out, reinterpret_cast<const unsigned char*>(from + column * map.element_bytes), map.element_bytes);
      else
        std::memset(out, 0, map.element_bytes);
    }
  }

  HOST_UNSEEN void bring(Block& block) const {
    const Unseen unseen;
    unsigned index[TensorMap::kMostRanks] = {};
    require_untouched(block, to, bytes(), site);
    const size_t rows = bytes() / 128;
    for (size_t row = 0; row < rows; row++) {
      put_row(row, index);
      for (unsigned i = 1; i < map.rank && ++index[i] == map.box[i]; i++) index[i] = 0;
    }
    have_come(block, barrier, bytes(), site);
  }
};

// From now on what has been asked for is on its way to `to`, and not a number until it comes.
inline void set_out(Fiber& f, void* to, size_t bytes, uint64_t* barrier, Site site) {
  require_shared(f, to, bytes, site);
  barrier_at(f, barrier, site);
  std::memset(to, 0xff, bytes);
#ifdef HOST_TSAN
  __tsan_release(barrier);  // who waits for it sees it come after that
#endif
}

inline void copy_box(void* to, const CUtensorMap& map, uint64_t* barrier, std::initializer_list<int> at, Site site) {
  Fiber& f = self();
  BoxCopy copy{decode(map), {}, static_cast<unsigned char*>(to), barrier, site};
  Block& block = *f.block;
  if (copy.map.magic != TensorMap::kMagic) block.fail(site.text() + ": the map was not encoded");
  if (copy.map.rank != at.size()) block.fail(site.text() + ": the map has another number of dimensions");
  if (reinterpret_cast<uintptr_t>(to) % 1024) block.fail(site.text() + ": a box not aligned to 1024 bytes");
  std::copy(at.begin(), at.end(), copy.at);
  set_out(f, to, copy.bytes(), barrier, site);
  const Unseen unseen;
  block.later([copy](Block& b) { copy.bring(b); });
}

}  // namespace host

inline void mbarrier_init(uint64_t* at, unsigned count, HOST_SITE) {
  host::require_shared(host::self(), at, 8, {"mbarrier_init", file, line});
  host::PhaseBarrier b{};
  b.count = b.arrivals = count;
  b.initialised = 1;
  b.write(at);
}
inline void mbarrier_publish() {}
inline void mbarrier_arrive(uint64_t* at, HOST_SITE) { host::arrive(at, 0, {"mbarrier_arrive", file, line}); }
inline void mbarrier_expect(uint64_t* at, unsigned bytes, HOST_SITE) {
  host::arrive(at, bytes, {"mbarrier_expect", file, line});
}
inline void mbarrier_wait(uint64_t* at, unsigned parity, HOST_SITE) {
  host::Fiber& f = host::self();
  const host::Site site{"mbarrier_wait", file, line};
  while (host::barrier_at(f, at, site).parity == parity) f.block->sleep(f, at, site);
#ifdef HOST_TSAN
  __tsan_acquire(at);
#endif
}
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, HOST_SITE) {
  host::copy_box(to, map, barrier, {column, row}, {"tma_load", file, line});
}
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, int half, int eight,
                     HOST_SITE) {
  host::copy_box(to, map, barrier, {column, row, half, eight}, {"tma_load", file, line});
}
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, int half, int eight, int head,
                     HOST_SITE) {
  host::copy_box(to, map, barrier, {column, row, half, eight, head}, {"tma_load", file, line});
}
inline void tma_prefetch(const CUtensorMap&) {}
template <int N>
inline void registers_less() {}
template <int N>
inline void registers_more() {}
