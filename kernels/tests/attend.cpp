// Attention: attend_plain.cu against f64, and everything else against it, bit for bit: parts merged as rows in one go,
// rows alone as together, shared prefixes as copies, other places in the pool, any order of threads. Unwritten slots of
// the cache hold NaN.
#include "../attend_plain.cu"
#include "../attend_merge.cu"

#include "attention_case.h"

namespace {

struct Kernel {
  std::string name;
  int threads, shared_bytes, most_rows;
  decltype(&attend_rows_plain) rows;
  decltype(&attend_parts_plain) parts;
};

std::vector<bf16> by_rows(const Case& c, const Kernel& k, const std::vector<int>& items) {
  const Shape& s = c.shape;
  std::vector<bf16> out(c.q.size(), nan_bf16());
  const int n = int(items.size() / 2);
  host::launch(dim3(n, s.kv_heads), dim3(k.threads), k.shared_bytes, [&] {
    k.rows(c.q.data(), c.keys.data(), c.values.data(), items.data(), c.order.data(), c.positions.data(),
           c.seq_of_row.data(), c.block_start.data(), c.blocks.data(), out.data(), n, s.heads, s.kv_heads, s.dim,
           s.window, s.scale);
  });
  return out;
}

std::vector<bf16> by_parts(const Case& c, const Kernel& k, const std::vector<int>& items) {
  const Shape& s = c.shape;
  std::vector<float> parts(size_t(c.n_parts) * s.heads * s.dim, NAN), peaks(size_t(c.n_parts) * s.heads * 2, NAN);
  std::vector<bf16> out(c.q.size(), nan_bf16());
  const int n = int(items.size() / 4);
  host::launch(dim3(n, s.kv_heads), dim3(k.threads), k.shared_bytes, [&] {
    k.parts(c.q.data(), c.keys.data(), c.values.data(), items.data(), c.order.data(), c.positions.data(),
            c.seq_of_row.data(), c.block_start.data(), c.blocks.data(), parts.data(), peaks.data(),
            c.part_start.data(), n, s.heads, s.kv_heads, s.dim, s.window, s.scale);
  });
  host::launch(dim3(c.rows(), (s.heads * s.dim + 511) / 512), dim3(128), 0, [&] {
    attend_merge(parts.data(), peaks.data(), c.part_start.data(), c.positions.data(), out.data(), c.rows(), s.heads,
                 s.dim, s.window);
  });
  return out;
}

const Kernel kPlain = {"plain", 32, 0, 64, attend_rows_plain, attend_parts_plain};

// Chunks and single rows over prefixes of a few blocks and of several splits.
std::vector<Sequence> mixed() {
  return {{1, 290, 280, -1, 0}, {2, 300, 299, 0, 256}, {3, 21, 0, -1, 0}, {4, 275, 272, 0, 272},
          {5, 17, 16, -1, 0},   {6, 530, 529, 0, 256}, {7, 1, 0, -1, 0},  {8, 545, 543, 5, 512}};
}

std::vector<Shape> shapes(int dim) {
  const float scale = 1 / std::sqrt(float(dim));
  return {{4, 2, dim, 0, scale}, {7, 1, dim, 24, scale}, {3, 3, dim, 270, scale}};
}

std::string name_of(const Shape& s) {
  return std::to_string(s.heads) + " heads over " + std::to_string(s.kv_heads) + " of " + std::to_string(s.dim) +
         ", window " + std::to_string(s.window);
}

void test_plain(Tally& tally, const Shape& s) {
  const Case c = make_case(s, mixed(), {1, true});
  const auto out = by_rows(c, kPlain, row_items(c, 1));
  const double error = worst_error(c, out);
  tally.check(error < 0.02, name_of(s) + ": plain is wrong by " + std::to_string(error));
  tally.check(same_bits(out, by_rows(c, kPlain, row_items(c, 64))), name_of(s) + ": rows together");
  tally.check(same_bits(out, by_parts(c, kPlain, part_items(c, 64))), name_of(s) + ": parts merged");
  const Case copies = make_case(s, mixed(), {2, false});
  tally.check(same_bits(out, by_rows(copies, kPlain, row_items(copies, 64))), name_of(s) + ": prefixes not shared");
}

}  // namespace

int main() {
  Tally tally{"attend"};
  for (const int dim : {16, 64})
    for (const Shape& s : shapes(dim)) test_plain(tally, s);
  return tally.end();
}
