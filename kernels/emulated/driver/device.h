// The emulated devices, and what every function of the driver does first: lock, find the current device, and fail
// if it is lost.
#pragma once
#include <cuda.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "memory.h"
#include "settings.h"
#include "work.h"

struct CUctx_st {
  int device;
};

namespace host {

struct Device {
  int index;
  CUctx_st context;            // the primary one
  int retained = 0;            // by cuDevicePrimaryCtxRetain
  unsigned flags = 0;          // of the context
  long launches = 0;
  bool lost = false;
  CUstream_st null_stream, thread_stream;  // what handles 0 and 1 mean, and what 2 means
  std::set<CUstream> streams;
  std::vector<std::unique_ptr<CUstream_st>> lanes;  // of graphs that were launched
  std::set<CUevent> events;
  std::set<int> peers;              // devices whose memory its kernels may touch
  std::set<uintptr_t> freed_later;  // cuMemFreeAsync was called and not executed yet
  uint64_t pool_threshold = 0;
};

// A card's limits by compute capability.
struct Limits {
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  size_t shared_per_multiprocessor, shared_per_block_optin;
  int multiprocessors;
};
const Limits& limits();
constexpr size_t kSharedPerBlock = 48 << 10, kSharedReserved = 1 << 10;

struct Driver {
  std::mutex mutex;
  bool initialized = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<uintptr_t, size_t> pinned;  // host memory from cuMemHostAlloc: where it starts, bytes
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> graph_execs;
  std::set<CUmodule> modules;
};
Driver& driver();

Device* current_device();
void set_current(CUcontext context);
CUcontext current_context();
Device* device_of(CUdevice ordinal);  // null where there is none

// Says on stderr why a call fails, and returns its code.
CUresult refuse(const char* function, const std::string& why, CUresult code);

// A call that needs no context.
template <typename F>
CUresult globally(F body) {
  std::lock_guard<std::mutex> lock(driver().mutex);
  if (!driver().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return body();
}

// A call in the current context. No such call succeeds once the device is lost.
template <typename F>
CUresult on_device(F body) {
  return globally([&]() -> CUresult {
    Device* device = current_device();
    if (!device) return CUDA_ERROR_INVALID_CONTEXT;
    if (device->lost) return CUDA_ERROR_ILLEGAL_ADDRESS;
    return body(*device);
  });
}

// A call on a stream.
template <typename F>
CUresult on_stream(CUstream handle, F body) {
  return on_device([&](Device& device) -> CUresult {
    CUstream stream = handle;
    if (!stream || stream == CU_STREAM_LEGACY) stream = &device.null_stream;
    if (handle == CU_STREAM_PER_THREAD) stream = &device.thread_stream;
    const bool own = stream == &device.null_stream || stream == &device.thread_stream;
    if (!own && !device.streams.count(stream)) return CUDA_ERROR_INVALID_HANDLE;
    // Streams that were not made with CU_STREAM_NON_BLOCKING wait for the null stream and it for them: one queue.
    if (!own && !(stream->flags & CU_STREAM_NON_BLOCKING) && !stream->capture) stream = &device.null_stream;
    return body(device, *stream);
  });
}

// Queues work, or adds it to the graph that the stream is being captured into. With a seed, some streams then do some of
// what they have.
void add_work(CUstream_st& stream, Op op);
// Queues a graph: each lane on its device, from when the stream comes to it; the stream goes on behind all of them.
void start_graph(CUstream_st& stream, const std::vector<Lane>& lanes);
void run_everything(Device& device);

// Whether the device survives one more launch. One that does not loses all work it still had.
bool count_launch(Device& device);

// A call that waits, or that frees what running work may use, cannot be captured: it spoils the capture.
CUresult refuse_in_capture(Device& device, const char* function);

}  // namespace host
