// Attention: attend_plain.cu against f64, and everything else against it, bit for bit: attend.cuh and attend_tma.cuh for
// every size of head and tile, splits merged as rows in one go, rows alone as together, shared prefixes as copies in other places of
// the pool, chunks as whole prompts, any order of threads. Slots of the cache that no row sees hold NaN.
#include "../attend_d128.cu"
#include "../attend_d16.cu"
#include "../attend_d256.cu"
#include "../attend_d32.cu"
#include "../attend_d512.cu"
#include "../attend_d64.cu"
#include "../attend_d80.cu"
#include "../attend_d96.cu"
#include "../attend_merge.cu"
#include "../attend_plain.cu"
#include "../attend_tma.cu"

#include <fstream>
#include <functional>
#include <sstream>

#include "attention_case.h"

namespace {

struct Kernel {
  std::string name;
  int threads, shared_bytes, most_rows;
  std::function<std::remove_pointer_t<decltype(&attend_rows_plain)>> rows;
  std::function<std::remove_pointer_t<decltype(&attend_split_kv_plain)>> splits;
  std::function<std::remove_pointer_t<decltype(&attend_merged_d64_t16)>> merged = {};
};

std::vector<bf16> by_rows(const Case& c, const Kernel& k, const std::vector<int>& work_tiles) {
  const Shape& s = c.shape;
  std::vector<bf16> out(c.q.size(), nan_bf16());
  const int n = int(work_tiles.size() / 2);
  host::launch(dim3(n, s.kv_heads), dim3(k.threads), k.shared_bytes, [&] {
    k.rows(c.q.data(), c.keys.data(), c.values.data(), work_tiles.data(), c.order.data(), c.positions.data(),
           c.seq_of_row.data(), c.block_start.data(), c.blocks.data(), c.sinks_or_null(), out.data(), n, s.heads, s.kv_heads, s.dim,
           s.window, s.scale, s.cap, s.cap_by());
  });
  return out;
}

struct Splits {
  std::vector<float> splits, peaks;
  std::vector<bf16> out;
};

Splits by_splits(const Case& c, const Kernel& k, const std::vector<int>& work_tiles) {
  const Shape& s = c.shape;
  std::vector<float> splits(size_t(c.n_splits) * s.heads * s.dim, NAN), peaks(size_t(c.n_splits) * s.heads * 2, NAN);
  std::vector<bf16> out(c.q.size(), nan_bf16());
  const int n = int(work_tiles.size() / 4);
  host::launch(dim3(n, s.kv_heads), dim3(k.threads), k.shared_bytes, [&] {
    k.splits(c.q.data(), c.keys.data(), c.values.data(), work_tiles.data(), c.order.data(), c.positions.data(),
            c.seq_of_row.data(), c.block_start.data(), c.blocks.data(), splits.data(), peaks.data(),
            c.split_start.data(), n, s.heads, s.kv_heads, s.dim, s.window, s.scale, s.cap,
            s.cap_by());
  });
  host::launch(dim3(c.rows(), (s.heads * s.dim + 511) / 512), dim3(128), 0, [&] {
    attend_merge(splits.data(), peaks.data(), c.split_start.data(), c.positions.data(), c.sinks_or_null(), out.data(), c.rows(),
                 s.heads,
                 s.dim, s.window);
  });
  return {splits, peaks, out};
}

// Splits and their merge in one launch.
std::vector<bf16> by_merged(Tally& tally, const Case& c, const Kernel& k, const std::vector<int>& work_tiles) {
  const Shape& s = c.shape;
  std::vector<float> splits(size_t(c.n_splits) * s.heads * s.dim, NAN), peaks(size_t(c.n_splits) * s.heads * 2, NAN);
  std::vector<bf16> out(c.q.size(), nan_bf16());
  std::vector<unsigned> semaphores(c.rows() * s.kv_heads);
  const int n = int(work_tiles.size() / 4);
  host::launch(dim3(n, s.kv_heads), dim3(k.threads), k.shared_bytes, [&] {
    k.merged(c.q.data(), c.keys.data(), c.values.data(), work_tiles.data(), c.order.data(), c.positions.data(),
             c.seq_of_row.data(), c.block_start.data(), c.blocks.data(), splits.data(), peaks.data(), c.split_start.data(),
             c.sinks_or_null(), out.data(), semaphores.data(), n, s.heads, s.kv_heads, s.dim, s.window, s.scale, s.cap,
             s.cap_by());
  });
  tally.check(semaphores == std::vector<unsigned>(semaphores.size()), k.name + ": a semaphore is not 0");
  return out;
}

// Work tiles of up to `most` splits: neighbours with the same rows.
std::vector<int> ranges(const std::vector<int>& work_tiles, int most) {
  std::vector<int> all;
  for (size_t i = 0; i < work_tiles.size(); i += 4) {
    const int* const work = &work_tiles[i];
    size_t at = 0;
    while (at < all.size() && !(all[at] == work[0] && all[at + 1] == work[1] && all[at + 2] + all[at + 3] + 1 == work[2] && all[at + 3] + 1 < most)) at += 4;
    if (at < all.size()) all[at + 3]++;
    else all.insert(all.end(), work, work + 4);
  }
  return all;
}

const Kernel kPlain = {"plain", 32, 0, 64, attend_rows_plain, attend_split_kv_plain};

#define TILE(D, T) \
  { "tile of " #T, attention::Plan<D, T>::kThreads, attention::Plan<D, T>::kSharedBytes, T, attend_rows_d##D##_t##T, attend_split_kv_d##D##_t##T, \
    attend_merged_d##D##_t##T }

// Kernels that take tensor maps of one layer's keys and values, [cached, dim], in place of their addresses.
template <typename Rows, typename Splits>
Kernel with_maps(int dim, int queries, int shared_bytes, size_t cached, Rows rows, Splits splits) {
  const auto map = [=](const bf16* at) {
    return host::encode({host::TensorMap::kMagic, reinterpret_cast<uint64_t>(at), 2, 2, {uint64_t(dim), cached}, {uint64_t(dim) * 2},
                         {64, kBlock}});
  };
  return {"TMA tile of " + std::to_string(queries), 384, shared_bytes, queries,
          [=](auto q, auto keys, auto values, auto... rest) { rows(map(keys), map(values), q, rest...); },
          [=](auto q, auto keys, auto values, auto... rest) { splits(map(keys), map(values), q, rest...); }};
}

#define WIDE(D) \
  with_maps(D, 128, attention::WidePlan<D>::kSharedBytes, cached, attend_rows_tma_d##D##_t128, attend_split_kv_tma_d##D##_t128)

// `cached`: rows of the keys and of the values.
std::vector<Kernel> tiles(int dim, size_t cached) {
  switch (dim) {
    case 16: return {TILE(16, 16), TILE(16, 32), TILE(16, 64)};
    case 32: return {TILE(32, 16), TILE(32, 32), TILE(32, 64)};
    case 64: return {TILE(64, 16), TILE(64, 32), TILE(64, 64), WIDE(64)};
    case 80: return {TILE(80, 16), TILE(80, 32), TILE(80, 64)};
    case 96: return {TILE(96, 16), TILE(96, 32), TILE(96, 64)};
    case 128: return {TILE(128, 16), TILE(128, 32), TILE(128, 64), WIDE(128)};
    case 256:
      return {TILE(256, 16), TILE(256, 32),
              with_maps(256, 64, attention::Wide256::kSharedBytes, cached, attend_rows_tma_d256_t64, attend_split_kv_tma_d256_t64)};
    default: return {TILE(512, 16), TILE(512, 32)};
  }
}

// Chunks and single rows over prefixes of a few blocks and of several splits.
std::vector<Sequence> mixed() {
  return {{1, 290, 280, -1, 0}, {2, 300, 299, 0, 256}, {3, 21, 0, -1, 0}, {4, 275, 272, 0, 272},
          {5, 17, 16, -1, 0},   {6, 530, 529, 0, 256}, {7, 1, 0, -1, 0},  {8, 545, 543, 5, 512}};
}

std::vector<Shape> shapes(int dim) {
  const float scale = 1 / std::sqrt(float(dim));
  return {{4, 2, dim, 0, scale}, {7, 1, dim, 24, scale, 0, true}, {3, 3, dim, 270, 3 * scale, 2}, {12, 1, dim, 0, scale, 0, true}};
}

std::string name_of(const Shape& s) {
  return std::to_string(s.heads) + " heads over " + std::to_string(s.kv_heads) + " of " + std::to_string(s.dim) +
         ", window " + std::to_string(s.window) + (s.cap > 0 ? ", capped" : "") + (s.sinks ? ", sinks" : "");
}

// Plain attention, alone and together; what all others must give.
Splits test_plain(Tally& tally, const Case& c) {
  const Splits wanted = by_splits(c, kPlain, split_tiles(c, 1));
  const double error = worst_error(c, wanted.out);
  tally.check(error < 0.02, name_of(c.shape) + ": plain is wrong by " + std::to_string(error));
  tally.check(same_bits(wanted.out, by_rows(c, kPlain, row_tiles(c, 64))), name_of(c.shape) + ": plain rows");
  tally.check(same_bits(wanted.out, by_splits(c, kPlain, split_tiles(c, 64)).out), name_of(c.shape) + ": plain splits");
  return wanted;
}

// One size of head: all tiles in several orders of threads, shared prefixes and copies.
void test_tiles(Tally& tally, const Shape& s) {
  const Case c = make_case(s, mixed(), {1, true}), copies = make_case(s, mixed(), {2, false});
  host::order() = 0;
  const Splits wanted = test_plain(tally, c);
  unsigned order = 0;
  for (const Kernel& k : tiles(s.dim, c.keys.size() / s.dim)) {
    const int rows = k.most_rows / (s.heads / s.kv_heads);
    const auto name = [&](const char* how) {
      return name_of(s) + ", " + k.name + ", order " + std::to_string(order) + ": " + how;
    };
    const auto check_rows = [&](const std::vector<bf16>& out, const char* how) {
      tally.check(same_bits(out, wanted.out), name(how));
    };
    const auto check_splits = [&](const Splits& got, const char* how) {
      tally.check(same_bits(got.peaks, wanted.peaks), name(how) + ", peaks and sums");
      tally.check(same_bits(got.splits, wanted.splits), name(how) + ", splits");
      tally.check(same_bits(got.out, wanted.out), name(how) + ", merged");
    };
    host::order() = order = order % 7 + 1;
    check_rows(by_rows(c, k, row_tiles(c, rows)), "rows");
    check_splits(by_splits(c, k, split_tiles(c, rows)), "splits");
    if (k.merged) {
      check_rows(by_merged(tally, c, k, split_tiles(c, rows)), "merged by the last");
      check_rows(by_merged(tally, c, k, ranges(split_tiles(c, rows), 2)), "pairs of splits");
      check_rows(by_merged(tally, c, k, ranges(split_tiles(c, 1), 9)), "all splits of a row");
    }
    host::order() = order = order % 7 + 1;
    check_rows(by_rows(c, k, row_tiles(c, 1)), "rows alone");
    check_splits(by_splits(c, k, split_tiles(c, 1)), "splits alone");
    if (k.merged) check_rows(by_merged(tally, c, k, split_tiles(c, 1)), "alone, merged by the last");
    check_rows(by_rows(copies, k, row_tiles(copies, rows)), "rows with prefixes written twice");
    check_splits(by_splits(copies, k, split_tiles(copies, rows)), "splits with prefixes written twice");
  }
}

// A prompt in one chunk, in two, and a token at a time.
void test_chunks(Tally& tally, int dim) {
  const Shape s = {4, 2, dim, 0, 0.2f};
  const int length = 70, width = s.heads * dim;
  const auto whole = make_case(s, {{9, length, 0, -1, 0}}, {3, true});
  const auto kernel = [&](const Case& c) { return tiles(dim, c.keys.size() / dim).back(); };
  host::order() = 0;
  const auto wanted = by_rows(whole, kPlain, row_tiles(whole, 1));
  tally.check(same_bits(wanted, by_rows(whole, kernel(whole), row_tiles(whole, 16))), "a prompt in one chunk");
  for (const int first : {1, 15, 16, 33, 64, 69}) {
    // What came before the chunk is in the cache, what comes after it is not.
    const auto chunk = make_case(s, {{9, length, first, -1, 0}}, {4, true});
    const auto before = make_case(s, {{9, first, 0, -1, 0}}, {5, true});
    auto out = by_rows(before, kernel(before), row_tiles(before, 16));
    const auto rest = by_splits(chunk, kernel(chunk), split_tiles(chunk, 5)).out;
    out.insert(out.end(), rest.begin(), rest.end());
    tally.check(same_bits(wanted, out), "a prompt of " + std::to_string(length) + " in chunks at " +
                                            std::to_string(first) + ", heads of " + std::to_string(dim));
    tally.check(int(out.size()) == length * width, "the test's own chunks");
  }
}

// Some rows whole, the others in splits: each kernel leaves the other's rows alone, and all where a work tile has none.
void test_both(Tally& tally) {
  const Shape s = {4, 2, 64, 0, 0.2f};
  Case c = make_case(s, mixed(), {1, true});
  const Kernel k = tiles(s.dim, c.keys.size() / s.dim).back();
  host::order() = 0;
  const auto wanted = by_rows(c, kPlain, row_tiles(c, 1));
  std::vector<int> rows, splits;
  for (int i = 0; i < c.rows(); i += 2) rows.insert(rows.end(), {i, 1}), c.split_start[c.order[i]] = -1;
  const auto all = split_tiles(c, 1);
  for (size_t i = 0; i < all.size(); i += 4)
    if (all[i] % 2) splits.insert(splits.end(), all.begin() + i, all.begin() + i + 4);
  // Work tiles that pad the lists.
  rows.insert(rows.end(), {0, 0, 3, 0}), splits.insert(splits.end(), {0, 0, 0, 0});
  const auto whole = by_rows(c, k, rows), merged = by_splits(c, k, splits).out;
  const size_t width = size_t(s.heads) * s.dim;
  bool right = true;
  for (size_t i = 0; i < wanted.size(); i++) {
    const bool is_whole = c.split_start[i / width] < 0;
    const bf16 ours = is_whole ? whole[i] : merged[i], other = is_whole ? merged[i] : whole[i];
    right &= std::memcmp(&ours, &wanted[i], 2) == 0 && widen(other) != widen(other);
  }
  tally.check(right, "some rows whole, others in splits");
}

// A NaN in a query, or in a key, is NaN in all of its heads' outputs, and moves no other.
void test_nan(Tally& tally) {
  const Shape s = {4, 2, 64, 0, 0.2f, 0, true};
  const Case c = make_case(s, mixed(), {1, true});
  const int row = 3, head = 1, block = c.blocks_of(row)[0];
  Case of_query = c, of_key = c;
  of_query.q[(size_t(row) * s.heads + head) * s.dim + 5] = nan_bf16();
  of_key.keys[size_t(block) * s.kv_heads * kBlock * s.dim + 5] = nan_bf16();
  host::order() = 0;
  const auto clean = by_rows(c, kPlain, row_tiles(c, 1));
  const auto check = [&](const std::vector<bf16>& out, bool is_query, const std::string& name) {
    bool right = true;
    for (size_t i = 0; i < out.size(); i++) {
      const int at = int(i) / s.dim, r = at / s.heads, h = at % s.heads;
      const bool is_nan = is_query ? r == row && h == head : c.blocks_of(r)[0] == block && h < s.heads / s.kv_heads;
      right &= is_nan ? widen(out[i]) != widen(out[i]) : std::memcmp(&out[i], &clean[i], 2) == 0;
    }
    tally.check(right, "NaN in a " + std::string(is_query ? "query: " : "key: ") + name);
  };
  for (const bool is_query : {true, false}) {
    const Case& with = is_query ? of_query : of_key;
    std::vector<Kernel> kernels = tiles(s.dim, with.keys.size() / s.dim);
    kernels.push_back(kPlain);
    for (const Kernel& k : kernels) {
      check(by_rows(with, k, row_tiles(with, 8)), is_query, k.name + ", rows");
      check(by_splits(with, k, split_tiles(with, 8)).out, is_query, k.name + ", splits");
    }
  }
}

// The table that crates/cuda/src/tiles.rs is held to as well.
void test_shared_memory(Tally& tally) {
  std::ifstream file("kernels/tests/attend_shared.txt");
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    int dim = 0, queries = 0, bytes = 0, threads = 0;
    std::istringstream(line) >> dim >> queries >> bytes >> threads;
    const auto all = tiles(dim, 0);
    const auto tile = std::find_if(all.begin(), all.end(), [&](const Kernel& k) { return k.most_rows == queries; });
    tally.check(tile != all.end() && tile->shared_bytes == bytes && tile->threads == threads,
                "attend_shared.txt: " + line);
    rows++;
  }
  tally.check(rows == 25, "kernels/tests/attend_shared.txt is missing or short");
}

}  // namespace

int main(int argc, char** argv) {
  Tally tally{"attend"};
  test_shared_memory(tally);
  test_both(tally);
  test_nan(tally);
  // Heads that have no tile.
  for (const int dim : {48, 112})
    for (const int shape : {1, 3}) test_plain(tally, make_case(shapes(dim)[shape], mixed(), {1, true}));
  for (const int dim : {16, 32, 64, 80, 96, 128, 256, 512}) {
    if (argc > 2 && std::atoi(argv[2]) != dim) continue;
    if (kFewer > 1 && dim != 32) continue;
    for (const Shape& s : shapes(dim)) test_tiles(tally, s);
    test_chunks(tally, dim);
  }
  return tally.end();
}
