// delta_net.cu: against its definition in f64, for grouped and tiled heads of several sizes; one sequence whole, in two
// halves and row by row; several sequences in slots in any order, padding among them; other slots untouched.
#include "../delta_net.cu"

#include "random.h"

namespace {

constexpr float kEps = 1e-6f;

struct Shape {
  int key_heads, key_dim, value_heads, value_dim;
  bool tiled = false;
  int keys() const { return key_heads * key_dim; }
  int values() const { return value_heads * value_dim; }
  int channels() const { return 2 * keys() + values(); }
  int ld() const { return channels() + values() + 2 * value_heads; }
  int width() const { return (channels() + 2 * value_heads + 3) / 4 * 4; }
  int slot() const { return 3 * channels() + value_heads * key_dim * value_dim; }
  std::string name() const {
    return std::to_string(key_heads) + " key heads of " + std::to_string(key_dim) + ", " + std::to_string(value_heads) +
           " value heads of " + std::to_string(value_dim) + (tiled ? ", tiled" : "");
  }
};

struct Weights {
  std::vector<float> conv, decay, dt_bias, norm;
  Weights(const Shape& s, Random& random)
      : conv(random.numbers(size_t(s.channels()) * 4)), decay(random.numbers(s.value_heads)),
        dt_bias(random.numbers(s.value_heads)), norm(random.numbers(s.value_dim)) {
    for (float& v : decay) v = -std::exp(v);
  }
};

// Some rows of a sequence.
struct Part {
  int position, slot;
  std::vector<float> in;  // [rows, ld]
};

template <int K>
void rule(const Shape& s, const float* in, const int* positions, const int* sequences, float* states, float* mixed, int n, int slot) {
  constexpr auto kernel = K == 16 ? delta_rule_k16 : K == 32 ? delta_rule_k32 : K == 64 ? delta_rule_k64 : K == 128 ? delta_rule_k128 : delta_rule_k256;
  host::launch(dim3(n, s.value_heads, (s.value_dim + 31) / 32), dim3(128), 0,
               [&] { kernel(in, positions, sequences, states, mixed, n, s.ld(), slot, s.key_heads, s.value_heads, s.value_dim, s.tiled); });
}

// A step of these parts, and of some rows of padding; the outputs of all rows.
std::vector<bf16> run(const Shape& s, const Weights& w, const std::vector<Part>& parts, std::vector<float>& states, int slot,
                      int padding = 0) {
  std::vector<float> in;
  std::vector<int> positions, of_rows, sequences;
  for (size_t i = 0; i < parts.size(); i++) {
    const int rows = int(parts[i].in.size()) / s.ld(), first = int(positions.size());
    sequences.insert(sequences.end(), {first, rows, parts[i].slot, 0});
    for (int row = 0; row < rows; row++) positions.push_back(parts[i].position + row), of_rows.push_back(int(i));
    in.insert(in.end(), parts[i].in.begin(), parts[i].in.end());
  }
  in.resize(in.size() + size_t(padding) * s.ld(), NAN);
  positions.resize(positions.size() + padding, 0), of_rows.resize(of_rows.size() + padding, -1);
  const int rows = int(positions.size()), n = int(parts.size()) + (padding > 0);
  sequences.resize(4 * n, 0);
  std::vector<float> mixed(size_t(rows) * s.width() + 1, NAN);
  std::vector<bf16> out(size_t(rows) * s.values() + 1, nan_bf16());
  host::launch(dim3((rows + 3) / 4, 2 * s.key_heads + (s.values() + 127) / 128 + 1), dim3(32, 4), 0, [&] {
    delta_conv(in.data(), w.conv.data(), w.decay.data(), w.dt_bias.data(), positions.data(), of_rows.data(), sequences.data(),
               states.data(), mixed.data(), rows, s.ld(), slot, s.key_heads, s.key_dim, s.value_heads, s.value_dim);
  });
  const auto by = s.key_dim == 16 ? rule<16> : s.key_dim == 32 ? rule<32> : s.key_dim == 64 ? rule<64> : s.key_dim == 128 ? rule<128> : rule<256>;
  by(s, in.data(), positions.data(), sequences.data(), states.data(), mixed.data(), n, slot);
  host::launch(dim3(rows, (s.value_heads + 3) / 4), dim3(32, 4), 0, [&] {
    delta_gate(in.data(), mixed.data(), w.norm.data(), of_rows.data(), out.data(), rows, s.ld(), s.key_heads, s.key_dim,
               s.value_heads, s.value_dim, kEps);
  });
  if (!std::isnan(mixed.back()) || widen(out.back()) == widen(out.back())) host::stop("more was written than there is");
  out.pop_back();
  return out;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

// What a whole sequence gives, by the definition.
std::vector<double> wanted(const Shape& s, const Weights& w, const std::vector<float>& in) {
  const int rows = int(in.size()) / s.ld();
  std::vector<double> states(size_t(s.value_heads) * s.key_dim * s.value_dim), out;
  for (int row = 0; row < rows; row++) {
    const float* own = in.data() + size_t(row) * s.ld();
    std::vector<double> x(s.channels());
    for (int c = 0; c < s.channels(); c++) {
      double sum = 0;
      for (int tap = 0; tap < 4; tap++)
        if (row + tap >= 3) sum += double(w.conv[4 * c + tap]) * in[size_t(row + tap - 3) * s.ld() + c];
      x[c] = silu(sum);
    }
    for (int head = 0; head < 2 * s.key_heads; head++) {
      double squares = 1e-6;
      for (int k = 0; k < s.key_dim; k++) squares += x[head * s.key_dim + k] * x[head * s.key_dim + k];
      for (int k = 0; k < s.key_dim; k++)
        x[head * s.key_dim + k] /= std::sqrt(squares) * (head < s.key_heads ? std::sqrt(double(s.key_dim)) : 1);
    }
    for (int head = 0; head < s.value_heads; head++) {
      const int key_head = s.tiled ? head % s.key_heads : head / (s.value_heads / s.key_heads);
      const double b = own[s.channels() + s.values() + head], a = double(own[s.channels() + s.values() + s.value_heads + head]) + w.dt_bias[head];
      const double g = std::exp(w.decay[head] * std::log1p(std::exp(a))), beta = 1 / (1 + std::exp(-b));
      const double *q = x.data() + key_head * s.key_dim, *k = q + s.keys();
      double squares = 0;
      std::vector<double> o(s.value_dim);
      for (int v = 0; v < s.value_dim; v++) {
        double* state = states.data() + (size_t(head) * s.value_dim + v) * s.key_dim;
        double sum = 0;
        for (int i = 0; i < s.key_dim; i++) sum += state[i] * k[i];
        const double delta = (x[2 * s.keys() + head * s.value_dim + v] - g * sum) * beta;
        for (int i = 0; i < s.key_dim; i++) state[i] = g * state[i] + k[i] * delta, o[v] += state[i] * q[i];
        squares += o[v] * o[v];
      }
      for (int v = 0; v < s.value_dim; v++)
        out.push_back(o[v] / std::sqrt(squares / s.value_dim + double(kEps)) * w.norm[v] * silu(own[s.channels() + head * s.value_dim + v]));
    }
  }
  return out;
}

std::vector<float> rows_of(const Shape& s, const std::vector<float>& in, int from, int to) {
  return {in.begin() + size_t(from) * s.ld(), in.begin() + size_t(to) * s.ld()};
}

void one_case(Tally& tally, const Shape& s, int rows) {
  Random random{uint64_t(s.channels()) + rows};
  const Weights w(s, random);
  const auto in = random.numbers(size_t(rows) * s.ld()), other = random.numbers(size_t(11) * s.ld());
  const int slot = 2 * s.slot(), n_slots = 5;  // a slot has another layer before this one
  const size_t layer = s.slot();
  const auto fresh = [&] { return std::vector<float>(size_t(n_slots) * slot, NAN); };
  // The state that a part leaves in a slot, which begins in the middle: a pointer past the first layer.
  const auto step = [&](const std::vector<Part>& parts, std::vector<float>& states, int padding = 0) {
    std::vector<float> own(states.begin() + layer, states.end());
    own.resize(own.size() + layer, NAN);
    const auto out = run(s, w, parts, own, slot, padding);
    std::copy(own.begin(), own.end() - layer, states.begin() + layer);
    return out;
  };
  const auto state_of = [&](const std::vector<float>& states, int i) {
    return std::vector<float>(states.begin() + size_t(i) * slot + layer, states.begin() + size_t(i + 1) * slot);
  };
  const std::string name = s.name() + ", " + std::to_string(rows) + " rows";

  auto states = fresh();
  const auto whole = step({{0, 3, in}}, states);
  const auto by_definition = wanted(s, w, in);
  double error = 0;
  for (size_t i = 0; i < whole.size(); i++) error = std::max(error, roundings(widen(whole[i]), by_definition[i], 0.02));
  tally.check(error <= 1.2, name + ": wrong by " + std::to_string(error) + " roundings");
  bool untouched = true;
  for (int i = 0; i < n_slots; i++)
    for (size_t at = 0; at < size_t(slot); at++)
      untouched &= (i == 3 && at >= layer) != bool(std::isnan(states[size_t(i) * slot + at]));
  tally.check(untouched, name + ": another slot or layer was written, or a state is not a number");
  const auto end = state_of(states, 3);

  for (const int cut : {1, 2, 3, rows / 2, rows - 1}) {
    if (cut <= 0 || cut >= rows) continue;
    auto halves = fresh();
    auto out = step({{0, 1, rows_of(s, in, 0, cut)}}, halves);
    const auto second = step({{cut, 1, rows_of(s, in, cut, rows)}}, halves);
    out.insert(out.end(), second.begin(), second.end());
    tally.check(same_bits(out, whole) && same_bits(state_of(halves, 1), end), name + ": other bits cut at " + std::to_string(cut));
  }

  // Row by row, beside a longer sequence, with slots in another order and padding behind.
  auto beside = fresh();
  std::vector<bf16> out;
  for (int row = 0; row < rows; row++) {
    const Part own = {row, 2, rows_of(s, in, row, row + 1)}, longer = {0, 0, other};
    host::order() = unsigned(row);
    const auto both = row % 2 ? step({longer, own}, beside, row % 3) : step({own, longer}, beside, row % 3);
    const auto first = both.begin() + (row % 2 ? 11 * s.values() : 0);
    out.insert(out.end(), first, first + s.values());
    for (size_t i = size_t(12) * s.values(); i < both.size(); i++) untouched &= widen(both[i]) == 0;
  }
  host::order() = 0;
  tally.check(untouched, name + ": padding is not zeros");
  tally.check(same_bits(out, whole) && same_bits(state_of(beside, 2), end), name + ": other bits row by row in a batch");
}

// Gates far from 0: no overflow, no loss below.
void gates(Tally& tally) {
  for (const float x : {-200.0f, -100.0f, -30.0f, -17.5f, -16.0f, -1.0f, 0.0f, 1.0f, 19.9f, 20.1f, 300.0f}) {
    float got = NAN;
    host::launch(dim3(1), dim3(1), 0, [&] { await_earlier(), got = softplus(x); });
    const double right = x > 50 ? double(x) : std::log1p(std::exp(double(x)));
    tally.check(std::fabs(got - right) <= 2e-7 * right + 1e-45, "softplus of " + std::to_string(x));
  }
}

}  // namespace

int main() {
  Tally tally{"delta_net"};
  gates(tally);
  if (kFewer > 1) {
    one_case(tally, {1, 16, 2, 8}, 3);
    return tally.end();
  }
  for (const int rows : {1, 2, 3, 4, 8, 9, 37}) one_case(tally, {2, 32, 4, 32}, rows);
  one_case(tally, {2, 16, 6, 8}, 19);
  one_case(tally, {2, 16, 6, 8, true}, 19);
  one_case(tally, {3, 64, 3, 40}, 10);
  one_case(tally, {1, 128, 3, 128}, 17);
  one_case(tally, {2, 128, 4, 128, true}, 9);
  one_case(tally, {1, 256, 1, 256}, 5);
  return tally.end();
}
