// Hopper's product of a warp group (sm_90a): 64 rows x 8 J columns, the columns in shared memory, the rows there or in
// registers.
//
// Here in PTX; under emulation kernels/emulated/wgmma.h has the same functions, with the same bits on an H100. On another
// generation's card they stop the kernel.
//
// Proved by kernels/tests/gemm.cpp, kernels/tests/wgmma.cpp.
#pragma once

#include "mma.cuh"

#if !defined(HOST_KERNEL_TEST) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WGMMA_HERE 1
#endif

// Operands are rows of 64 bf16 values (128 bytes), eight rows one after another in 1024 aligned bytes, chunk c of row
// r where chunk c ^ r % 8 would stand: the swizzle of 128 bytes, and what gemm_stage.cuh's Rows<.., 64, ..> are.

#ifdef WGMMA_HERE
// Where an operand begins: bits 0..14 its address, 32..46 the distance from eight rows to the next eight, both in units
// of 16 bytes; bit 62 the swizzle. A k16 step further is 32 bytes further: the swizzle applies to whole addresses.
__device__ __forceinline__ uint64_t wgmma_operand(const unsigned char* at) {
  constexpr uint64_t kEightRows = 1024 / 16, kSwizzle = 1;
  return (shared_address(at) & 0x3ffff) >> 4 | uint64_t{1} << 16 | kEightRows << 32 | kSwizzle << 62;
}
// The same of a transposed operand, whose rows are k: bits 16..29 are the distance from 64 columns to the next 64, bits
// 32..46 that from eight k to the next eight.
__device__ __forceinline__ uint64_t wgmma_transposed(const unsigned char* at, int columns) {
  constexpr uint64_t kEightRows = 1024 / 16, kSwizzle = 1;
  return (shared_address(at) & 0x3ffff) >> 4 | static_cast<uint64_t>(columns >> 4) << 16 | kEightRows << 32 | kSwizzle << 62;
}
#endif

#define WGMMA_TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define WGMMA_FOUR(s, j) "+f"(s[j][0]), "+f"(s[j][1]), "+f"(s[j][2]), "+f"(s[j][3])
#define WGMMA_SIXTEEN(s, j) WGMMA_FOUR(s, j), WGMMA_FOUR(s, j + 1), WGMMA_FOUR(s, j + 2), WGMMA_FOUR(s, j + 3)
#define WGMMA_SIXTY_FOUR(s, j) \
  WGMMA_SIXTEEN(s, j), WGMMA_SIXTEEN(s, j + 4), WGMMA_SIXTEEN(s, j + 8), WGMMA_SIXTEEN(s, j + 12)
#define WGMMA_N64 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) "%30,%31}, "
#define WGMMA_N128                                                                                                     \
  "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) WGMMA_TEN(3) WGMMA_TEN(4) \
      WGMMA_TEN(5) "%60,%61,%62,%63}, "

#define WGMMA_N160                                                                                                     \
  "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 {" WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) WGMMA_TEN(3) WGMMA_TEN(4) \
      WGMMA_TEN(5) WGMMA_TEN(6) "%70,%71,%72,%73,%74,%75,%76,%77,%78,%79}, "
#define WGMMA_N192                                                                                                     \
  "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) WGMMA_TEN(3) WGMMA_TEN(4) \
      WGMMA_TEN(5) WGMMA_TEN(6) WGMMA_TEN(7) WGMMA_TEN(8) "%90,%91,%92,%93,%94,%95}, "

#ifdef WGMMA_HERE
#define WGMMA_ASM(...) asm volatile(__VA_ARGS__)
#else
#define WGMMA_ASM(...) __trap()
#endif

