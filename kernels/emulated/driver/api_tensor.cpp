// The driver's functions about maps of tensors (tma.h has how the emulator lays one out).
#include "../tma.h"
#include "device.h"
#include "memory.h"

using namespace host;

namespace {

// What is wrong with a map; empty if nothing is. The rules are those of the driver's manual, of what kernels here use.
std::string wrong_map(CUtensorMapDataType type, unsigned rank, const TensorMap& map, const cuuint32_t* steps,
                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle) {
  if (type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      swizzle != CU_TENSOR_MAP_SWIZZLE_128B)
    return "the emulated driver has bf16 under the swizzle of 128 bytes alone";
  if (map.address % 16) return "an address that is not a multiple of 16";
  if (map.box[0] * 2 != 128) return "a tile whose rows are not 128 bytes";
  uint64_t last = 0;
  for (unsigned i = 0; i < rank; i++) {
    if (map.sizes[i] == 0 || map.sizes[i] > uint64_t{1} << 32) return "a size of 0, or of more than 2^32";
    if (map.box[i] == 0 || map.box[i] > 256) return "a tile of 0, or of more than 256";
    if (steps[i] != 1) return "steps other than 1";
    if (i > 0 && (map.strides[i - 1] % 16 || map.strides[i - 1] >= uint64_t{1} << 40))
      return "a stride that is not a multiple of 16, or of 2^40 or more";
    last += (map.sizes[i] - 1) * (i == 0 ? 2 : map.strides[i - 1]);
  }
  if (!DeviceMemory::the().find(map.address, last + 2)) return "a tensor that is not in one allocation";
  return "";
}

}  // namespace

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                        const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                        const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill) {
  return on_device([&](Device&) -> CUresult {
    if (!out || reinterpret_cast<uintptr_t>(out) % 64 || rank == 0 || rank > TensorMap::kMostRanks)
      return refuse("cuTensorMapEncodeTiled", "a map not aligned to 64 bytes, or not of 1 to 5 dimensions", CUDA_ERROR_INVALID_VALUE);
    TensorMap map{TensorMap::kMagic, reinterpret_cast<uint64_t>(address), rank, 2, {}, {}, {}};
    for (unsigned i = 0; i < rank; i++) {
      map.sizes[i] = sizes[i], map.box[i] = box[i];
      if (i > 0) map.strides[i - 1] = strides[i - 1];
    }
    const std::string wrong = wrong_map(type, rank, map, steps, interleave, swizzle);
    if (!wrong.empty()) return refuse("cuTensorMapEncodeTiled", wrong, CUDA_ERROR_INVALID_VALUE);
    *out = encode(map);
    return CUDA_SUCCESS;
  });
}
