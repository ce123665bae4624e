// The host's half of kernels/wgmma.cuh: see there for what each function does. Each warp computes its 16 rows.
//
// A product is done as late as it may be, at the wait that covers its group: operands are read then, and until then its
// sums are poisoned. So a missing wait is found, and so are sums or an operand that change under a product. An operand
// that wgmma does not see (proxy.h), a product without wgmma_fence, and one that no wait covers end the program.
//
// Not found: the four warps of a group in different instructions; sums that were read, but not written, without a fence.
#pragma once
#include <list>
#include <memory>

#include "mma.h"

namespace host {

struct ProductRequest {
  float* d;
  unsigned eights;  // of columns
  const unsigned char *a, *b;
  const uint32_t* fragment = nullptr;  // the lane's part of the rows, where these are in registers
  int columns = 0;                     // bytes from 64 columns of a transposed b to the next; 0: b is not transposed
};

// The products of a warp that are on their way, and their sums.
class Products {
 public:
  // Sums of a warp, [eights][16][8], while the lanes' own are poisoned; afterwards what the lanes were given.
  struct Sums {
    float* lanes[32];
    unsigned eights, in_flight;
    std::vector<float> values;

    template <typename F>
    void for_each(F f) {  // f(a lane's element, its value)
      for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned e = 0; e < eights * 4; e++)
          f(lanes[lane][e], values[e / 4 * 128 + (lane / 4 + e % 4 / 2 * 8) * 8 + lane % 4 * 2 + e % 2]);
    }
  };

  bool fenced = false;

  void fence() {
    fenced = true;
    sums_.remove_if([](const Sums& s) { return s.in_flight == 0; });
  }
  void commit() { group_++; }
  HOST_UNSEEN void start(void* const* requests) {
    const auto of = [&](unsigned lane) -> const ProductRequest& { return *static_cast<ProductRequest*>(requests[lane]); };
    if (!fenced) fail("a product before any wgmma_fence");
    for (unsigned lane = 1; lane < 32; lane++)
      if (of(lane).a != of(0).a || of(lane).b != of(0).b) fail("lanes of a warp name different operands");
    Sums* sums = nullptr;
    for (Sums& s : sums_)
      if (s.lanes[0] == of(0).d) sums = &s;
    if (!sums) {
      sums = &sums_.emplace_back(Sums{{}, of(0).eights, 0, std::vector<float>(of(0).eights * 128)});
      for (unsigned lane = 0; lane < 32; lane++) sums->lanes[lane] = of(lane).d;
      sums->for_each([](float& own, float& value) { value = own; });
    } else if (sums->in_flight == 0) {
      sums->for_each([&](float& own, float& value) {
        if (bits(own) != bits(value)) fail("the sums were written after the last products, and no wgmma_fence follows");
      });
    }
    if (sums->in_flight++ == 0) sums->for_each([](float& own, float&) { own = poison(); });
    pending_.push_back({sums, of(0), {}, self().thread.x / 32 % 4 * 16, group_});
    for (unsigned lane = 0; lane < 32; lane++) pending_.back().fragments[lane] = of(lane).fragment;
  }

  // Until at most `left` committed groups are on their way.
  void wait(unsigned left) {
    size_t n = 0;
    for (; n < pending_.size() && pending_[n].group + left < group_; n++) finish(pending_[n]);
    pending_.erase(pending_.begin(), pending_.begin() + n);
  }
  size_t in_flight() const { return pending_.size(); }

 private:
  struct Product {
    Sums* sums;
    ProductRequest request;
    const uint32_t* fragments[32];
    unsigned row, group;
  };

  static float poison() {
    float v;
    std::memset(&v, 0xff, sizeof v);
    return v;
  }
  static uint32_t bits(float v) {
    uint32_t out;
    std::memcpy(&out, &v, sizeof out);
    return out;
  }
  [[noreturn]] static void fail(const char* why) { self().block->fail(self().site.text() + ": " + why); }

