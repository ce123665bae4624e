// The driver's functions about streams, events, capture and graphs.
#include <algorithm>
#include <utility>

#include "device.h"

using namespace host;

namespace {

constexpr unsigned kEventFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

template <typename F>
CUresult on_event(CUevent event, F body) {
  return on_device([&](Device& device) -> CUresult {
    return device.events.count(event) ? body(device) : CUDA_ERROR_INVALID_HANDLE;
  });
}

}  // namespace

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return on_device([&](Device& device) {
    if (flags & ~unsigned(CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
    *stream = new CUstream_st{};
    (*stream)->device = device.index, (*stream)->flags = flags, (*stream)->priority = priority;
    device.streams.insert(*stream);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}
CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  return on_device([&](Device& device) {
    if (!device.streams.count(stream)) return CUDA_ERROR_INVALID_HANDLE;
    run_until(stream, nullptr);
    device.streams.erase(stream);
    delete stream;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuStreamSynchronize")) return captured;
    run_until(&stream, nullptr);
    return CUDA_SUCCESS;
  });
}
// The first question after new work is answered "not ready", so that what a caller does then is done.
CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuStreamQuery")) return captured;
    if (!stream.queue.empty() && !stream.asked) {
      stream.asked = true;
      return CUDA_ERROR_NOT_READY;
    }
    run_until(&stream, nullptr);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int* priority) {
  return on_stream(handle, [&](Device&, CUstream_st& stream) {
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return on_stream(handle, [&](Device&, CUstream_st& stream) {
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  return on_stream(handle, [&](Device&, CUstream_st& stream) {
    add_work(stream, {[=] { function(argument); }, nullptr});
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned flags) {
  return on_device([&](Device& device) {
    if (flags & ~kEventFlags) return CUDA_ERROR_INVALID_VALUE;
    *event = new CUevent_st{};
    (*event)->device = device.index, (*event)->flags = flags;
    device.events.insert(*event);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventDestroy(CUevent event) {
  return on_event(event, [&](Device& device) {
    device.events.erase(event);
    delete event;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventRecord(CUevent event, CUstream handle) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (!device.events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    event->capture = stream.capture.get();
    event->asked = false;
    if (stream.capture) return CUDA_SUCCESS;  // marks a place in the graph, which is one row of work
    const auto mark = std::make_shared<Mark>(Mark{&stream});
    event->mark = mark;
    add_work(stream, {[mark] { mark->done = true, mark->when = std::chrono::steady_clock::now(); }, nullptr});
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}
// The event may be another device's.
CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  return on_stream(handle, [&](Device&, CUstream_st& stream) -> CUresult {
    const auto& all = driver().devices;
    if (std::none_of(all.begin(), all.end(), [&](auto& device) { return device->events.count(event); }))
      return CUDA_ERROR_INVALID_HANDLE;
    if (stream.capture && event->capture == stream.capture.get()) return CUDA_SUCCESS;
    if (stream.capture && (event->mark || event->capture)) {
      stream.capture_broken = true;
      return refuse("cuStreamWaitEvent", "a captured stream waits for work that is not in the capture",
                    CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    if (event->capture)
      return refuse("cuStreamWaitEvent", "the event was recorded in a capture, and a second stream cannot join it here",
                    CUDA_ERROR_CAPTURED_EVENT);
    static long waits = 0;
    if (event->device != stream.device && waits++ == settings().forgotten_wait) return CUDA_SUCCESS;
    if (event->mark && !event->mark->done) add_work(stream, {nullptr, event->mark});
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  return on_event(event, [&](Device& device) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuEventSynchronize")) return captured;
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    if (event->mark && !event->mark->done) run_until(event->mark->stream, event->mark.get());
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventQuery(CUevent event) {
  return on_event(event, [&](Device& device) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuEventQuery")) return captured;
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    if (!event->mark || event->mark->done) return CUDA_SUCCESS;
    if (!std::exchange(event->asked, true)) return CUDA_ERROR_NOT_READY;
    run_until(event->mark->stream, event->mark.get());
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return on_event(start, [&](Device& device) -> CUresult {
    if (!device.events.count(end) || !start->mark || !end->mark || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
      return CUDA_ERROR_INVALID_HANDLE;
    if (!start->mark->done || !end->mark->done) return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(end->mark->when - start->mark->when).count();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return on_device([&](Device& device) -> CUresult {
    if (!device.streams.count(handle))  // the null stream cannot be captured
      return refuse("cuStreamBeginCapture", "this stream cannot be captured", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (handle->capture) return CUDA_ERROR_ILLEGAL_STATE;
    handle->capture = std::make_unique<CUgraph_st>();
    handle->mode = mode, handle->captured_by = std::this_thread::get_id(), handle->capture_broken = false;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return on_device([&](Device& device) -> CUresult {
    if (!device.streams.count(handle)) return CUDA_ERROR_INVALID_HANDLE;
    if (!handle->capture) return CUDA_ERROR_ILLEGAL_STATE;
    const auto made = std::move(handle->capture);
    *graph = nullptr;
    if (handle->capture_broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *graph = new CUgraph_st(*made);
    driver().graphs.insert(*graph);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return on_stream(handle, [&](Device&, CUstream_st& stream) {
    *status = !stream.capture         ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream.capture_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return on_device([&](Device& device) -> CUresult {
    constexpr unsigned long long kAutoFree = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    constexpr unsigned long long kDevice = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    if (!driver().graphs.count(graph)) return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & kAutoFree) && (flags & kDevice)) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t at = 0;
    if (settings().graph_bytes && !(at = DeviceMemory::the().allocate(device.index, settings().graph_bytes)))
      return CUDA_ERROR_OUT_OF_MEMORY;
    *exec = new CUgraphExec_st{graph->ops, device.index, at};
    driver().graph_execs.insert(*exec);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (!driver().graph_execs.count(exec)) return CUDA_ERROR_INVALID_HANDLE;
    for (const Op& op : exec->ops) {
      if (op.launches && !count_launch(device)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      add_work(stream, op);
    }
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream handle) {
  return on_stream(handle, [&](Device&, CUstream_st&) {
    return driver().graph_execs.count(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* n) {
  return on_device([&](Device&) {
    if (!driver().graphs.count(graph)) return CUDA_ERROR_INVALID_HANDLE;
    if (nodes) return CUDA_ERROR_NOT_SUPPORTED;  // how many there are is all that can be asked
    *n = graph->ops.size();
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  return globally([&] {
    if (!driver().graphs.erase(graph)) return CUDA_ERROR_INVALID_HANDLE;
    delete graph;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
  return globally([&] {
    if (!driver().graph_execs.erase(exec)) return CUDA_ERROR_INVALID_HANDLE;
    if (exec->memory) DeviceMemory::the().free(exec->memory);
    delete exec;
    return CUDA_SUCCESS;
  });
}
