// The driver's functions about devices, contexts and errors.
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "../launch.h"
#include "device.h"

using namespace host;

namespace {

struct ErrorText {
  CUresult code;
  const char *name, *text;
};
#define ERROR_TEXT(code, text) {code, #code, text}
const ErrorText kErrors[] = {
    ERROR_TEXT(CUDA_SUCCESS, "no error"),
    ERROR_TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR_TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR_TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR_TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR_TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR_TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR_TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR_TEXT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR_TEXT(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    ERROR_TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR_TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR_TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR_TEXT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    ERROR_TEXT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ERROR_TEXT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    ERROR_TEXT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
               "dependency created on uncaptured work in another stream"),
    ERROR_TEXT(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR_TEXT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR_TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR_TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};
const ErrorText* error_text(CUresult code) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors), [&](auto& e) { return e.code == code; });
  return found == std::end(kErrors) ? nullptr : found;
}

int attribute(CUdevice_attribute which, const Device& device) {
  const Limits& l = limits();
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return settings().capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return settings().capability % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return settings().multiprocessors - (device.index == settings().unequal_device);
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return kSharedPerBlock;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return static_cast<int>(l.shared_per_block_optin);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return static_cast<int>(l.shared_per_multiprocessor);
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return kSharedReserved;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return l.threads_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return l.blocks_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;  // kHz
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 64;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 1 << 20;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: return device.index;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
    default: return 0;  // what is not here is not supported
  }
}

// A call about a device that is named, not current.
template <typename F>
CUresult of_device(CUdevice ordinal, F body) {
  return globally([&]() -> CUresult {
    Device* device = device_of(ordinal);
    return device ? body(*device) : CUDA_ERROR_INVALID_DEVICE;
  });
}

void list_leaks_at_exit() {
  if (!settings().leaks) return;
  std::lock_guard<std::mutex> lock(driver().mutex);
  DeviceMemory::the().list_leaks();
}

std::string describe_device_address(uintptr_t at) {
  return DeviceMemory::the().is_device_address(at) ? DeviceMemory::the().describe(at) : "";
}

}  // namespace

CUresult CUDAAPI cuInit(unsigned flags) {
  std::lock_guard<std::mutex> lock(driver().mutex);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (settings().devices == 0) return CUDA_ERROR_NO_DEVICE;
  if (driver().initialized) return CUDA_SUCCESS;
  for (int i = 0; i < settings().devices; i++) {
    auto device = std::make_unique<Device>();
    device->index = i, device->context.device = i;
    device->null_stream.device = device->thread_stream.device = i;
    driver().devices.push_back(std::move(device));
  }
#if !defined(__SANITIZE_THREAD__)
  if (!std::getenv("TRIBUNAL_EMULATED_THREADS"))
    Team::the().size = std::min(4u, std::max(1u, std::thread::hardware_concurrency()));
#endif
  describe_address = describe_device_address;
  report_crashes();
  std::atexit(list_leaks_at_exit);
  driver().initialized = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = settings().driver;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult code, const char** name) {
  const ErrorText* error = error_text(code);
  *name = error ? error->name : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuGetErrorString(CUresult code, const char** text) {
  const ErrorText* error = error_text(code);
  *text = error ? error->text : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  return globally([&] {
    *count = static_cast<int>(driver().devices.size());
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  return of_device(ordinal, [&](Device&) {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  return of_device(ordinal, [&](Device&) {
    const std::string text = "Emulated sm_" + std::to_string(settings().capability);
    std::snprintf(name, length, "%s", text.c_str());
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) {
  return of_device(ordinal, [&](Device& device) {
    std::memset(uuid, 0, sizeof *uuid);
    std::memcpy(uuid, "emulated", 8);
    uuid->bytes[15] = static_cast<char>(device.index);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice ordinal) {
  return of_device(ordinal, [&](Device&) {
    *bytes = settings().memory_of(ordinal);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice ordinal) {
  return of_device(ordinal, [&](Device& device) {
    *value = attribute(which, device);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDeviceGetPCIBusId(char* id, int length, CUdevice ordinal) {
  return of_device(ordinal, [&](Device& device) {
    std::snprintf(id, length, "0000:%02x:00.0", device.index);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer) {
  return of_device(ordinal, [&](Device&) {
    *can = settings().peers && ordinal != peer;
    return device_of(peer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  });
}
// The current context's kernels may touch the peer's memory from here on.
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return on_device([&](Device& device) -> CUresult {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!peer || !device_of(peer->device) || device_of(peer->device)->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (!settings().peers || peer->device == device.index) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return device.peers.insert(peer->device).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  return on_device([&](Device& device) {
    return peer && device.peers.erase(peer->device) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  return of_device(ordinal, [&](Device& device) {
    device.retained++;
    *context = &device.context;
    return CUDA_SUCCESS;
  });
}
// With the last release the device's memory is freed, and streams and events are gone.
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return of_device(ordinal, [&](Device& device) {
    if (device.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--device.retained > 0) return CUDA_SUCCESS;
    if (!device.lost) run_everything(device);
    for (CUstream stream : device.streams) delete stream;
    for (CUevent event : device.events) delete event;
    device.streams.clear(), device.events.clear(), device.freed_later.clear(), device.peers.clear();
    device.null_stream.queue.clear(), device.thread_stream.queue.clear();
    DeviceMemory::the().free_all(device.index, settings().leaks);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  return of_device(ordinal, [&](Device& device) {
    *flags = device.flags, *active = device.retained > 0;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags) {
  return of_device(ordinal, [&](Device& device) {
    device.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  return globally([&] {
    *context = current_context();
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  return globally([&] {
    if (context && !device_of(context->device)) return CUDA_ERROR_INVALID_CONTEXT;
    set_current(context);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuCtxGetDevice(CUdevice* ordinal) {
  return on_device([&](Device& device) {
    *ordinal = device.index;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxSynchronize() {
  return on_device([&](Device& device) {
    if (const CUresult captured = refuse_in_capture(device, "cuCtxSynchronize")) return captured;
    run_everything(device);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuCtxSetFlags(unsigned flags) {
  return on_device([&](Device& device) {
    device.flags = flags;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuCtxGetFlags(unsigned* flags) {
  return on_device([&](Device& device) {
    *flags = device.flags;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return on_device([&](Device&) {
    *least = 0, *greatest = -5;
    return CUDA_SUCCESS;
  });
}
