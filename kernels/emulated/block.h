// A block of threads: who runs, who waits for whom, and what happens when all do.
//
// A thread (a fiber) runs until it reaches a barrier of the block or a collective of its warp (shuffle, vote, mma). It
// then yields to the next runnable thread; the last thread to arrive executes the collective for all and makes them
// runnable. So each run is deterministic, and a divergent barrier is detected immediately as a deadlock.
//
// The order of threads, and of runnable threads in the queue, follows a seed: 0 forward, 1 backward, others shuffled. A
// kernel with a race gives other results in another order, or a report of ThreadSanitizer.
#pragma once
#include <vector_types.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "async.h"
#include "cached.h"
#include "dice.h"
#include "fiber.h"
#include "proxy.h"

namespace host {

// Where in the kernel a thread waits, and for what.
struct Site {
  const char *what, *file;
  int line;
  bool operator==(const Site& o) const { return line == o.line && same(what, o.what) && same(file, o.file); }
  static bool same(const char* a, const char* b) { return a == b || !std::strcmp(a, b); }
  std::string text() const { return std::string(what) + " at " + file + ":" + std::to_string(line); }
};

// A range of memory.
struct Bytes {
  unsigned char* at = nullptr;
  size_t n = 0;
  bool hold(const void* from, size_t bytes) const { return from >= at && static_cast<const unsigned char*>(from) + bytes <= at + n; }
};

class Block;
class Products;
struct Warp;

struct Fiber {
  void* sp;
  Fiber* next;  // in the queue of those that can run, or in its warp's chain
  Warp* warp;
  Block* block;
  uint3 thread;
  unsigned lane, index;
  Site site;
  bool ended;
  bool awaited;  // it has waited for the kernels before its own (await_earlier)
  const void* copies_early;  // a map (copy_early)
  AsyncCopies copies;
  void* tsan;
  const void* stack;  // its lowest address; known of the CPU thread's own once it has been left
  size_t stack_bytes;
};
static_assert(sizeof(Fiber) <= Stacks::kRecord, "a fiber's record must fit above its stack");

// The thread that calls.
inline Fiber& self() {
  return *static_cast<Fiber*>(Stacks::record_of(reinterpret_cast<uintptr_t>(__builtin_frame_address(0))));
}

// Executes a collective once all lanes have arrived: `requests[lane]` is the request of each.
using Together = void (*)(void* const* requests, unsigned lanes);

// A collective of the lanes in `mask`. Disjoint parts of a warp may be in different collectives at the same time.
struct Collective {
  unsigned mask = 0, arrived = 0;
  Together together = nullptr;
  Site site = {};  // of the lane that arrived last
};

// A barrier as ThreadSanitizer sees it: writes before it are visible after it. Rounds alternate between two addresses,
// so that a late thread acquires nothing from one that is already at the next barrier.
struct Rounds {
  char at[2] = {};
  unsigned n = 0;
#ifdef HOST_TSAN
  HOST_UNSEEN char* arrive() {
    __tsan_release(&at[n % 2]);
    return &at[n % 2];
  }
  static void depart(char* from) { __tsan_acquire(from); }
#else
  char* arrive() { return nullptr; }
  static void depart(char*) {}
#endif
};

struct Warp {
  unsigned present = 0, alive = 0;  // the lanes it was started with, and those of them that have not ended
  Collective whole{~0u};
  std::vector<Collective> parts;
  void* requests[32];
  Fiber* lanes[32];
  uint8_t order[32];
  Rounds rounds;
  std::shared_ptr<Products> products;  // of wgmma; null until its first instruction
  bool products_in_flight = false;
  bool chained = false;  // each present lane's `next` is the one after it in the order
};

class Block {
 public:
  dim3 grid, size;
  uint3 index;
  const char* kernel_name = "kernel";
  const std::function<void()>* kernel = nullptr;
  bool early = false;  // the kernel was told to start before the one before it has ended
  AsyncView async_view;
  Bytes dynamic, statics;  // the block's shared memory: what the launch asked for, what the kernel declares

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs every thread of the block at `at` to its end; `order` is the seed.
  void run(uint3 at, unsigned order);

  // Called by threads.
  void sync_block(Site site);
  void collective(Fiber& f, unsigned mask, Together together, void* request, Site site);
  // An instruction that is `.aligned` in PTX: all 32 lanes execute it, at one place in the source. A lane that skips it in one
  // turn of a loop and executes it in the next is found by the number of its calls only, when it ends or is elsewhere.
  void aligned(Fiber& f, Together together, void* request, Site site);
  [[noreturn]] void end(Fiber& f);
  [[noreturn]] void fail(const std::string& why) const;

