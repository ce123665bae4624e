// See memory.h.
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "../fiber.h"
#include "settings.h"

namespace host {

namespace {

constexpr size_t kPage = 4096, kAlign = 256;  // cuMemAlloc's alignment
constexpr size_t kPoisonFile = size_t(32) << 20, kLarge = size_t(1) << 20;
constexpr unsigned char kPoisonByte = 0xff;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

unsigned char* bytes_at(uintptr_t at) { return reinterpret_cast<unsigned char*>(at); }

bool is_poison(uintptr_t from, uintptr_t to) {
  return std::all_of(bytes_at(from), bytes_at(to), [](unsigned char v) { return v == kPoisonByte; });
}

}  // namespace

DeviceMemory& DeviceMemory::the() {
  static DeviceMemory& memory = *new DeviceMemory;  // kernels may still run while static objects are destroyed
  return memory;
}

DeviceMemory::DeviceMemory() {
  void* at = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) stop("cannot reserve addresses for device memory");
  base_ = next_ = reinterpret_cast<uintptr_t>(at);
  opened_ = accessible_ = settings().hollow;  // nothing runs that could read or write where it should not
}

// A free place of `bytes` whole pages with a page before and after it. Addresses go up; once they have reached the
// end, gaps are used again.
uintptr_t DeviceMemory::place(size_t bytes) {
  const size_t wanted = bytes + 2 * kPage;
  if (next_ + wanted <= base_ + kReserved) return std::exchange(next_, next_ + bytes + kPage) + kPage;
  uintptr_t from = base_;
  for (const auto& [at, a] : all_) {
    if (a.pages - from >= wanted) return from + kPage;
    from = a.pages + a.mapped;
  }
  stop("device memory: no addresses left");
}

// Large allocations show one file of poison again and again: pages become their own when they are written to.
void DeviceMemory::map_poison(uintptr_t at, size_t bytes, int protection) {
  if (poison_ < 0) {
    poison_ = memfd_create("poison", MFD_CLOEXEC);
    const std::vector<unsigned char> block(kLarge, kPoisonByte);
    for (size_t done = 0; done < kPoisonFile; done += kLarge)
      if (write(poison_, block.data(), kLarge) != ssize_t(kLarge)) stop("no memory to poison device memory with");
  }
  for (size_t done = 0; done < bytes; done += kPoisonFile)
    if (mmap(bytes_at(at + done), std::min(kPoisonFile, bytes - done), protection,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, poison_, 0) == MAP_FAILED)
      stop("device memory: the host has no memory left");
}

uintptr_t DeviceMemory::allocate(int device, size_t bytes) {
  const size_t counted = round_up(bytes, kAlign);
  if (counted < bytes || counted > settings().memory_of(device) - used_[device]) return 0;
  Allocation a{0, 0, bytes, round_up(counted, kPage), device};
  a.pages = place(a.mapped);
  a.at = a.pages + a.mapped - counted;
  if (a.mapped >= kLarge) {
    map_poison(a.pages, a.mapped, accessible_ ? PROT_READ | PROT_WRITE : PROT_NONE);
  } else {
    mprotect(bytes_at(a.pages), a.mapped, PROT_READ | PROT_WRITE);
    ASAN_UNPOISON_MEMORY_REGION(bytes_at(a.pages), a.mapped);
    std::memset(bytes_at(a.pages), kPoisonByte, a.mapped);
    if (!accessible_) mprotect(bytes_at(a.pages), a.mapped, PROT_NONE);
  }
  ASAN_UNPOISON_MEMORY_REGION(bytes_at(a.pages), a.mapped);  // the place may have been another's
  ASAN_POISON_MEMORY_REGION(bytes_at(a.pages), a.at - a.pages);
  ASAN_POISON_MEMORY_REGION(bytes_at(a.at + bytes), a.pages + a.mapped - a.at - bytes);
  used_[device] += counted;
  all_[a.at] = a;
  return a.at;
}

bool DeviceMemory::free(uintptr_t at) {
  const auto found = all_.find(at);
  if (found == all_.end()) return false;
  const Allocation& a = found->second;
  mmap(bytes_at(a.pages), a.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  used_[a.device] -= round_up(a.bytes, kAlign);
  all_.erase(found);
  return true;
}

void DeviceMemory::open(bool on) {
  if ((on ? opened_++ : --opened_) || on == accessible_) return;
  // A call for each allocation takes longer than most kernels.
  if (!on && ++closings_ > kAlwaysClosed && closings_ % kThenOneOf) return;
  accessible_ = on;
  for (const auto& [at, a] : all_) mprotect(bytes_at(a.pages), a.mapped, on ? PROT_READ | PROT_WRITE : PROT_NONE);
}

const Allocation* DeviceMemory::find(uintptr_t at, size_t bytes) const {
  auto after = all_.upper_bound(at);
  if (after == all_.begin()) return nullptr;
  const Allocation& a = std::prev(after)->second;
  return at - a.at <= a.bytes && bytes <= a.bytes - (at - a.at) ? &a : nullptr;
}

std::string DeviceMemory::describe(uintptr_t at) const {
  const auto number = [](size_t n) { return std::to_string(n); };
  if (!is_device_address(at)) return "memory that is not the device's";
  auto after = all_.upper_bound(at);
  const Allocation* below = after == all_.begin() ? nullptr : &std::prev(after)->second;
  const Allocation* above = after == all_.end() ? nullptr : &after->second;
  if (below && at < below->at + below->bytes)
    return number(at - below->at) + " bytes into an allocation of " + number(below->bytes) + " bytes";
  if (below && at < below->pages + below->mapped + kPage)
    return number(at - below->at - below->bytes) + " bytes past the end of an allocation of " +
           number(below->bytes) + " bytes";
  if (above && at >= above->pages - kPage)
    return number(above->at - at) + " bytes before an allocation of " + number(above->bytes) + " bytes";
  return "device memory that was freed or never allocated";
}

size_t DeviceMemory::used(int device) const {
  const auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

std::string DeviceMemory::overrun() const {
#ifdef HOST_ASAN
  return "";  // AddressSanitizer has said so already, and would say so of this look
#endif
  for (const auto& [at, a] : all_) {
    const uintptr_t before = std::max(a.pages, at - kAlign);
    if (!is_poison(before, at)) return "before an allocation of " + std::to_string(a.bytes) + " bytes";
    if (!is_poison(at + a.bytes, a.pages + a.mapped))
      return "past the end of an allocation of " + std::to_string(a.bytes) + " bytes";
  }
  return "";
}

void DeviceMemory::list_leaks(int device) const {
  std::map<size_t, size_t> of_size;
  size_t n = 0, bytes = 0;
  for (const auto& [at, a] : all_)
    if (device < 0 || a.device == device) n++, bytes += a.bytes, of_size[a.bytes]++;
  say(std::to_string(n) + " allocations of " + std::to_string(bytes) + " bytes were not freed");
  for (const auto& [size, count] : of_size) say("  " + std::to_string(count) + " of " + std::to_string(size) + " bytes");
}

void DeviceMemory::take_rest(int device) { used_[device] = settings().memory; }

void DeviceMemory::free_all(int device, bool list) {
  if (list) list_leaks(device);
  std::vector<uintptr_t> of_device;
  for (const auto& [at, a] : all_)
    if (a.device == device) of_device.push_back(at);
  for (const uintptr_t at : of_device) free(at);
}

}  // namespace host
