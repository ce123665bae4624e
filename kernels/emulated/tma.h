// The host's half of kernels/tma.cuh: mbarriers in shared memory that count arrivals and bytes, and TMA copies of tiles
// of a tensor into shared memory that complete them.
//
// A copy is done as late as possible: its destination is poisoned when it starts and written when no thread is runnable
// (other orders complete some copies earlier, and not in the order in which they were started). So a missing wait is
// detected, and so is a copy into a buffer that is still being read, or that is the destination of another copy.
//
// A wait that never ends is named as soon as no thread can run. The kernels' own bound (mbarrier_wait's trap) is PTX and
// measures time on the card: scripts/cuda/static.sh looks for it in the machine code.
#pragma once
#include <cuda.h>

#include "host.h"

namespace host {

// What cuTensorMapEncodeTiled writes, as the emulator lays it out. Rows of a tile are 128 bytes, and lie in shared
// memory under the swizzle of 128 bytes: all that the kernels use.
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

// A barrier: arrivals of a phase, arrivals and bytes that are pending, and the phase's
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

// After arrivals or bytes: ends the phase once none is pending.
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

// Bytes of a completed copy.
HOST_UNSEEN inline void complete_bytes(Block& block, uint64_t* at, size_t bytes, Site site) {
  PhaseBarrier b = PhaseBarrier::read(at);
  if (b.bytes < bytes) block.fail(site.text() + ": more bytes than the barrier expects");
  b.bytes -= bytes;
  settle_phase(block, at, b);
}

// The destination of a copy in flight, which no thread and no other copy may write.
HOST_UNSEEN inline void require_untouched(const Block& block, const unsigned char* at, size_t bytes, Site site) {
  if (!std::all_of(at, at + bytes, [](unsigned char v) { return v == 0xff; }))
    block.fail(site.text() + ": the destination of a copy in flight was written");
}

// One copy in flight.
struct TileCopy {
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

  HOST_UNSEEN void complete(Block& block) const {
    const Unseen unseen;
    unsigned index[TensorMap::kMostRanks] = {};
    require_untouched(block, to, bytes(), site);
    const size_t rows = bytes() / 128;
    for (size_t row = 0; row < rows; row++) {
      put_row(row, index);
      for (unsigned i = 1; i < map.rank && ++index[i] == map.box[i]; i++) index[i] = 0;
    }
    block.async_view.written_by_tma(to, bytes());
    complete_bytes(block, barrier, bytes(), site);
  }
};

// Poisons the destination of a copy that starts, until it completes.
inline void start_copy(Fiber& f, void* to, size_t bytes, uint64_t* barrier, Site site) {
  require_shared(f, to, bytes, site);
  barrier_at(f, barrier, site);
  std::memset(to, 0xff, bytes);
#ifdef HOST_TSAN
  __tsan_release(barrier);  // a thread that waits for it is ordered after this
#endif
}

inline void copy_tile(void* to, const CUtensorMap& map, uint64_t* barrier, std::initializer_list<int> at, Site site) {
  Fiber& f = self();
  TileCopy copy{decode(map), {}, static_cast<unsigned char*>(to), barrier, site};
  Block& block = *f.block;
  if (!f.awaited && f.copies_early != &map) block.fail(site.text() + ": a copy before await_earlier");
  if (copy.map.magic != TensorMap::kMagic) block.fail(site.text() + ": the map was not encoded");
  if (copy.map.rank != at.size()) block.fail(site.text() + ": the map has another number of dimensions");
  if (reinterpret_cast<uintptr_t>(to) % 1024) block.fail(site.text() + ": a tile not aligned to 1024 bytes");
  std::copy(at.begin(), at.end(), copy.at);
  start_copy(f, to, copy.bytes(), barrier, site);
  const Unseen unseen;
  block.later([copy](Block& b) { copy.complete(b); });
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
inline void copy_early(const CUtensorMap& map) { host::self().copies_early = &map; }
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, HOST_SITE) {
  host::copy_tile(to, map, barrier, {column, row}, {"tma_load", file, line});
}
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, int half, int eight,
                     HOST_SITE) {
  host::copy_tile(to, map, barrier, {column, row, half, eight}, {"tma_load", file, line});
}
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, int half, int eight, int head,
                     HOST_SITE) {
  host::copy_tile(to, map, barrier, {column, row, half, eight, head}, {"tma_load", file, line});
}
inline void tma_prefetch(const CUtensorMap&) {}
template <int N>
inline void registers_less(HOST_SITE) {
  host::only_aligned({"registers_less", file, line});
}
template <int N>
inline void registers_more(HOST_SITE) {
  host::only_aligned({"registers_more", file, line});
}
