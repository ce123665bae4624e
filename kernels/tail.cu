// A token from each wanted row of logits, and its exact log-probabilities, so that logits never leave the device.
//
//   logprob        = logit - log_sum_exp(all logits)
//   masked_logprob = logit - log_sum_exp(the logits that the mask allows); without a mask, logprob
//
// `weigh` scores the given id; `choose` samples one among the allowed: with temperature <= 0 the first of the largest,
// otherwise the first id at which the running sum of e^((logit - largest) / temperature), in order of ids, exceeds
// draw * sum. With top_p < 1 from the nucleus alone: the fewest tokens whose weights sum to at least top_p of all, the
// heaviest first, of equal ones the smallest ids first. A row with a NaN has no log-probability.
//
//   logits   [any, vocab]         f32
//   wants    [n_wants]            see Want; several may name one row
//   masks    [any, mask_words]    one bit per id, low bit first; a set bit allows it. Ids beyond the words are not allowed
//   choices  [n_wants]            see Choice
//
//   found    [n_wants, 32]        see Found: partial results between the three kernels
//
// Launch, one after another: tail_peaks and tail_sums, block 128, grid (8 n_wants); tail, block 1024, grid (n_wants);
// all on the same wants. Each has 1,024 threads for a row; blocks of 128 fill a card with fewer rows (one block of 1,024
// took 318 us for 256 rows of 152,064 on an H100). Four logits at a time where vocab is a multiple of 4 (logits 16-byte
// aligned).
//
// Every sum has one order, or none that matters. log_sum_exp: thread t takes ids 4 t to 4 t + 3, then those 4096
// further on; exponentials of four neighbours are added in f32 in pairs, the fours in f64 in order, lanes as
// warp_sum_f64 says, warps in order. Weights for sampling are counted in units of 2^-44 of the heaviest (a smaller one is
// never drawn), as 64-bit integers, whose sums are exact: up to 2^20 tokens fit. The CPU's sampler adds the same weights
// in f64, so the two can differ only where draw * sum is within 10^-12 of a token's edge.
//
// Moves per want: the row once for the largest and once for the sums; sampling reads it twice more, a nucleus four times
// besides. Up to about 80 rows of 152,064 are in the second-level cache after the first.
//
// Proved by kernels/tests/tail.cpp: against the CPU's sampler in C++ over random rows, masks,
// temperatures, nuclei, ties, infinities and NaN; and alone as in a batch.
#include "log.cuh"

struct Want {
  int row;
  int kind;  // 0 weigh, 1 choose
  int id;    // the token to weigh
  int mask;  // which mask; -1 for none
  float temperature;
  float top_p;
  double draw;  // uniform in 0..1
};

struct Choice {
  int id;  // -1: nothing is allowed, or no log-probability came out
  int pad;
  double logprob;
  double masked_logprob;
};

namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32, kStride = 4 * kThreads;
constexpr int kPartThreads = 128;  // of a row's threads, those of a block that shares it with others
constexpr float kUnits = 17592186044416.0f;  // 2^44

using Count = unsigned long long;

__device__ __forceinline__ Count lesser(Count a, Count b) { return a < b ? a : b; }

struct Row {
  const float* logits;
  const unsigned* mask;  // null: everything is allowed
  int vocab, mask_words;

  // Four logits from `id` on, a multiple of 4; `none` beyond the vocabulary: NaN, which no search finds, or minus infinity,
  // which adds nothing.
  __device__ __forceinline__ float4 four(int id, float none = __int_as_float(0x7fc00000)) const {
    if (vocab % 4 == 0) return *reinterpret_cast<const float4*>(logits + id);
    return {logits[id], id + 1 < vocab ? logits[id + 1] : none, id + 2 < vocab ? logits[id + 2] : none,
            id + 3 < vocab ? logits[id + 3] : none};
  }

  // One bit each for the four ids from `id` on.
  __device__ __forceinline__ unsigned allowed(int id) const {
    if (!mask) return 15;
    return id / 32 < mask_words ? mask[id / 32] >> (id % 32) & 15 : 0;
  }
};

