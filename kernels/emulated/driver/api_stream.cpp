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

// A stream waits for an event that a capture recorded: what it does from here on is part of that capture.
CUresult wait_in_capture(Device& device, CUstream_st& stream, const CUevent_st& event) {
  const auto& capture = event.capture;
  if (stream.capture && stream.capture != capture) {
    stream.capture->broken = capture->broken = true;
    return refuse("cuStreamWaitEvent", "two captures cannot become one", CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  auto& lanes = capture->graph.lanes;
  if (!stream.capture) {
    if (!device.streams.count(&stream)) {
      capture->broken = true;
      return refuse("cuStreamWaitEvent", "the null stream cannot be captured", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    stream.capture = capture, stream.lane = lanes.size();
    capture->streams.push_back(&stream);
    lanes.push_back({stream.device, {}, {}});
    for (Lane& lane : lanes) lane.after.resize(lanes.size());
  }
  if (event.lane == stream.lane) return CUDA_SUCCESS;
  Lane& lane = lanes[stream.lane];
  lane.nodes.push_back({{}, event.lane, event.after[event.lane]});
  lane.after[stream.lane] = lane.nodes.size();
  for (size_t i = 0; i < event.after.size(); i++) lane.after[i] = std::max(lane.after[i], event.after[i]);
  return CUDA_SUCCESS;
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
    if (stream->capture) {
      auto& streams = stream->capture->streams;
      stream->capture->broken = true;
      std::replace(streams.begin(), streams.end(), stream, CUstream(nullptr));
    }
    device.streams.erase(stream);
    delete stream;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuStreamSynchronize")) return captured;
    if (stream.capture) {
      stream.capture->broken = true;
      return refuse("cuStreamSynchronize", "the stream is being captured", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
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
    event->capture = stream.capture;
    event->asked = false;
    if (stream.capture) {  // marks a place in the graph
      event->lane = stream.lane, event->after = stream.capture->graph.lanes[stream.lane].after;
      return CUDA_SUCCESS;
    }
    const auto mark = std::make_shared<Mark>(Mark{&stream});
    event->mark = mark;
    add_work(stream, {[mark] { reach(*mark); }, nullptr});
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  return cuEventRecord(event, stream);
}
// The event may be another device's.
CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    const auto& all = driver().devices;
    if (std::none_of(all.begin(), all.end(), [&](auto& device) { return device->events.count(event); }))
      return CUDA_ERROR_INVALID_HANDLE;
    static long waits = 0, waits_aside = 0, edges = 0;
    const bool of_another = event->device != stream.device;
    if (event->capture && !event->capture->over) {
      const bool forgotten = of_another && edges++ == settings().forgotten_edge;
      return forgotten ? CUDA_SUCCESS : wait_in_capture(device, stream, *event);
    }
    if (stream.capture && (event->mark || event->capture)) {
      stream.capture->broken = true;
      return refuse("cuStreamWaitEvent", "a captured stream waits for work that is not in the capture",
                    CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    if (event->capture)
      return refuse("cuStreamWaitEvent", "the event was recorded in a capture that is over", CUDA_ERROR_CAPTURED_EVENT);
    if (of_another && waits++ == settings().forgotten_wait) return CUDA_SUCCESS;
    const bool aside = !of_another && event->mark && event->mark->stream != &stream;
    if (aside && waits_aside++ == settings().forgotten_aside) return CUDA_SUCCESS;
    if (event->mark) add_work(stream, {nullptr, event->mark});
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  return on_event(event, [&](Device& device) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuEventSynchronize")) return captured;
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    if (event->mark && !event->mark->done) run_until(event->mark->stream, event->mark.get());
    seen(event->mark);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuEventQuery(CUevent event) {
  return on_event(event, [&](Device& device) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuEventQuery")) return captured;
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
    seen(event->mark && event->mark->done ? event->mark : nullptr);
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
    handle->capture = std::make_shared<Capture>();
    handle->capture->graph.lanes.push_back({device.index, {}, {0}});
    handle->capture->streams.push_back(handle);
    handle->capture->mode = mode, handle->capture->captured_by = std::this_thread::get_id();
    handle->lane = 0;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return on_device([&](Device& device) -> CUresult {
    if (!device.streams.count(handle)) return CUDA_ERROR_INVALID_HANDLE;
    const auto capture = handle->capture;
    if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
    *graph = nullptr;
    if (capture->streams[0] != handle) {
      capture->broken = true;
      return refuse("cuStreamEndCapture", "the capture began in another stream", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    for (CUstream stream : capture->streams)
      if (stream) stream->capture = nullptr;
    capture->over = true;
    if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    const auto& lanes = capture->graph.lanes;
    for (size_t i = 1; i < lanes.size(); i++)  // a wait counts as work: the stream is part of the capture from it on
      if (lanes[0].after[i] < lanes[i].nodes.size())
        return refuse("cuStreamEndCapture", "a stream of the capture has not joined its first stream",
                      CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    *graph = new CUgraph_st(capture->graph);
    driver().graphs.insert(*graph);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return on_stream(handle, [&](Device&, CUstream_st& stream) {
    *status = !stream.capture          ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream.capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  });
}

size_t CUgraph_st::works() const {
  size_t n = 0;
  for (const Lane& lane : lanes)
    n += std::count_if(lane.nodes.begin(), lane.nodes.end(), [](const Lane::Node& node) { return bool(node.op.act); });
  return n;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return on_device([&](Device&) -> CUresult {
    constexpr unsigned long long kAutoFree = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    constexpr unsigned long long kDevice = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    if (!driver().graphs.count(graph)) return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & kAutoFree) && (flags & kDevice)) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<CUgraphExec_st>(CUgraphExec_st{graph->lanes});
    for (const Lane& lane : graph->lanes) {
      if (!settings().graph_bytes) break;
      const uintptr_t at = DeviceMemory::the().allocate(lane.device, settings().graph_bytes);
      if (!at) {
        for (const uintptr_t taken : made->memory) DeviceMemory::the().free(taken);
        return CUDA_ERROR_OUT_OF_MEMORY;
      }
      made->memory.push_back(at);
    }
    *exec = made.release();
    driver().graph_execs.insert(*exec);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  return on_stream(handle, [&](Device&, CUstream_st& stream) -> CUresult {
    if (!driver().graph_execs.count(exec)) return CUDA_ERROR_INVALID_HANDLE;
    for (const Lane& lane : exec->lanes) {
      Device& device = *device_of(lane.device);
      if (device.lost) return CUDA_ERROR_ILLEGAL_ADDRESS;
      for (const Lane::Node& node : lane.nodes)
        if (node.op.launches && !count_launch(device)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    start_graph(stream, exec->lanes);
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
    *n = graph->works();
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
    for (const uintptr_t taken : exec->memory) DeviceMemory::the().free(taken);
    delete exec;
    return CUDA_SUCCESS;
  });
}
