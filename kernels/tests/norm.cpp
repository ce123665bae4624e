// norm.cu: against f64 with each combination of arguments, a row alone as in a batch, odd and wide rows; sums of slices
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

Result run(const Rows& in, bool add, bool add_norm, bool weight) {
  Result r = {in.x, std::vector<bf16>(in.x.size(), nan_bf16())};
  host::launch(dim3(in.n()), dim3(256), (in.cols + 3) / 4 * 16, [&] {
    residual_norm(r.x.data(), add ? in.add.data() : nullptr, 1, nullptr, add_norm ? in.add_norm.data() : nullptr,
         weight ? in.weight.data() : nullptr, r.out.data(), in.n(), in.cols, kEps);
  });
  return r;
}

double inverse_root(const double* v, int n) {
  double squares = 0;
  for (int c = 0; c < n; c++) squares += v[c] * v[c];
  return 1 / std::sqrt(squares / n + double(kEps));
}

// The largest errors: of x in units of 2^-20, of out in roundings.
void compare(Tally& tally, const Rows& in, const Result& r, bool add, bool add_norm, bool weight,
             const std::string& name) {
  double x_error = 0, out_error = 0;
  for (int row = 0; row < in.n(); row++) {
    const size_t at = size_t(row) * in.cols;
    std::vector<double> x(in.cols), more(in.cols);
    for (int c = 0; c < in.cols; c++) x[c] = in.x[at + c], more[c] = in.add[at + c];
    const double by = inverse_root(more.data(), in.cols);
    for (int c = 0; add && c < in.cols; c++) x[c] += add_norm ? more[c] * by * in.add_norm[c] : more[c];
    const double scale = inverse_root(x.data(), in.cols);
    for (int c = 0; c < in.cols; c++) {
      x_error = std::max(x_error, std::fabs(r.x[at + c] - x[c]) / std::ldexp(1.0, -20));
      if (weight)
        out_error = std::max(out_error, roundings(widen(r.out[at + c]), x[c] * scale * in.weight[c], 1e-3));
    }
  }
  tally.check(x_error <= 1.0, name + ": x is wrong by " + std::to_string(x_error));
  tally.check(out_error <= 1.01, name + ": out is wrong by " + std::to_string(out_error));
  bool untouched = true;
  for (const bf16 v : r.out) untouched &= widen(v) != widen(v);
  if (!weight) tally.check(untouched, name + ": writes an output without a weight");
  if (!add) tally.check(same_bits(r.x, in.x), name + ": changes x with nothing to add");
}

void one_case(Tally& tally, int rows, int cols, bool add, bool add_norm, bool weight) {
  Random random{uint64_t(cols)};
  const size_t n = size_t(rows) * cols;
  const Rows in = {random.numbers(n), random.numbers(n), random.numbers(cols), random.numbers(cols), cols};
  const std::string name = "[" + std::to_string(rows) + ", " + std::to_string(cols) + "] add " + std::to_string(add) +
                           " add_norm " + std::to_string(add_norm) + " weight " + std::to_string(weight);
  const Result all = run(in, add, add_norm, weight);
  compare(tally, in, all, add, add_norm, weight, name);
  for (int row = 0; row < rows; row++) {
    const auto part = [&](const auto& v) { return std::decay_t<decltype(v)>(v.begin() + row * cols, v.begin() + (row + 1) * cols); };
    const Result one = run({part(in.x), part(in.add), in.add_norm, in.weight, cols}, add, add_norm, weight);
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
    residual_norm(x.data(), add.data(), n_add, more, nullptr, weight.data(), out.data(), rows, cols, kEps);
  });
  host::launch(dim3(rows, (cols + 255) / 256), dim3(256), 0,
               [&] { gemm_merge(add.data(), more, merged.data(), rows, cols, n_add, cols, 1); });
  host::launch(dim3(rows), dim3(256), (cols + 3) / 4 * 16, [&] {
    residual_norm(merged.data(), nullptr, 0, nullptr, nullptr, weight.data(), expected.data(), rows, cols, kEps);
  });
  tally.check(same_bits(x, merged) && same_bits(out, expected),
              std::to_string(n_add) + " slices of " + std::to_string(cols) + " columns: not gemm_merge's bits");
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
  }
  one_case(tally, 2, 8192, true, true, true);
  return tally.end();
}
