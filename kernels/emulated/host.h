// Runs the source of CUDA kernels on the CPU. With g++: `-include host.h`, then the .cu file as it is.
//
// Each thread of a block is a fiber (block.h). Offered: thread and block indices, static and dynamic shared memory,
// barriers of block and warp, shuffles, votes and reductions with their masks checked, atomics, the IEEE intrinsics,
// the toolkit's own __nv_bfloat16 and __half, and what kernels/mma.cuh (mma.h) and kernels/tma.cuh (tma.h) have. Shared
// memory starts as NaN.
//
// Not offered: other inline PTX, clusters, textures. Not shown: the order of memory between blocks, and
// what fast-math intrinsics round. Build with -ffp-contract=off, or g++ may fuse what a kernel rounds apart.
#pragma once
#define HOST_KERNEL_TEST 1
#include <cuda_bf16.h>  // also dim3, uint3, float4, ...
#include <cuda_fp16.h>

// The toolkit's headers spell these for nvcc; here they mean nothing, and shared memory is the running CPU thread's.
#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __shared__
#undef __constant__
#undef __align__
#ifdef HOST_LIST_KERNELS  // marks kernels for scripts/cuda/library.sh, which lists them
#define __global__ host_kernel_mark
#else
#define __global__
#endif
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __constant__ static
#define __align__(n) alignas(n)
#define __restrict__ __restrict
#define await_earlier() (void)(host::self().awaited = true)
#define DYNAMIC_SHARED(T, name) T* const name = reinterpret_cast<T*>(host::self().block->dynamic.at)

#include "block.h"
#include "launch.h"

// The caller's place, as default arguments.
#define HOST_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#define threadIdx (host::self().thread)
#define blockIdx (host::self().block->index)
#define blockDim (host::self().block->size)
#define gridDim (host::self().block->grid)
#define warpSize 32

#include "collectives.h"
#include "intrinsics.h"
