// dequantize.cu on the CPU: each value is the block's value rounded to bf16, rows are taken from `first_row` on, and
// nothing is written beside the panel.
#include <algorithm>
#include <string>
#include <vector>

#include "../dequantize.cu"
#include "tally.h"

namespace {

using Kernel = void (*)(const void*, bf16*, const int*, int, int, int, int);

// `value(w, row, k)` is the weight before it is rounded, of rows of `row_bytes` on average, k a multiple of `values`.
template <class Value>
void one_format(Tally& tally, const char* name, Kernel kernel, int values, size_t (*bytes)(int rows, int k), Value value) {
  const int first = 16, n = 32, rows = first + n, k = values == 256 ? 768 : 96;
  std::vector<uint4> memory(bytes(rows, k) / 16 + 1);
  uint32_t state = 1;
  for (uint4& word : memory)
    for (uint32_t* part : {&word.x, &word.y, &word.z, &word.w})
      *part = (state = state * 1664525u + 1013904223u) & 0x3b7f3b7fu;  // no NaN, no infinity
  const unsigned char* w = reinterpret_cast<const unsigned char*>(memory.data());
  std::vector<uint4> aligned((n + 1) * k / 8), aligned_experts(n * k / 8);
  bf16* const panel = reinterpret_cast<bf16*>(aligned.data());
  std::fill_n(panel, (n + 1) * k, __float2bfloat16_rn(-7.0f));
  host::launch(dim3(n, (k / 8 + 127) / 128), dim3(128), 0, [&] { kernel(w, panel, nullptr, first, n, k, 0); });
  bool right = true, untouched = true;
  for (int r = 0; r <= n; r++)
    for (int i = 0; i < k; i++) {
      const bf16 expected = r < n ? __float2bfloat16_rn(value(w, first + r, i, k)) : bf16();
      const unsigned short got = __bfloat16_as_ushort(panel[r * k + i]);
      if (r < n) right &= got == __bfloat16_as_ushort(expected);
      if (r == n) untouched &= __bfloat162float(panel[r * k + i]) == -7.0f;
    }
  tally.check(right, std::string(name) + ": another value than the block's");
  tally.check(untouched, std::string(name) + ": wrote behind the panel");

  // 16 rows of each expert, of which the first has no pairs.
  const int starts[] = {3, 3, 5};
  bf16* const of_experts = reinterpret_cast<bf16*>(aligned_experts.data());
  std::fill_n(of_experts, n * k, __float2bfloat16_rn(-7.0f));
  host::launch(dim3(n, (k / 8 + 127) / 128), dim3(128), 0,
               [&] { kernel(w, of_experts, starts, first, n, k, 16); });
  bool alike = true;
  for (int i = 0; i < n * k; i++)
    alike &= i < 16 * k ? __bfloat162float(of_experts[i]) == -7.0f
                        : __bfloat16_as_ushort(of_experts[i]) == __bfloat16_as_ushort(panel[i]);
  tally.check(alike, std::string(name) + ": rows of an expert without pairs, or of one with pairs");
}

template <Format F>
void rows_of(Tally& tally, const char* name, Kernel kernel) {
  one_format(tally, name, kernel, Block<F>::values, [](int rows, int k) { return rows * row_bytes<F>(k); },
             [](const unsigned char* w, int row, int i, int k) { return value_of_row<F>(w + row * row_bytes<F>(k), i); });
}
template <class F>
void planes_of(Tally& tally, const char* name, Kernel kernel) {
  one_format(tally, name, kernel, F::super_bytes ? 256 : 32, [](int rows, int k) { return rows / 16 * planes::strip_bytes<F>(k); },
             [](const unsigned char* w, int row, int i, int k) {
               const planes::Strip<F> strip(w, row / 16, k);
               const planes::Scales s = strip.scales(row % 16, i);
               return __fsub_rn(__fmul_rn(s.scale, static_cast<float>(strip.code(row % 16, i))), s.minimum);
             });
}

}  // namespace

int main() {
  Tally tally("dequantize");
  rows_of<Format::kQ4_0>(tally, "q4_0", dequantize_q4_0);
  rows_of<Format::kQ4_1>(tally, "q4_1", dequantize_q4_1);
  rows_of<Format::kQ5_0>(tally, "q5_0", dequantize_q5_0);
  rows_of<Format::kQ5_1>(tally, "q5_1", dequantize_q5_1);
  rows_of<Format::kQ5_K>(tally, "q5_k", dequantize_q5_k);
  planes_of<planes::Q4_1>(tally, "planes of q4_1", dequantize_planes_q4_1);
  planes_of<planes::Q5_1>(tally, "planes of q5_1", dequantize_planes_q5_1);
  planes_of<planes::Q5_K>(tally, "planes of q5_k", dequantize_planes_q5_k);
  planes_of<planes::U4>(tally, "planes of u4", dequantize_planes_u4);
  planes_of<planes::F8>(tally, "planes of f8", dequantize_planes_f8);
  planes_of<planes::RoundedQ8_0>(tally, "planes of q8_0", dequantize_planes_q8_0);
  planes_of<planes::RoundedQ4_K>(tally, "planes of q4_k", dequantize_planes_q4_k);
  planes_of<planes::RoundedQ6_K>(tally, "planes of q6_k", dequantize_planes_q6_k);
  planes_of<planes::RoundedMxfp4>(tally, "planes of mxfp4", dequantize_planes_mxfp4);
  return tally.end();
}
