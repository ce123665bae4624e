// See hollow.h.
#include "hollow.h"

#include <cmath>
#include <cstring>

namespace host {

namespace {

// As kernels/tail.cu has them.
struct Want {
  int row, kind, id, mask;
  float temperature, top_p;
  double draw;
};
struct Choice {
  int id, pad;
  double logprob, masked_logprob;
};
static_assert(sizeof(Want) == 32 && sizeof(Choice) == 24);

// The first allowed id from `from` on, around the end; -1 where none is.
int allowed(const unsigned* mask, int words, int vocab, int from) {
  for (int i = 0; i <= words; i++) {
    const int word = (from / 32 + i) % words;
    const unsigned bits = mask[word] & (i == 0 ? ~0u << from % 32 : ~0u);
    const int id = 32 * word + (bits ? __builtin_ctz(bits) : 0);
    if (bits && id < vocab) return id;
  }
  return -1;
}

template <typename T>
T argument(void* const* arguments, int i) {
  T value;
  std::memcpy(&value, arguments[i], sizeof value);
  return value;
}

}  // namespace

void run_hollow(const Kernel& kernel, void* const* arguments) {
  if (std::strcmp(kernel.name, "tail") != 0) return;
  const auto* wants = argument<const Want*>(arguments, 1);
  const auto* masks = argument<const unsigned*>(arguments, 2);
  auto* choices = argument<Choice*>(arguments, 4);
  const int n = argument<int>(arguments, 5), vocab = argument<int>(arguments, 6), words = argument<int>(arguments, 7);
  for (int i = 0; i < n; i++) {
    const Want& want = wants[i];
    int id = want.id;
    if (want.kind != 0) {
      id = static_cast<int>(want.draw * vocab);
      if (want.mask >= 0) id = words ? allowed(masks + size_t(want.mask) * words, words, vocab, id % (32 * words)) : -1;
    }
    choices[i] = {id, 0, -std::log(double(vocab)), -1.0};
  }
}

}  // namespace host
