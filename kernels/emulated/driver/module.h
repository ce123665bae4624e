// Modules and their functions.
#pragma once
#include <cuda.h>

#include <map>
#include <string>

#include "../registry.h"
#include "device.h"
#include "image.h"

struct CUfunc_st {
  std::string name;
  const host::Kernel* kernel;
  host::KernelImage image;
  CUmodule module;
  size_t most_dynamic_shared = host::kSharedPerBlock - image.static_shared;
};

struct CUmod_st {
  int device;
  host::Image image;
  std::map<std::string, CUfunc_st> functions;
};

namespace host {

// A call on a function of a module that is loaded.
template <typename F>
CUresult on_function(CUfunction function, F body) {
  return on_device([&](Device& device) -> CUresult {
    for (const CUmodule module : driver().modules)
      for (const auto& [name, f] : module->functions)
        if (&f == function) return body(device, *function);
    return CUDA_ERROR_INVALID_HANDLE;
  });
}

}  // namespace host