  // For ThreadSanitizer: addresses that order a block's threads after the launch, and the launch's end after all
  // blocks.
  char* starts() { return &starts_; }
  char* ends = nullptr;
  ReadOnlyCache* cache = nullptr;  // under ThreadSanitizer

  // A thread waits at a barrier in shared memory, until `wake` of that barrier.
  void sleep(Fiber& f, const void* at, Site site);
  void wake(const void* at);
  // Work of no thread (a copy in flight), done at the latest when no thread is runnable.
  void later(std::function<void(Block&)> work);

  bool holds(uintptr_t on_stack) const { return stacks_.hold(on_stack); }

 private:
  static void thread();
  void start_threads();
  void set_order(unsigned order);
  Collective& part_of(Warp& w, unsigned mask);
  void do_together(Warp& w, Collective& m, Site site);
  [[noreturn]] void fail_left_behind(const Warp& w, const Collective& m) const;
  void leave(Fiber& f);
  Fiber* next_to_run();
  void arrive(Fiber& f, unsigned mask, Together together, void* request, Site site, bool aligned = false);
  void arrive_at_barrier(Fiber& f, Site site);
  void take_leave(Fiber& f);
  void let_go(Warp& w, unsigned lanes);
  void let_all_go();
  void chain(Warp& w);
  void queue(Fiber* first, Fiber* last, bool in_front);
  [[noreturn]] void fail_waiting() const;
  void do_one_later();

  struct Sleeper {
    const void* at;
    Fiber* fiber;
  };
  std::vector<Sleeper> sleepers_;
  std::vector<std::function<void(Block&)>> later_;

