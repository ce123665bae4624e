// take_rows.cu: rows in any order, some of them twice, whole and odd widths.
#include "../take_rows.cu"

#include "random.h"

namespace {

void call(const float* x, const int* rows, float* out, int n, int cols) { take_rows_f32(x, rows, out, n, cols); }
void call(const bf16* x, const int* rows, bf16* out, int n, int cols) { take_rows_bf16(x, rows, out, n, cols); }

template <typename T>
void one_case(Tally& tally, const std::vector<T>& x, int cols, const char* type) {
  const std::vector<int> rows = {6, 0, 3, 3, 5};
  std::vector<T> out(rows.size() * cols), wanted;
  for (const int row : rows) wanted.insert(wanted.end(), x.begin() + row * cols, x.begin() + (row + 1) * cols);
  host::launch(dim3(rows.size()), dim3(256), 0, [&] { call(x.data(), rows.data(), out.data(), int(rows.size()), cols); });
  tally.check(same_bits(out, wanted), std::string(type) + " rows of " + std::to_string(cols));
}

}  // namespace

int main() {
  Tally tally{"take_rows"};
  Random random{1};
  for (const int cols : {1, 4, 7, 32, 100, 896, 2052, 4099}) {
    one_case(tally, random.numbers(size_t(7) * cols), cols, "f32");
    one_case(tally, random.bf16s(size_t(7) * cols), cols, "bf16");
  }
  return tally.end();
}
