// For the tests of kernels that copy boxes: maps of matrices, and what tiles.txt says of a tile.
#pragma once
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../tma.cuh"
#include "tally.h"

namespace test {

// What products.rs knows of a kernel.
struct Tile {
  int tokens, outputs, threads, shared;
  template <class Of>
  Tile(Of) : tokens(Of::kTokens), outputs(Of::kOutputs), threads(Of::kThreads), shared(Of::kSharedBytes) {}
};

// Rows of K values, `box` of them at a time.
inline CUtensorMap rows_map(const void* at, int rows, int K, int box) {
  return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(at), 2, 2, {uint64_t(K), uint64_t(rows)},
                       {uint64_t(K) * 2}, {64, uint32_t(box)}});
}

// Whether the rows of tiles.txt for boxes whose names begin like this are those of the kernels.
template <class Kernel>
void tiles_table(Tally& tally, const std::vector<Kernel>& kernels, const std::string& prefix) {
  std::ifstream file("kernels/tests/tiles.txt");
  std::string line;
  size_t rows = 0;
  while (std::getline(file, line)) {
    if (line.find(" boxes ") == std::string::npos || line.rfind(prefix, 0) != 0) continue;
    bool found = false;
    for (const Kernel& k : kernels) {
      std::ostringstream row;
      row << k.name << " boxes " << k.tile.tokens << " " << k.tile.outputs << " " << k.tile.threads << " " << k.tile.shared;
      found |= row.str() == line;
    }
    tally.check(found, "tiles.txt: " + line);
    rows++;
  }
  tally.check(rows == kernels.size(), "tiles.txt has " + std::to_string(rows) + " kernels");
}

}  // namespace test