__device__ __forceinline__ float at(const float4& four, int i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// e^(x - peak). NaN where that is not a number, and with it the sum and the log-probability.
__device__ __forceinline__ float weight(float x, float peak) { return exp_f32(__fsub_rn(x, peak)); }

// The same for sampling, in units of 2^-44; 0 where that is not a number.
struct Tempered {
  float peak, by;
  __device__ __forceinline__ float weight(float x) const {
    const float less = __fmul_rn(__fsub_rn(x, peak), by);
    return less == less ? exp_f32(less) : 0.0f;
  }
  static __device__ __forceinline__ Count count(float weight) { return static_cast<Count>(__fmul_rn(weight, kUnits)); }
};

// Order of floats as order of integers; both zeros are one.
__device__ __forceinline__ unsigned ordered(float x) {
  const unsigned bits = static_cast<unsigned>(__float_as_int(__fadd_rn(x, 0.0f)));
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_ordered(unsigned bits) {
  return __int_as_float(static_cast<int>(bits >> 31 ? bits & 0x7fffffffu : ~bits));
}

struct Shared {
  Count counts[256];
  Count warp_counts[kWarps], warp_ties[kWarps];
  Count above, left;
  unsigned digit;
  int found;
};

__device__ __forceinline__ Count warp_sum_count(Count v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(kAllLanes, v, distance);
  return v;
}

// A warp's sum, the same in each lane: lanes in pairs at distance 16, 8, 4, 2, 1.
__device__ __forceinline__ double warp_sum_f64(double v) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) v = __dadd_rn(v, __shfl_xor_sync(kAllLanes, v, distance));
  return v;
}

__device__ __forceinline__ unsigned long long warp_max_key(unsigned long long key) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned long long other = __shfl_xor_sync(kAllLanes, key, distance);
    key = other > key ? other : key;
  }
  return key;
}

struct Best {
  float peak;         // of the whole row
  float masked_peak;  // of what is allowed
  int id;             // the first that has it; -1 if nothing is allowed
};

// What one of a row's warps has found.
struct Found {
  float peak;
  unsigned long long best;  // the larger logit wins, then the smaller id; 0 means that there is none
  double all, allowed;
};

// The row's peak, and the first of the largest allowed, among what the row's thread `thread` has; together those of its warp.
__device__ __forceinline__ void find_largest(const Row& row, int thread, Found& found) {
  float peak = -INFINITY, best = -INFINITY;
  int id = -1;
#pragma unroll 4
  for (int c = 4 * thread; c < row.vocab; c += kStride) {
    const float4 four = row.four(c);
    const unsigned allowed = row.allowed(c);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float x = at(four, i);
      peak = fmaxf(peak, x);
      if (allowed >> i & 1 && (x > best || (id < 0 && x >= best))) best = x, id = c + i;
    }
  }
  unsigned long long key = id < 0 ? 0 : static_cast<unsigned long long>(ordered(best)) << 32 | (0xffffffffu - id);
  found.peak = warp_max(peak), found.best = warp_max_key(key);
}

// The same of all of the row's warps.
__device__ __forceinline__ Best largest(const Found* found) {
  const int lane = threadIdx.x % 32;
  const float peak = warp_max(found[lane].peak);
  const unsigned long long key = warp_max_key(found[lane].best);
  if (key == 0) return {peak, -INFINITY, -1};
  return {peak, from_ordered(static_cast<unsigned>(key >> 32)), static_cast<int>(0xffffffffu - static_cast<unsigned>(key))};
}

struct Sums {
  double all, allowed;
};

