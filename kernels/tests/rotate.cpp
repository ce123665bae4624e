// rotate.cu: against f64 for each head size, with and without head norms; where keys and values go, and that nothing
// else is written; a row alone as in a batch.
#include "../rotate.cu"

#include "random.h"

namespace {

constexpr float kEps = 1e-6f;

struct Shape {
  int heads, kv_heads, dim, rotary;
  bool norm_last = false, norms_values = false;
  int width() const { return (heads + 2 * kv_heads) * dim; }
};

struct Input {
  std::vector<float> qkv, q_norm, k_norm, v_norm, cos, sin;
  std::vector<int> positions, slots;
  std::vector<float> growth;  // empty: none
};

struct Output {
  std::vector<bf16> q, keys, values;
};

constexpr int kContext = 40, kBlocks = 3;

Output run(const Shape& s, const Input& in, bool norm) {
  const int rows = int(in.slots.size());
  const size_t cache = size_t(kBlocks) * s.kv_heads * 16 * s.dim;
  Output out = {std::vector<bf16>(size_t(rows) * s.heads * s.dim, nan_bf16()), std::vector<bf16>(cache, nan_bf16()),
                std::vector<bf16>(cache, nan_bf16())};
  host::launch(dim3(rows, (s.heads + 2 * s.kv_heads + 3) / 4), dim3(32, 4), 0, [&] {
    rotate(in.qkv.data(), norm ? in.q_norm.data() : nullptr, norm ? in.k_norm.data() : nullptr,
           s.norms_values ? in.v_norm.data() : nullptr, in.cos.data(), in.sin.data(), in.positions.data(), in.slots.data(),
           in.growth.empty() ? nullptr : in.growth.data(), out.q.data(), out.keys.data(), out.values.data(), nullptr, rows,
           s.heads, s.kv_heads, s.dim, s.rotary, s.norm_last, kEps);
  });
  return out;
}

void norm_of(std::vector<double>& v, const float* weight) {
  double squares = 0;
  for (const double x : v) squares += x * x;
  for (size_t d = 0; weight && d < v.size(); d++) v[d] *= weight[d] / std::sqrt(squares / v.size() + double(kEps));
}

std::vector<double> rotated(const Shape& s, const Input& in, const float* head, const float* weight, int position,
                            float growth = 1) {
  std::vector<double> v(head, head + s.dim);
  if (!s.norm_last) norm_of(v, weight);
  std::vector<double> out = v;
  const int half = s.rotary / 2;
  for (int i = 0; i < half; i++) {
    const double c = in.cos[position * half + i], n = in.sin[position * half + i];
    out[i] = v[i] * c - v[i + half] * n, out[i + half] = v[i + half] * c + v[i] * n;
  }
  if (s.norm_last) norm_of(out, weight);
  for (double& x : out) x *= growth;
  return out;
}

double worst(const std::vector<double>& wanted, const bf16* got) {
  double error = 0;
  for (size_t d = 0; d < wanted.size(); d++) error = std::max(error, roundings(widen(got[d]), wanted[d], 1e-4));
  return error;
}

void one_case(Tally& tally, const Shape& s, bool norm, bool grows = false) {
  const int rows = 3;
  Random random{uint64_t(s.dim)};
  const Input in = {random.numbers(size_t(rows) * s.width()), random.numbers(s.dim), random.numbers(s.dim), random.numbers(s.dim),
                    random.numbers(size_t(kContext) * s.rotary / 2), random.numbers(size_t(kContext) * s.rotary / 2),
                    {39, 0, 17}, {47, 0, 18},
                    grows ? std::vector<float>{1.5f, 1.0f, 1.25f} : std::vector<float>{}};
  const std::string name = std::to_string(s.heads) + "+" + std::to_string(s.kv_heads) + " heads of " +
                           std::to_string(s.dim) + (norm ? " with norms" : "") + (s.norm_last ? " after" : "") + (s.norms_values ? " and of values, " : ", ") +
                           std::to_string(s.rotary) + " rotated" + (grows ? ", queries that grow" : "");
  const Output out = run(s, in, norm);
  double error = 0;
  Output wanted_places = {out.q, std::vector<bf16>(out.keys.size(), nan_bf16()),
                          std::vector<bf16>(out.keys.size(), nan_bf16())};
  for (int r = 0; r < rows; r++) {
    const float* heads = in.qkv.data() + size_t(r) * s.width();
    for (int h = 0; h < s.heads; h++)
      error = std::max(error, worst(rotated(s, in, heads + h * s.dim, norm ? in.q_norm.data() : nullptr, in.positions[r], grows ? in.growth[r] : 1),
                                    out.q.data() + (size_t(r) * s.heads + h) * s.dim));
    for (int h = 0; h < s.kv_heads; h++) {
      const size_t at = ((size_t(in.slots[r] / 16) * s.kv_heads + h) * 16 + in.slots[r] % 16) * s.dim;
      const float *key = heads + (s.heads + h) * s.dim, *value = key + s.kv_heads * s.dim;
      error = std::max(error, worst(rotated(s, in, key, norm ? in.k_norm.data() : nullptr, in.positions[r]),
                                    out.keys.data() + at));
      for (int d = 0; d < s.dim; d++) {
        wanted_places.keys[at + d] = out.keys[at + d];
        if (s.norms_values) wanted_places.values[at + d] = out.values[at + d];
        else narrow(value[d], wanted_places.values[at + d]);
      }
      std::vector<double> normed(value, value + s.dim);
      norm_of(normed, in.v_norm.data());
      if (s.norms_values) error = std::max(error, worst(normed, out.values.data() + at));
    }
  }
  tally.check(error <= 1.01, name + ": wrong by " + std::to_string(error) + " roundings");
  tally.check(same_bits(out.keys, wanted_places.keys), name + ": a key in another slot");
  tally.check(same_bits(out.values, wanted_places.values), name + ": values, or their slots");

  Input padded = in;
  padded.slots[1] = -1;
  const Output some = run(s, padded, norm);
  Output wanted_some = out;
  for (int h = 0; h < s.kv_heads; h++) {
    const size_t at = ((size_t(in.slots[1] / 16) * s.kv_heads + h) * 16 + in.slots[1] % 16) * s.dim;
    for (int d = 0; d < s.dim; d++) wanted_some.keys[at + d] = wanted_some.values[at + d] = nan_bf16();
  }
  tally.check(same_bits(some.q, out.q) && same_bits(some.keys, wanted_some.keys) && same_bits(some.values, wanted_some.values),
              name + ": a row without a slot is stored");

  Input last = in;
  last.qkv.assign(in.qkv.end() - s.width(), in.qkv.end());
  last.positions = {in.positions[2]}, last.slots = {in.slots[2]};
  if (grows) last.growth = {in.growth[2]};
  const Output alone = run(s, last, norm);
  const size_t q_width = size_t(s.heads) * s.dim;
  bool same = same_bits(alone.q, std::vector<bf16>(out.q.end() - q_width, out.q.end()));
  for (int h = 0; h < s.kv_heads; h++) {
    const size_t at = ((size_t(last.slots[0] / 16) * s.kv_heads + h) * 16 + last.slots[0] % 16) * s.dim;
    same &= std::memcmp(&alone.keys[at], &out.keys[at], s.dim * sizeof(bf16)) == 0;
  }
  tally.check(same, name + ": a row alone differs");
}

// Heads with gates: what is beside them as without, and the gates' sigmoids.
void gates(Tally& tally, const Shape& s) {
  const int rows = 5, width = s.width() + s.heads * s.dim;
  Random random{uint64_t(s.dim) * 3};
  const Input in = {random.numbers(size_t(rows) * s.width()), random.numbers(s.dim), random.numbers(s.dim), random.numbers(s.dim),
                    random.numbers(size_t(kContext) * s.rotary / 2), random.numbers(size_t(kContext) * s.rotary / 2),
                    {39, 0, 17, 3, 4}, {47, 0, 18, 1, -1}, {}};
  std::vector<float> wide, of_gates = random.numbers(size_t(rows) * s.heads * s.dim), got(of_gates.size() + 1, 7.0f);
  of_gates[0] = -1000, of_gates[1] = 1000;
  for (int row = 0; row < rows; row++) {
    wide.insert(wide.end(), in.qkv.begin() + row * s.width(), in.qkv.begin() + (row + 1) * s.width());
    wide.insert(wide.end(), of_gates.begin() + row * (width - s.width()), of_gates.begin() + (row + 1) * (width - s.width()));
  }
  const Output without = run(s, in, true);
  Output out = {std::vector<bf16>(without.q.size(), nan_bf16()), std::vector<bf16>(without.keys.size(), nan_bf16()),
                std::vector<bf16>(without.keys.size(), nan_bf16())};
  host::launch(dim3(rows, (2 * s.heads + 2 * s.kv_heads + 3) / 4), dim3(32, 4), 0, [&] {
    rotate(wide.data(), in.q_norm.data(), in.k_norm.data(), nullptr, in.cos.data(), in.sin.data(), in.positions.data(),
           in.slots.data(),
           nullptr, out.q.data(), out.keys.data(), out.values.data(), got.data(), rows, s.heads, s.kv_heads, s.dim, s.rotary,
           s.norm_last, kEps);
  });
  const std::string name = "gates of " + std::to_string(s.dim);
  tally.check(same_bits(out.q, without.q) && same_bits(out.keys, without.keys) && same_bits(out.values, without.values),
              name + ": other queries, keys or values");
  double error = 0;
  for (size_t i = 0; i < of_gates.size(); i++)
    error = std::max(error, std::fabs(got[i] - 1 / (1 + std::exp(-double(of_gates[i])))));
  tally.check(error < 3e-7 && got.back() == 7.0f, name + ": wrong by " + std::to_string(error));
}

}  // namespace

int main() {
  Tally tally{"rotate"};
  for (const int dim : {16, 80, 128, 256}) gates(tally, {4, 2, dim, dim / 4 / 2 * 2}), gates(tally, {3, 1, dim, dim});
  for (const int dim : {16, 32, 48, 64, 80, 96, 112, 128, 256, 512})
    for (const bool norm : {false, true}) {
      one_case(tally, {4, 2, dim, dim}, norm);
      one_case(tally, {7, 1, dim, dim}, norm);
      one_case(tally, {4, 2, dim, dim / 2}, norm);
      one_case(tally, {4, 2, dim, dim - 6}, norm, true);
      one_case(tally, {3, 3, dim, dim, true}, norm);
      one_case(tally, {3, 1, dim, dim / 2, true}, norm, true);
      one_case(tally, {4, 2, dim, dim}, norm, true);
      one_case(tally, {4, 2, dim, dim, false, true}, norm);
    }
  return tally.end();
}
