// The host's half of kernels/mma.cuh: see there for what each function does.
#pragma once
#include "host.h"
#include "tensor_core.h"

namespace host {

struct MmaRequest {
  float* d;
  const uint32_t *a, *b;
};

// Gathers the lanes' fragments into whole matrices, multiplies, and deals the sums out again.
HOST_UNSEEN inline void mma_together(void* const* requests, unsigned) {
  Tile t;
  for (unsigned lane = 0; lane < 32; lane++) {
    const MmaRequest& r = *static_cast<const MmaRequest*>(requests[lane]);
    const unsigned g = lane / 4, k = lane % 4;
    for (unsigned half = 0; half < 2; half++) {
      t.put_a(g, k + 4 * half, r.a[2 * half]), t.put_a(g + 8, k + 4 * half, r.a[2 * half + 1]);
      t.put_b(k + 4 * half, g, r.b[half]);
    }
    for (unsigned i = 0; i < 4; i++) t.d[g + i / 2 * 8][2 * k + i % 2] = r.d[i];
  }
  multiply(t);
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned i = 0; i < 4; i++)
      static_cast<const MmaRequest*>(requests[lane])->d[i] = t.d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
}

struct MatrixRequest {
  Chunk row;
  uint32_t* r;
};

inline uint32_t half_of(const Chunk& row, unsigned i) { return row.words[i / 2] >> i % 2 * 16 & 0xffff; }

template <int N, bool kTransposed>
HOST_UNSEEN inline void matrices_together(void* const* requests, unsigned) {
  const auto row = [&](unsigned i) -> const Chunk& { return static_cast<const MatrixRequest*>(requests[i])->row; };
  for (unsigned lane = 0; lane < 32; lane++) {
    const unsigned first = lane / 4, pair = lane % 4;
    for (int m = 0; m < N; m++)
      static_cast<MatrixRequest*>(requests[lane])->r[m] =
          kTransposed ? half_of(row(8 * m + 2 * pair), first) | half_of(row(8 * m + 2 * pair + 1), first) << 16
                      : row(8 * m + first).words[pair];
  }
}

template <int N, bool kTransposed>
inline void load_matrices(uint32_t (&r)[N], const void* shared_row, Site site) {
  Fiber& f = self();
  MatrixRequest request{{}, r};
  if (f.lane < 8 * N) {
    if (reinterpret_cast<uintptr_t>(shared_row) % 16) f.block->fail(site.text() + ": a row not aligned to 16 bytes");
    require_shared(f, shared_row, 16, site);
    request.row = *static_cast<const Chunk*>(shared_row);
  }
  f.block->aligned(f, matrices_together<N, kTransposed>, &request, site);
}

// Each lane gives and gets a pair of an 8x8 matrix.
HOST_UNSEEN inline void transpose_together(void* const* requests, unsigned) {
  uint32_t given[32];
  for (unsigned lane = 0; lane < 32; lane++) given[lane] = *static_cast<const uint32_t*>(requests[lane]);
  const auto at = [&](unsigned row, unsigned column) { return given[row * 4 + column / 2] >> column % 2 * 16 & 0xffff; };
  for (unsigned lane = 0; lane < 32; lane++) {
    const unsigned row = lane / 4, column = lane % 4 * 2;
    *static_cast<uint32_t*>(requests[lane]) = at(column, row) | at(column + 1, row) << 16;
  }
}

}  // namespace host

inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], HOST_SITE) {
  host::Fiber& f = host::self();
  host::MmaRequest request{d, a, b};
  f.block->aligned(f, host::mma_together, &request, {"mma_bf16", file, line});
}

inline void ldmatrix_x4(uint32_t (&r)[4], const void* shared_row, HOST_SITE) {
  host::load_matrices<4, false>(r, shared_row, {"ldmatrix_x4", file, line});
}
inline void ldmatrix_x2(uint32_t (&r)[2], const void* shared_row, HOST_SITE) {
  host::load_matrices<2, false>(r, shared_row, {"ldmatrix_x2", file, line});
}
inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared_row, HOST_SITE) {
  host::load_matrices<4, true>(r, shared_row, {"ldmatrix_x4_trans", file, line});
}
inline void ldmatrix_x2_trans(uint32_t (&r)[2], const void* shared_row, HOST_SITE) {
  host::load_matrices<2, true>(r, shared_row, {"ldmatrix_x2_trans", file, line});
}

inline uint32_t transpose_8x8(uint32_t pair, HOST_SITE) {
  host::Fiber& f = host::self();
  f.block->aligned(f, host::transpose_together, &pair, {"transpose_8x8", file, line});
  return pair;
}

inline void cp_async_16(void* shared, const void* global, bool valid, HOST_SITE) {
  host::Fiber& f = host::self();
  host::require_shared(f, shared, 16, {"cp_async_16", file, line});
  f.copies.add(shared, global, valid);
  const host::Unseen unseen;
  f.block->async_view.copied(shared, f.index);
}
inline void cp_async_commit() { host::self().copies.commit(); }
template <int N>
inline void cp_async_wait() {
  host::Fiber& f = host::self();
  f.copies.wait(N, [&](const void* to) {
    const host::Unseen unseen;
    f.block->async_view.copied(to, f.index);
  });
}