// The sums of e^(x - peak) over what the row's thread `thread` has, and over what of it is allowed against its own peak;
// together those of its warp.
__device__ __forceinline__ Sums sums_of_warp(const Row& row, int thread, const Best& best) {
  Sums sum = {0.0, 0.0};
#pragma unroll 2
  for (int c = 4 * thread; c < row.vocab; c += kStride) {
    const float4 x = row.four(c, -INFINITY);
    const float pair = __fadd_rn(weight(x.x, best.peak), weight(x.y, best.peak));
    const float next = __fadd_rn(weight(x.z, best.peak), weight(x.w, best.peak));
    sum.all = __dadd_rn(sum.all, static_cast<double>(__fadd_rn(pair, next)));
    const unsigned allowed = row.mask ? row.allowed(c) : 0;
    if (allowed) {
      float w[4];
#pragma unroll
      for (int i = 0; i < 4; i++) w[i] = allowed >> i & 1 ? weight(at(x, i), best.masked_peak) : 0.0f;
      const float some = __fadd_rn(__fadd_rn(w[0], w[1]), __fadd_rn(w[2], w[3]));
      sum.allowed = __dadd_rn(sum.allowed, static_cast<double>(some));
    }
  }
  return {warp_sum_f64(sum.all), row.mask ? warp_sum_f64(sum.allowed) : 0.0};
}

// The sums over the row: its warps in order.
__device__ __forceinline__ Sums sums(const Row& row, const Found* found) {
  Sums sum = {found[0].all, found[0].allowed};
  for (int w = 1; w < kWarps; w++) {
    sum.all = __dadd_rn(sum.all, found[w].all);
    sum.allowed = __dadd_rn(sum.allowed, found[w].allowed);
  }
  return row.mask ? sum : Sums{sum.all, sum.all};
}

// The sum of the allowed weights' counts.
__device__ __forceinline__ Count total_count(const Row& row, const Tempered& tempered, Shared& shared) {
  Count count = 0;
  for (int c = 4 * static_cast<int>(threadIdx.x); c < row.vocab; c += kStride) {
    const unsigned allowed = row.allowed(c);
    if (!allowed) continue;
    const float4 x = row.four(c);
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (allowed >> i & 1) count += Tempered::count(tempered.weight(at(x, i)));
  }
  count = warp_sum_count(count);
  if (threadIdx.x % 32 == 0) shared.warp_counts[threadIdx.x / 32] = count;
  __syncthreads();
  count = 0;
  for (int w = 0; w < kWarps; w++) count += shared.warp_counts[w];
  __syncthreads();
  return count;
}

// Which tokens take part: those heavier than `least`, and the first `ties` that weigh as much.
struct Nucleus {
  unsigned least;  // the bits of a weight
  Count ties;
  Count total;  // what takes part, counted
};

// Finds the nucleus by the bits of its least weight, eight at a time from the top: a histogram of what each digit
// counts, then the digit where the heavier ones' sum reaches `target`.
__device__ __forceinline__ Nucleus nucleus(const Row& row, const Tempered& tempered, Count target, Shared& shared) {
  unsigned least = 0;
  Count above = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kThreads) shared.counts[i] = 0;
    __syncthreads();
    for (int c = 4 * static_cast<int>(threadIdx.x); c < row.vocab; c += kStride) {
      const unsigned allowed = row.allowed(c);
      if (!allowed) continue;
      const float4 x = row.four(c);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (!(allowed >> i & 1)) continue;
        const float weight = tempered.weight(at(x, i));
        const unsigned bits = static_cast<unsigned>(__float_as_int(weight));
        const Count count = Tempered::count(weight);
        const bool same_top = shift == 24 || bits >> (shift + 8) == least >> (shift + 8);
        if (count > 0 && same_top) atomicAdd(&shared.counts[bits >> shift & 255], count);
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned digit = 255;
      for (; digit > 0 && above + shared.counts[digit] < target; digit--) above += shared.counts[digit];
      shared.digit = digit, shared.above = above;
    }
    __syncthreads();
    least |= shared.digit << shift, above = shared.above;
  }
  const Count each = Tempered::count(__int_as_float(static_cast<int>(least)));
  const Count ties = (target - above + each - 1) / each;
  return {least, ties, above + ties * each};
}

// What a token adds to its warp: its count if it is heavier than the nucleus' least, or that it ties.
struct Part {
  Count count, ties;
};

