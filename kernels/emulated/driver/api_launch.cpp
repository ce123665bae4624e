// cuLaunchKernel and cuLaunchKernelEx: everything about a launch that can be wrong is checked before it is queued, and again, as far as
// it may have changed, when it is executed.
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "../launch.h"
#include "hollow.h"
#include "module.h"

using namespace host;

namespace {

// How a kernel is launched.
struct Shape {
  dim3 grid, block;
  size_t dynamic_shared;
  bool early;
};

// A kernel's arguments, copied when it is launched.
struct Arguments {
  const Kernel* kernel;
  std::vector<unsigned char> bytes;
  void* at(size_t i) const { return const_cast<unsigned char*>(bytes.data()) + kernel->parameters[i].offset; }
};

// Copies memory that may not be there.
bool copy_if_readable(void* to, const void* from, size_t bytes) {
  iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == ssize_t(bytes)) return true;
  if (errno == EFAULT) return false;
  std::memcpy(to, from, bytes);  // the system does not allow that check
  return true;
}

bool is_pinned_address(uintptr_t at) {
  auto after = driver().pinned.upper_bound(at);
  return after != driver().pinned.begin() && at - std::prev(after)->first <= std::prev(after)->second;
}

// What is wrong with the arguments that are pointers; empty if nothing is.
std::string wrong_pointer(const Arguments& a, const Device& device) {
  for (size_t i = 0; i < a.kernel->parameters.size(); i++) {
    if (!a.kernel->parameters[i].is_pointer) continue;
    uintptr_t at;
    std::memcpy(&at, a.at(i), sizeof at);
    if (!at || is_pinned_address(at)) continue;
    const std::string which = "argument " + std::to_string(i) + " points to ";
    const Allocation* found = DeviceMemory::the().find(at, 0);
    if (!found) return which + DeviceMemory::the().describe(at);
    if (found->device != device.index && !device.peers.count(found->device))
      return which + "memory of device " + std::to_string(found->device) + ", which device " +
             std::to_string(device.index) + " has no access to";
    if (device_of(found->device)->freed_later.count(found->at)) return which + "memory that was handed to cuMemFreeAsync";
  }
  return "";
}

std::string wrong_geometry(const CUfunc_st& f, const Shape& shape) {
  const auto [grid, block, dynamic_shared, early] = shape;
  if (early && f.module->image.capability < 90) return "started early, which compute capability 9.0 brought";
  const size_t threads = size_t(block.x) * block.y * block.z;
  if (threads == 0 || size_t(grid.x) * grid.y * grid.z == 0) return "a grid or block of no threads";
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) return "a grid of more than 65535 in y or z";
  if (block.z > 64 || threads > 1024) return "a block of " + std::to_string(threads) + " threads";
  if (threads > size_t(f.image.max_threads))
    return "a block of " + std::to_string(threads) + " threads, its __launch_bounds__ are " +
           std::to_string(f.image.max_threads);
  if (dynamic_shared > f.most_dynamic_shared)
    return std::to_string(dynamic_shared) + " bytes of shared memory, allowed are " +
           std::to_string(f.most_dynamic_shared) + " (cuFuncSetAttribute)";
  if (dynamic_shared + f.image.static_shared > limits().shared_per_block_optin)
    return std::to_string(dynamic_shared) + " bytes of shared memory beside " + std::to_string(f.image.static_shared) +
           " static ones, the card has " + std::to_string(limits().shared_per_block_optin);
  return "";
}

// Where an argument points to another device's memory: as much of other bytes, as on a machine that redirects what devices
// send each other.
void redirect(Arguments& a, const Device& device, std::vector<std::vector<unsigned char>>& decoys) {
  for (size_t i = 0; i < a.kernel->parameters.size(); i++) {
    if (!a.kernel->parameters[i].is_pointer) continue;
    uintptr_t at;
    std::memcpy(&at, a.at(i), sizeof at);
    const Allocation* found = at ? DeviceMemory::the().find(at, 0) : nullptr;
    if (!found || found->device == device.index) continue;
    decoys.emplace_back(found->bytes + 1024, 0xa5);
    const uintptr_t start = (reinterpret_cast<uintptr_t>(decoys.back().data()) + 255) / 256 * 256 + (at - found->at) % 256;
    std::memcpy(a.at(i), &start, sizeof start);
  }
}

// Another lowest bit in the first number that the last pointer leads to.
void leave_wrong(const Arguments& a) {
  for (size_t i = a.kernel->parameters.size(); i-- > 0;) {
    if (!a.kernel->parameters[i].is_pointer) continue;
    uintptr_t at;
    std::memcpy(&at, a.at(i), sizeof at);
    if (!at) continue;
    *reinterpret_cast<unsigned*>(at) ^= 1;
    return;
  }
}

