// A planted fault for scripts/cuda/static.sh: a wait for a barrier in shared memory that never ends if no thread arrives.
#include "../../../common.cuh"

extern "C" __global__ void unbounded(float* y) {
  __shared__ uint64_t barrier;
  await_earlier();
#if __CUDA_ARCH__ >= 900
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(at) : "memory");
  __syncthreads();
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n}\n" ::"r"(at)
      : "memory");
#endif
  y[threadIdx.x] = 1.0f;
}
