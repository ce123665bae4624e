// Streams, events and graphs: work that is asked for now and done later.
//
// What a device may do late is done as late as it may: a stream's work runs when someone waits for it, and no other
// stream's but what it waits for itself. So reading a result too early, reusing a pinned buffer too early, or a
// missing wait between streams shows each time, not once in a while.
#pragma once
#include <cuda.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace host {

// One recording of an event: a place in a stream's queue.
struct Mark {
  CUstream stream;
  bool done = false;
  std::chrono::steady_clock::time_point when = {};
};

// A piece of work. Either it does something, or it waits for a mark in another stream.
struct Op {
  std::function<void()> act;
  std::shared_ptr<Mark> after;
  int launches = 0;  // kernels that it starts
};

void run_until(CUstream stream, const Mark* mark);  // all of the stream's work where `mark` is null

}  // namespace host

struct CUgraph_st {
  std::vector<host::Op> ops;
};

struct CUgraphExec_st {
  std::vector<host::Op> ops;
  int device;
  uintptr_t memory = 0;  // what it takes of the device's, if anything
};

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  std::deque<host::Op> queue;
  bool asked = false;  // whether cuStreamQuery has said "not ready" since work was added

  // While its work is captured into a graph instead:
  std::unique_ptr<CUgraph_st> capture;
  CUstreamCaptureMode mode;
  std::thread::id captured_by;
  bool capture_broken = false;
};

struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<host::Mark> mark;  // null before it is recorded
  const CUgraph_st* capture = nullptr;  // the graph whose capture recorded it last
  bool asked = false;
};
