// softcap.cu: against f64 from far below the cap to far above it, infinities, NaN.
#include "../softcap.cu"

#include "random.h"

int main() {
  Tally tally{"softcap"};
  for (const float cap : {2.0f, 30.0f, 50.0f}) {
    const int rows = 3, cols = 701;
    Random random{uint64_t(cap)};
    std::vector<float> x = random.numbers(size_t(rows) * cols);
    for (size_t i = 0; i < x.size(); i++) x[i] *= i % 3 == 0 ? 1e-3f : i % 3 == 1 ? 10.0f : 400.0f;
    x[0] = INFINITY, x[1] = -INFINITY, x[2] = NAN, x[3] = 0.0f, x[4] = -0.0f;
    std::vector<float> capped = x;
    capped.push_back(7.0f);
    host::launch(dim3(rows, (cols + 255) / 256), dim3(256), 0, [&] { softcap(capped.data(), rows, cols, cap, -2.0f / cap); });
    double error = 0;
    for (size_t i = 5; i < x.size(); i++)
      error = std::max(error, std::fabs(capped[i] - double(cap) * std::tanh(double(x[i]) / cap)) / cap);
    const std::string name = "a cap of " + std::to_string(cap);
    tally.check(error < 3e-7, name + ": wrong by " + std::to_string(error * 1e7) + "e-7 of the cap");
    tally.check(capped[0] == cap && capped[1] == -cap && capped[2] != capped[2] && capped[3] == 0, name + " at its ends");
    tally.check(capped.back() == 7.0f, name + ": wrote behind the logits");
  }
  return tally.end();
}