void trace(const Kernel& kernel, const Launch& l, std::chrono::steady_clock::duration took) {
  static std::ofstream& out = *new std::ofstream(settings().trace, std::ios::app);
  out << kernel.name << " grid " << l.grid.x << ' ' << l.grid.y << ' ' << l.grid.z << " block " << l.size.x << ' '
      << l.size.y << ' ' << l.size.z << " shared " << l.dynamic_bytes << " us "
      << std::chrono::duration_cast<std::chrono::microseconds>(took).count() << (l.early ? " early" : "") << std::endl;
}

void run_now(const Device& device, Arguments a, const Shape& shape) {
  const std::string name = a.kernel->name;
  const std::string wrong = wrong_pointer(a, device);
  if (!wrong.empty()) stop((name + ": " + wrong).c_str());
  std::vector<std::vector<unsigned char>> decoys;
  if (settings().lying_peers) redirect(a, device, decoys);
  std::vector<void*> arguments(a.kernel->parameters.size());
  for (size_t i = 0; i < arguments.size(); i++) arguments[i] = a.at(i);
  if (settings().hollow) return run_hollow(*a.kernel, arguments.data());
  const std::function<void()> call = [&] { a.kernel->call(arguments.data()); };
  const Launch l{shape.grid, shape.block, shape.dynamic_shared, &call, a.kernel->name, shape.early};
  const auto start = std::chrono::steady_clock::now();
  const bool has_faults = device.launches > settings().fault_after;
  while (has_faults && name == settings().hanging_kernel) pause();
  launch(l);
  const bool may_be_wrong = shape.early || !settings().wrong_early;
  if (has_faults && may_be_wrong && name == settings().wrong_kernel) leave_wrong(a);
  if (!settings().trace.empty()) trace(*a.kernel, l, std::chrono::steady_clock::now() - start);
  const std::string overrun = DeviceMemory::the().overrun();
  if (!overrun.empty()) stop((name + ": a write " + overrun).c_str());
}

CUresult queue_launch(Device& device, CUstream_st& stream, const CUfunc_st& f, const Shape& shape, void** given) {
  const auto no = [&](const std::string& why, CUresult code) {
    return refuse("cuLaunchKernel", "`" + f.name + "`: " + why, code);
  };
  const std::string geometry = wrong_geometry(f, shape);
  if (!geometry.empty()) return no(geometry, CUDA_ERROR_INVALID_VALUE);
  const size_t registers = size_t(f.image.registers) * shape.block.x * shape.block.y * shape.block.z;
  if (registers > 65536) return no(std::to_string(registers) + " registers", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);

  const auto arguments = std::make_shared<Arguments>(Arguments{f.kernel, std::vector<unsigned char>(f.kernel->bytes())});
  for (size_t i = 0; i < f.kernel->parameters.size(); i++)
    if (!given || !copy_if_readable(arguments->at(i), given[i], f.kernel->parameters[i].bytes))
      return no("argument " + std::to_string(i) + " of " + std::to_string(f.kernel->parameters.size()) +
                    " cannot be read: are too few given?",
                CUDA_ERROR_INVALID_VALUE);
  const std::string pointer = wrong_pointer(*arguments, device);
  if (!pointer.empty()) return no(pointer, CUDA_ERROR_INVALID_VALUE);
  if (!count_launch(device)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  add_work(stream, {[&device, arguments, shape] { run_now(device, *arguments, shape); }, nullptr, 1});
  return CUDA_SUCCESS;
}

CUresult launch_on(CUstream handle, CUfunction function, const Shape& shape, void** arguments, void** extra) {
  if (extra) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult known = on_function(function, [](Device&, CUfunc_st&) { return CUDA_SUCCESS; });
  if (known) return known;
  return on_stream(handle, [&](Device& device, CUstream_st& stream) {
    return queue_launch(device, stream, *function, shape, arguments);
  });
}

}  // namespace

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared,
                                CUstream handle, void** arguments, void** extra) {
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared, false};
  return launch_on(handle, function, shape, arguments, extra);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** arguments, void** extra) {
  Shape shape{{c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, false};
  for (unsigned i = 0; i < c->numAttrs; i++) {
    if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_NOT_SUPPORTED;
    shape.early = c->attrs[i].value.programmaticStreamSerializationAllowed;
  }
  return launch_on(c->hStream, function, shape, arguments, extra);
}