  // Eight values of a row. To ThreadSanitizer the lane that executes this has read them.
  HOST_UNSEEN static void read_chunk(const unsigned char* operand, unsigned row, unsigned chunk, uint16_t* to) {
    uintptr_t at = reinterpret_cast<uintptr_t>(operand) + row * 128 + chunk * 16;
    at ^= (at >> 7 & 7) << 4;
#ifdef HOST_TSAN
    const Seen seen;
    __tsan_read_range(reinterpret_cast<void*>(at), 16);
#endif
    std::memcpy(to, reinterpret_cast<const void*>(at), 16);
  }
  // A row's 16 values.
  HOST_UNSEEN static void read_row(const unsigned char* operand, unsigned row, uint16_t* to) {
    for (unsigned chunk = 0; chunk < 2; chunk++) read_chunk(operand, row, chunk, to + chunk * 8);
  }
  HOST_UNSEEN static void read_rows(const Product& p, Tile& t) {
    for (unsigned row = 0; row < 16 && p.request.a; row++) read_row(p.request.a, p.row + row, t.a[row]);
    for (unsigned lane = 0; lane < 32 && !p.request.a; lane++)
      for (unsigned i = 0; i < 4; i++) std::memcpy(&t.a[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8], p.fragments[lane] + i, 4);
  }
  // Columns 8 j on.
  HOST_UNSEEN static void read_columns(const Product& p, unsigned j, Tile& t) {
    for (unsigned k = 0; k < 16 && p.request.columns; k++) read_chunk(p.request.b + j / 8 * p.request.columns, k, j % 8, t.b[k]);
    for (unsigned column = 0; column < 8 && !p.request.columns; column++) {
      uint16_t values[16];
      read_row(p.request.b, 8 * j + column, values);
      for (unsigned k = 0; k < 16; k++) t.b[k][column] = values[k];
    }
  }
  HOST_UNSEEN static void finish(const Product& p) {
    Tile t;
    read_rows(p, t);
    for (unsigned j = 0; j < p.sums->eights; j++) {
      read_columns(p, j, t);
      float* const sums = &p.sums->values[j * 128];
      std::memcpy(t.d, sums, sizeof t.d);
      multiply(t);
      std::memcpy(sums, t.d, sizeof t.d);
    }
    if (--p.sums->in_flight) return;
    p.sums->for_each([](float& own, float& value) {
      if (bits(own) != bits(poison())) fail("the sums of a product on its way were written");
      own = value;
    });
  }

  std::list<Sums> sums_;
  std::vector<Product> pending_;
  unsigned group_ = 0;
};

inline Products& products() {
  Warp& w = *self().warp;
  if (!w.products) w.products = std::make_shared<Products>();
  return *w.products;
}

// Rows of an operand from `row` on, `chunks` of each, of which each lane looks at some: in shared memory, and seen by
// wgmma.
HOST_UNSEEN inline void require_operand(Fiber& f, const unsigned char* operand, unsigned row, unsigned rows, unsigned chunks, Site site) {
  const unsigned char* const begin = operand - reinterpret_cast<uintptr_t>(operand) % 128;
  if (reinterpret_cast<uintptr_t>(begin) % 1024) f.block->fail(site.text() + ": an operand not aligned to 1024 bytes");
  require_shared(f, begin + row * 128, rows * 128, site);
  for (unsigned i = f.lane; i < chunks * rows; i += 32) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(operand) + (row + i / chunks) * 128 + i % chunks * 16;
    const auto* const chunk = reinterpret_cast<const unsigned char*>(at ^ (at >> 7 & 7) << 4);
    if (!f.block->async_view.sees(chunk))
      f.block->fail(site.text() + ": row " + std::to_string(row + i / chunks) +
                    " of an operand was not published (wgmma_publish) by the thread that wrote it");
  }
}

inline void start_product(ProductRequest request, Site site) {
  Fiber& f = self();
  if (request.a) require_operand(f, request.a, f.thread.x / 32 % 4 * 16, 16, 2, site);
  if (!request.columns) require_operand(f, request.b, 0, 8 * request.eights, 2, site);
  for (unsigned j = 0; j < request.eights && request.columns; j += 8)
    require_operand(f, request.b + j / 8 * request.columns, 0, 16, 8, site);
  const Together start = [](void* const* requests, unsigned) {
    products().start(requests);
    self().warp->products_in_flight = true;
  };
  f.block->aligned(f, start, &request, site);
}

// A warp's lanes wait for products together, so that all reads precede the next statement of each.
template <unsigned kLeft>
void wait_for_products(Site site) {
  Fiber& f = self();
  const Together wait = [](void* const*, unsigned) {
    Products& all = products();
    all.wait(kLeft);
    self().warp->products_in_flight = all.in_flight() != 0;
    self().warp->rounds.n++;
  };
  char* const round = f.warp->rounds.arrive();
  f.block->aligned(f, wait, nullptr, site);
  Rounds::depart(round);
}

}  // namespace host

template <int J>
inline void wgmma_start(float (&d)[J][4], const unsigned char* a, const unsigned char* b, HOST_SITE) {
  host::start_product({d[0], J, a, b}, {"wgmma_start", file, line});
}
template <int J>
inline void wgmma_start_transposed(float (&d)[J][4], const uint32_t (&a)[4], const unsigned char* b, int columns, HOST_SITE) {
  host::start_product({d[0], J, nullptr, b, a, columns}, {"wgmma_start_transposed", file, line});
}
inline void wgmma_fence(HOST_SITE) {
  host::Fiber& f = host::self();
  f.block->aligned(f, [](void* const*, unsigned) { host::products().fence(); }, nullptr, {"wgmma_fence", file, line});
}
inline void wgmma_commit(HOST_SITE) {
  host::Fiber& f = host::self();
  f.block->aligned(f, [](void* const*, unsigned) { host::products().commit(); }, nullptr, {"wgmma_commit", file, line});
}
inline void wgmma_wait_but_one(HOST_SITE) { host::wait_for_products<1>({"wgmma_wait_but_one", file, line}); }
inline void wgmma_wait(HOST_SITE) { host::wait_for_products<0>({"wgmma_wait", file, line}); }
inline void wgmma_publish() {
  host::Fiber& f = host::self();
  f.block->async_view.publish(f.index);
}
