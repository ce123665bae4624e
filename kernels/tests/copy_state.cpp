// copy_state.cu: whole slots, and nothing beside them, whatever the grid.
#include "../copy_state.cu"

#include "random.h"

int main() {
  Tally tally{"copy_state"};
  Random random{7};
  for (const int n : {1, 255, 256, 700})
    for (const unsigned blocks : {1u, 2u, 5u}) {
      const auto numbers = random.numbers(size_t(4) * n * 4);
      std::vector<uint4> states(size_t(4) * n);
      std::memcpy(states.data(), numbers.data(), numbers.size() * 4);
      auto wanted = states;
      std::copy_n(states.begin() + 3 * n, n, wanted.begin() + n);
      host::launch(dim3(blocks), dim3(256), 0, [&] { copy_state(states.data(), 3, 1, n); });
      tally.check(same_bits(states, wanted), std::to_string(n) + " pieces by " + std::to_string(blocks) + " blocks");
    }
  return tally.end();
}