__device__ __forceinline__ Part part_of(float weight, const Nucleus& kept) {
  const unsigned bits = static_cast<unsigned>(__float_as_int(weight));
  if (bits > kept.least) return {Tempered::count(weight), 0};
  return {0, bits == kept.least ? 1ull : 0ull};
}

// The first id, in order, at which the running sum of what takes part exceeds `point`. Each warp has a range of ids:
// first the sums of all ranges, then the range in which the point lies.
__device__ __forceinline__ int pick(const Row& row, const Tempered& tempered, const Nucleus& kept, Count point,
                                    Shared& shared) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int range = (row.vocab + kWarps * 128 - 1) / (kWarps * 128) * 128;
  const int first = warp * range, end = min(row.vocab, first + range);
  const Count each = Tempered::count(__int_as_float(static_cast<int>(kept.least)));
  Part mine = {0, 0};
  for (int c = first + 4 * lane; c < end; c += 128) {
    const unsigned allowed = row.allowed(c);
    if (!allowed) continue;
    const float4 x = row.four(c);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (!(allowed >> i & 1)) continue;
      const Part part = part_of(tempered.weight(at(x, i)), kept);
      mine.count += part.count, mine.ties += part.ties;
    }
  }
  mine = {warp_sum_count(mine.count), warp_sum_count(mine.ties)};
  if (lane == 0) shared.warp_counts[warp] = mine.count, shared.warp_ties[warp] = mine.ties;
  __syncthreads();

  // Where this warp's range begins: the sum so far, and the ties that are still to be taken.
  Count sum = 0, ties = kept.ties;
  for (int w = 0; w < warp; w++) {
    const Count taken = lesser(shared.warp_ties[w], ties);
    sum += shared.warp_counts[w] + taken * each, ties -= taken;
  }
  const Count ends = sum + mine.count + lesser(mine.ties, ties) * each;
  if (sum <= point && point < ends) {  // in one warp only
    bool found = false;
    for (int c = first; c < end && !found; c += 128) {
      const int id = c + 4 * lane;
      float weights[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      Part fours[4], whole = {0, 0};
      if (id < end) {
        const float4 x = row.four(id);
        const unsigned allowed = row.allowed(id);
#pragma unroll
        for (int i = 0; i < 4; i++) weights[i] = allowed >> i & 1 ? tempered.weight(at(x, i)) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        fours[i] = weights[i] > 0.0f ? part_of(weights[i], kept) : Part{0, 0};
        whole.count += fours[i].count, whole.ties += fours[i].ties;
      }
      // The lanes before this one.
      Part before = whole;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const Count count = __shfl_up_sync(kAllLanes, before.count, distance);
        const Count more = __shfl_up_sync(kAllLanes, before.ties, distance);
        if (lane >= distance) before.count += count, before.ties += more;
      }
      const Count all_counts = __shfl_sync(kAllLanes, before.count, 31);
      const Count all_ties = __shfl_sync(kAllLanes, before.ties, 31);
      before.count -= whole.count, before.ties -= whole.ties;
      Count running = sum + before.count + lesser(before.ties, ties) * each;
      Count free = ties - lesser(before.ties, ties);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const Count taken = lesser(fours[i].ties, free), more = fours[i].count + taken * each;
        if (running <= point && point < running + more) shared.found = id + i;
        running += more, free -= taken;
      }
      const Count taken = lesser(all_ties, ties);
      sum += all_counts + taken * each, ties -= taken;
      found = point < sum;
    }
  }
  __syncthreads();
  return shared.found;
}

