// tail.cu: against the CPU's sampler in C++, over random rows, masks, temperatures and nuclei, with ties, infinities
// and NaN; wants alone as together; log.cuh against the library's.
#include "../tail.cu"

#include <algorithm>
#include <numeric>

#include "random.h"

namespace {

// What sampler.rs does, with the kernel's exponentials.
struct Sampler {
  const float* logits;
  std::vector<int> ids;  // allowed, ascending

  static float largest(const float* logits, const std::vector<int>& ids) {
    float peak = -INFINITY;
    for (const int id : ids) peak = std::fmax(peak, logits[id]);
    return peak;
  }
  static double log_sum_exp(const float* logits, const std::vector<int>& ids) {
    const double peak = largest(logits, ids);
    if (peak == -INFINITY) return -INFINITY;
    double total = 0;
    for (const int id : ids) total += std::exp(logits[id] - peak);
    return peak + std::log(total);
  }

  // -1 where nothing can be chosen.
  int choose(float temperature, float top_p, double draw) const {
    const float peak = largest(logits, ids);
    const auto first = std::find_if(ids.begin(), ids.end(), [&](int id) { return logits[id] >= peak; });
    if (first == ids.end()) return -1;
    if (temperature <= 0) return *first;
    std::vector<float> weights(ids.size());
    for (size_t i = 0; i < ids.size(); i++) {
      const float x = (logits[ids[i]] - peak) * (1 / temperature);
      weights[i] = x == x ? exp_f32(x) : 0;
    }
    const auto kept = nucleus(weights, double(top_p));
    double left = 0;
    for (const size_t at : kept) left += double(weights[at]);
    left *= draw;
    for (const size_t at : kept)
      if ((left -= double(weights[at])) < 0) return ids[at];
    return kept.empty() ? -1 : ids[kept.back()];
  }

  static std::vector<size_t> nucleus(const std::vector<float>& weights, double top_p) {
    std::vector<size_t> order(weights.size());
    std::iota(order.begin(), order.end(), 0);
    order.erase(std::remove_if(order.begin(), order.end(), [&](size_t at) { return weights[at] == 0; }), order.end());
    if (top_p >= 1) return order;
    double total = 0, reached = 0;
    for (const float w : weights) total += double(w);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weights[a] > weights[b]; });
    size_t n = 0;
    while (n < order.size() && (reached += double(weights[order[n++]])) < top_p * total) {
    }
    order.resize(n);
    std::sort(order.begin(), order.end());
    return order;
  }
};

struct Batch {
  int vocab, mask_words;
  std::vector<float> logits;
  std::vector<unsigned> masks;
  std::vector<Want> wants;
};

std::vector<Choice> run(const Batch& b) {
  std::vector<Choice> choices(b.wants.size(), Choice{-7, 0, NAN, NAN});
  const int n = int(b.wants.size());
  Found none;
  std::memset(&none, 0xff, sizeof none);
  std::vector<Found> found(size_t(n) * 32, none);
  for (const auto part : {tail_peaks, tail_sums}) {
    host::launch(dim3(8 * n), dim3(128), 0, [&] {
      part(b.logits.data(), b.wants.data(), b.masks.data(), found.data(), n, b.vocab, b.mask_words);
    });
  }
  host::launch(dim3(n), dim3(1024), 0, [&] {
    tail(b.logits.data(), b.wants.data(), b.masks.data(), found.data(), choices.data(), n, b.vocab, b.mask_words);
  });
  return choices;
}

std::vector<int> allowed(const Batch& b, int mask) {
  std::vector<int> ids;
  for (int id = 0; id < b.vocab; id++)
    if (mask < 0 || (id / 32 < b.mask_words && b.masks[size_t(mask) * b.mask_words + id / 32] >> (id % 32) & 1))
      ids.push_back(id);
  return ids;
}

bool close(double got, double wanted) {
  if (wanted != wanted) return got != got;
  return got == wanted || std::fabs(got - wanted) <= 2e-6 * std::max(1.0, std::fabs(wanted) / 50);
}

void compare(Tally& tally, const Batch& b, const std::string& name) {
  const auto choices = run(b);
  for (size_t i = 0; i < b.wants.size(); i++) {
    const Want& want = b.wants[i];
    const float* row = b.logits.data() + size_t(want.row) * b.vocab;
    const Sampler all = {row, allowed(b, -1)}, some = {row, allowed(b, want.mask)};
    const int id = want.kind == 0 ? want.id : some.choose(want.temperature, want.top_p, want.draw);
    const std::string here = name + ", want " + std::to_string(i);
    const double logprob = id < 0 ? 0 : row[id] - Sampler::log_sum_exp(row, all.ids);
    const double masked = id < 0 ? 0 : row[id] - Sampler::log_sum_exp(row, some.ids);
    const int wanted_id = logprob != logprob ? -1 : id;
    tally.check(choices[i].id == wanted_id,
                here + ": id " + std::to_string(choices[i].id) + ", not " + std::to_string(wanted_id));
    tally.check(close(choices[i].logprob, logprob),
                here + ": logprob " + std::to_string(choices[i].logprob) + ", not " + std::to_string(logprob));
    tally.check(close(choices[i].masked_logprob, masked), here + ": masked_logprob " +
                                                              std::to_string(choices[i].masked_logprob) + ", not " +
                                                              std::to_string(masked));
    Batch alone = b;
    alone.wants = {want};
    const Choice one = run(alone)[0];
    tally.check(std::memcmp(&one, &choices[i], sizeof one) == 0, here + ": alone it gets another answer");
  }
}

