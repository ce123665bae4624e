// The host's half of kernels/tma.cuh: barriers in shared memory that count arrivals and bytes, and copies of boxes of a
// tensor, and of bytes in a row, into shared memory that say to such a barrier when they have come; in a cluster also into a
// mate's.
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
  uint64_t count : 12, arrivals : 12, parity : 1;
  int64_t bytes : 38;  // below 0 where a mate's have come before the block has said to expect them
  uint64_t initialised : 1;
  static PhaseBarrier read(const uint64_t* at) {
    PhaseBarrier b;
    std::memcpy(&b, at, sizeof b);
    return b;
  }
  void write(uint64_t* at) const { std::memcpy(at, this, sizeof *this); }
};
static_assert(sizeof(PhaseBarrier) == 8);

HOST_UNSEEN inline PhaseBarrier read_barrier(Block& block, const uint64_t* at, Site site) {
  const Unseen unseen;
  if (reinterpret_cast<uintptr_t>(at) % 8) block.fail(site.text() + ": a barrier not aligned to 8 bytes");
  const PhaseBarrier b = PhaseBarrier::read(at);
  if (*at == ~uint64_t{0} || !b.initialised) block.fail(site.text() + ": the barrier was not initialised");
  return b;
}
HOST_UNSEEN inline PhaseBarrier barrier_at(Fiber& f, const uint64_t* at, Site site) {
  const Unseen unseen;
  require_shared(f, at, 8, site);
  return read_barrier(*f.block, at, site);
}

// After arrivals or bytes: ends the phase once both have come.
HOST_UNSEEN inline void settle_phase(Block& block, uint64_t* at, PhaseBarrier b, Site site) {
  const Unseen unseen;
  if (b.arrivals == 0 && b.bytes < 0) block.fail(site.text() + ": more bytes than the barrier expects");
  if (b.arrivals == 0 && b.bytes == 0) {
    b.parity ^= 1;
    b.arrivals = b.count;
    b.write(at);
    block.wake(at);
  } else {
    b.write(at);
  }
}

// At a barrier of `block`, the thread's own or a mate.
HOST_UNSEEN inline void arrive(Block& block, uint64_t* at, uint64_t bytes, Site site) {
#ifdef HOST_TSAN
  __tsan_release(at);
#endif
  const Unseen unseen;
  PhaseBarrier b = read_barrier(block, at, site);
  if (b.arrivals == 0) block.fail(site.text() + ": more arrivals than the barrier counts");
  b.arrivals--;
  b.bytes += bytes;
  settle_phase(block, at, b, site);
}
inline void arrive(uint64_t* at, uint64_t bytes, Site site) {
  Fiber& f = self();
  require_shared(f, at, 8, site);
  arrive(*f.block, at, bytes, site);
}

// Bytes that were on their way. A mate's may come first.
HOST_UNSEEN inline void have_come(Block& block, uint64_t* at, size_t bytes, bool from_mate, Site site) {
  PhaseBarrier b = PhaseBarrier::read(at);
  b.bytes -= bytes;
  if (b.bytes < 0 && !from_mate) block.fail(site.text() + ": more bytes than the barrier expects");
  settle_phase(block, at, b, site);
}

// Where bytes come, nobody has written since they were asked for: no thread, and no other copy.
HOST_UNSEEN inline void require_untouched(const Block& block, const unsigned char* at, size_t bytes, Site site) {
  const Unseen unseen;
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
  bool from_mate = false;

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
    have_come(block, barrier, bytes(), from_mate, site);
  }
};

// From now on what has been asked for is on its way to `to`, and not a number until it comes.
inline void set_out(Block& block, void* to, size_t bytes, uint64_t* barrier, Site site) {
  read_barrier(block, barrier, site);
  std::memset(to, 0xff, bytes);
#ifdef HOST_TSAN
  __tsan_release(barrier);  // who waits for it sees it come after that
#endif
}

