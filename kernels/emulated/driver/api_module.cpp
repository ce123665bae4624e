// The driver's functions about modules, their functions, and how many blocks fit on a multiprocessor.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "module.h"

using namespace host;

namespace {

// Whether this library's kernel and the image's take the same arguments: else one of them is out of date.
bool same_parameters(const Kernel& kernel, const KernelImage& image) {
  if (!image.has_parameters) return true;
  return std::equal(kernel.parameters.begin(), kernel.parameters.end(), image.parameter_bytes.begin(),
                    image.parameter_bytes.end(), [](const Parameter& p, size_t bytes) { return p.bytes == bytes; });
}

CUresult load(Device& device, CUmodule* module, const void* at) {
  Image image;
  if (!at || !read_image(at, image)) return refuse("cuModuleLoadData", "neither a cubin nor PTX", CUDA_ERROR_INVALID_IMAGE);
  if (settings().driver < image.driver)
    return refuse("cuModuleLoadData", "an image for drivers from " + std::to_string(image.driver) + " on",
                  image.is_binary ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  if (!image.runs_on(settings().capability))
    return refuse("cuModuleLoadData",
                  "an image for sm_" + std::to_string(image.capability) + (image.exact ? "a" : "") +
                      " does not run on sm_" + std::to_string(settings().capability),
                  image.is_binary ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_PTX);
  *module = new CUmod_st{device.index, std::move(image), {}};
  driver().modules.insert(*module);
  return CUDA_SUCCESS;
}

// Threads, registers (in steps of 8 a thread, 256 a warp), shared memory and blocks: whichever ends first.
int blocks_that_fit(const CUfunc_st& f, int threads, size_t dynamic_shared) {
  const Limits& l = limits();
  if (threads <= 0 || threads > f.image.max_threads) return 0;
  const int warps = (threads + 31) / 32, registers = (f.image.registers + 7) / 8 * 8;
  int n = std::min(l.blocks_per_multiprocessor, l.threads_per_multiprocessor / (warps * 32));
  if (registers) n = std::min(n, 65536 / (registers * 32 * warps));
  const size_t shared = f.image.static_shared + dynamic_shared + kSharedReserved;
  return static_cast<int>(std::min<size_t>(n, l.shared_per_multiprocessor / shared));
}

}  // namespace

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  return on_device([&](Device& device) { return load(device, module, image); });
}
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* path) {
  return on_device([&](Device& device) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    return load(device, module, bytes.c_str());
  });
}
CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  return on_device([&](Device& device) -> CUresult {
    if (!driver().modules.erase(module)) return CUDA_ERROR_INVALID_HANDLE;
    run_everything(device);
    delete module;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return on_device([&](Device&) -> CUresult {
    if (!driver().modules.count(module)) return CUDA_ERROR_INVALID_HANDLE;
    const auto in_image = module->image.kernels.find(name);
    if (in_image == module->image.kernels.end())
      return refuse("cuModuleGetFunction", std::string("the image has no kernel `") + name + "`", CUDA_ERROR_NOT_FOUND);
    const Kernel* kernel = find_kernel(name);
    if (!kernel)
      return refuse("cuModuleGetFunction", std::string("this library has no kernel `") + name + "`", CUDA_ERROR_NOT_FOUND);
    if (!same_parameters(*kernel, in_image->second))
      return refuse("cuModuleGetFunction",
                    std::string("`") + name + "` takes other arguments in the image than in this library: one is out of date",
                    CUDA_ERROR_INVALID_IMAGE);
    *function = &module->functions.emplace(name, CUfunc_st{name, kernel, in_image->second, module}).first->second;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuModuleGetFunctionCount(unsigned* n, CUmodule module) {
  return on_device([&](Device&) {
    if (!driver().modules.count(module)) return CUDA_ERROR_INVALID_HANDLE;
    *n = static_cast<unsigned>(module->image.kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction function) {
  return on_function(function, [&](Device&, CUfunc_st& f) {
    *name = f.name.c_str();
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuFuncGetModule(CUmodule* module, CUfunction function) {
  return on_function(function, [&](Device&, CUfunc_st& f) {
    *module = f.module;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t i, size_t* offset, size_t* bytes) {
  return on_function(function, [&](Device&, CUfunc_st& f) -> CUresult {
    if (settings().driver < 12040) return refuse("cuFuncGetParamInfo", "CUDA 12.4 brought it", CUDA_ERROR_NOT_SUPPORTED);
    if (i >= f.kernel->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = f.kernel->parameters[i].offset;
    if (bytes) *bytes = f.kernel->parameters[i].bytes;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
  return on_function(function, [&](Device&, CUfunc_st& f) {
    switch (which) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = f.image.max_threads; break;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(f.image.static_shared); break;
      case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = f.image.registers; break;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = f.module->image.capability; break;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = static_cast<int>(f.most_dynamic_shared); break;
      case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = -1; break;
      default: *value = 0;
    }
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  return on_function(function, [&](Device&, CUfunc_st& f) -> CUresult {
    if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
    if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_NOT_SUPPORTED;
    const size_t most = limits().shared_per_block_optin - f.image.static_shared;
    if (value < 0 || size_t(value) > most)
      return refuse("cuFuncSetAttribute",
                    "`" + f.name + "`: " + std::to_string(value) + " bytes of shared memory, " + std::to_string(most) +
                        " at most",
                    CUDA_ERROR_INVALID_VALUE);
    f.most_dynamic_shared = size_t(value);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return on_function(function, [](Device&, CUfunc_st&) { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, CUfunction function, int threads,
                                                                      size_t dynamic_shared, unsigned) {
  return on_function(function, [&](Device&, CUfunc_st& f) {
    *n = blocks_that_fit(f, threads, dynamic_shared);
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction function, int threads,
                                                             size_t dynamic_shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, function, threads, dynamic_shared, 0);
}
CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks, int) {
  return on_function(function, [&](Device&, CUfunc_st& f) -> CUresult {
    if (blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
    const size_t share = limits().shared_per_multiprocessor / size_t(blocks), taken = kSharedReserved + f.image.static_shared;
    *bytes = share > taken ? std::min(share - taken, limits().shared_per_block_optin) : 0;
    return CUDA_SUCCESS;
  });
}
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* threads, CUfunction function,
                                                           CUoccupancyB2DSize shared_for, size_t dynamic_shared,
                                                           int limit, unsigned) {
  return on_function(function, [&](Device&, CUfunc_st& f) {
    const int most = limit > 0 ? std::min(limit, f.image.max_threads) : f.image.max_threads;
    int best = 0;
    for (int t = most / 32 * 32; t >= 32; t -= 32) {
      const int n = blocks_that_fit(f, t, shared_for ? shared_for(t) : dynamic_shared);
      if (n * t <= best) continue;
      best = n * t, *threads = t, *grid = n * settings().multiprocessors;
    }
    return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* threads, CUfunction function,
                                                  CUoccupancyB2DSize shared_for, size_t dynamic_shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, threads, function, shared_for, dynamic_shared, limit, 0);
}