  Stacks stacks_;
  std::vector<Fiber*> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> warp_order_;
  Fiber *first_ = nullptr, *last_ = nullptr;  // the queue of those that can run
  unsigned n_ = 0, alive_ = 0, at_barrier_ = 0;
  bool shuffled_ = false;
  Rounds rounds_;
  char starts_ = 0;
  Site barrier_ = {};
  Dice dice_ = {0};
  Fiber main_ = {};  // where run() stands
  std::vector<void*> tsan_fibers_;
};

inline void switch_to(Fiber& from, Fiber& to) {
#ifdef HOST_TSAN
  __tsan_switch_to_fiber(to.tsan, 1);  // 1: nothing is ordered by it
#endif
#ifdef HOST_ASAN
  void* frames = nullptr;
  __sanitizer_start_switch_fiber(from.ended ? nullptr : &frames, to.stack, to.stack_bytes);
#endif
  switch_stack(&from.sp, to.sp);
#ifdef HOST_ASAN
  __sanitizer_finish_switch_fiber(frames, nullptr, nullptr);
#endif
}

// Switches to the next runnable thread, until `f` is made runnable.
inline void Block::leave(Fiber& f) {
  Fiber* const to = next_to_run();
  if (to != &f) switch_to(f, *to);
}

inline Fiber* Block::next_to_run() {
  const Unseen unseen;
  while (!first_ && !later_.empty()) do_one_later();
  Fiber* const to = first_;
  if (!to) fail_waiting();
  first_ = to == last_ ? nullptr : to->next;
  return to;
}

inline void Block::queue(Fiber* first, Fiber* last, bool in_front) {
  if (!first_)
    first_ = first, last_ = last;
  else if (in_front)
    last->next = first_, first_ = first;
  else
    last_->next = first, last_ = last;
}

// Links the lanes of a whole warp in its order, so that letting them go costs nothing more.
inline void Block::chain(Warp& w) {
  Fiber* before = nullptr;
  for (const uint8_t lane : w.order) {
    if (!(w.present >> lane & 1)) continue;
    if (before) before->next = w.lanes[lane];
    before = w.lanes[lane];
  }
  w.chained = true;
}

inline void Block::let_go(Warp& w, unsigned lanes) {
  const bool in_front = !shuffled_ || dice_.next() % 2;
  if (lanes == w.present) {
    if (shuffled_ && dice_.next() % 4 == 0) dice_.shuffle(w.order, 32), w.chained = false;
    if (!w.chained) chain(w);
    unsigned first = 0, last = 31;
    while (!(lanes >> w.order[first] & 1)) first++;
    while (!(lanes >> w.order[last] & 1)) last--;
    return queue(w.lanes[w.order[first]], w.lanes[w.order[last]], in_front);
  }
  w.chained = false;
  Fiber *first = nullptr, *last = nullptr;
  for (const uint8_t lane : w.order) {
    if (!(lanes >> lane & 1)) continue;
    (last ? last->next : first) = w.lanes[lane];
    last = w.lanes[lane];
  }
  queue(first, last, in_front);
}

inline void Block::sleep(Fiber& f, const void* at, Site site) {
  {
    const Unseen unseen;
    f.site = site;
    sleepers_.push_back({at, &f});
  }
  leave(f);
}

inline void Block::wake(const void* at) {
  const auto asleep = std::stable_partition(sleepers_.begin(), sleepers_.end(), [&](const Sleeper& s) { return s.at != at; });
  std::vector<Sleeper> awake(asleep, sleepers_.end());
  sleepers_.erase(asleep, sleepers_.end());
  if (shuffled_) dice_.shuffle(awake.data(), awake.size());
  for (const Sleeper& s : awake) {
    s.fiber->warp->chained = false;
    queue(s.fiber, s.fiber, false);
  }
}

// In the order in which they were asked for; under a shuffled order any of them, and now and then at once.
inline void Block::later(std::function<void(Block&)> work) {
  later_.push_back(std::move(work));
  if (shuffled_ && dice_.next() % 4 == 0) do_one_later();
}

inline void Block::do_one_later() {
  const size_t i = shuffled_ ? dice_.next() % later_.size() : 0;
  const std::function<void(Block&)> work = std::move(later_[i]);
  later_.erase(later_.begin() + i);
  work(*this);
}

inline void Block::let_all_go() {
  at_barrier_ = 0;
  rounds_.n++;
  if (shuffled_) dice_.shuffle(warp_order_.data(), warp_order_.size());
  for (const unsigned w : warp_order_) {
    Warp& warp = warps_[w];
    if (!warp.alive) continue;
    if (warp.alive != warp.present)
      fail("some threads of warp " + std::to_string(w) + " have ended, others are at " + barrier_.text());
    if (!warp.chained) chain(warp);
    unsigned first = 0, last = 31;
    while (!(warp.alive >> warp.order[first] & 1)) first++;
    while (!(warp.alive >> warp.order[last] & 1)) last--;
    queue(warp.lanes[warp.order[first]], warp.lanes[warp.order[last]], false);
  }
}

inline void Block::sync_block(Site site) {
  Fiber& f = self();
  char* const round = rounds_.arrive();
  arrive_at_barrier(f, site);
  leave(f);
  Rounds::depart(round);
}

inline void Block::arrive_at_barrier(Fiber& f, Site site) {
  const Unseen unseen;
  f.site = site;
  if (at_barrier_ && !(barrier_ == site))
    fail("threads of a block are at different barriers: " + barrier_.text() + ", " + site.text());
  barrier_ = site;
  if (++at_barrier_ == alive_) let_all_go();
}

inline void Block::collective(Fiber& f, unsigned mask, Together together, void* request, Site site) {
  arrive(f, mask, together, request, site);
  leave(f);
}

inline void Block::aligned(Fiber& f, Together together, void* request, Site site) {
  if (f.warp->present != ~0u) fail(site.text() + ": the warp has less than 32 lanes");
  arrive(f, ~0u, together, request, site, true);
  leave(f);
}

inline void Block::arrive(Fiber& f, unsigned mask, Together together, void* request, Site site, bool aligned) {
  const Unseen unseen;
  Warp& w = *f.warp;
  Collective& m = mask == ~0u ? w.whole : part_of(w, mask);
  if (!(mask >> f.lane & 1)) fail(site.text() + ": lane " + std::to_string(f.lane) + " is not in its own mask");
  if (m.arrived && (m.together != together || (aligned && !(m.site == site))))
    fail(site.text() + ": other lanes of the warp are in " + m.site.text());
  f.site = m.site = site;
  m.together = together;
  m.arrived |= 1u << f.lane;
  w.requests[f.lane] = request;
  if (m.arrived == (mask & w.alive)) do_together(w, m, site);
}

inline void Block::do_together(Warp& w, Collective& m, Site site) {
  const unsigned lanes = std::exchange(m.arrived, 0);
  if (lanes != (m.mask & w.present)) fail(site.text() + ": lanes of its mask have ended");
  m.together(w.requests, lanes);
  let_go(w, lanes);
}

inline void Block::fail_left_behind(const Warp& w, const Collective& m) const {
  fail(w.lanes[__builtin_ctz(m.arrived)]->site.text() + ": lanes of its mask have ended");
}

inline Collective& Block::part_of(Warp& w, unsigned mask) {
  Collective* free = nullptr;
  for (Collective& m : w.parts) {
    if (m.mask == mask) return m;
    if (!m.arrived) free = &m;
  }
  if (!free) free = &w.parts.emplace_back();
  free->mask = mask;
  return *free;
}

// The calling thread's last call. A barrier goes on without a warp that has ended whole; a warp's other operations do
// not go on without a lane (CUDA would let them, but then a lane reads an undefined value).
inline void Block::end(Fiber& f) {
  take_leave(f);
  if (alive_) leave(f);
  if (!later_.empty()) fail("the block has ended, and copies into its shared memory are still on their way");
  switch_to(f, main_);
  std::abort();
}

inline void Block::take_leave(Fiber& f) {
#ifdef HOST_TSAN
  __tsan_release(ends);
#endif
  const Unseen unseen;
  Warp& w = *f.warp;
  if (early && !f.awaited)
    fail("thread " + std::to_string(f.index) + " has ended without await_earlier, and the kernel was started early");
  if (w.products_in_flight) fail("thread " + std::to_string(f.index) + " has ended, and products are on their way (wgmma_wait)");
  f.ended = true;
  f.copies.clear();
  w.alive &= ~(1u << f.lane);
  w.chained = false;
  alive_--;
  for (const Collective& m : w.parts)
    if (m.arrived && m.mask >> f.lane & 1) fail_left_behind(w, m);
  if (w.whole.arrived) fail_left_behind(w, w.whole);
  if (at_barrier_ && at_barrier_ == alive_) let_all_go();
}

inline void Block::set_order(unsigned order) {
  shuffled_ = order > 1;
  dice_.state = order * 0x100000001b3u + index.x + (uint64_t(index.y) << 24) + (uint64_t(index.z) << 48);
  warp_order_.resize(warps_.size());
  for (unsigned i = 0; i < warp_order_.size(); i++) warp_order_[i] = order == 1 ? warps_.size() - 1 - i : i;
  for (Warp& w : warps_) {
    for (unsigned lane = 0; lane < 32; lane++) w.order[lane] = order == 1 ? 31 - lane : lane;
    if (shuffled_) dice_.shuffle(w.order, 32);
  }
}

inline void Block::thread() {
  Fiber& f = self();
#ifdef HOST_ASAN
  Fiber& main = f.block->main_;
  const bool first = !main.stack;  // who runs first is switched to from there
  __sanitizer_finish_switch_fiber(nullptr, first ? &main.stack : nullptr, first ? &main.stack_bytes : nullptr);
#endif
  Rounds::depart(f.block->starts());
  (*f.block->kernel)();
  f.block->end(f);
}

inline void Block::start_threads() {
  n_ = size.x * size.y * size.z;
  stacks_.grow_to(n_);
  fibers_.resize(n_);
  warps_.assign((n_ + 31) / 32, Warp());
  for (unsigned i = 0; i < n_; i++) {
    Fiber* f = fibers_[i] = new (stacks_.record(i)) Fiber{};
    f->index = i, f->lane = i % 32, f->block = this, f->warp = &warps_[i / 32];
    f->thread = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    f->sp = stacks_.start(i, thread);
    f->stack = stacks_.bottom(i), f->stack_bytes = Stacks::kBytes;
    ASAN_UNPOISON_MEMORY_REGION(stacks_.bottom(i), Stacks::kBytes);  // an ended thread never left its last functions
    f->warp->present = f->warp->alive |= 1u << f->lane;
    f->warp->lanes[f->lane] = f;
#ifdef HOST_TSAN
    while (tsan_fibers_.size() <= i) tsan_fibers_.push_back(__tsan_create_fiber(0));  // they take long to make
    f->tsan = tsan_fibers_[i];
#endif
  }
}

inline void Block::run(uint3 at, unsigned order) {
  const Unseen unseen;
  index = at;
  start_threads();
  set_order(order);
  alive_ = n_;
  first_ = last_ = nullptr;
  let_all_go();
#ifdef HOST_TSAN
  main_.tsan = __tsan_get_current_fiber();
  __tsan_release(starts());
#endif
  main_.stack = nullptr;
  leave(main_);
  for (unsigned i = 0; i < n_; i++) fibers_[i]->~Fiber();
}

inline std::string text(const char* what, uint3 at) {
  char out[64];
  std::snprintf(out, sizeof out, "%s (%u, %u, %u)", what, at.x, at.y, at.z);
  return out;
}

// Ends the program: what is wrong, in which kernel and block.
inline void Block::fail(const std::string& why) const {
  stop((std::string(kernel_name) + ", " + text("block", index) + ": " + why).c_str());
}

inline void Block::fail_waiting() const {
  std::string where;
  const auto state = [&](unsigned i) { return fibers_[i]->ended ? std::string("have ended") : "wait in " + fibers_[i]->site.text(); };
  for (unsigned i = 0, end; i < n_; i = end) {
    for (end = i + 1; end < n_ && state(end) == state(i);) end++;
    where += "\n  threads " + std::to_string(i) + " to " + std::to_string(end - 1) + " " + state(i);
  }
  fail("threads wait for each other at different places:" + where);
}

}  // namespace host