#ifdef HOST_KERNEL_TEST
#include "emulated/wgmma.h"
#else
// Starts d += a b^T for k16: a the group's 64 rows, b the tokens' 8 J rows. Warp w of the group has rows 16 w on, dealt
// out as by mma_bf16: d[j] is tokens 8 j on.
__device__ __forceinline__ void wgmma_start(float (&d)[8][4], const unsigned char* a, const unsigned char* b) {
  WGMMA_ASM(WGMMA_N64 "%32, %33, 1, 1, 1, 0, 0;\n"
               : WGMMA_SIXTEEN(d, 0), WGMMA_SIXTEEN(d, 4)
               : "l"(wgmma_operand(a)), "l"(wgmma_operand(b)));
}
__device__ __forceinline__ void wgmma_start(float (&d)[16][4], const unsigned char* a, const unsigned char* b) {
  WGMMA_ASM(WGMMA_N128 "%64, %65, 1, 1, 1, 0, 0;\n"
               : WGMMA_SIXTY_FOUR(d, 0)
               : "l"(wgmma_operand(a)), "l"(wgmma_operand(b)));
}
__device__ __forceinline__ void wgmma_start(float (&d)[20][4], const unsigned char* a, const unsigned char* b) {
  WGMMA_ASM(WGMMA_N160 "%80, %81, 1, 1, 1, 0, 0;\n"
               : WGMMA_SIXTY_FOUR(d, 0), WGMMA_SIXTEEN(d, 16)
               : "l"(wgmma_operand(a)), "l"(wgmma_operand(b)));
}
__device__ __forceinline__ void wgmma_start(float (&d)[24][4], const unsigned char* a, const unsigned char* b) {
  WGMMA_ASM(WGMMA_N192 "%96, %97, 1, 1, 1, 0, 0;\n"
               : WGMMA_SIXTY_FOUR(d, 0), WGMMA_SIXTEEN(d, 16), WGMMA_SIXTEEN(d, 20)
               : "l"(wgmma_operand(a)), "l"(wgmma_operand(b)));
}
__device__ __forceinline__ void wgmma_start(float (&d)[32][4], const unsigned char* a, const unsigned char* b) {
  WGMMA_ASM("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2)
                   WGMMA_TEN(3) WGMMA_TEN(4) WGMMA_TEN(5) WGMMA_TEN(6) WGMMA_TEN(7) WGMMA_TEN(8) WGMMA_TEN(9)
                   WGMMA_TEN(10) WGMMA_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, 0, 0;\n"
               : WGMMA_SIXTY_FOUR(d, 0), WGMMA_SIXTY_FOUR(d, 16)
               : "l"(wgmma_operand(a)), "l"(wgmma_operand(b)));
}

// Starts d += a b for k16: a each warp's 16 rows in registers, as mma_bf16 has them, which must not change until the
// product is done; b 16 rows of k (2048 bytes) of 64 columns each, the next 64 `columns` bytes further.
__device__ __forceinline__ void wgmma_start_transposed(float (&d)[8][4], const uint32_t (&a)[4], const unsigned char* b, int columns) {
  WGMMA_ASM(WGMMA_N64 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
               : WGMMA_SIXTEEN(d, 0), WGMMA_SIXTEEN(d, 4)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(wgmma_transposed(b, columns)));
}
__device__ __forceinline__ void wgmma_start_transposed(float (&d)[16][4], const uint32_t (&a)[4], const unsigned char* b, int columns) {
  WGMMA_ASM(WGMMA_N128 "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
               : WGMMA_SIXTY_FOUR(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(wgmma_transposed(b, columns)));
}

#ifdef WGMMA_HERE
#define WGMMA_PTX(text) asm volatile(text "\n" ::: "memory")
#else
#define WGMMA_PTX(text)
#endif
// Before the first product after registers were written.
__device__ __forceinline__ void wgmma_fence() { WGMMA_PTX("wgmma.fence.sync.aligned;"); }
// Ends a group: the products since the last commit.
__device__ __forceinline__ void wgmma_commit() { WGMMA_PTX("wgmma.commit_group.sync.aligned;"); }
// Until all but the last group are done; until all are.
__device__ __forceinline__ void wgmma_wait_but_one() { WGMMA_PTX("wgmma.wait_group.sync.aligned 1;"); }
__device__ __forceinline__ void wgmma_wait() { WGMMA_PTX("wgmma.wait_group.sync.aligned 0;"); }
// Makes what this thread has put into shared memory visible to products; a barrier must follow.
__device__ __forceinline__ void wgmma_publish() { WGMMA_PTX("fence.proxy.async.shared::cta;"); }

#endif

// Sums begin at zeros that the compiler does not know to be zeros: it would start them with a product that takes no sum
// before, and that has not been compared on a card.
template <int J>
__device__ __forceinline__ void begin_at_zero(float (&sum)[J][4]) {
#pragma unroll
  for (int e = 0; e < J * 4; e++) {
    sum[e / 4][e % 4] = 0.0f;
#ifndef HOST_KERNEL_TEST
    asm volatile("mov.b32 %0, 0;" : "=f"(sum[e / 4][e % 4]));
#endif
  }
}
