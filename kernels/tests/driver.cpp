// The emulated driver, driven as cudarc drives it. With the library over kernels/tests/faults/*.cu:
//
//   driver LIBRARY [CUBIN REGISTERS SHARED]   CUBIN: faults/sound.cu compiled, and ptxas' figures of its kernels
//   driver LIBRARY sound                      without the cases, for an instrumented library
//   driver LIBRARY CASE                       one case that ends the program, or has a device of its own
#include "driver_api.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>

#include "tally.h"

namespace {

Tally tally("driver");
constexpr float kTwo = 2.0f;

bool all_are(const std::vector<float>& v, float wanted) {
  for (const float x : v)
    if (!(x == wanted || (std::isnan(wanted) && std::isnan(x)))) return false;
  return true;
}

void test_device() {
  int count = 0, version = 0, major = 0, minor = 0, shared = 0;
  MUST(CALL(cuDeviceGetCount)(&count));
  MUST(CALL(cuDriverGetVersion)(&version));
  MUST(CALL(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  MUST(CALL(cuDeviceGetAttribute)(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  MUST(CALL(cuDeviceGetAttribute)(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  tally.check(count == 1 && version == CUDA_VERSION, "one device, a driver of the headers' version");
  tally.check(major == 9 && minor == 0 && shared == 227 << 10, "sm_90 with 227 KiB of shared memory");
  CUdevice device;
  tally.check(CALL(cuDeviceGet)(&device, 1) == CUDA_ERROR_INVALID_DEVICE, "a second device");
  const char *name, *text;
  MUST(CALL(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &name));
  MUST(CALL(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text));
  tally.check(!std::strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") && !std::strcmp(text, "out of memory"), "an error's name");
}

void test_memory() {
  size_t before, after, total;
  MUST(CALL(cuMemGetInfo)(&before, &total));
  const CUdeviceptr at = allocate(1000);
  MUST(CALL(cuMemGetInfo)(&after, &total));
  tally.check(before - after == 1024 && at % 256 == 0, "memory is counted in steps of 256 bytes and aligned to them");
  tally.check(all_are(to_host(at, 250), NAN), "new memory is not NaN");
  float host[251];
  tally.check(CALL(cuMemcpyDtoH)(host, at, 1004) == CUDA_ERROR_INVALID_VALUE, "a copy past an allocation's end");
  tally.check(CALL(cuMemcpyHtoD)(at - 4, host, 8) == CUDA_ERROR_INVALID_VALUE, "a copy before an allocation's start");
  tally.check(CALL(cuMemsetD32)(at + 4, 0, 250) == CUDA_ERROR_INVALID_VALUE, "a fill past an allocation's end");
  MUST(CALL(cuMemsetD32)(at, 0x3f800000, 250));
  tally.check(all_are(to_host(at, 250), 1), "a fill of words");
  MUST(CALL(cuMemsetD8)(at + 400, 0, 600));
  tally.check(to_host(at, 250)[99] == 1 && to_host(at, 250)[100] == 0, "a fill of bytes");
  tally.check(CALL(cuMemFree)(at + 4) == CUDA_ERROR_INVALID_VALUE, "freeing the middle of an allocation");
  MUST(CALL(cuMemFree)(at));
  tally.check(CALL(cuMemFree)(at) == CUDA_ERROR_INVALID_VALUE, "freeing twice");
  tally.check(CALL(cuMemcpyDtoH)(host, at, 4) == CUDA_ERROR_INVALID_VALUE, "a copy from freed memory");
  MUST(CALL(cuMemGetInfo)(&after, &total));
  tally.check(after == before, "freed memory is not free");
  CUdeviceptr much;
  tally.check(CALL(cuMemAlloc)(&much, total) == CUDA_SUCCESS, "all memory cannot be allocated");
  CUdeviceptr more;
  tally.check(CALL(cuMemAlloc)(&more, 1) == CUDA_ERROR_OUT_OF_MEMORY, "more memory than there is");
  tally.check(all_are(to_host(much + (64 << 20), 4), NAN), "new memory of a large allocation is not NaN");
  MUST(CALL(cuMemFree)(much));
}

// A pinned buffer is read and written when the copy is executed, any other before the call returns.
void test_copies_are_late() {
  const CUstream stream = new_stream();
  const CUdeviceptr at = allocate(4);
  float* pinned;
  MUST(CALL(cuMemHostAlloc)(reinterpret_cast<void**>(&pinned), 4, 0));
  *pinned = 1;
  MUST(CALL(cuMemcpyHtoDAsync)(at, pinned, 4, stream));
  *pinned = 2;
  MUST(CALL(cuStreamSynchronize)(stream));
  tally.check(to_host(at, 1)[0] == 2, "a pinned buffer is read before the copy is executed");
  float pageable = 3;
  MUST(CALL(cuMemcpyHtoDAsync)(at, &pageable, 4, stream));
  pageable = 4;
  MUST(CALL(cuMemcpyDtoHAsync)(pinned, at, 4, stream));
  tally.check(std::isnan(*pinned), "a pinned buffer is written before the copy is executed");
  MUST(CALL(cuStreamSynchronize)(stream));
  tally.check(*pinned == 3, "a pageable buffer is read after the call");
  MUST(CALL(cuMemFreeHost)(pinned));
  MUST(CALL(cuMemFree)(at));
  MUST(CALL(cuStreamDestroy)(stream));
}

void test_streams_and_events() {
  const CUstream a = new_stream(), b = new_stream();
  const CUfunction scale = kernel("scale");
  const CUdeviceptr x = to_device(std::vector<float>(64, 1)), y = allocate(256), z = allocate(256);
  CUevent start, event;
  MUST(CALL(cuEventCreate)(&start, 0));
  MUST(CALL(cuEventCreate)(&event, 0));
  MUST(CALL(cuEventRecord)(start, a));
  MUST(launch(scale, 2, 32, 0, a, x, y, 64, kTwo));
  MUST(CALL(cuEventRecord)(event, a));
  MUST(launch(scale, 2, 32, 0, b, y, z, 64, kTwo));  // does not wait for a
  MUST(CALL(cuStreamSynchronize)(b));
  tally.check(all_are(to_host(z, 64), NAN), "a stream waits for another without being told to");
  MUST(CALL(cuStreamWaitEvent)(b, event, 0));
  MUST(launch(scale, 2, 32, 0, b, y, z, 64, kTwo));
  tally.check(CALL(cuEventQuery)(event) == CUDA_ERROR_NOT_READY, "an event is done before its work");
  MUST(CALL(cuStreamSynchronize)(b));
  tally.check(all_are(to_host(z, 64), 4), "a stream does not wait for an event");
  float took = -1;
  MUST(CALL(cuEventQuery)(event));
  MUST(CALL(cuEventElapsedTime)(&took, start, event));
  tally.check(took >= 0, "time between events");
  MUST(CALL(cuMemFreeAsync)(y, a));
  tally.check(launch(scale, 2, 32, 0, b, x, y, 64, kTwo) == CUDA_ERROR_INVALID_VALUE, "a launch on memory that is being freed");
  MUST(CALL(cuStreamSynchronize)(a));
  MUST(CALL(cuEventDestroy)(event));
  tally.check(CALL(cuEventQuery)(event) == CUDA_ERROR_INVALID_HANDLE, "an event that is gone");
}

void test_modules() {
  CUmodule module;
  CUfunction f;
  const char* names = ".target sm_80\n.entry scale(\n.entry elsewhere(";
  MUST(CALL(cuModuleLoadData)(&module, names));
  tally.check(CALL(cuModuleGetFunction)(&f, module, "reverse") == CUDA_ERROR_NOT_FOUND, "a kernel that the image lacks");
  tally.check(CALL(cuModuleGetFunction)(&f, module, "elsewhere") == CUDA_ERROR_NOT_FOUND, "a kernel that the library lacks");
  MUST(CALL(cuModuleGetFunction)(&f, module, "scale"));
  std::vector<std::pair<size_t, size_t>> parameters;
  for (size_t offset, bytes; CALL(cuFuncGetParamInfo)(f, parameters.size(), &offset, &bytes) == CUDA_SUCCESS;)
    parameters.push_back({offset, bytes});
  tally.check(parameters == decltype(parameters){{0, 8}, {8, 8}, {16, 4}, {20, 4}}, "the parameters of scale");
  parameters.clear();
  const CUfunction count = kernel("count");
  for (size_t offset, bytes; CALL(cuFuncGetParamInfo)(count, parameters.size(), &offset, &bytes) == CUDA_SUCCESS;)
    parameters.push_back({offset, bytes});
  tally.check(parameters == decltype(parameters){{0, 8}, {8, 8}, {16, 1}}, "the parameters of count");
  MUST(CALL(cuModuleUnload)(module));
  tally.check(launch(f, 1, 32, 0, nullptr) == CUDA_ERROR_INVALID_HANDLE, "a function of a module that is gone");
  tally.check(CALL(cuModuleLoadData)(&module, ".target sm_100\n.entry scale(") == CUDA_ERROR_INVALID_PTX, "PTX for a later card");
  MUST(CALL(cuModuleLoadData)(&module, ".version 8.8\n.target sm_90\n.entry scale("));
  MUST(CALL(cuModuleUnload)(module));
  tally.check(CALL(cuModuleLoadData)(&module, ".version 9.0\n.target sm_90\n.entry scale(") == CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
              "PTX of a later compiler");
  tally.check(CALL(cuModuleLoadData)(&module, "no image at all") == CUDA_ERROR_INVALID_IMAGE, "an image that is none");
}

void test_launches() {
  const CUfunction scale = kernel("scale"), reverse = kernel("reverse"), count = kernel("count");
  std::vector<float> numbers(3 * 96);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = float(i);
  const CUdeviceptr x = to_device(numbers), y = allocate(numbers.size() * 4);
  MUST(launch(reverse, 3, 96, 96 * 4, nullptr, x, y, 96));
  const auto reversed = to_host(y, numbers.size());
  tally.check(reversed[0] == 95 && reversed[95] == 0 && reversed[96] == 191, "a kernel with barriers and three blocks");
  const CUdeviceptr counts = allocate(8);
  MUST(CALL(cuMemsetD8)(counts, 0, 8));
  const double pad = -1;
  const unsigned char flag = 2;
  MUST(launch(count, 50, 64, 0, nullptr, counts, pad, flag));
  int counted[2];
  MUST(CALL(cuMemcpyDtoH)(counted, counts, 8));
  tally.check(counted[0] == 50 * (1 + 64 * 2) && counted[1] == 50, "atomics of 50 blocks on several CPU threads");

  const int n = 96;
  const auto refused = [&](CUresult result, const char* what) { tally.check(result == CUDA_ERROR_INVALID_VALUE, what); };
  refused(launch(scale, 1, 1025, 0, nullptr, x, y, n, kTwo), "1025 threads");
  refused(launch(scale, 0, 32, 0, nullptr, x, y, n, kTwo), "no blocks");
  // Each limit with arguments that are right, so that nothing else can be wrong; and what is just allowed.
  const auto shaped = [&](std::array<unsigned, 3> grid, std::array<unsigned, 3> block) {
    CUdeviceptr from = x, to = y;
    int none = 0;
    float by = kTwo;
    void* arguments[] = {&from, &to, &none, &by};
    return CALL(cuLaunchKernel)(scale, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0, nullptr, arguments, nullptr);
  };
  refused(shaped({0x80000000u, 1, 1}, {1, 1, 1}), "2^31 blocks in x");
  refused(shaped({1, 65536, 1}, {1, 1, 1}), "65536 blocks in y");
  refused(shaped({1, 1, 65536}, {1, 1, 1}), "65536 blocks in z");
  refused(shaped({1, 1, 1}, {32, 33, 1}), "32 x 33 threads");
  refused(shaped({1, 1, 1}, {1, 1025, 1}), "1025 threads in y");
  refused(shaped({1, 1, 1}, {1, 1, 65}), "65 threads in z");
  MUST(shaped({1, 1, 1}, {32, 32, 1}));
  refused(launch(reverse, 1, 96, (48 << 10) + 4, nullptr, x, y, n), "more than 48 KiB of shared memory without asking");
  refused(CALL(cuFuncSetAttribute)(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (227 << 10) + 1),
          "more shared memory than there is");
  MUST(CALL(cuFuncSetAttribute)(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10));
  MUST(launch(reverse, 1, 96, 227 << 10, nullptr, x, y, n));
  MUST(CALL(cuFuncSetAttribute)(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
  refused(launch(reverse, 1, 96, (64 << 10) + 4, nullptr, x, y, n), "more shared memory than was asked for");
  refused(launch_early(scale, 3, 96, 0, nullptr, x, y, n, kTwo), "code for 8.0 started early");
  const CUfunction scale_90 = kernel("scale", "sm_90");
  MUST(launch_early(scale_90, 1, 96, 0, nullptr, x, y, n, kTwo));
  tally.check(to_host(y, 96)[95] == 190, "a kernel that is started early");
  const float* host = numbers.data();
  refused(launch(scale, 1, 32, 0, nullptr, host, y, n, kTwo), "a pointer to host memory");
  refused(launch(scale, 1, 32, 0, nullptr, x), "too few arguments");
  MUST(CALL(cuCtxSynchronize)());
  MUST(CALL(cuMemFree)(y));
  refused(launch(scale, 1, 32, 0, nullptr, x, y, n, kTwo), "a pointer to freed memory");
}

void test_graphs() {
  const CUstream stream = new_stream();
  const CUfunction scale = kernel("scale");
  const CUdeviceptr x = to_device(std::vector<float>(32, 1)), y = allocate(128);
  CUgraph graph;
  CUgraphExec exec;
  float by = 3;
  MUST(CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(CALL(cuMemsetD8Async)(y, 0, 128, stream));
  MUST(launch(scale, 1, 32, 0, stream, x, y, 16, by));
  CUstreamCaptureStatus status;
  MUST(CALL(cuStreamIsCapturing)(stream, &status));
  MUST(CALL(cuStreamEndCapture)(stream, &graph));
  by = 5;  // the graph has the argument's value
  MUST(CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  MUST(CALL(cuGraphDestroy)(graph));
  MUST(CALL(cuStreamSynchronize)(stream));
  tally.check(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && all_are(to_host(y, 32), NAN), "captured work runs");
  for (int i = 0; i < 2; i++) {
    MUST(CALL(cuMemsetD32)(x, 0x40000000, 32));  // 2
    MUST(CALL(cuGraphLaunch)(exec, stream));
    MUST(CALL(cuStreamSynchronize)(stream));
  }
  const auto made = to_host(y, 32);
  tally.check(made[15] == 6 && made[16] == 0, "a graph does not do what was captured");
  MUST(CALL(cuGraphExecDestroy)(exec));

  MUST(CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  tally.check(CALL(cuStreamSynchronize)(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "waiting in a capture");
  tally.check(CALL(cuStreamEndCapture)(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "a spoiled capture");
  CUevent event;
  MUST(CALL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  MUST(CALL(cuEventRecord)(event, nullptr));
  MUST(CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  tally.check(CALL(cuStreamWaitEvent)(stream, event, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
              "a capture that waits for work outside");
  tally.check(CALL(cuStreamEndCapture)(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "a spoiled capture");
}

// A capture that a second stream joins: y = 2 x in the first, z = 2 y in the second where it waits, and the first goes on.
CUresult capture_two(CUstream a, CUstream b, CUevent event, const std::vector<CUdeviceptr>& at, bool waits, bool joins,
                     CUgraph* graph) {
  const CUfunction scale = kernel("scale");
  MUST(CALL(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST(CALL(cuEventRecord)(event, a));
  MUST(CALL(cuStreamWaitEvent)(b, event, 0));
  MUST(launch(scale, 1, 32, 0, a, at[0], at[1], 32, kTwo));
  MUST(CALL(cuEventRecord)(event, a));
  if (waits) MUST(CALL(cuStreamWaitEvent)(b, event, 0));
  MUST(launch(scale, 1, 32, 0, b, at[1], at[2], 32, kTwo));
  MUST(CALL(cuEventRecord)(event, b));
  if (joins) MUST(CALL(cuStreamWaitEvent)(a, event, 0));
  return CALL(cuStreamEndCapture)(a, graph);
}

void test_graphs_of_two_streams() {
  const CUstream a = new_stream(), b = new_stream(), other = new_stream();
  CUevent event;
  MUST(CALL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  std::vector<CUdeviceptr> at = {to_device(std::vector<float>(32, 1)), allocate(128), allocate(128)};
  CUgraph graph;
  const auto launched = [&] {
    CUgraphExec exec;
    MUST(CALL(cuMemsetD8)(at[1], 0xff, 128));
    MUST(CALL(cuMemsetD8)(at[2], 0xff, 128));
    MUST(CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    MUST(CALL(cuGraphDestroy)(graph));
    MUST(CALL(cuGraphLaunch)(exec, other));
    MUST(CALL(cuStreamSynchronize)(a));
    MUST(CALL(cuStreamSynchronize)(b));
    const bool early = !all_are(to_host(at[1], 32), NAN);
    MUST(CALL(cuStreamSynchronize)(other));
    MUST(CALL(cuGraphExecDestroy)(exec));
    tally.check(!early, "a graph runs in a stream that was captured, not in the one that it was launched in");
    return to_host(at[2], 32);
  };
  MUST(capture_two(a, b, event, at, true, true, &graph));
  CUstreamCaptureStatus status;
  MUST(CALL(cuStreamIsCapturing)(b, &status));
  tally.check(status == CU_STREAM_CAPTURE_STATUS_NONE, "a stream that had joined a capture is not free when it is over");
  tally.check(all_are(launched(), 4), "a graph of two streams");
  // The end of the graph waits for the second stream first: what it does not wait for has not happened.
  MUST(capture_two(b, a, event, {at[0], at[1], at[2]}, true, true, &graph));
  tally.check(all_are(launched(), 4), "a graph of two streams, the other way round");
  tally.check(capture_two(a, b, event, at, true, false, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
              "a capture with a stream without a wait");
  MUST(CALL(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST(CALL(cuEventRecord)(event, a));
  MUST(CALL(cuStreamBeginCapture)(b, CU_STREAM_CAPTURE_MODE_RELAXED));
  tally.check(CALL(cuStreamWaitEvent)(b, event, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures become one");
  for (CUstream stream : {a, b})
    tally.check(CALL(cuStreamEndCapture)(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "a spoiled capture");
  tally.check(CALL(cuStreamWaitEvent)(b, event, 0) == CUDA_ERROR_CAPTURED_EVENT, "waiting for an event of a capture");
  MUST(CALL(cuStreamBeginCapture)(a, CU_STREAM_CAPTURE_MODE_RELAXED));
  tally.check(CALL(cuStreamSynchronize)(a) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "waiting for a captured stream");
  tally.check(CALL(cuStreamEndCapture)(a, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "a spoiled capture");
}

// What ptxas found, read from the cubin's undocumented sections.
void test_cubin(const char* path, int registers, int shared) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  CUmodule module;
  CUfunction f;
  MUST(CALL(cuModuleLoadData)(&module, bytes.data()));
  MUST(CALL(cuModuleGetFunction)(&f, module, "reverse"));
  int found_registers, found_shared, capability;
  MUST(CALL(cuFuncGetAttribute)(&found_registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
  MUST(CALL(cuFuncGetAttribute)(&capability, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f));
  MUST(CALL(cuModuleGetFunction)(&f, module, "count"));
  MUST(CALL(cuFuncGetAttribute)(&found_shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
  tally.check(found_registers == registers && found_shared == shared && capability == 90,
              "a cubin has " + std::to_string(found_registers) + " registers, " + std::to_string(found_shared) +
                  " bytes of shared memory, sm_" + std::to_string(capability));
}

// Cases with a process of their own. They print what they see; see `main` for what is expected.
using Case = std::pair<std::string, std::function<void()>>;
void print_result(CUresult result) {
  const char* name;
  MUST(CALL(cuGetErrorName)(result, &name));
  std::printf("%s\n", name);
}
void run_fault(const std::string& name, size_t bytes, unsigned threads, unsigned shared, int n) {
  start();
  const CUdeviceptr y = allocate(bytes);
  MUST(launch(kernel(name), 1, threads, shared, nullptr, y, n));
  MUST(CALL(cuCtxSynchronize)());
  std::printf("%f\n", to_host(y, 1)[0]);
}

const std::map<std::string, std::function<void()>> cases = {
    {"init", [] { print_result(CALL(cuInit)(0)); }},
    {"memory", [] {
       start();
       CUdeviceptr at;
       print_result(CALL(cuMemAlloc)(&at, 4097));
       print_result(CALL(cuMemAlloc)(&at, 2048));
     }},
    {"lost", [] {
       start();
       const CUfunction scale = kernel("scale");
       const CUdeviceptr x = allocate(128);
       const auto once = [&] { print_result(launch(scale, 1, 32, 0, nullptr, x, x, 32, kTwo)); };
       once(), once(), once();
       print_result(CALL(cuCtxSynchronize)());
       print_result(CALL(cuMemFree)(x));
     }},
    {"host-touch", [] {
       start();
       std::printf("%f\n", *reinterpret_cast<float*>(allocate(4)));
     }},
    {"far-overrun", [] { run_fault("overrun", 4096, 32, 0, 1025); }},
    {"near-overrun", [] { run_fault("overrun", 4000, 32, 0, 1001); }},
    {"shared-overrun", [] { run_fault("shared_overrun", 128, 32, 128, 32); }},
    {"uninitialised", [] { run_fault("uninitialised", 128, 32, 128, 32); }},
    {"divergent", [] { run_fault("divergent_barrier", 256, 64, 0, 0); }},
    {"early-exit", [] { run_fault("early_exit", 256, 64, 0, 40); }},
    {"wrong-mask", [] { run_fault("wrong_mask", 256, 32, 0, 0); }},
    {"stray-lane", [] { run_fault("stray_lane", 256, 32, 0, 0); }},
    {"stale-graph", [] {
       start();
       const CUstream stream = new_stream();
       const CUdeviceptr x = allocate(128);
       CUgraph graph;
       CUgraphExec exec;
       const CUfunction scale = kernel("scale");
       MUST(CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
       MUST(launch(scale, 1, 32, 0, stream, x, x, 32, kTwo));
       MUST(CALL(cuStreamEndCapture)(stream, &graph));
       MUST(CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0));
       MUST(CALL(cuMemFree)(x));
       MUST(CALL(cuGraphLaunch)(exec, stream));
       MUST(CALL(cuStreamSynchronize)(stream));
     }},
    {"leak", [] {
       start();
       allocate(100), allocate(100);
     }},
    {"trace", [] { run_fault("overrun", 4096, 32, 0, 1024); }},
};

void test_cases(const std::string& program, const std::string& path) {
  const auto child = [&](const char* which, const char* variables = "") {
    return run_child(program, path, which, variables);
  };
  const auto says = [&](const char* which, const char* variables, const std::string& text, int code) {
    const Ended e = child(which, variables);
    tally.check(e.says(text) && e.code == code,
                std::string(which) + " ends with " + std::to_string(e.code) + " and says: " + e.output);
  };
  says("init", "TRIBUNAL_EMULATED_DEVICES=0", "CUDA_ERROR_NO_DEVICE\n", 0);
  says("init", "TRIBUNAL_EMULATED_SM=75", "TRIBUNAL_EMULATED_SM is 80, 86, 89, 90, 100 or 120", 1);
  says("memory", "TRIBUNAL_EMULATED_MEMORY=6400", "CUDA_SUCCESS\nCUDA_SUCCESS\n", 0);
  says("memory", "TRIBUNAL_EMULATED_MEMORY=6399", "CUDA_SUCCESS\nCUDA_ERROR_OUT_OF_MEMORY\n", 0);
  const std::string lost = "CUDA_ERROR_ILLEGAL_ADDRESS\n";
  says("lost", "TRIBUNAL_EMULATED_LOST_AFTER=2", "CUDA_SUCCESS\nCUDA_SUCCESS\n" + lost + lost + lost, 0);
  says("lost", "TRIBUNAL_EMULATED_LOST_AFTER=2 TRIBUNAL_EMULATED_LOST_DEVICE=1", "CUDA_SUCCESS\nCUDA_SUCCESS\nCUDA_SUCCESS\n", 0);
  says("host-touch", "", "the host touches device memory, at 0x", 139);
  says("far-overrun", "", "overrun, block (0, 0, 0), thread (0, 0, 0): it touches memory that it must not, at 0x", 139);
  says("far-overrun", "", "0 bytes past the end of an allocation of 4096 bytes", 139);
  says("near-overrun", "", "overrun: a write past the end of an allocation of 4000 bytes", 1);
  says("shared-overrun", "", "shared_overrun, block (0, 0, 0), thread (0, 0, 0): it touches memory that it must not", 139);
  says("uninitialised", "", "nan\n", 0);
  says("divergent", "", "divergent_barrier, block (0, 0, 0): threads of a block are at different barriers", 1);
  says("early-exit", "", "some threads of warp 1 have ended, others are at __syncthreads at ", 1);
  says("wrong-mask", "", "lanes of its mask have ended", 1);
  says("stray-lane", "", "reads lane 20, which takes no part", 1);
  says("stale-graph", "", "scale: argument 0 points to device memory that was freed or never allocated", 1);
  says("leak", "TRIBUNAL_EMULATED_LEAKS=1", "2 allocations of 200 bytes were not freed", 0);
  says("trace", "TRIBUNAL_EMULATED_TRACE=/dev/stdout", "overrun grid 1 1 1 block 32 1 1 shared 0 us ", 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) std::fprintf(stderr, "usage: driver LIBRARY [CUBIN REGISTERS SHARED]\n"), std::exit(2);
  open_library(argv[1]);
  const bool sound = argc == 3 && !std::strcmp(argv[2], "sound");
  if (argc == 3 && !sound) {
    cases.at(argv[2])();
    return 0;
  }
  start();
  test_device();
  test_memory();
  test_copies_are_late();
  test_streams_and_events();
  test_modules();
  test_launches();
  test_graphs();
  test_graphs_of_two_streams();
  if (argc > 4) test_cubin(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  if (!sound) test_cases(argv[0], argv[1]);
  return tally.end();
}