// To the same place in each block of `ranks`, or to the thread's own block where that is 0.
inline void copy_box(void* to, const CUtensorMap& map, uint64_t* barrier, std::initializer_list<int> at, Site site,
                     unsigned ranks = 0) {
  Fiber& f = self();
  BoxCopy copy{decode(map), {}, static_cast<unsigned char*>(to), barrier, site};
  Block& block = *f.block;
  if (copy.map.magic != TensorMap::kMagic) block.fail(site.text() + ": the map was not encoded");
  if (copy.map.rank != at.size()) block.fail(site.text() + ": the map has another number of dimensions");
  if (reinterpret_cast<uintptr_t>(to) % 1024) block.fail(site.text() + ": a box not aligned to 1024 bytes");
  std::copy(at.begin(), at.end(), copy.at);
  require_shared(f, to, copy.bytes(), site);
  require_shared(f, barrier, 8, site);
  const auto ask = [&](Block& there) {
    BoxCopy part = copy;
    part.to = same_place(f, there, copy.to, copy.bytes(), site);
    part.barrier = same_place(f, there, barrier, 8, site);
    part.from_mate = &there != &block;
    set_out(there, part.to, part.bytes(), part.barrier, site);
    const Unseen unseen;
    there.later([part](Block& b) { part.bring(b); });
  };
  if (!ranks) return ask(block);
  for (unsigned rank = 0; ranks >> rank; rank++)
    if (ranks >> rank & 1) ask(mate_of(f, rank, site));
}

inline void copy_bytes(void* to, const void* from, size_t bytes, uint64_t* barrier, Site site) {
  Fiber& f = self();
  const auto odd = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 != 0; };
  if (odd(to) || odd(from) || bytes % 16 || !bytes)
    f.block->fail(site.text() + ": addresses or a number of bytes that are no multiples of 16");
  require_shared(f, to, bytes, site);
  require_shared(f, barrier, 8, site);
  set_out(*f.block, to, bytes, barrier, site);
  const Unseen unseen;
  f.block->later([=](Block& b) {
    const Unseen unseen;
    require_untouched(b, static_cast<const unsigned char*>(to), bytes, site);
    std::memcpy(to, from, bytes);
    have_come(b, barrier, bytes, false, site);
  });
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
namespace host {
inline void wait_at_barrier(uint64_t* at, unsigned parity, Site site) {
  Fiber& f = self();
  while (barrier_at(f, at, site).parity == parity) f.block->sleep(f, at, site);
#ifdef HOST_TSAN
  __tsan_acquire(at);
#endif
}
}  // namespace host
inline void mbarrier_wait(uint64_t* at, unsigned parity, HOST_SITE) {
  host::wait_at_barrier(at, parity, {"mbarrier_wait", file, line});
}
inline void mbarrier_wait_for_cluster(uint64_t* at, unsigned parity, HOST_SITE) {
  host::wait_at_barrier(at, parity, {"mbarrier_wait_for_cluster", file, line});
}
inline unsigned cluster_rank() {
  const host::Block& block = *host::self().block;
  return block.cluster ? block.index.x % block.cluster->blocks.size() : 0;
}
inline void cluster_sync(HOST_SITE) { host::self().block->meet_cluster({"cluster_sync", file, line}); }
inline void mbarrier_arrive_at(uint64_t* at, unsigned rank, HOST_SITE) {
  const host::Site site{"mbarrier_arrive_at", file, line};
  host::Fiber& f = host::self();
  host::require_shared(f, at, 8, site);
  host::Block& mate = host::mate_of(f, rank, site);
  host::arrive(mate, host::same_place(f, mate, at, 8, site), 0, site);
}
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, HOST_SITE) {
  host::copy_box(to, map, barrier, {column, row}, {"tma_load", file, line});
}
inline void tma_load(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, int half, int eight,
                     HOST_SITE) {
  host::copy_box(to, map, barrier, {column, row, half, eight}, {"tma_load", file, line});
}
inline void tma_load_to_cluster(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, unsigned short mask,
                                HOST_SITE) {
  host::copy_box(to, map, barrier, {column, row}, {"tma_load_to_cluster", file, line}, mask);
}
inline void tma_load_to_cluster(void* to, const CUtensorMap& map, uint64_t* barrier, int column, int row, int half, int eight,
                                unsigned short mask, HOST_SITE) {
  host::copy_box(to, map, barrier, {column, row, half, eight}, {"tma_load_to_cluster", file, line}, mask);
}
inline void bulk_load(void* to, const void* from, unsigned bytes, uint64_t* barrier, HOST_SITE) {
  host::copy_bytes(to, from, bytes, barrier, {"bulk_load", file, line});
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
