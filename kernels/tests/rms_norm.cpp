// rms_norm.cu on the CPU: against f64, alone as in a batch, and the bytes of the golden file.
//
//   rms_norm GOLDEN           compares with tests/golden/rms_norm.json
//   rms_norm GOLDEN --write   writes it
#include "../rms_norm.cu"

#include <fstream>
#include <sstream>
#include <string>

#include "tally.h"

namespace {

constexpr float kEps = 1e-6f;

uint32_t bits(float v) {
  uint32_t b;
  std::memcpy(&b, &v, sizeof b);
  return b;
}
uint32_t bits(__nv_bfloat16 v) {
  uint16_t b;
  std::memcpy(&b, &v, sizeof b);
  return b;
}
template <typename T>
std::string list(const std::vector<T>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); i++) out += (i ? "," : "") + std::to_string(bits(values[i]));
  return out + "]";
}
template <typename T>
std::vector<T> noise(Noise& from, size_t n) {
  std::vector<T> out(n);
  for (T& v : out) narrow(from.next(), v);
  return out;
}

void call(const float* x, const float* w, float* y, int rows, int cols, int one_plus) {
  rms_norm_f32(x, w, y, rows, cols, kEps, one_plus);
}
void call(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int rows, int cols, int one_plus) {
  rms_norm_bf16(x, w, y, rows, cols, kEps, one_plus);
}
void call(const __nv_bfloat16* x, const float* w, __nv_bfloat16* y, int rows, int cols, int one_plus) {
  rms_norm_bf16_f32(x, w, y, rows, cols, kEps, one_plus);
}

template <typename X, typename W>
std::vector<X> norm(const std::vector<X>& x, const std::vector<W>& w, int one_plus, unsigned rows_per_block) {
  const int cols = w.size(), rows = x.size() / w.size();
  std::vector<X> y(x.size());
  host::launch(dim3((rows + rows_per_block - 1) / rows_per_block), dim3(32, rows_per_block), 0,
               [&] { call(x.data(), w.data(), y.data(), rows, cols, one_plus); });
  return y;
}

// The largest error in units of the output type's rounding, so that 1 would be one rounding too many.
template <typename X, typename W>
double worst(const std::vector<X>& x, const std::vector<W>& w, const std::vector<X>& y, int one_plus) {
  const double unit = sizeof(X) == 2 ? std::ldexp(1.0, -8) : std::ldexp(1.0, -20);
  const size_t cols = w.size();
  double error = 0;
  for (size_t at = 0; at < x.size(); at += cols) {
    double squares = 0;
    for (size_t c = 0; c < cols; c++) squares += double(widen(x[at + c])) * widen(x[at + c]);
    const double scale = 1 / std::sqrt(squares / double(cols) + double(kEps));
    for (size_t c = 0; c < cols; c++) {
      const double wanted = widen(x[at + c]) * scale * (one_plus + double(widen(w[c])));
      error = std::max(error, std::fabs(wanted - widen(y[at + c])) / (unit * std::max(std::fabs(wanted), 1e-3)));
    }
  }
  return error;
}

// One shape and one pair of types: returns the golden file's entry.
template <typename X, typename W>
std::string one_case(Tally& tally, const char* types, int rows, int cols, int one_plus) {
  Noise from{uint32_t(cols)};
  const auto x = noise<X>(from, size_t(rows) * cols);
  const auto w = noise<W>(from, cols);
  const auto y = norm(x, w, one_plus, 4);
  std::ostringstream name;
  name << types << " [" << rows << ", " << cols << "] one_plus " << one_plus;
  const double error = worst(x, w, y, one_plus);
  tally.check(error <= 1.0, name.str() + ": " + std::to_string(error) + " roundings from f64");
  bool same = true;
  for (int r = 0; r < rows; r++) {
    const std::vector<X> alone(x.begin() + r * cols, x.begin() + (r + 1) * cols);
    const auto z = norm(alone, w, one_plus, 1);
    for (int c = 0; c < cols; c++) same &= bits(z[c]) == bits(y[r * cols + c]);
  }
  tally.check(same, name.str() + ": a row alone differs from the row in a batch");
  std::ostringstream entry;
  entry << "{\"types\":\"" << types << "\",\"rows\":" << rows << ",\"cols\":" << cols << ",\"one_plus\":" << one_plus
        << ",\n\"y\":" << list(y) << "}";
  return entry.str();
}

std::string all_cases(Tally& tally) {
  std::ostringstream out;
  out << "{\"made_by\":\"kernels/tests/rms_norm.cpp --write: the kernel's own source, run on the CPU\",\n"
         "\"y\":\"the bits of each f32 or bf16 as an integer; x, then weight, are noise seeded with cols\",\n"
         "\"eps\":1e-6,\"cases\":[\n";
  for (const int cols : {1, 16, 31, 64, 257})
    for (const int one_plus : {0, 1})
      out << one_case<float, float>(tally, "f32 f32", 3, cols, one_plus) << ",\n"
          << one_case<__nv_bfloat16, __nv_bfloat16>(tally, "bf16 bf16", 3, cols, one_plus) << ",\n"
          << one_case<__nv_bfloat16, float>(tally, "bf16 f32", 3, cols, one_plus) << ",\n";
  // Sums long enough for one fused multiply-add or another order to show in the last bits.
  out << one_case<float, float>(tally, "f32 f32", 5, 1600, 0);
  for (const int cols : {896, 5120}) {  // real hidden sizes: checked here, too large for the golden file
    one_case<float, float>(tally, "f32 f32", 5, cols, 0);
    one_case<__nv_bfloat16, float>(tally, "bf16 f32", 5, cols, 1);
  }
  out << "]}\n";
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) host::stop("usage: rms_norm GOLDEN [--write]");
  Tally tally("rms_norm");
  const std::string made = all_cases(tally);
  if (argc > 2) {
    std::ofstream(argv[1]) << made;
  } else {
    std::ifstream file(argv[1]);
    std::stringstream golden;
    golden << file.rdbuf();
    tally.check(golden.str() == made, std::string("other bytes than ") + argv[1]);
  }
  return tally.end();
}
