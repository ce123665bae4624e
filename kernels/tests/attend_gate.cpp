// attend_gate.cu: every value, widths beside a multiple of a block's.
#include "../attend_gate.cu"

#include "random.h"

int main() {
  Tally tally{"attend_gate"};
  Random random{5};
  for (const int n : {4, 64, 1024, 1028, 4096 + 16}) {
    const int rows = 3;
    std::vector<bf16> out = random.bf16s(size_t(rows) * n + 1), wanted = out;
    const std::vector<float> gates = random.numbers(size_t(rows) * n);
    for (int i = 0; i < rows * n; i++) narrow(widen(out[i]) * gates[i], wanted[i]);
    host::launch(dim3(rows, (n + 1023) / 1024), dim3(256), 0, [&] { attend_gate(out.data(), gates.data(), rows, n); });
    tally.check(same_bits(out, wanted), "rows of " + std::to_string(n));
  }
  return tally.end();
}