enum Shape { kSmooth, kCoarse, kPeaked, kFlat, kMinusInfinity, kNaN, kShapes };

float logit(Random& random, int shape) {
  const float x = random.number();
  switch (shape) {
    case kSmooth: return 3 * x;
    case kCoarse: return std::round(4 * x);  // many ties
    case kPeaked: return 40 * x;
    case kFlat: return 0.25f;
    case kMinusInfinity: return random.below(3) ? -INFINITY : x;
    default: return random.below(3) ? x : NAN;
  }
}

Batch random_batch(int vocab, int shape, int n_wants, uint64_t seed) {
  Random random{seed};
  Batch b = {vocab, (vocab + 31) / 32, {}, {}, {}};
  const int rows = 3, masks = 4;
  for (int i = 0; i < rows * vocab; i++) b.logits.push_back(logit(random, shape));
  for (int i = 0; i < masks * b.mask_words; i++) {
    const unsigned bits = unsigned(random.next());
    b.masks.push_back(i / b.mask_words == 0 ? bits : i / b.mask_words == 1 ? (random.below(20) ? 0 : bits & -bits) : bits & (bits >> 3));
  }
  for (int i = 3 * b.mask_words; i < 4 * b.mask_words; i++) b.masks[i] = 0;  // allows nothing
  const float temperatures[] = {0.0f, 1.0f, 0.3f, 2.5f}, shares[] = {1.0f, 0.9f, 0.5f, 0.05f, 0.0f};
  for (int i = 0; i < n_wants; i++)
    b.wants.push_back({int(random.below(rows)), i % 5 != 0, int(random.below(vocab)), int(random.below(masks + 1)) - 1,
                       temperatures[random.below(4)], shares[random.below(5)], random.uniform()});
  return b;
}

void test_edges(Tally& tally) {
  Batch b = {8, 1, {-0.0f, 0.0f, NAN, -1, 0.0f, -INFINITY, -3, -3}, {0xd6, 0x20, 0xffffff00u}, {}};
  b.wants = {{0, 1, 0, -1, 0, 1, 0}, {0, 1, 0, 0, 0, 1, 0}, {0, 1, 0, 1, 0, 1, 0}, {0, 1, 0, 2, 0, 1, 0},
             {0, 1, 0, -1, 1, 1, 0}, {0, 1, 0, -1, 1, 1, 0.999999999999}, {0, 0, 5, -1, 0, 1, 0}, {0, 0, 2, -1, 0, 1, 0}};
  compare(tally, b, "edges");
  b.logits.assign(8, -INFINITY);
  compare(tally, b, "all minus infinity");
  b.logits.assign(8, NAN);
  compare(tally, b, "all NaN");
  b.logits.assign(8, 1);
  b.logits[3] = INFINITY;
  compare(tally, b, "an infinity");
  b.wants = {{0, 0, 8, -1, 0, 1, 0}, {0, 0, -1, -1, 0, 1, 0}};
  for (const Choice& c : run(b)) tally.check(c.id == -1, "an id beyond the vocabulary is weighed");
}

// How often each token is drawn.
void test_distribution(Tally& tally) {
  Batch b = {4, 1, {0.0f, std::log(3.0f), -INFINITY, 0.0f}, {}, {}};
  const int n = kFewer > 1 ? 40 : 4000;
  for (int i = 0; i < n; i++) b.wants.push_back({0, 1, 0, -1, 1, 1, (i + 0.5) / n});
  int counts[4] = {};
  for (const Choice& c : run(b)) counts[c.id]++;
  tally.check(counts[0] == n / 5 && counts[1] == 3 * n / 5 && counts[2] == 0 && counts[3] == n / 5, "shares of draws");
}

void test_log(Tally& tally) {
  double error = 0;
  Random random{3};
  for (int i = 0; i < 200000; i++) {
    const double x = std::ldexp(1 + random.uniform(), int(random.below(80)) - 20), wanted = std::log(x);
    error = std::max(error, std::fabs(log_f64(x) - wanted) / std::max(std::fabs(wanted), 1e-3));
  }
  tally.check(error < 5e-16, "log_f64 is wrong by " + std::to_string(error * 1e16) + "e-16");
  tally.check(log_f64(1) == 0 && log_f64(0) == -INFINITY && log_f64(INFINITY) == INFINITY, "log_f64 at its ends");
  tally.check(log_f64(-1) != log_f64(-1) && log_f64(NAN) != log_f64(NAN), "log_f64 of what has no logarithm");
}

}  // namespace

int main() {
  Tally tally{"tail"};
  test_log(tally);
  test_edges(tally);
  test_distribution(tally);
  for (const int vocab : {5, 33, 320, 4099, 5000})
    for (int shape = 0; shape < kShapes; shape += kFewer > 1 ? 2 : 1)
      compare(tally, random_batch(vocab, shape, kFewer > 1 ? 1 : 24, uint64_t(vocab) * 10 + shape),
              "vocabulary of " + std::to_string(vocab) + ", shape " + std::to_string(shape));
  for (const int shape : {kSmooth, kCoarse})
    compare(tally, random_batch(151936, shape, kFewer > 1 ? 1 : 6, shape),
            "vocabulary of 151936, shape " + std::to_string(shape));
  return tally.end();
}
