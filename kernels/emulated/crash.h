// Says which kernel, block and thread touched memory that it must not, before the program dies of it.
#pragma once
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "team.h"

namespace host {

// What is at an address, in words; the driver knows its allocations.
inline std::string (*describe_address)(uintptr_t at) = nullptr;

// Handlers that were there before: Rust's, a sanitizer's.
inline struct sigaction previous_action[2];
inline struct sigaction& previous_for(int signal) { return previous_action[signal == SIGBUS]; }

inline std::string address(uintptr_t at) {
  char out[24];
  std::snprintf(out, sizeof out, "0x%zx", size_t(at));
  return out;
}

// Runs on a small stack (Rust gives its threads 8 KiB), hence no fprintf.
inline void report_crash(int signal, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const auto sp = static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
  const std::string what = describe_address ? describe_address(at) : "";
  std::string line;
  if (const Block* block = Team::the().block_at(sp)) {
    const Fiber& f = *static_cast<const Fiber*>(Stacks::record_of(sp));
    const bool full = block->holds(at) && Stacks::overrun(at);
    line = std::string("emulated: ") + block->kernel_name + ", " + text("block", block->index) + ", " +
           text("thread", f.thread) + (full ? ": its stack is full" : ": it touches memory that it must not");
  } else if (!what.empty()) {
    line = "emulated: the host touches device memory";
  }
  if (!line.empty()) {
    line += ", at " + address(at) + (what.empty() ? "" : ", " + what) + "\n";
    [[maybe_unused]] const ssize_t written = write(2, line.data(), line.size());
  }
  sigaction(signal, &previous_for(signal), nullptr);  // and the access is tried again
}

inline void report_crashes() {
  static const bool done = [] {
    struct sigaction action = {};
    action.sa_sigaction = report_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, &previous_for(signal));
    return true;
  }();
  (void)done;
}

// A stack for the handler: a thread whose own is full has none.
inline void give_crash_stack() {
  constexpr size_t kBytes = 64 << 10;
  stack_t now;
  if (sigaltstack(nullptr, &now) == 0 && !(now.ss_flags & SS_DISABLE) && now.ss_size >= kBytes)
    return;
  stack_t made = {};
  made.ss_sp = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  made.ss_size = kBytes;
  if (made.ss_sp != MAP_FAILED) sigaltstack(&made, nullptr);
}

}  // namespace host