// A token drawn from the allowed ones. -1 if none has any weight.
__device__ __forceinline__ int sample(const Row& row, const Want& want, const Best& best, Shared& shared) {
  const Tempered tempered = {best.masked_peak, __fdiv_rn(1.0f, want.temperature)};
  const Count total = total_count(row, tempered, shared);
  if (total == 0) return -1;
  Nucleus kept = {0, 0, total};
  if (want.top_p < 1.0f) {
    const double share = ceil(__dmul_rn(static_cast<double>(want.top_p), static_cast<double>(total)));
    const Count target = lesser(total, share < 1.0 ? 1ull : static_cast<Count>(share));
    kept = nucleus(row, tempered, target, shared);
  }
  const Count point = static_cast<Count>(__dmul_rn(want.draw, static_cast<double>(kept.total)));
  return pick(row, tempered, kept, lesser(point, kept.total - 1), shared);
}

// What a block of a row's threads works on: want blockIdx.x / 8, threads 128 (blockIdx.x % 8) and on.
struct Place {
  int want, thread;
  __device__ __forceinline__ Place() {
    constexpr int kBlocks = kThreads / kPartThreads;
    want = static_cast<int>(blockIdx.x) / kBlocks;
    thread = static_cast<int>(blockIdx.x) % kBlocks * kPartThreads + static_cast<int>(threadIdx.x);
  }
};

__device__ __forceinline__ Row row_of(const Want& want, const float* logits, const unsigned* masks, int vocab, int mask_words) {
  const unsigned* mask = want.mask < 0 ? nullptr : masks + static_cast<size_t>(want.mask) * mask_words;
  return {logits + static_cast<size_t>(want.row) * vocab, mask, vocab, mask_words};
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kPartThreads)
    tail_peaks(const float* logits, const Want* wants, const unsigned* masks,
               Found* __restrict__ found, int n_wants, int vocab, int mask_words) {
  await_earlier();
  const Place place;
  if (place.want >= n_wants) return;
  Found mine = {};
  find_largest(row_of(wants[place.want], logits, masks, vocab, mask_words), place.thread, mine);
  if (threadIdx.x % 32 == 0) found[static_cast<size_t>(place.want) * kWarps + place.thread / 32] = mine;
}

extern "C" __global__ void __launch_bounds__(kPartThreads)
    tail_sums(const float* logits, const Want* wants, const unsigned* masks,
              Found* __restrict__ found, int n_wants, int vocab, int mask_words) {
  await_earlier();
  const Place place;
  if (place.want >= n_wants) return;
  Found* const of_row = found + static_cast<size_t>(place.want) * kWarps;
  const Row row = row_of(wants[place.want], logits, masks, vocab, mask_words);
  const Sums mine = sums_of_warp(row, place.thread, largest(of_row));
  if (threadIdx.x % 32 == 0) of_row[place.thread / 32].all = mine.all, of_row[place.thread / 32].allowed = mine.allowed;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    tail(const float* logits, const Want* wants, const unsigned* masks,
         const Found* found, Choice* __restrict__ choices, int n_wants, int vocab, int mask_words) {
  await_earlier();
  __shared__ Shared shared;
  if (static_cast<int>(blockIdx.x) >= n_wants) return;
  const Want want = wants[blockIdx.x];
  const Row row = row_of(want, logits, masks, vocab, mask_words);
  const unsigned* const mask = row.mask;
  found += static_cast<size_t>(blockIdx.x) * kWarps;
  const Best best = largest(found);
  const Sums sum = sums(row, found);
  int id = want.id;
  if (want.kind != 0) {
    id = best.id;
    if (id >= 0 && want.temperature > 0.0f) id = sample(row, want, best, shared);
  }
  if (threadIdx.x != 0) return;

  Choice choice = {-1, 0, 0.0, 0.0};
  if (id >= 0 && id < vocab) {
    const double logit = static_cast<double>(row.logits[id]);
    const double all = __dadd_rn(static_cast<double>(best.peak), log_f64(sum.all));
    choice.id = id;
    choice.logprob = __dsub_rn(logit, all);
    choice.masked_logprob =
        mask ? __dsub_rn(logit, __dadd_rn(static_cast<double>(best.masked_peak), log_f64(sum.allowed))) : choice.logprob;
    if (choice.logprob != choice.logprob) choice.id = -1;
  }
  choices[blockIdx.x] = choice;
}
