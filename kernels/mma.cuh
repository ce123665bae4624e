// The tensor core's product, its loads from shared memory, and asynchronous copies into shared memory (sm_80 on).
//
// Here in PTX; under emulation kernels/emulated/mma.h has the same functions with the same bits.
//
// Proved by kernels/tests/mma.cpp and kernels/tests/fragments.cpp.
#pragma once

#include "common.cuh"

#ifdef HOST_KERNEL_TEST
#include "emulated/mma.h"
#else

// d += a b for a warp: a [16, 16] by rows, b [16, 8] by columns, both bf16, d [16, 8] in f32. With g = lane / 4 and
// t = 2 (lane % 4), a lane holds
//   d: (g, t) (g, t + 1) (g + 8, t) (g + 8, t + 1)
//   a: pairs at (g, t) (g + 8, t) (g, t + 8) (g + 8, t + 8), the first of a pair in the low half
//   b: pairs at (t, g) and (t + 8, g), the second of a pair one row further down
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Loads 8x8 matrices of 16-bit elements: lane 8 i + j names row j of matrix i (16 aligned bytes of shared memory),
// and r[i] of lane l is the pair (l / 4, 2 (l % 4)) of matrix i; of its transpose in the _trans versions.
// The _x2 versions take rows from lanes 0 to 15; the others' addresses are not read.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(shared_row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&r)[2], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(shared_row))
               : "memory");
}

// The transpose of an 8x8 matrix of 16-bit elements: lane l gives and gets the pair (l / 4, 2 (l % 4)).
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t pair) {
  uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out) : "r"(pair));
  return out;
}

// Starts a copy of 16 aligned bytes into shared memory; zeros, and `global` not read, where !valid.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
// Ends a group: the thread's copies since the last commit.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Until all but the thread's last N groups have arrived. Other threads' copies need a barrier after it.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

#endif
