// gate.cu: each nonlinearity against f64, far from zero too, at widths that are no multiples of anything.
#include "../gate.cu"

#include "random.h"

namespace {

double silu(double x, double up) { return x / (1 + std::exp(-x)) * up; }
double gelu(double x, double up) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * up; }
double clamped(double x, double up) {
  const double g = std::min(x, 7.0), u = std::min(std::max(up, -7.0), 7.0);
  return (u + 1) * g / (1 + std::exp(-1.702 * g));
}
void gate_clamped_at_7(const float* gate_up, bf16* out, int rows, int n) { gate_clamped(gate_up, out, rows, n, 7, 1.702f); }

template <typename F>
std::vector<bf16> run(F kernel, const std::vector<float>& gate_up, int rows, int n) {
  std::vector<bf16> out(size_t(rows) * n, nan_bf16());
  host::launch(dim3(rows, (n + 1023) / 1024), dim3(256), 0, [&] { kernel(gate_up.data(), out.data(), rows, n); });
  return out;
}

template <typename F>
void one_case(Tally& tally, F kernel, double (*wanted)(double, double), const char* name, int rows, int n, double floor = 1e-30) {
  Random random{uint64_t(n)};
  auto gate_up = random.numbers(size_t(rows) * 2 * n);
  for (size_t i = 0; i < gate_up.size(); i += 7) gate_up[i] *= 50;
  const auto out = run(kernel, gate_up, rows, n);
  double error = 0;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < n; c++) {
      const double gate = gate_up[size_t(r) * 2 * n + c], up = gate_up[size_t(r) * 2 * n + n + c];
      error = std::max(error, roundings(widen(out[size_t(r) * n + c]), wanted(gate, up), floor));
    }
  // One is the rounding to bf16 itself; the rest of what is allowed covers f32's part in it.
  tally.check(error <= 1.01, std::string(name) + " of " + std::to_string(n) + " columns is wrong by " +
                                std::to_string(error) + " roundings");
}

template <typename F>
void extremes(Tally& tally, F kernel, const char* name) {
  const float inf = INFINITY, nan = NAN;
  const std::vector<float> gate_up = {inf, -1e30f, nan, 0, -inf, 1, 1, 1, 1, 1};
  const auto out = run(kernel, gate_up, 1, 5);
  tally.check(widen(out[0]) == inf && widen(out[1]) == 0 && widen(out[3]) == 0, std::string(name) + " at its ends");
  tally.check(widen(out[2]) != widen(out[2]), std::string(name) + " of NaN");
}

void xielu_case(Tally& tally, int rows, int n) {
  Random random{uint64_t(n) * 3};
  auto up = random.numbers(size_t(rows) * n);
  for (size_t i = 0; i < up.size(); i += 7) up[i] *= 50;
  up[0] = NAN;
  std::vector<bf16> out(up.size(), nan_bf16());
  host::launch(dim3(rows, (n + 1023) / 1024), dim3(256), 0,
               [&] { xielu(up.data(), out.data(), rows, n, 0.9f, 1.3f, 0.5f, -1e-6f); });
  double error = 0;
  for (size_t i = 1; i < up.size(); i++) {
    const double x = up[i], least = std::min(x, double(-1e-6f));
    const double curved = x > 0 ? double(0.9f) * x * x : double(1.3f) * (std::expm1(least) - x);
    error = std::max(error, roundings(widen(out[i]), curved + 0.5 * x, 1e-3));
  }
  tally.check(error <= 1.01, "xielu of " + std::to_string(n) + " columns is wrong by " + std::to_string(error) + " roundings");
  tally.check(widen(out[0]) != widen(out[0]), "xielu of NaN");
}

void gelu_case(Tally& tally, int rows, int n) {
  Random random{uint64_t(n) * 5};
  auto up = random.numbers(size_t(rows) * n);
  for (size_t i = 0; i < up.size(); i += 7) up[i] *= 50;
  up[0] = NAN;
  std::vector<bf16> out(up.size(), nan_bf16());
  host::launch(dim3(rows, (n + 1023) / 1024), dim3(256), 0, [&] { gelu(up.data(), out.data(), rows, n); });
  double error = 0;
  for (size_t i = 1; i < up.size(); i++)
    error = std::max(error, roundings(widen(out[i]), 0.5 * up[i] * std::erfc(-up[i] / std::sqrt(2.0)), 1e-3));
  tally.check(error <= 1.01, "erf gelu of " + std::to_string(n) + " columns is wrong by " + std::to_string(error) + " roundings");
  tally.check(widen(out[0]) != widen(out[0]), "erf gelu of NaN");
}

}  // namespace

int main() {
  Tally tally{"gate"};
  for (const int n : {1, 16, 30, 64, 1023, 1028, 4864}) {
    one_case(tally, gate_silu, silu, "silu", 3, n);
    one_case(tally, gate_gelu, gelu, "gelu", 3, n);
  }
  extremes(tally, gate_silu, "silu");
  extremes(tally, gate_gelu, "gelu");
  // Near an up of -1 the sum has few bits of its own.
  for (const int n : {1, 16, 30, 1028}) one_case(tally, gate_clamped_at_7, clamped, "clamped", 3, n, 1e-3);
  const float inf = INFINITY, nan = NAN;
  const auto out = run(gate_clamped_at_7, {inf, -1e30f, nan, 1, 100, inf, 1, 1, nan, -inf}, 1, 5);
  tally.check(std::fabs(widen(out[0]) - 56) < 0.2 && widen(out[1]) == 0 && std::fabs(widen(out[4]) + 42) < 0.2, "clamped at its ends");
  tally.check(widen(out[2]) != widen(out[2]) && widen(out[3]) != widen(out[3]), "clamped of NaN");
  for (const int n : {1, 16, 30, 1023, 4864}) {
    xielu_case(tally, 3, n);
    gelu_case(tally, 3, n);
  }
  return tally.end();
}
