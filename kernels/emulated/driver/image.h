// Reads what a module's image (a cubin or PTX) says of its kernels. It runs none of it: kernels run from their C++
// source, but under the limits that ptxas found for the card.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace host {

struct KernelImage {
  int registers = 0, max_threads = 1024;  // a thread's registers (0: not known), a block's threads
  size_t static_shared = 0;
  std::vector<size_t> parameter_bytes;  // in order; a cubin has them
  bool has_parameters = false;
};

struct Image {
  bool is_binary = false;
  int capability = 0;
  int driver = 0;      // the first version of the driver's interface that loads it
  bool exact = false;  // made for this capability alone (sm_90a)
  std::map<std::string, KernelImage> kernels;

  // A cubin runs on cards of its major version from its minor one on, PTX on any later card.
  bool runs_on(int card) const;
};

// False where it is no image.
bool read_image(const void* at, Image& image);

}  // namespace host
