// On a card of capability 9.0, built by NVIDIA's nvcc: a wait for a copy that does not arrive ends the kernel with an error.
//
//   nvcc -arch=sm_90a -o traps kernels/tests/traps.cu && ./traps
//
// Prints a JSON object: the seconds until the wait ended, and the driver's error. Exit code 1: it did not end so.
#include "../tma.cuh"

__global__ void wait_for_nothing() {
  __shared__ uint64_t barrier;
  mbarrier_init(&barrier, 1);
  mbarrier_publish();
  mbarrier_wait(&barrier, 0);
}

#ifndef __CUDACC_RTC__  // scripts/cuda/nvcc.py compiles the code of the device alone
#include <chrono>
#include <cstdio>

int main() {
  const auto begin = std::chrono::steady_clock::now();
  wait_for_nothing<<<1, 1>>>();
  const cudaError_t error = cudaDeviceSynchronize();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  printf("{\"seconds\": %.2f, \"error\": \"%s\"}\n", seconds.count(), cudaGetErrorString(error));
  return error == cudaErrorLaunchFailure ? 0 : 1;
}
#endif
