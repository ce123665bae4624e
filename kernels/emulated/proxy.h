// What wgmma, which reads by the asynchronous proxy, sees of a block's dynamic shared memory.
//
// It sees a thread's stores and cp.async once that thread has executed wgmma_publish after them; TMA writes by the
// asynchronous proxy itself. Of cp.async that is known exactly, for each 16 bytes. Ordinary stores are those of the
// compiled C++, which the emulator does not see: memory that no copy has written is compared with what it held when a
// thread last published, and what was stored since is reported.
//
// Not found: an ordinary store that another thread's publish came after, or over bytes that a copy had written; static
// shared memory.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "fiber.h"

namespace host {

class AsyncView {
 public:
  void begin(const unsigned char* at, size_t bytes) {
    at_ = at, n_ = bytes / kChunk;
    marks_.assign(n_, Mark{});
    ordinary_.assign((n_ + kPage - 1) / kPage, kPage);
    published_.clear();
    std::memset(publishes_, 0, sizeof publishes_);
  }

  // A cp.async of this thread has begun, or has arrived.
  void copied(const void* to, unsigned thread) { mark(to, {uint16_t(kCopied + thread), publishes_[thread]}); }
  void written_by_tma(const unsigned char* to, size_t bytes) {
    for (size_t i = 0; i < bytes; i += kChunk) mark(to + i, {kTma, 0});
  }

  HOST_UNSEEN void publish(unsigned thread) {
    const Unseen unseen;
    publishes_[thread]++;
    if (published_.empty()) published_.assign(n_ * kChunk, kUnwritten);
    for (size_t page = 0; page < ordinary_.size(); page++) {
      if (!ordinary_[page]) continue;
      for (size_t i = page * kPage; i < n_ && i < (page + 1) * kPage; i++)
        if (marks_[i].writer == kOrdinary) std::memcpy(&published_[i * kChunk], at_ + i * kChunk, kChunk);
    }
  }

  // Whether wgmma sees what the 16 bytes at `at` hold.
  HOST_UNSEEN bool sees(const void* at) const {
    const size_t i = index(at);
    if (i >= n_) return true;
    const Mark m = marks_[i];
    if (m.writer == kTma) return true;
    if (m.writer != kOrdinary) return publishes_[m.writer - kCopied] != m.publishes;
    unsigned char before[kChunk];
    std::memset(before, kUnwritten, kChunk);
    return std::memcmp(at, published_.empty() ? before : &published_[i * kChunk], kChunk) == 0;
  }

 private:
  static constexpr size_t kChunk = 16, kPage = 64;  // bytes; chunks
  static constexpr unsigned char kUnwritten = 0xff;
  static constexpr uint16_t kOrdinary = 0, kTma = 1, kCopied = 2;
  struct Mark {
    uint16_t writer = kOrdinary, publishes = 0;  // who wrote it last; how often that thread had published
  };
  size_t index(const void* at) const { return (static_cast<const unsigned char*>(at) - at_) / kChunk; }
  void mark(const void* to, Mark m) {
    const size_t i = index(to);
    if (i >= n_) return;
    if (marks_[i].writer == kOrdinary) ordinary_[i / kPage]--;
    marks_[i] = m;
  }

  const unsigned char* at_ = nullptr;
  size_t n_ = 0;
  std::vector<Mark> marks_;
  std::vector<uint8_t> ordinary_;  // of each page at most so many chunks that no copy has written
  std::vector<unsigned char> published_;
  uint16_t publishes_[1024] = {};
};

}  // namespace host
