// dequantize.cu on the CPU: each value is the block's value rounded to bf16, rows are taken from `first_row` on, and
// nothing is written beside the panel.
#include <algorithm>
#include <string>
#include <vector>

#include "../dequantize.cu"
#include "tally.h"

namespace {

using Kernel = void (*)(const void*, bf16*, const int*, int, int, int, int);

template <Format F>
void one_format(Tally& tally, const char* name, Kernel kernel) {
  const int rows = 7, k = Block<F>::values == 256 ? 768 : 96, first = 2, n = 4;
  std::vector<uint32_t> memory(rows * row_bytes<F>(k) / 4 + 1);
  uint32_t state = 1;
  for (uint32_t& word : memory) word = (state = state * 1664525u + 1013904223u) & 0x3b7f3b7fu;  // no NaN, no infinity
  const unsigned char* w = reinterpret_cast<const unsigned char*>(memory.data());
  std::vector<uint4> aligned((n + 1) * k / 8), aligned_experts(n * k / 8);
  bf16* const panel = reinterpret_cast<bf16*>(aligned.data());
  std::fill_n(panel, (n + 1) * k, __float2bfloat16_rn(-7.0f));
  host::launch(dim3(n, (k / 8 + 127) / 128), dim3(128), 0, [&] { kernel(w, panel, nullptr, first, n, k, 0); });
  bool right = true, untouched = true;
  for (int r = 0; r <= n; r++)
    for (int i = 0; i < k; i++) {
      const bf16 value = __float2bfloat16_rn(value_of_row<F>(w + (first + r) * row_bytes<F>(k), i));
      const unsigned short got = __bfloat16_as_ushort(panel[r * k + i]);
      if (r < n) right &= got == __bfloat16_as_ushort(value);
      if (r == n) untouched &= __bfloat162float(panel[r * k + i]) == -7.0f;
    }
  tally.check(right, std::string(name) + ": another value than the block's");
  tally.check(untouched, std::string(name) + ": wrote behind the panel");

  // Two rows of each expert, of which the first has no pairs.
  const int starts[] = {3, 3, 5};
  bf16* const of_experts = reinterpret_cast<bf16*>(aligned_experts.data());
  std::fill_n(of_experts, n * k, __float2bfloat16_rn(-7.0f));
  host::launch(dim3(n, (k / 8 + 127) / 128), dim3(128), 0,
               [&] { kernel(w, of_experts, starts, first, n, k, 2); });
  bool alike = true;
  for (int i = 0; i < n * k; i++)
    alike &= i < 2 * k ? __bfloat162float(of_experts[i]) == -7.0f
                       : __bfloat16_as_ushort(of_experts[i]) == __bfloat16_as_ushort(panel[i]);
  tally.check(alike, std::string(name) + ": rows of an expert without pairs, or of one with pairs");
}

}  // namespace

int main() {
  Tally tally("dequantize");
  one_format<Format::kQ4_0>(tally, "q4_0", dequantize_q4_0);
  one_format<Format::kQ4_1>(tally, "q4_1", dequantize_q4_1);
  one_format<Format::kQ5_0>(tally, "q5_0", dequantize_q5_0);
  one_format<Format::kQ5_1>(tally, "q5_1", dequantize_q5_1);
  one_format<Format::kQ5_K>(tally, "q5_k", dequantize_q5_k);
  return tally.end();
}
