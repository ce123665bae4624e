// The tensor core's arithmetic on one 16x8x16 tile.
#pragma once
#include <cstdint>
#include <cstring>

namespace host {

struct Tile {
  uint16_t a[16][16], b[8][16];  // bf16: rows of a, columns of b
  float d[16][8];
  void put_a(unsigned row, unsigned pair, uint32_t v) { std::memcpy(&a[row][2 * pair], &v, 4); }
  void put_b(unsigned col, unsigned pair, uint32_t v) { std::memcpy(&b[col][2 * pair], &v, 4); }
};

inline float from_bf16(uint16_t h) {
  const uint32_t u = uint32_t(h) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}

inline void multiply(Tile& t) {
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++)
      for (int k = 0; k < 16; k++) t.d[i][j] += from_bf16(t.a[i][k]) * from_bf16(t.b[j][k]);
}

}  // namespace host
