// The driver's functions about memory: of the device, of the host (pinned), copies, fills and pools.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "../fiber.h"
#include "device.h"

using namespace host;

namespace {

DeviceMemory& memory() { return DeviceMemory::the(); }
void* pointer(uintptr_t at) { return reinterpret_cast<void*>(at); }

// Whether [at, at + bytes) is pinned host memory.
bool is_pinned(const void* at, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  auto after = driver().pinned.upper_bound(address);
  if (after == driver().pinned.begin()) return false;
  const auto& [start, n] = *std::prev(after);
  return address - start <= n && bytes <= n - (address - start);
}

constexpr size_t kPage = 4096;
size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Host memory before an inaccessible page. `folded`: its second half is the first once more.
void* map_pinned(size_t bytes, bool folded) {
  const size_t mapped = whole_pages(bytes);
  void* const at = mmap(nullptr, mapped + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  if (!folded) return mprotect(at, mapped, PROT_READ | PROT_WRITE) ? nullptr : at;
  const size_t half = mapped / 2;
  const int file = memfd_create("folded", MFD_CLOEXEC);
  if (mapped % (2 * kPage) || ftruncate(file, half)) stop("memory that cannot be folded");
  for (const size_t part : {size_t(0), half})
    if (mmap(static_cast<char*>(at) + part, half, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
      stop("memory that cannot be folded");
  close(file);
  return at;
}

// Whether device memory can be used: in one allocation, and not on its way to be freed. Says why not.
bool usable(const char* function, const Device& device, CUdeviceptr at, size_t bytes) {
  const Allocation* a = memory().find(at, bytes);
  if (a && device.freed_later.count(a->at)) {
    refuse(function, "the memory was handed to cuMemFreeAsync", CUDA_SUCCESS);
    return false;
  }
  if (!a) refuse(function, std::to_string(bytes) + " bytes from " + memory().describe(at), CUDA_SUCCESS);
  return a;
}

// A memcpy on the device's side, checked again because a graph may run after its memory was freed.
void copy_now(const char* function, uintptr_t to, uintptr_t from, size_t bytes) {
  for (const uintptr_t at : {to, from})
    if (memory().is_device_address(at) && !memory().find(at, bytes))
      stop((std::string(function) + ": " + std::to_string(bytes) + " bytes from " + memory().describe(at)).c_str());
  const Seen seen;
  std::memmove(pointer(to), pointer(from), bytes);
}

CUresult allocate(Device& device, CUdeviceptr* at, size_t bytes) {
  *at = memory().allocate(device.index, bytes);
  if (*at) return CUDA_SUCCESS;
  run_everything(device);  // which may free some
  *at = memory().allocate(device.index, bytes);
  return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult copy_to_device(const char* function, Device& device, CUstream_st& stream, CUdeviceptr to, const void* from,
                        size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (!from || !usable(function, device, to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto at = reinterpret_cast<uintptr_t>(from);
  if (stream.capture || is_pinned(from, bytes)) {  // read when it is executed
    add_work(stream, {[=] { copy_now(function, to, at, bytes); }, nullptr});
  } else {  // read before the call returns
    const auto staged = std::make_shared<std::vector<char>>(bytes);
    std::memcpy(staged->data(), from, bytes);
    add_work(stream, {[=] { copy_now(function, to, reinterpret_cast<uintptr_t>(staged->data()), bytes); }, nullptr});
  }
  return CUDA_SUCCESS;
}

CUresult copy_to_host(const char* function, Device& device, CUstream_st& stream, void* to, CUdeviceptr from,
                      size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (!to || !usable(function, device, from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto at = reinterpret_cast<uintptr_t>(to);
  const bool pinned = is_pinned(to, bytes);
  if (pinned && !stream.capture) std::memset(to, 0xff, bytes);  // read too early, it is NaN
  add_work(stream, {[=] { copy_now(function, at, from, bytes); }, nullptr});
  if (!pinned && !stream.capture) run_until(&stream, nullptr);  // done before the call returns
  return CUDA_SUCCESS;
}

CUresult copy_on_device(const char* function, Device& device, CUstream_st& stream, CUdeviceptr to, CUdeviceptr from,
                        size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (!usable(function, device, to, bytes) || !usable(function, device, from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  add_work(stream, {[=] { copy_now(function, to, from, bytes); }, nullptr});
  return CUDA_SUCCESS;
}

template <typename T>
CUresult fill(const char* function, Device& device, CUstream_st& stream, CUdeviceptr to, T value, size_t n) {
  if (n == 0) return CUDA_SUCCESS;
  if (to % sizeof(T) || !usable(function, device, to, n * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
  add_work(stream, {[=] {
    if (!memory().find(to, n * sizeof(T))) stop("a fill of memory that was freed");
#ifdef HOST_TSAN
    const Seen seen;
    __tsan_write_range(pointer(to), n * sizeof(T));
#endif
    std::fill_n(static_cast<T*>(pointer(to)), n, value);
  }, nullptr});
  return CUDA_SUCCESS;
}

// A call that is done when it returns, in the null stream.
template <typename F>
CUresult now(const char* function, F body) {
  return on_stream(nullptr, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, function)) return captured;
    const CUresult result = body(device, stream);
    if (result == CUDA_SUCCESS) run_until(&stream, nullptr);
    return result;
  });
}

CUresult free_later(CUdeviceptr at, CUstream handle) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (!at) return CUDA_SUCCESS;
    if (stream.capture) return refuse("cuMemFreeAsync", "not in a capture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const Allocation* a = memory().find(at, 0);
    if (!a || a->at != at || !device.freed_later.insert(at).second)
      return refuse("cuMemFreeAsync", "no allocation starts here, " + memory().describe(at), CUDA_ERROR_INVALID_VALUE);
    add_work(stream, {[&device, at] { memory().free(at), device.freed_later.erase(at); }, nullptr});
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  return on_device([&](Device& device) {
    *total = settings().memory_of(device.index), *free = *total - memory().used(device.index);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* at, size_t bytes) {
  return on_device([&](Device& device) -> CUresult {
    if (const CUresult captured = refuse_in_capture(device, "cuMemAlloc")) return captured;
    return bytes ? allocate(device, at, bytes) : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* at, size_t bytes, CUstream handle) {
  return on_stream(handle, [&](Device& device, CUstream_st& stream) -> CUresult {
    if (stream.capture) return refuse("cuMemAllocAsync", "not in a capture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (bytes) return allocate(device, at, bytes);
    *at = 0;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* at, size_t bytes, CUmemoryPool, CUstream stream) {
  return cuMemAllocAsync(at, bytes, stream);
}
CUresult CUDAAPI cuMemFree(CUdeviceptr at) {
  return on_device([&](Device& device) -> CUresult {
    if (!at) return CUDA_SUCCESS;
    if (const CUresult captured = refuse_in_capture(device, "cuMemFree")) return captured;
    run_everything(device);
    if (!memory().free(at))
      return refuse("cuMemFree", "no allocation starts here, " + memory().describe(at), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr at, CUstream stream) { return free_later(at, stream); }
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr at) {
  return on_device([&](Device&) {
    const Allocation* a = memory().find(at, 1);
    if (!a) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = a->at;
    if (bytes) *bytes = a->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return now("cuMemcpyHtoD", [&](Device& d, CUstream_st& s) { return copy_to_device("cuMemcpyHtoD", d, s, to, from, bytes); });
}
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream handle) {
  return on_stream(handle, [&](Device& d, CUstream_st& s) { return copy_to_device("cuMemcpyHtoDAsync", d, s, to, from, bytes); });
}
CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return now("cuMemcpyDtoH", [&](Device& d, CUstream_st& s) { return copy_to_host("cuMemcpyDtoH", d, s, to, from, bytes); });
}
CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream handle) {
  return on_stream(handle, [&](Device& d, CUstream_st& s) { return copy_to_host("cuMemcpyDtoHAsync", d, s, to, from, bytes); });
}
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return now("cuMemcpyDtoD", [&](Device& d, CUstream_st& s) { return copy_on_device("cuMemcpyDtoD", d, s, to, from, bytes); });
}
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  return on_stream(handle, [&](Device& d, CUstream_st& s) { return copy_on_device("cuMemcpyDtoDAsync", d, s, to, from, bytes); });
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream handle) {
  return on_stream(handle, [&](Device& d, CUstream_st& s) { return copy_on_device("cuMemcpyPeerAsync", d, s, to, from, bytes); });
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char value, size_t n) {
  return now("cuMemsetD8", [&](Device& d, CUstream_st& s) { return fill("cuMemsetD8", d, s, to, value, n); });
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream handle) {
  return on_stream(handle, [&](Device& d, CUstream_st& s) { return fill("cuMemsetD8Async", d, s, to, value, n); });
}
CUresult CUDAAPI cuMemsetD16(CUdeviceptr to, unsigned short value, size_t n) {
  return now("cuMemsetD16", [&](Device& d, CUstream_st& s) { return fill("cuMemsetD16", d, s, to, value, n); });
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream handle) {
  return on_stream(handle, [&](Device& d, CUstream_st& s) { return fill("cuMemsetD16Async", d, s, to, value, n); });
}
CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned value, size_t n) {
  return now("cuMemsetD32", [&](Device& d, CUstream_st& s) { return fill("cuMemsetD32", d, s, to, value, n); });
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream handle) {
  return on_stream(handle, [&](Device& d, CUstream_st& s) { return fill("cuMemsetD32Async", d, s, to, value, n); });
}

// Pinned memory starts as NaN too. Its pages are its own, so use after it is freed crashes.
CUresult CUDAAPI cuMemHostAlloc(void** at, size_t bytes, unsigned flags) {
  return on_device([&](Device&) -> CUresult {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    void* made = map_pinned(bytes, settings().folded && (flags & CU_MEMHOSTALLOC_PORTABLE));
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(made, 0xff, bytes);
    driver().pinned[reinterpret_cast<uintptr_t>(made)] = bytes;
    *at = made;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuMemAllocHost(void** at, size_t bytes) { return cuMemHostAlloc(at, bytes, 0); }
CUresult CUDAAPI cuMemFreeHost(void* at) {
  return on_device([&](Device& device) -> CUresult {
    const auto found = driver().pinned.find(reinterpret_cast<uintptr_t>(at));
    if (found == driver().pinned.end()) return CUDA_ERROR_INVALID_VALUE;
    run_everything(device);
    munmap(at, whole_pages(found->second) + kPage);
    driver().pinned.erase(found);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* on_the_device, void* at, unsigned) {
  return on_device([&](Device&) {
    *on_the_device = reinterpret_cast<CUdeviceptr>(at);
    return is_pinned(at, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult CUDAAPI cuMemHostGetFlags(unsigned* flags, void* at) {
  return on_device([&](Device&) {
    *flags = CU_MEMHOSTALLOC_DEVICEMAP;
    return is_pinned(at, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// One pool a device, which gives freed memory back at once.
CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  return globally([&] {
    Device* device = device_of(ordinal);
    *pool = reinterpret_cast<CUmemoryPool>(device);
    return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  });
}
CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  return cuDeviceGetDefaultMemPool(pool, ordinal);
}
CUresult CUDAAPI cuDeviceSetMemPool(CUdevice, CUmemoryPool) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool, size_t) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  return globally([&] {
    if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
      reinterpret_cast<Device*>(pool)->pool_threshold = *static_cast<cuuint64_t*>(value);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  return globally([&] {
    const Device& device = *reinterpret_cast<Device*>(pool);
    switch (which) {
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *static_cast<cuuint64_t*>(value) = device.pool_threshold; break;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *static_cast<cuuint64_t*>(value) = memory().used(device.index); break;
      default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
  });
}
