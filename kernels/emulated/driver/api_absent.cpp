// Functions that cudarc may call and that this driver does not have: it says so instead of ending the program, which
// is what cudarc does where a library lacks a name.
#include <cuda.h>

#include "device.h"

#define ABSENT(name)                                                                          \
  extern "C" CUresult absent_##name() __asm__(#name);                                         \
  CUresult absent_##name() {                                                                  \
    return host::refuse(#name, "the emulated driver does not have it", CUDA_ERROR_NOT_SUPPORTED); \
  }

ABSENT(cuCtxCreate_v2)
ABSENT(cuCtxCreate_v3)
ABSENT(cuCtxCreate_v4)
ABSENT(cuCtxDestroy_v2)
ABSENT(cuCtxGetCacheConfig)
ABSENT(cuCtxSetCacheConfig)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxSetLimit)
ABSENT(cuDestroyExternalMemory)
ABSENT(cuExternalMemoryGetMappedBuffer)
ABSENT(cuImportExternalMemory)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuMemAdvise_v2)
ABSENT(cuMemAllocManaged)
ABSENT(cuMemPoolCreate)
ABSENT(cuMemPoolDestroy)
ABSENT(cuMemPrefetchAsync_v2)
ABSENT(cuModuleGetGlobal_v2)
ABSENT(cuOccupancyMaxActiveClusters)
ABSENT(cuOccupancyMaxPotentialClusterSize)
ABSENT(cuProfilerStart)
ABSENT(cuProfilerStop)
ABSENT(cuStreamAttachMemAsync)
