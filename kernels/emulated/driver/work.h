// Streams, events and graphs: work that is asked for now and done later. ThreadSanitizer takes a stream for a thread, whose
// work comes after what its program had done when it asked for it, and after the marks that it waits for.
//
// A device works as late as possible: a stream's work runs when it is waited for, and no other
// stream's but what it waits for itself. So reading a result too early, reusing a pinned buffer too early, or a
// missing wait between streams shows each time, not once in a while.
#pragma once
#include <cuda.h>

#include "../fiber.h"

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
#ifdef HOST_TSAN
  std::shared_ptr<char> asked = {};  // stands for what came before it was asked for
#endif
};

void reach(Mark& mark);                             // the stream has come to it
void run_until(CUstream stream, const Mark* mark);  // all of the stream's work where `mark` is null
void seen(const std::shared_ptr<Mark>& mark);       // the program knows that it has been reached

}  // namespace host

// What one stream did in a capture. Its pieces of work come one after another; some wait for another lane's.
struct Lane {
  struct Node {
    host::Op op;          // nothing where it only waits
    size_t lane, before;  // waits until that lane has done so many nodes; its own lane where it waits for none
  };
  int device;
  std::vector<Node> nodes;
  std::vector<size_t> after;  // how many nodes of each lane come before whatever comes next here
};

struct CUgraph_st {
  std::vector<Lane> lanes;  // the first is that of the stream that the capture began in
  size_t works() const;     // nodes that do something
};

struct CUgraphExec_st {
  std::vector<Lane> lanes;
  std::vector<uintptr_t> memory = {};  // what it takes of its devices', if anything
};

namespace host {

// A capture: the streams that take part, each with a lane. It spreads to a stream that waits for an event of it.
struct Capture {
  CUgraph_st graph;
  std::vector<CUstream> streams;
  CUstreamCaptureMode mode;
  std::thread::id captured_by;
  bool broken = false, over = false;
};

}  // namespace host

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  std::deque<host::Op> queue;
  bool asked = false;  // whether cuStreamQuery has said "not ready" since work was added
#ifdef HOST_TSAN
  void* fiber = nullptr;  // its thread
  const void* blocks = this;  // whose blocks come one after another with its own: lanes of one device share
  ~CUstream_st() {
    if (fiber) __tsan_destroy_fiber(fiber);
  }
#endif

  // While its work is captured into a graph instead:
  std::shared_ptr<host::Capture> capture;
  size_t lane = 0;
};

struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<host::Mark> mark;  // null before it is recorded
  // The capture that recorded it last, and what comes before it there:
  std::shared_ptr<host::Capture> capture;
  size_t lane = 0;
  std::vector<size_t> after = {};
  bool asked = false;
};
