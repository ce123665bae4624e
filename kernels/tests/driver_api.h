// The emulated driver as a program sees it: opened by name, its functions looked up, errors as numbers. And how the
// driver's tests look at what it says when it ends a program: in a child.
#pragma once
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// The symbol that cuda.h means by a name (cuMemAlloc is cuMemAlloc_v2).
#define SYMBOL_TEXT(name) #name
#define SYMBOL(name) SYMBOL_TEXT(name)

inline void* library = nullptr;
inline void open_library(const char* path) {
  library = dlopen(path, RTLD_NOW);
  if (!library) std::fprintf(stderr, "driver: %s\n", dlerror()), std::exit(2);
}
inline void* look_up(const char* name) {
  void* found = dlsym(library, name);
  if (!found) std::fprintf(stderr, "driver: there is no %s\n", name), std::exit(2);
  return found;
}

// CALL(cuMemAlloc)(&at, n) calls the library's function.
#define CALL(name) (reinterpret_cast<decltype(&name)>(look_up(SYMBOL(name))))

// Ends the program where a call that must succeed does not.
#define MUST(...)                                                                                    \
  do {                                                                                               \
    const CUresult result_of_call = __VA_ARGS__;                                                     \
    if (result_of_call == CUDA_SUCCESS) break;                                                       \
    std::fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, static_cast<int>(result_of_call)); \
    std::exit(3);                                                                                    \
  } while (false)

inline CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr at;
  MUST(CALL(cuMemAlloc)(&at, bytes));
  return at;
}
inline CUdeviceptr to_device(const std::vector<float>& v) {
  const CUdeviceptr at = allocate(v.size() * 4);
  MUST(CALL(cuMemcpyHtoD)(at, v.data(), v.size() * 4));
  return at;
}
inline std::vector<float> to_host(CUdeviceptr at, size_t n) {
  std::vector<float> v(n);
  MUST(CALL(cuMemcpyDtoH)(v.data(), at, n * 4));
  return v;
}
inline CUstream new_stream() {
  CUstream stream;
  MUST(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

inline void start() {
  MUST(CALL(cuInit)(0));
  CUcontext context;
  MUST(CALL(cuDevicePrimaryCtxRetain)(&context, 0));
  MUST(CALL(cuCtxSetCurrent)(context));
}

// Devices 0 to n - 1, each with its context.
inline std::vector<CUcontext> start_all(int n) {
  MUST(CALL(cuInit)(0));
  std::vector<CUcontext> contexts(n);
  for (int i = 0; i < n; i++) MUST(CALL(cuDevicePrimaryCtxRetain)(&contexts[i], i));
  return contexts;
}

// A kernel, from PTX that only names it.
inline CUfunction kernel(const std::string& name, const std::string& target = "sm_80") {
  const std::string ptx = ".version 8.0\n.target " + target + "\n.visible .entry " + name + "(\n)";
  CUmodule module;
  CUfunction function;
  MUST(CALL(cuModuleLoadData)(&module, ptx.c_str()));
  MUST(CALL(cuModuleGetFunction)(&function, module, name.c_str()));
  return function;
}

// One block row of `threads` in x; arguments by reference.
template <typename... A>
CUresult launch(CUfunction f, unsigned blocks, unsigned threads, unsigned shared, CUstream stream, A&&... arguments) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  return CALL(cuLaunchKernel)(f, blocks, 1, 1, threads, 1, 1, shared, stream, pointers, nullptr);
}

// The same, and started before the one before it has ended.
template <typename... A>
CUresult launch_early(CUfunction f, unsigned blocks, unsigned threads, unsigned shared, CUstream stream, A&&... arguments) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config{blocks, 1, 1, threads, 1, 1, shared, stream, &attribute, 1};
  return CALL(cuLaunchKernelEx)(&config, f, pointers, nullptr);
}

// What a child of this program wrote and how it ended: `PROGRAM LIBRARY CASE` with variables set before it.
struct Ended {
  int code;
  std::string output;
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};
inline Ended run_child(const std::string& program, const std::string& library_path, const std::string& which,
                       const std::string& variables = "") {
  const std::string command = "env " + variables + " " + program + " " + library_path + " " + which + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Ended ended{0, ""};
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe)) ended.output += buffer.data();
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}
