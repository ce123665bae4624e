// kernels/emulated/host.h: what a kernel may rely on when it runs on the CPU.
#include "tally.h"

namespace {

Tally tally("host");

// Neighbours exchange through shared memory: wrong unless the barrier holds every thread back.
void reverse(int* values) {
  DYNAMIC_SHARED(int, shared);
  const unsigned n = blockDim.x, i = threadIdx.x;
  shared[i] = values[blockIdx.x * n + i];
  __syncthreads();
  values[blockIdx.x * n + i] = shared[n - 1 - i];
}

void test_barrier_and_blocks() {
  std::vector<int> v(3 * 100);
  for (size_t i = 0; i < v.size(); i++) v[i] = int(i);
  host::launch(dim3(3), dim3(100), 100 * sizeof(int), [&] { reverse(v.data()); });
  bool ok = true;
  for (int b = 0; b < 3; b++)
    for (int i = 0; i < 100; i++) ok &= v[b * 100 + i] == b * 100 + 99 - i;
  tally.check(ok, "__syncthreads, or blocks share memory");
}

void test_shuffles() {
  std::vector<int> sum(64), up(64), down(64), from(64);
  std::vector<unsigned> odd(64);
  host::launch(dim3(1), dim3(64), 0, [&] {
    const int i = threadIdx.x;
    int v = i;
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    sum[i] = v;
    up[i] = __shfl_up_sync(~0u, i, 3);
    down[i] = __shfl_down_sync(~0u, i, 3, 8);
    from[i] = __shfl_sync(~0u, i, 5);
    odd[i] = __ballot_sync(~0u, i & 1);
  });
  tally.check(sum[0] == 496 && sum[31] == 496 && sum[32] == 496 + 32 * 32, "__shfl_xor_sync");
  tally.check(up[2] == 2 && up[3] == 0 && up[32] == 32 && up[40] == 37, "__shfl_up_sync");
  tally.check(down[4] == 7 && down[5] == 5 && down[33] == 36, "__shfl_down_sync in groups of 8");
  tally.check(from[0] == 5 && from[40] == 37, "__shfl_sync");
  tally.check(odd[0] == 0xAAAAAAAAu && odd[63] == 0xAAAAAAAAu, "__ballot_sync");
}

void test_ended_threads_block_none() {
  int arrived = 0;
  host::launch(dim3(1), dim3(8, 8), 0, [&] {
    if (threadIdx.y > 3) return;  // whole warps
    __syncthreads();
    atomicAdd(&arrived, 1);
  });
  tally.check(arrived == 32, "a barrier after some warps have ended");
}

void test_bf16() {
  tally.check(__bfloat162float(__float2bfloat16_rn(1.00390625f)) == 1.0f, "bf16 rounds half to even, down");
  tally.check(__bfloat162float(__float2bfloat16_rn(1.01171875f)) == 1.015625f, "bf16 rounds half to even, up");
}

}  // namespace

int main() {
  test_barrier_and_blocks();
  test_shuffles();
  test_ended_threads_block_none();
  test_bf16();
  return tally.end();
}
