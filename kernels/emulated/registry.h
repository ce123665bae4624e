// The kernels of this library by name, with their parameters, from their C++ signatures. cuLaunchKernel gets an
// array of pointers to arguments, and `call` makes a C++ call of it.
//
// scripts/cuda/emulated.sh writes a HOST_KERNEL line for each `extern "C" __global__` function it finds.
#pragma once
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace host {

struct Parameter {
  size_t offset, bytes;
  bool is_pointer;
};

struct Kernel {
  const char* name;
  void (*call)(void* const* arguments);
  std::vector<Parameter> parameters;
  size_t bytes() const { return parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes; }
};

inline std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}
inline const Kernel* find_kernel(const std::string& name) {
  for (const Kernel& k : kernels())
    if (name == k.name) return &k;
  return nullptr;
}

template <auto kFunction>
struct Entry;
template <typename... A, void (*kFunction)(A...)>
struct Entry<kFunction> {
  template <size_t... I>
  static void call_with([[maybe_unused]] void* const* arguments, std::index_sequence<I...>) {
    kFunction(*static_cast<std::remove_const_t<A>*>(arguments[I])...);
  }
  static void call(void* const* arguments) { call_with(arguments, std::index_sequence_for<A...>()); }

  // Parameters follow each other, each at a multiple of its alignment, as on the device.
  static std::vector<Parameter> parameters() {
    std::vector<Parameter> out;
    size_t at = 0;
    [[maybe_unused]] const auto add = [&](size_t bytes, size_t align, bool is_pointer) {
      at = (at + align - 1) / align * align;
      out.push_back({at, bytes, is_pointer});
      at += bytes;
    };
    (add(sizeof(A), alignof(A), std::is_pointer_v<A>), ...);
    return out;
  }
};

struct Registration {
  explicit Registration(Kernel k) { kernels().push_back(std::move(k)); }
};

}  // namespace host

#define HOST_KERNEL(name) \
  static const host::Registration registration_of_##name({#name, host::Entry<&name>::call, host::Entry<&name>::parameters()});
