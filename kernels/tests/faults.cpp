// Runs one planted fault of kernels/tests/faults, for a sanitizer to find: `faults NAME`. Without a name it runs what
// is sound, in several orders; nothing may be found in that. scripts/cuda/sanitize.sh says what each must lead to.
#include "faults/aligned.cu"
#include "faults/cached.cu"
#include "faults/tma.cu"
#include "faults/memory.cu"
#include "faults/split_k.cu"
#include "faults/sound.cu"
#include "faults/threads.cu"
#include "faults/wgmma.cu"

#include <functional>
#include <map>

#include "tally.h"

namespace {

struct Fault {
  unsigned blocks, threads, shared_bytes;
  std::function<void(const float* x, float* y)> call;
  bool early = false;
  std::function<void(const float* x)> before = {};  // an earlier launch of one warp
};

// x, 128 floats, as four rows of 64 bf16.
CUtensorMap four_rows(const float* x) {
  return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(x), 2, 2, {64, 4}, {128}, {64, 1}});
}
Fault with_tma(TmaFault fault) {
  return {1, 64, 4096, [fault](const float* x, float* y) { tma_ring(four_rows(x), y, fault); }};
}

Fault with_aligned(AlignedFault fault) {
  return {1, 32, 512, [fault](const float*, float* y) { aligned_loads(y, fault); }};
}

Fault with_wgmma(WgmmaFault fault) {
  static bf16 ones[8] __attribute__((aligned(16)));
  for (bf16& v : ones) narrow(1.0f, v);
  return {1, 128, 17 << 10, [fault](const float*, float* y) { ones_product(ones, y, fault); }};
}

// `written_before`: x is written by the launch before, beside which this one may run.
Fault with_cache(CachedFault fault, bool written_before = false) {
  static unsigned semaphore;
  semaphore = 0;
  const auto write = [](const float* x) { const_cast<float*>(x)[threadIdx.x] = 3.0f; };
  return {2, 32, 0, [fault](const float* x, float* y) { cached_loads(const_cast<float*>(x), y, &semaphore, fault); },
          written_before, written_before ? write : std::function<void(const float*)>()};
}

// Sums that are 0 in their order, 1 in another, and not a number where one is missing.
Fault with_reduction(ReductionFault fault) {
  static std::vector<float> parts, terms;
  static unsigned semaphore;
  parts.assign(96, NAN), terms.assign(96, 1.0f), semaphore = 0;
  std::fill(terms.begin(), terms.begin() + 32, 1e8f);
  std::fill(terms.end() - 32, terms.end(), -1e8f);
  return {3, 32, 0, [fault](const float*, float* y) { reduction(terms.data(), y, parts.data(), &semaphore, fault); }};
}

// x and y: 128 floats each.
const std::map<std::string, Fault> faults = {
    {"misaligned_load", {1, 32, 0, [](const float* x, float* y) { misaligned_load(x, y); }}},
    {"overrun", {1, 32, 0, [](const float*, float* y) { overrun(y, 129); }}},
    {"shared_overrun", {1, 32, 128, [](const float*, float* y) { shared_overrun(y, 32); }}},
    {"uninitialised", {1, 32, 128, [](const float*, float* y) { uninitialised(y, 32); }}},
    {"missing_wait", {1, 32, 512, [](const float* x, float* y) { missing_wait(x, y); }}},
    {"overtaken", {1, 64, 256, [](const float* x, float* y) { overtaken(x, y); }}},
    {"missing_barrier", {1, 64, 256, [](const float* x, float* y) { missing_barrier(x, y, 64); }}},
    {"shuffle_for_barrier", {1, 32, 0, [](const float* x, float* y) { shuffle_for_barrier(x, y); }}},
    {"divergent_barrier", {1, 64, 0, [](const float*, float* y) { divergent_barrier(y); }}},
    {"aligned_skips", with_aligned(kSkips)},
    {"aligned_returns", with_aligned(kReturns)},
    {"aligned_two_places", with_aligned(kTwoPlaces)},
    {"aligned_half_transposes", with_aligned(kHalfTransposes)},
    {"aligned_half_frees", with_aligned(kHalfFrees)},
    {"cached_own_write", with_cache(kOwnWrite)},
    {"cached_other_block", with_cache(kOtherBlock)},
    {"cached_overlapped", with_cache(kSoundCached, true)},
    {"tma_no_wait", with_tma(kNoWait)},
    {"tma_wrong_phase", with_tma(kWrongPhase)},
    {"tma_no_arrival", with_tma(kNoArrival)},
    {"tma_no_wait_for_room", with_tma(kNoWaitForRoom)},
    {"tma_too_few_bytes", with_tma(kTooFewBytes)},
    {"tma_no_init", with_tma(kNoInit)},
    {"tma_left", with_tma(kLeft)},
    {"tma_misaligned", with_tma(kMisaligned)},
    {"tma_overwritten", with_tma(kOverwritten)},
    {"tma_too_early", with_tma(kTooEarly)},
    {"split_k_first_reduces", with_reduction(kFirstReduces)},
    {"split_k_own_first", with_reduction(kOwnFirst)},
    {"split_k_no_fence", with_reduction(kNoFence)},
    {"split_k_semaphore_not_zero", with_reduction(kSemaphoreNotZero)},
    {"wgmma_no_publish", with_wgmma(kNoPublish)},
    {"wgmma_publish_too_early", with_wgmma(kPublishTooEarly)},
    {"wgmma_publish_too_late", with_wgmma(kPublishTooLate)},
    {"wgmma_stores_no_publish", with_wgmma(kStoresNoPublish)},
    {"wgmma_store_after_publish", with_wgmma(kStoreAfterPublish)},
    {"wgmma_no_first_fence", with_wgmma(kNoFirstFence)},
    {"wgmma_no_second_fence", with_wgmma(kNoSecondFence)},
    {"wgmma_no_commit", with_wgmma(kNoCommit)},
    {"wgmma_no_product_wait", with_wgmma(kNoProductWait)},
    {"wgmma_sums_in_flight", with_wgmma(kSumsInFlight)},
    {"wgmma_operand_in_flight", with_wgmma(kOperandInFlight)},
    {"wgmma_half_waits", with_wgmma(kHalfWaits)},
    {"wgmma_transposed_no_publish", with_wgmma(kTransposedNoPublish)},
    {"wgmma_rows_in_flight", with_wgmma(kRowsInFlight)},
    {"forgotten_wait", {1, 32, 0, [](const float* x, float* y) { forgotten_wait(x, y); }, true}},
    {"blocks_race", {4, 32, 0, [](const float*, float* y) { blocks_race(y); }}},
};

