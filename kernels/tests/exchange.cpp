// Devices that exchange columns of rows, as crates/cuda/src/ranks does: each computes its own, they
// synchronise, and each gathers all; from the others' memory, or from the host's where they have left them. For
// ThreadSanitizer, which takes streams for threads, over the library of kernels/gather.cu and
// kernels/tests/faults/sound.cu:
//
//   exchange LIBRARY sound|through_host       nothing may be found
//   exchange LIBRARY no_wait                  a device does not wait for another before it gathers
//   exchange LIBRARY too_early                rows are written again without synchronisation after they were gathered
//   exchange LIBRARY through_host_no_wait|through_host_one_half
#include <cstring>

#include "driver_api.h"
#include "tally.h"

namespace {

constexpr int kDevices = 3, kOwn = 16, kWidth = kDevices * kOwn, kRounds = 4;

struct Card {
  CUcontext context;
  CUstream stream;
  CUevent done;
  CUdeviceptr ones, own, whole;
  CUfunction scale, gather;
  void here() const { MUST(CALL(cuCtxSetCurrent)(context)); }
};

struct Exchange {
  bool through_host, no_wait, too_early, one_half;
  std::vector<Card> cards = {};
  float* host = nullptr;

  void open() {
    for (CUcontext context : start_all(kDevices)) {
      MUST(CALL(cuCtxSetCurrent)(context));
      Card card{context, new_stream(), {}, to_device(std::vector<float>(kOwn, 1)), allocate(kOwn * 4),
                allocate(kWidth * 4), kernel("scale"), kernel("gather_16")};
      MUST(CALL(cuEventCreate)(&card.done, CU_EVENT_DISABLE_TIMING));
      cards.push_back(card);
    }
    for (const Card& card : cards) {
      card.here();
      for (const Card& other : cards)
        if (!through_host && &other != &card) MUST(CALL(cuCtxEnablePeerAccess)(other.context, 0));
    }
    MUST(CALL(cuMemHostAlloc)(reinterpret_cast<void**>(&host), 2 * kWidth * 4, CU_MEMHOSTALLOC_PORTABLE));
  }

  void synchronise(int round) const {
    for (const Card& card : cards) {
      card.here();
      MUST(CALL(cuEventRecord)(card.done, card.stream));
    }
    for (size_t i = 0; i < cards.size(); i++) {
      cards[i].here();
      for (size_t j = 0; j < cards.size(); j++) {
        const bool forgotten = no_wait && round == 2 && i == 0 && j == 1;
        if (i != j && !forgotten) MUST(CALL(cuStreamWaitEvent)(cards[i].stream, cards[j].done, 0));
      }
    }
  }

  // Pieces of 16 bytes: a row of `width` floats from those that are not null.
  static void gather(const Card& card, const std::vector<CUdeviceptr>& at, int own, CUdeviceptr to) {
    CUdeviceptr p[8] = {};
    int e[8] = {}, width = 0;
    for (int i = 0; i < 8; i++) e[i] = width += size_t(i) < at.size() ? own / 4 : 0, p[i] = size_t(i) < at.size() ? at[i] : 0;
    const int rows = 1, in_place = 0;
    MUST(launch(card.gather, 1, 256, 0, card.stream, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], e[0], e[1], e[2], e[3],
                e[4], e[5], e[6], e[7], to, rows, width, in_place));
  }

  void run(int round) const {
    const float* half = host + (one_half ? 0 : round % 2 * kWidth);
    std::vector<CUdeviceptr> pieces;
    for (size_t i = 0; i < cards.size(); i++) {
      const Card& card = cards[i];
      card.here();
      const float value = float(100 * round + i);
      MUST(launch(card.scale, 1, 32, 0, card.stream, card.ones, card.own, kOwn, value));
      const auto left = reinterpret_cast<CUdeviceptr>(half + i * kOwn);
      if (through_host) gather(card, {card.own}, kOwn, left);
      pieces.push_back(through_host ? left : card.own);
    }
    synchronise(round);
    for (const Card& card : cards) card.here(), gather(card, pieces, kOwn, card.whole);
    if (!through_host && !too_early) synchronise(round + kRounds);
  }

  bool is_right() const {
    for (const Card& card : cards) {
      card.here();
      MUST(CALL(cuStreamSynchronize)(card.stream));
      const std::vector<float> whole = to_host(card.whole, kWidth);
      for (int c = 0; c < kWidth; c++)
        if (whole[c] != 100.0f * (kRounds - 1) + c / kOwn) return false;
    }
    return true;
  }
};

}  // namespace

int main(int, char** arguments) {
  open_library(arguments[1]);
  const std::string which = arguments[2];
  const auto is = [&](const char* name) { return which.find(name) != std::string::npos; };
  Exchange exchange{is("through_host"), is("no_wait"), is("too_early"), is("one_half")};
  exchange.open();
  for (int round = 0; round < kRounds; round++) exchange.run(round);
  Tally tally("exchange");
  tally.check(exchange.is_right(), which);
  return tally.end();
}
