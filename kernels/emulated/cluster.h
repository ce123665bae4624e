// A cluster: blocks that run together on one CPU thread, and may reach each other's shared memory.
//
// When nobody of a block can run, its mates' threads do; in shuffled orders anybody of any block at any time. What is done
// late (Block::later) waits until nobody of the whole cluster can run.
#pragma once
#include "block.h"

namespace host {

struct Cluster {
  static constexpr unsigned kMost = 2;
  std::vector<Block*> blocks;  // by rank
  Rounds rounds;               // of the barrier of all their threads
  Dice dice = {0};

  // Readies the cluster whose first block is at `at`.
  void start(uint3 at, unsigned order) {
    backward_ = order == 1, shuffled_ = order > 1;
    dice.state = order * 0x100000001b3u + at.x + (uint64_t(at.y) << 24) + (uint64_t(at.z) << 48) + (uint64_t{1} << 63);
    for (Block* b : blocks) b->cluster = this, b->start(at, order), at.x++;
  }

  // Whose thread runs next, after one of `now`.
  Block& next(Block& now) {
    for (;;) {
      const auto can_run = [](const Block& b) { return b.first_ != nullptr; };
      if (!shuffled_ && can_run(now)) return now;
      if (Block* b = choose(can_run)) return *b;
      Block* const late = choose([](const Block& b) { return !b.later_.empty(); });
      if (!late) fail_waiting(now);
      late->do_one_later();
    }
  }

  // Lets all threads go once all that have not ended are at the cluster's barrier.
  void settle_barrier() {
    bool anyone = false;
    for (const Block* b : blocks) {
      if (b->ended()) continue;
      if (b->at_barrier_ != b->alive_ || !b->barrier_of_cluster_) return;
      anyone = true;
    }
    if (!anyone) return;
    rounds.n++;
    for (Block* b : blocks)
      if (!b->ended()) b->let_all_go();
  }

  bool ended() const {
    return std::all_of(blocks.begin(), blocks.end(), [](const Block* b) { return b->ended(); });
  }

 private:
  template <class Is>
  Block* choose(Is is) {
    const size_t n = blocks.size(), from = shuffled_ ? dice.next() % n : 0;
    for (size_t i = 0; i < n; i++) {
      Block* const b = blocks[backward_ ? n - 1 - i : (from + i) % n];
      if (is(*b)) return b;
    }
    return nullptr;
  }

  [[noreturn]] void fail_waiting(const Block& now) const {
    std::string where;
    for (const Block* b : blocks) where += "\n " + text("block", b->index) + b->waiting();
    now.fail("threads of a cluster wait for each other at different places:" + where);
  }

  bool backward_ = false, shuffled_ = false;
};

inline Block& Block::leader() { return cluster ? *cluster->blocks[0] : *this; }

inline Fiber* Block::next_of_cluster() { return cluster->next(*this).take_first(); }

// The block has ended. It stays as it is until its mates have, too.
inline void Block::leave_to_mates(Fiber& f) {
  if (!cluster->ended()) leave(f);
}

inline void Block::end_threads_of_cluster() {
  for (Block* b : cluster->blocks) b->end_threads();
}

inline void Block::all_are_there() {
  if (cluster && (ended() || barrier_of_cluster_)) return cluster->settle_barrier();
  let_all_go();
}

inline void Block::meet_cluster(Site site) {
  if (!cluster) return meet_all(site);
  Fiber& f = self();
  Rounds& rounds = cluster->rounds;
  char* const round = rounds.arrive();
  arrive_at_barrier(f, site, true);
  leave(f);
  Rounds::depart(round);
}

}  // namespace host
