// The memory of an emulated device: kept apart from the host's, poisoned, guarded and counted.
//
//   - The host must not touch it: its pages have no permissions except while kernels and copies run (Access), and for some
//     time after most of them, once there were many.
//   - It starts as NaN (0xff), the pages of large allocations only once they are touched.
//   - Inaccessible pages lie before and after each allocation; the bytes between the allocation's end and
//     the next page keep a pattern that is checked after each launch. No address is used twice while that can be.
//   - Every copy and every pointer argument is checked against the allocation that it points into.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace host {

struct Allocation {
  uintptr_t at, pages;  // where its bytes start, where its pages start
  size_t bytes, mapped;
  int device;
};

class DeviceMemory {
 public:
  static DeviceMemory& the();

  // 0 where the device has too little left.
  uintptr_t allocate(int device, size_t bytes);
  bool free(uintptr_t at);  // false where no allocation starts at `at`
  void free_all(int device, bool list);  // `list`: say first what there was

  // The allocation that holds [at, at + bytes), or null. An empty range may lie at an allocation's end.
  const Allocation* find(uintptr_t at, size_t bytes) const;
  // What is at `at`, or next to it, in words: "8 bytes past the end of an allocation of 64 bytes".
  std::string describe(uintptr_t at) const;
  bool is_device_address(uintptr_t at) const { return at >= base_ && at < base_ + kReserved; }

  size_t used(int device) const;
  // Another process takes what is left, for good.
  void take_rest(int device);
  // An allocation whose surroundings were written to, in words; empty if there is none.
  std::string overrun() const;
  void list_leaks(int device = -1) const;  // -1: of all devices

  // While one exists, the pages of all allocations can be read and written.
  class Access {
   public:
    Access() { the().open(true); }
    ~Access() { the().open(false); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
  };

 private:
#if defined(__SANITIZE_THREAD__)
  static constexpr size_t kReserved = size_t(64) << 30;
#else
  static constexpr size_t kReserved = size_t(1) << 40;
#endif
  DeviceMemory();
  void open(bool on);
  uintptr_t place(size_t bytes);
  void map_poison(uintptr_t at, size_t bytes, int protection);

  uintptr_t base_ = 0, next_ = 0;
  std::map<uintptr_t, Allocation> all_;  // by where their bytes start
  std::map<int, size_t> used_;
  static constexpr unsigned long kAlwaysClosed = 256, kThenOneOf = 16;
  bool accessible_ = false;
  unsigned long closings_ = 0;
  int opened_ = 0, poison_ = -1;
};

}  // namespace host