void run_sound() {
  for (const unsigned order : {0, 1, 2}) {
    host::order() = order;
    std::vector<float> x(96, 2.0f), y(96);
    int counts[2] = {0, 0};
    host::launch(dim3(3), dim3(32), 0, [&] { scale(x.data(), y.data(), 96, 2.0f); }, "scale", true);
    host::launch(dim3(3), dim3(32), 128, [&] { reverse(y.data(), x.data(), 32); });
    host::launch(dim3(3), dim3(64), 0, [&] { count(counts, 0.0, 1); });
    std::vector<float> ones(128, 1.0f), sums(32);
    host::launch(dim3(1), dim3(64), 4096, [&] { tma_ring(four_rows(ones.data()), sums.data(), kSoundTma); });
    if (sums != std::vector<float>(32, 4.0f)) host::stop("a sound TMA kernel is wrong");
    host::launch(dim3(1), dim3(32), 512, [&] { aligned_loads(sums.data(), kSoundAligned); });
    if (sums != std::vector<float>(32, 64.0f)) host::stop("sound aligned instructions are wrong");
    for (const WgmmaFault sound : {kSoundCopies, kSoundStores, kSoundTransposed}) {
      std::vector<float> products(128);
      const Fault f = with_wgmma(sound);
      host::launch(dim3(1), dim3(128), f.shared_bytes, [&] { f.call(nullptr, products.data()); });
      if (products != std::vector<float>(128, 128.0f)) host::stop("a sound product of a warp group is wrong");
    }
    const Fault cached = with_cache(kSoundCached);
    for (const bool early : {false, true}) {  // x is written two launches before the second
      if (!early) host::launch(dim3(1), dim3(32), 0, [&] { x[threadIdx.x] = 4.0f; });
      host::launch(dim3(2), dim3(32), 0, [&] { cached.call(x.data(), sums.data()); }, "cached", early);
      if (sums != std::vector<float>(32, 4.0f)) host::stop("a sound load through the cache is wrong");
    }
    const Fault sound = with_reduction(kSoundReduction);
    for (const int again : {0, 1}) {  // the semaphore is 0 again
      sums.assign(32, NAN);
      host::launch(dim3(sound.blocks), dim3(sound.threads), 0, [&] { sound.call(nullptr, sums.data()); });
      if (sums != std::vector<float>(32, 0.0f)) host::stop(again ? "a second reduction is wrong" : "a sound reduction is wrong");
    }
    if (x[95] != 4.0f || counts[0] != 192 || counts[1] != 3) host::stop("a sound kernel is wrong");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    run_sound();
    std::printf("1 passed, 0 failed\n");
    return 0;
  }
  const Fault& f = faults.at(argv[1]);
  std::vector<float> x(128, 1.0f), y(128, 1.0f);
  if (f.before) host::launch(dim3(1), dim3(32), 0, [&] { f.before(x.data()); });
  host::launch(dim3(f.blocks), dim3(f.threads), f.shared_bytes, [&] { f.call(x.data(), y.data()); }, argv[1], f.early);
  float sum = 0;
  for (const float v : y) sum += v;
  std::printf("%f\n", sum);  // NaN where one is
}
