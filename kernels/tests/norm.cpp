// norm.cu: against f64 with each combination of arguments, centred of groups and with a bias, a row alone as in a batch, odd and wide rows; sums of slices
// against gemm_merge.cu, to the bit.
#include "../gemm_merge.cu"
#include "../norm.cu"

#include "random.h"

namespace {

constexpr float kEps = 1e-6f;

struct Rows {
  std::vector<float> x, add, add_norm, weight;
  int cols;
  int n() const { return int(x.size()) / cols; }
};

struct Result {
  std::vector<float> x;
  std::vector<bf16> out;
};

Result run(const Rows& in, bool add, bool add_norm, bool weight, float scale, bool centred) {
  Result r = {in.x, std::vector<bf16>(in.x.size(), nan_bf16())};
  host::launch(dim3(in.n()), dim3(256), (in.cols + 3) / 4 * 16, [&] {
    residual_norm(r.x.data(), add ? in.add.data() : nullptr, 1, nullptr, add_norm ? in.add_norm.data() : nullptr,
         weight ? in.weight.data() : nullptr, r.out.data(), in.n(), in.cols, kEps, scale, centred);
  });
  return r;
}

double inverse_root(const double* v, int n) {
  double squares = 0;
  for (int c = 0; c < n; c++) squares += v[c] * v[c];
  return 1 / std::sqrt(squares / n + double(kEps));
}

void centre(double* v, int n) {
  double total = 0;
  for (int c = 0; c < n; c++) total += v[c];
  for (int c = 0; c < n; c++) v[c] -= total / n;
}

// The largest errors: of x in units of 2^-20, of out in roundings.
void compare(Tally& tally, const Rows& in, const Result& r, bool add, bool add_norm, bool weight, float scale,
             bool centred, const std::string& name) {
  double x_error = 0, out_error = 0;
  for (int row = 0; row < in.n(); row++) {
    const size_t at = size_t(row) * in.cols;
    std::vector<double> x(in.cols), more(in.cols);
    for (int c = 0; c < in.cols; c++) x[c] = in.x[at + c], more[c] = in.add[at + c];
    const double by = inverse_root(more.data(), in.cols);
    for (int c = 0; add && c < in.cols; c++) x[c] += add_norm ? more[c] * by * in.add_norm[c] : more[c];
    for (double& v : x) v *= scale;
    for (int c = 0; c < in.cols; c++) x_error = std::max(x_error, std::fabs(r.x[at + c] - x[c]) / std::ldexp(1.0, -20));
    if (weight && centred) centre(x.data(), in.cols);
    const double by_x = inverse_root(x.data(), in.cols);
    for (int c = 0; c < in.cols; c++) {
      const double expected = weight ? x[c] * by_x * in.weight[c] : double(r.x[at + c]);
      out_error = std::max(out_error, roundings(widen(r.out[at + c]), expected, 1e-3));
    }
  }
  tally.check(x_error <= 1.0, name + ": x is wrong by " + std::to_string(x_error));
  tally.check(out_error <= 1.01, name + ": out is wrong by " + std::to_string(out_error));
  if (!add && scale == 1) tally.check(same_bits(r.x, in.x), name + ": changes x with nothing to add");
}

void one_case(Tally& tally, int rows, int cols, bool add, bool add_norm, bool weight, float scale = 1, bool centred = false) {
  Random random{uint64_t(cols)};
  const size_t n = size_t(rows) * cols;
  const Rows in = {random.numbers(n), random.numbers(n), random.numbers(cols), random.numbers(cols), cols};
  const std::string name = "[" + std::to_string(rows) + ", " + std::to_string(cols) + "] add " + std::to_string(add) +
                           " add_norm " + std::to_string(add_norm) + " weight " + std::to_string(weight) + " scale " + std::to_string(scale) +
                           (centred ? " centred" : "");
  const Result all = run(in, add, add_norm, weight, scale, centred);
  compare(tally, in, all, add, add_norm, weight, scale, centred, name);
  for (int row = 0; row < rows; row++) {
    const auto part = [&](const auto& v) { return std::decay_t<decltype(v)>(v.begin() + row * cols, v.begin() + (row + 1) * cols); };
    const Result one = run({part(in.x), part(in.add), in.add_norm, in.weight, cols}, add, add_norm, weight, scale, centred);
    tally.check(same_bits(one.x, part(all.x)) && same_bits(one.out, part(all.out)), name + ": a row alone differs");
  }
}

// Slices' sums that are added here have the bits of those that gemm_merge adds before.
void segments_case(Tally& tally, int rows, int cols, int n_add, bool biased) {
  Random random{uint64_t(cols + n_add)};
  const size_t n = size_t(rows) * cols;
  std::vector<float> x = random.numbers(n), merged = x;
  const std::vector<float> add = random.numbers(n * n_add), bias = random.numbers(cols), weight = random.numbers(cols);
  const float* const more = biased ? bias.data() : nullptr;
  std::vector<bf16> out(n, nan_bf16()), expected(n, nan_bf16());
  host::launch(dim3(rows), dim3(256), (cols + 3) / 4 * 16, [&] {
    residual_norm(x.data(), add.data(), n_add, more, nullptr, weight.data(), out.data(), rows, cols, kEps, 1, 0);
  });
  host::launch(dim3(rows, (cols + 255) / 256), dim3(256), 0,
               [&] { gemm_merge(add.data(), more, merged.data(), rows, cols, n_add, cols, 1); });
  host::launch(dim3(rows), dim3(256), (cols + 3) / 4 * 16, [&] {
    residual_norm(merged.data(), nullptr, 0, nullptr, nullptr, weight.data(), expected.data(), rows, cols, kEps, 1, 0);
  });
  tally.check(same_bits(x, merged) && same_bits(out, expected),
              std::to_string(n_add) + " slices of " + std::to_string(cols) + " columns: not gemm_merge's bits");
}

// The sum of two norms, also where it replaces what is normed; a row alone as in a batch.
void normed_sum_case(Tally& tally, int rows, int cols) {
  Random random{uint64_t(cols) * 5};
  const size_t n = size_t(rows) * cols;
  const std::vector<float> a = random.numbers(n), b = random.numbers(n), a_norm = random.numbers(cols), b_norm = random.numbers(cols);
  std::vector<float> to(n, NAN), own = a, alone(b.end() - cols, b.end());
  const auto launch = [&](const float* x, const float* y, float* out, int count) {
    host::launch(dim3(count), dim3(256), 0, [&] { normed_sum(x, a_norm.data(), y, b_norm.data(), out, count, cols, kEps); });
  };
  launch(a.data(), b.data(), to.data(), rows), launch(own.data(), b.data(), own.data(), rows);
  launch(a.data() + n - cols, alone.data(), alone.data(), 1);
  double error = 0;
  for (int row = 0; row < rows; row++) {
    const std::vector<double> x(a.begin() + row * cols, a.begin() + (row + 1) * cols), y(b.begin() + row * cols, b.begin() + (row + 1) * cols);
    const double by_x = inverse_root(x.data(), cols), by_y = inverse_root(y.data(), cols);
    for (int c = 0; c < cols; c++)
      error = std::max(error, std::fabs(to[size_t(row) * cols + c] - (x[c] * by_x * a_norm[c] + y[c] * by_y * b_norm[c])));
  }
  const std::string name = "the sum of two norms of " + std::to_string(cols);
  tally.check(error < std::ldexp(1.0, -19), name + " is wrong by " + std::to_string(error));
  tally.check(same_bits(own, to), name + ": in place");
  tally.check(same_bits(alone, std::vector<float>(to.end() - cols, to.end())), name + ": a row alone differs");
}

// Norms of groups of a row in place, behind them values that stay; a row alone as in a batch.
void group_case(Tally& tally, int rows, int groups, int cols, bool centred) {
  const int width = groups * cols + 8;
  Random random{uint64_t(cols) * 7 + groups};
  const std::vector<float> before = random.numbers(size_t(rows) * width), weight = random.numbers(size_t(groups) * cols);
  std::vector<float> x = before, alone(before.end() - width, before.end());
  const auto launch = [&](std::vector<float>& of, int count) {
    host::launch(dim3(count, groups), dim3(256), 0,
                 [&] { group_norm(of.data(), weight.data(), count, width, groups, cols, kEps, centred); });
  };
  launch(x, rows), launch(alone, 1);
  double error = 0;
  bool untouched = true;
  for (int row = 0; row < rows; row++) {
    for (int g = 0; g < groups; g++) {
      const size_t at = size_t(row) * width + size_t(g) * cols;
      std::vector<double> v(before.begin() + at, before.begin() + at + cols);
      if (centred) centre(v.data(), cols);
      const double by = inverse_root(v.data(), cols);
      for (int c = 0; c < cols; c++) error = std::max(error, std::fabs(x[at + c] - v[c] * by * weight[size_t(g) * cols + c]));
    }
    const size_t end = size_t(row + 1) * width;
    for (size_t i = end - 8; i < end; i++) untouched &= x[i] == before[i];
  }
  const std::string name = std::to_string(groups) + " groups of " + std::to_string(cols) + (centred ? " centred" : "");
  tally.check(error < std::ldexp(1.0, -19), name + " are wrong by " + std::to_string(error));
  tally.check(untouched, name + " change what is behind them");
  tally.check(same_bits(alone, std::vector<float>(x.end() - width, x.end())), name + ": a row alone differs");
}

// Norms with a bias, in place and to another stream or none; a row alone as in a batch.
void bias_case(Tally& tally, int rows, int cols) {
  Random random{uint64_t(cols) * 11};
  const std::vector<float> x = random.numbers(size_t(rows) * cols), weight = random.numbers(cols), bias = random.numbers(cols);
  std::vector<float> own = x, to(x.size()), alone(x.end() - cols, x.end());
  std::vector<bf16> out(x.size(), nan_bf16()), input(x.size(), nan_bf16());
  const auto launch = [&](const float* from, float* stream, bf16* to_input, int count) {
    host::launch(dim3(count), dim3(256), 0,
                 [&] { layer_norm(from, weight.data(), bias.data(), stream, to_input, count, cols, kEps); });
  };
  launch(x.data(), to.data(), out.data(), rows);
  launch(own.data(), own.data(), input.data(), rows);
  std::vector<bf16> last(cols, nan_bf16());
  launch(alone.data(), nullptr, last.data(), 1);
  double error = 0, out_error = 0;
  for (int row = 0; row < rows; row++) {
    const size_t at = size_t(row) * cols;
    std::vector<double> v(x.begin() + at, x.begin() + at + cols);
    centre(v.data(), cols);
    const double by = inverse_root(v.data(), cols);
    for (int c = 0; c < cols; c++) {
      error = std::max(error, std::fabs(to[at + c] - (v[c] * by * weight[c] + bias[c])));
      out_error = std::max(out_error, roundings(widen(out[at + c]), double(to[at + c]), 1e-3));
    }
  }
  const std::string name = "a bias of " + std::to_string(cols) + " columns";
  // A row of one value has no spread.
  tally.check(cols == 1 || error < std::ldexp(1.0, -18), name + " is wrong by " + std::to_string(error));
  tally.check(out_error <= 1, name + ": the input is not the stream rounded");
  tally.check(same_bits(own, to) && same_bits(input, out), name + ": in place");
  tally.check(same_bits(last, std::vector<bf16>(out.end() - cols, out.end())), name + ": a row alone differs");
}

}  // namespace

int main() {
  Tally tally{"norm"};
  for (const int cols : {31, 64, 1030, 3584})
    for (const int n_add : {1, 2, 5, 16}) segments_case(tally, 3, cols, n_add, n_add % 2 == 1);
  for (const int cols : {1, 31, 32, 64, 257, 896, 1030, 5120}) {
    one_case(tally, 3, cols, false, false, true);
    one_case(tally, 3, cols, true, false, true);
    one_case(tally, 3, cols, true, true, true);
    one_case(tally, 2, cols, true, true, false);
    one_case(tally, 2, cols, true, false, false);
    one_case(tally, 3, cols, true, true, true, 0.37f);
    one_case(tally, 3, cols, false, false, true, 1.62f);
    normed_sum_case(tally, 3, cols);
    bias_case(tally, 3, cols);
    one_case(tally, 3, cols, true, false, true, 1, true);
    one_case(tally, 3, cols, false, false, false);
  }
  for (const bool centred : {false, true}) {
    group_case(tally, 3, 1, 4096, centred);
    group_case(tally, 3, 12, 128, centred);
    group_case(tally, 3, 5, 16, centred);
  }
  one_case(tally, 2, 8192, true, true, true);
  return tally.end();
}
