// latent.cu: norms, rotations and products by head against f64, with neighbouring pairs and halves, growth, and sizes that
// fill no tile; rows without a slot; a row alone as in a batch, in several orders of threads.
#include "../latent.cu"

#include "random.h"

namespace {

constexpr float kEps = 1e-6f;
constexpr int kPositions = 40, kSlots = 64;

struct Sizes {
  int rows, H, C, P, R, V;
  bool interleaved, grows;
  int query() const { return P + R; }
  int cached() const { return C + R; }
  int queries() const { return H * query() + 8; }  // values of a row of queries: others stand behind them
  int compressed() const { return 16 + cached(); }  // and in front of the cached row
};

struct Inputs {
  std::vector<float> queries, compressed, weight, cos, sin, growth;
  std::vector<int> positions, slots;
  std::vector<bf16> keys, values, attended;
};

struct Outputs {
  std::vector<bf16> normed, cache, q, out;
};

Inputs make(const Sizes& s) {
  Random random{uint64_t(s.C) * 7 + s.P};
  Inputs in;
  in.queries = random.numbers(size_t(s.rows) * s.queries());
  in.compressed = random.numbers(size_t(s.rows) * s.compressed());
  in.weight = random.numbers(s.C);
  in.cos = random.numbers(size_t(kPositions) * s.R / 2), in.sin = random.numbers(size_t(kPositions) * s.R / 2);
  in.growth = random.numbers(s.rows);
  for (int row = 0; row < s.rows; row++) {
    in.positions.push_back((row * 7) % kPositions);
    in.slots.push_back(row % 5 == 3 ? -1 : (row * 11) % kSlots);
  }
  in.keys = random.bf16s(size_t(s.H) * s.C * s.P), in.values = random.bf16s(size_t(s.H) * s.V * s.C);
  in.attended = random.bf16s(size_t(s.rows) * s.H * s.cached());
  return in;
}

Outputs run(const Sizes& s, const Inputs& in) {
  const auto room = [](size_t n) { return std::vector<bf16>(n, nan_bf16()); };
  const size_t rows = s.rows;
  Outputs o = {room(rows * s.C), room(size_t(kSlots) * s.cached()), room(rows * s.H * s.cached()), room(rows * s.H * s.V)};
  const float* growth = s.grows ? in.growth.data() : nullptr;
  const float *cos = in.cos.data(), *sin = in.sin.data(), *x = in.queries.data(), *compressed = in.compressed.data() + 16;
  const int* positions = in.positions.data();
  const unsigned tiles = (s.rows + 15) / 16;
  host::launch(dim3(s.rows), dim3(256), 0,
               [&] { latent_norm(compressed, in.weight.data(), o.normed.data(), s.rows, s.compressed(), s.C, kEps); });
  host::launch(dim3(s.rows), dim3(256), 0, [&] {
    latent_store(compressed, in.weight.data(), cos, sin, positions, in.slots.data(), o.cache.data(), s.rows, s.compressed(),
                 s.C, s.R, s.interleaved, kEps);
  });
  host::launch(dim3(s.rows, (s.H + 3) / 4), dim3(32, 4), 0, [&] {
    latent_rotate(x, cos, sin, positions, growth, o.q.data(), s.rows, s.queries(), s.H, s.C, s.P, s.R, s.interleaved);
  });
  host::launch(dim3(tiles, s.H, (s.C + 31) / 32), dim3(128), 0, [&] {
    latent_absorb(x, in.keys.data(), growth, o.q.data(), s.rows, s.queries(), s.H, s.C, s.P, s.R);
  });
  host::launch(dim3(tiles, s.H, (s.V + 31) / 32), dim3(128), 0, [&] {
    latent_expand(in.attended.data(), in.values.data(), o.out.data(), s.rows, s.H, s.C, s.R, s.V);
  });
  return o;
}

double narrowed(double v) {
  bf16 to;
  narrow(float(v), to);
  return widen(to);
}

// The largest error of some values, in roundings to bf16.
struct Error {
  double worst = 0;
  void add(bf16 got, double wanted) {
    const double error = roundings(widen(got), wanted, 0.1);
    worst = error <= worst ? worst : error;  // also where it is not a number
  }
};

double rotated_at(const Sizes& s, const Inputs& in, const float* v, int row, int i) {
  const int half = s.R / 2, at = i % half;
  const size_t angle = size_t(in.positions[row]) * half + at;
  const double low = s.interleaved ? v[2 * at] : v[at], high = s.interleaved ? v[2 * at + 1] : v[at + half];
  const double cos = in.cos[angle], sin = in.sin[angle];
  return i < half ? low * cos - high * sin : high * cos + low * sin;
}

void compare(Tally& tally, const Sizes& s, const Inputs& in, const Outputs& o, const std::string& name) {
  Error norms, rows, queries, outs;
  std::vector<int> written(kSlots, 0);
  for (int row = 0; row < s.rows; row++) {
    const float* compressed = in.compressed.data() + size_t(row) * s.compressed() + 16;
    double squares = 0;
    for (int c = 0; c < s.C; c++) squares += double(compressed[c]) * compressed[c];
    const double by = 1 / std::sqrt(squares / s.C + double(kEps));
    const int slot = in.slots[row];
    if (slot >= 0) written[slot] = 1;
    for (int c = 0; c < s.C; c++) {
      const double wanted = compressed[c] * by * in.weight[c];
      norms.add(o.normed[size_t(row) * s.C + c], wanted);
      if (slot >= 0) rows.add(o.cache[size_t(slot) * s.cached() + c], wanted);
    }
    for (int i = 0; slot >= 0 && i < s.R; i++)
      rows.add(o.cache[size_t(slot) * s.cached() + s.C + i], rotated_at(s, in, compressed + s.C, row, i));
    const double growth = s.grows ? in.growth[row] : 1;
    for (int h = 0; h < s.H; h++) {
      const float* x = in.queries.data() + size_t(row) * s.queries() + h * s.query();
      const size_t head = size_t(row) * s.H + h;
      const bf16 *q = o.q.data() + head * s.cached(), *attended = in.attended.data() + head * s.cached();
      for (int c = 0; c < s.C; c++) {
        double sum = 0;
        for (int k = 0; k < s.P; k++) sum += narrowed(x[k]) * widen(in.keys[(size_t(h) * s.C + c) * s.P + k]);
        queries.add(q[c], sum * growth);
      }
      for (int i = 0; i < s.R; i++) queries.add(q[s.C + i], rotated_at(s, in, x + s.P, row, i) * growth);
      for (int v = 0; v < s.V; v++) {
        double sum = 0;
        for (int c = 0; c < s.C; c++) sum += double(widen(attended[c])) * widen(in.values[(size_t(h) * s.V + v) * s.C + c]);
        outs.add(o.out[head * s.V + v], sum);
      }
    }
  }
  const auto near = [&](const Error& error, const char* what) {
    tally.check(error.worst <= 1.02, name + ": " + what + " wrong by " + std::to_string(error.worst) + " roundings");
  };
  near(norms, "norms"), near(rows, "cached rows"), near(queries, "queries"), near(outs, "outputs");
  bool untouched = true;
  for (size_t i = 0; i < o.cache.size(); i++)
    untouched &= written[i / s.cached()] || __bfloat16_as_ushort(o.cache[i]) == __bfloat16_as_ushort(nan_bf16());
  tally.check(untouched, name + ": writes to the slots of other rows");
}

void one_case(Tally& tally, const Sizes& s, const std::string& name) {
  const Inputs in = make(s);
  const Outputs all = run(s, in);
  compare(tally, s, in, all, name);
  const auto part = [](const auto& v, int row, size_t n) {
    return std::decay_t<decltype(v)>(v.begin() + row * n, v.begin() + (row + 1) * n);
  };
  for (const unsigned order : {0u, 5u}) {
    host::order() = order;
    const int row = s.rows - 1;
    Sizes one = s;
    one.rows = 1;
    Inputs alone = in;
    alone.queries = part(in.queries, row, s.queries()), alone.compressed = part(in.compressed, row, s.compressed());
    alone.positions = {in.positions[row]}, alone.slots = {in.slots[row]}, alone.growth = {in.growth[row]};
    alone.attended = part(in.attended, row, size_t(s.H) * s.cached());
    const Outputs o = run(one, alone);
    tally.check(same_bits(o.normed, part(all.normed, row, s.C)) && same_bits(o.q, part(all.q, row, size_t(s.H) * s.cached())) &&
                    same_bits(o.out, part(all.out, row, size_t(s.H) * s.V)),
                name + ": a row alone differs");
  }
  host::order() = 0;
}

}  // namespace

int main() {
  Tally tally{"latent"};
  one_case(tally, {19, 3, 32, 16, 16, 24, false, false}, "halves");
  one_case(tally, {5, 5, 48, 24, 8, 40, true, true}, "neighbours, growth");
  one_case(tally, {2, 2, 512, 128, 64, 128, true, false}, "DeepSeek's heads");
  return tally.end();
}
