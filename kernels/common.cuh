// What the kernels share: types, conversions, exp, and sums over a warp and a block in one fixed order.
//
// `await_earlier` is the first statement of every kernel but TMA products, which may copy weights before it.
//
// All kernels give the same bits on a card and under kernels/emulated: each rounding is explicit (__fmaf_rn, __fmul_rn,
// __fadd_rn), none is left to the compiler or to the card's approximations.
//
// Proved by kernels/tests/common.cpp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

// Dynamic shared memory, named once at the top of a kernel: `DYNAMIC_SHARED(float, tile);`. Aligned to 128 bytes.
// The emulator defines its own.
#ifndef HOST_KERNEL_TEST
#define DYNAMIC_SHARED(T, name)                                 \
  extern __shared__ __align__(128) unsigned char shared_bytes[]; \
  T* const name = reinterpret_cast<T*>(shared_bytes)

// Waits until the preceding kernels of the stream have finished and their writes are visible, then allows the next
// kernel to start (programmatic dependent launch, from compute capability 9.0 on; Start::Early in
// crates/cuda/src/launch.rs). The next kernel's blocks are scheduled once every block of this one has
// executed this statement, and wait here; at most one kernel is waiting, since it has not allowed its successor to
// start.
//
// Since a block may be resident while the preceding kernel still writes, no kernel reads device memory through the
// read-only cache, which requires that no kernel writes the data during this one's lifetime: parameters that point to
// const are not __restrict__, and there is no __ldg.
//
// scripts/cuda/static.sh rejects machine code that accesses memory before this statement or through the read-only
// cache; the emulator a thread that ends without it, and a TMA copy before it of a map that copy_early does not name.
__device__ __forceinline__ void await_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ float widen(bf16 v) { return __bfloat162float(v); }
__device__ __forceinline__ float widen(__half v) { return __half2float(v); }
__device__ __forceinline__ void narrow(float v, float& to) { to = v; }
__device__ __forceinline__ void narrow(float v, bf16& to) { to = __float2bfloat16_rn(v); }
__device__ __forceinline__ void narrow(float v, __half& to) { to = __float2half_rn(v); }

// e^x within one unit in the last place; 0 below -104 (so for -infinity), infinity above 88.73, NaN for NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, e^r = 1 + r + r^2 p(r). p is the polynomial of degree 5 through
// (e^r - 1 - r) / r^2 at the six Chebyshev nodes; ln 2 is taken in two parts, the first exact for every n.
__device__ __forceinline__ float exp_f32(float x) {
  if (!(x >= -104.0f)) return x != x ? x : 0.0f;
  if (x > 89.0f) x = 89.0f;  // already infinite
  const float shifted = __fmaf_rn(x, 0x1.715476p+0f, 12582912.0f);  // 1.5 * 2^23: what is added ends as an integer
  const float n = __fadd_rn(shifted, -12582912.0f);
  const float r = __fmaf_rn(n, -0x1.7f7d1cp-20f, __fmaf_rn(n, -0x1.62e4p-1f, x));
  float p = 0x1.a12528p-13f;
  p = __fmaf_rn(p, r, 0x1.6d4362p-10f);
  p = __fmaf_rn(p, r, 0x1.1110e0p-7f);
  p = __fmaf_rn(p, r, 0x1.5554e8p-5f);
  p = __fmaf_rn(p, r, 0x1.555556p-3f);
  p = __fmaf_rn(p, r, 0.5f);
  const float value = __fmaf_rn(__fmul_rn(r, r), p, r);
  // Times 2^n in two exact halves, so that only the last product rounds where the result is subnormal.
  const int exponent = static_cast<int>(n), half = exponent / 2;
  const float first = __int_as_float((half + 127) << 23), second = __int_as_float((exponent - half + 127) << 23);
  return __fmul_rn(__fmul_rn(__fadd_rn(1.0f, value), first), second);
}

// The sum over a warp's lanes, the same in each: in pairs at distance 16, 8, 4, 2, 1.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) v = __fadd_rn(v, __shfl_xor_sync(kAllLanes, v, distance));
  return v;
}

// The largest of a warp's lanes, the same in each. A NaN counts only where all are.
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, distance));
  return v;
}

// Whether this warp is the last of `n` to arrive at a semaphore; it then sees what all of them wrote before. The
// semaphore is 0 before the first arrival, and again after the last.
__device__ __forceinline__ bool last_arrival(unsigned* semaphore, int n) {
  unsigned before = 0;
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    __threadfence();
    before = atomicInc(semaphore, static_cast<unsigned>(n - 1));
  }
  if (__shfl_sync(kAllLanes, before, 0) != static_cast<unsigned>(n - 1)) return false;
  __threadfence();
  return true;
}

// The sum over a block of whole warps in x, the same in each thread: each warp's sum, then the sums in the order
// of warps. `scratch`: 32 floats of shared memory, free again afterwards.
__device__ __forceinline__ float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  const int n_warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = scratch[0];
  for (int w = 1; w < n_warps; w++) sum = __fadd_rn(sum, scratch[w]);
  __syncthreads();
  return sum;
}
