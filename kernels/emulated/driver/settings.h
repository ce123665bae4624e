// What the environment asks of the emulated driver:
//
//   TRIBUNAL_EMULATED_DEVICES      number of devices (1)
//   TRIBUNAL_EMULATED_PEERS        0: no device reaches another's memory (all do once it is enabled)
//   TRIBUNAL_EMULATED_LYING_PEERS  set: a kernel reads other bytes of another device's memory than are there (a planted fault)
//   TRIBUNAL_EMULATED_UNEQUAL_DEVICE  this device has one multiprocessor less than the others
//   TRIBUNAL_EMULATED_SMALL_DEVICE    this device has a quarter of the others' memory
//   TRIBUNAL_EMULATED_LATE         when streams run: 0 as late as they may; N up to the number of devices: device N - 1 as early
//                                  as it may; others are seeds, some streams run now and then before they must (0)
//   TRIBUNAL_EMULATED_SM           compute capability: 80, 86, 89, 90, 100 or 120 (90)
//   TRIBUNAL_EMULATED_MEMORY       bytes of memory of each device (1 GiB); what is free is kept account of
//   TRIBUNAL_EMULATED_GRAPH_BYTES  what a graph that is ready to be launched takes of it (0)
//   TRIBUNAL_EMULATED_TAKEN_AFTER  after so many launches another process takes all memory that is free
//   TRIBUNAL_EMULATED_FORGOTTEN_WAIT  the wait of this number, among those for another device's event, does not happen (none)
//   TRIBUNAL_EMULATED_FORGOTTEN_ASIDE the same among the waits for an event of another stream of the device
//   TRIBUNAL_EMULATED_FORGOTTEN_EDGE  the same among the waits that a capture makes edges of its graph
//   TRIBUNAL_EMULATED_FOLDED       set: the second half of page-locked memory of several devices is its first (a planted fault)
//   TRIBUNAL_EMULATED_DRIVER       version of the driver's interface (that of the headers: 12090); an older one loads no newer images
//   TRIBUNAL_EMULATED_HOLLOW       set: kernels are checked and counted, not run: for accounts of memory that no machine has,
//                                  and of what the host does in a step; answers are any allowed tokens (hollow.h)
//   TRIBUNAL_EMULATED_MULTIPROCESSORS  (those of a usual card)
//   TRIBUNAL_EMULATED_LOST_AFTER   a device is lost after so many launches: every later call fails
//   TRIBUNAL_EMULATED_LOST_DEVICE  only this device is lost (all)
//   TRIBUNAL_EMULATED_WRONG_KERNEL    the kernel of this name leaves one bit wrong of what its last pointer leads to (a planted fault)
//   TRIBUNAL_EMULATED_HANGING_KERNEL  the kernel of this name never ends (a planted fault)
//   TRIBUNAL_EMULATED_WRONG_EARLY     set: it does so only where it was started early
//   TRIBUNAL_EMULATED_FAULT_AFTER     the wrong and the hanging kernel begin after so many launches (0)
//   TRIBUNAL_EMULATED_ORDER        seed of the order of threads and blocks: 0 forward, 1 backward, others shuffled
//   TRIBUNAL_EMULATED_THREADS      CPU threads that share a launch's blocks (the cores, 4 at most)
//   TRIBUNAL_EMULATED_TRACE        a file that gets a line for each launch: kernel, grid, block, microseconds, `early`
//   TRIBUNAL_EMULATED_LEAKS        set: at the end, memory that was never freed is listed on stderr
#pragma once
#include <cstddef>
#include <string>

namespace host {

struct Settings {
  int devices, capability, multiprocessors, lost_device, driver;
  int unequal_device, small_device;  // -1: none
  unsigned late;
  size_t memory, graph_bytes;
  long fault_after, lost_after, taken_after, forgotten_wait, forgotten_aside, forgotten_edge;  // -1: never
  bool wrong_early, leaks, hollow, peers, lying_peers, folded;
  std::string trace, wrong_kernel, hanging_kernel;
  size_t memory_of(int device) const { return device == small_device ? memory / 4 : memory; }
};
const Settings& settings();

// A line on stderr about a call that fails or a program that ends: "emulated: ...".
void say(const std::string& what);

}  // namespace host
