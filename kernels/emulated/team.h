// The CPU threads that share a launch's blocks. Which of them runs a block makes no difference to the block.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "launch.h"

namespace host {

void report_crashes();
void give_crash_stack();

class Team {
 public:
  static Team& the() {
    static Team& team = *new Team;  // never destroyed: its threads may outlive main
    return team;
  }

  // How many threads take part. One where nothing else is set, so that a test's own code may run inside a kernel.
  unsigned size = [] {
    const char* set = std::getenv("TRIBUNAL_EMULATED_THREADS");
    return set ? std::max(1u, static_cast<unsigned>(std::strtoul(set, nullptr, 10))) : 1;
  }();

#ifdef HOST_TSAN
  // Identifies the stream of a launch: launches of one stream are ordered, others need not be.
  const void* stream = nullptr;
#endif

  void run(const Launch& l) {
#ifndef HOST_TSAN  // which would take it for an order of the streams
    std::lock_guard<std::mutex> one_launch(launching_);
#endif
    report_crashes();
    Job job{l, order_of_blocks(l.n_blocks()), {0}};
#ifdef HOST_TSAN
    of_stream_[stream].cache.begin(l.early);
#endif
    const bool shared = size > 1 && job.blocks.size() >= 4;
    if (shared) invite(job);
    work(own_, job);
    if (shared) see_off();
#ifdef HOST_TSAN
    __tsan_acquire(&of_stream_[stream].ended);
#endif
  }

  // The worker on whose stacks `at` is, if any: for reports of a crash.
  const Block* block_at(uintptr_t at) const {
    if (own_.block().holds(at)) return &own_.block();
    for (const auto& w : helpers_)
      if (w->block().holds(at)) return &w->block();
    return nullptr;
  }

 private:
  struct Job {
    const Launch& launch;
    std::vector<size_t> blocks;  // in the order in which they start
    std::atomic<size_t> next;
  };

  static std::vector<size_t> order_of_blocks(size_t n) {
    std::vector<size_t> blocks(n);
    for (size_t i = 0; i < n; i++) blocks[i] = order() == 1 ? n - 1 - i : i;
    if (order() > 1) Dice{order()}.shuffle(blocks.data(), n);
    return blocks;
  }

  void work(Worker& w, Job& job) {
    give_crash_stack();
    w.begin(job.launch);
    for (size_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.blocks.size();) {
#ifdef HOST_TSAN
      run_apart(job.launch, job.blocks[i]);
#else
      w.run(job.launch, job.blocks[i]);
#endif
    }
  }

#ifdef HOST_TSAN
  // For ThreadSanitizer nothing orders the blocks of a launch: neighbours have threads and shared memory of their own,
  // and only the launch's end waits for them all. The CPU thread is new so that its storage is.
  void run_apart(const Launch& l, size_t i) {
    done_ = 0;
    OfStream& own = of_stream_[stream];
    std::thread([this, l, i, &own] {
      const Unseen unseen;
      Worker& w = own.apart[own.blocks_run++ % kApart];
      w.begin(l, &own.ended, &own.cache);
      w.run(l, i);
      set_done();
    }).detach();
    wait_until_done();
  }
  // By system call, or ThreadSanitizer would take it for an order.
  HOST_UNSEEN void set_done() {
    done_ = 1;
    syscall(SYS_futex, &done_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  HOST_UNSEEN void wait_until_done() {
    while (!done_) syscall(SYS_futex, &done_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  }
  static constexpr unsigned kApart = 2;
  struct OfStream {
    Worker apart[kApart];
    unsigned long blocks_run = 0;
    char ended = 0;
    ReadOnlyCache cache;
  };
  std::map<const void*, OfStream> of_stream_;
  volatile int done_ = 0;
#endif

  void invite(Job& job) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (; helpers_.size() + 1 < size;) {
      helpers_.push_back(std::make_unique<Worker>());
      std::thread(&Team::help, this, std::ref(*helpers_.back())).detach();
    }
    job_ = &job, round_++;
    invited_.notify_all();
  }
  void see_off() {
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = nullptr;
    left_.wait(lock, [&] { return busy_ == 0; });
  }
  void help(Worker& w) {
    unsigned long seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      invited_.wait(lock, [&] { return job_ && round_ != seen; });
      Job& job = *job_;
      seen = round_, busy_++;
      lock.unlock();
      work(w, job);
      lock.lock();
      if (--busy_ == 0) left_.notify_all();
    }
  }

  std::mutex launching_, mutex_;
  std::condition_variable invited_, left_;
  Worker own_;
  std::vector<std::unique_ptr<Worker>> helpers_;
  Job* job_ = nullptr;
  unsigned long round_ = 0;
  unsigned busy_ = 0;
};

}  // namespace host
