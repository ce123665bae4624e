// A step of attention for the host tests: sequences that share blocks, a cache whose slots are NaN unless a row sees
// them, the step's arrays, work_tiles cut by the plainest of readings, and attention in f64.
#pragma once
#include <numeric>

#include "../attention.cuh"
#include "random.h"

struct Sequence {
  uint64_t content;      // seeds keys and values of tokens from `shared` on
  int length, first;     // tokens; rows are those from `first` on
  int shares_with;       // an earlier sequence whose first `shared` tokens (whole blocks) are its own; -1
  int shared;
};

struct Shape {
  int heads, kv_heads, dim, window;
  float scale, cap = 0;
  bool sinks = false;
  float cap_by() const { return cap > 0 ? -2 / cap : 0; }
};

struct Case {
  Shape shape;
  std::vector<Sequence> sequences;
  std::vector<bf16> q, keys, values;
  std::vector<float> sinks;  // of each head
  std::vector<int> order, positions, seq_of_row, block_start, blocks, split_start;
  int n_splits = 0;
  const float* sinks_or_null() const { return sinks.empty() ? nullptr : sinks.data(); }
  int rows() const { return int(positions.size()); }
  const int* blocks_of(int row) const { return blocks.data() + block_start[seq_of_row[row]]; }
  int first_split(int row) const { return first_seen(positions[row], shape.window) / kSplit; }
  int last_split(int row) const { return positions[row] / kSplit; }
};

// The content that token `position` of a sequence has.
inline uint64_t content_of(const std::vector<Sequence>& all, const Sequence& s, int position) {
  return s.shares_with >= 0 && position < s.shared ? content_of(all, all[s.shares_with], position) : s.content;
}

// One head's key or value of a token: depends on the content alone.
inline std::vector<bf16> vector_of(uint64_t content, int position, int head, int kind, int dim) {
  Random random{content * 1000003 + uint64_t(position) * 64 + uint64_t(head) * 2 + uint64_t(kind)};
  return random.bf16s(size_t(dim));
}

struct Layout {
  uint64_t seed;      // where in the pool blocks lie
  bool share;         // whether shared prefixes lie in the same blocks or are written twice
};

// Makes every slot of the cache NaN that no row sees.
inline void poison(Case& c) {
  const size_t slot = size_t(c.shape.dim), block = slot * kBlock * c.shape.kv_heads;
  std::vector<bool> seen(c.keys.size() / block * kBlock);
  for (int row = 0; row < c.rows(); row++)
    for (int p = first_seen(c.positions[row], c.shape.window); p <= c.positions[row]; p++)
      seen[size_t(c.blocks_of(row)[p / kBlock]) * kBlock + p % kBlock] = true;
  for (size_t i = 0; i < c.keys.size(); i++)
    if (!seen[i / block * kBlock + i / slot % kBlock]) c.keys[i] = c.values[i] = nan_bf16();
}

inline Case make_case(const Shape& shape, const std::vector<Sequence>& sequences, Layout layout) {
  Case c = {shape, sequences, {}, {}, {}, {}, {}, {}, {}, {0}, {}, {}, 0};
  // Some far above every score, some far below, the others among them.
  for (int head = 0; head < shape.heads && shape.sinks; head++) c.sinks.push_back(float(head % 5 * 3 - 6) * 1.37f);
  int n_blocks = 0;
  for (const Sequence& s : sequences) n_blocks += (s.length + kBlock - 1) / kBlock;
  std::vector<int> pool(n_blocks + 3);
  std::iota(pool.begin(), pool.end(), 0);
  Random random{layout.seed};
  for (size_t i = pool.size() - 1; i > 0; i--) std::swap(pool[i], pool[random.below(unsigned(i + 1))]);
  const size_t slot = size_t(shape.dim), block = slot * kBlock * shape.kv_heads;
  c.keys.assign(pool.size() * block, nan_bf16()), c.values = c.keys;
  int next = 0;
  for (size_t i = 0; i < sequences.size(); i++) {
    const Sequence& s = sequences[i];
    for (int b = 0; b * kBlock < s.length; b++) {
      const bool shared = layout.share && s.shares_with >= 0 && (b + 1) * kBlock <= s.shared;
      c.blocks.push_back(shared ? c.blocks[c.block_start[s.shares_with] + b] : pool[next++]);
      for (int p = b * kBlock; p < std::min(s.length, (b + 1) * kBlock) && !shared; p++)
        for (int head = 0; head < shape.kv_heads; head++) {
          const size_t at = size_t(c.blocks.back()) * block + (size_t(head) * kBlock + p % kBlock) * slot;
          const uint64_t content = content_of(sequences, s, p);
          const auto key = vector_of(content, p, head, 0, shape.dim), value = vector_of(content, p, head, 1, shape.dim);
          std::copy(key.begin(), key.end(), c.keys.begin() + at);
          std::copy(value.begin(), value.end(), c.values.begin() + at);
        }
    }
    c.block_start.push_back(int(c.blocks.size()));
    for (int p = s.first; p < s.length; p++) {
      c.positions.push_back(p), c.seq_of_row.push_back(int(i));
      for (int head = 0; head < shape.heads; head++) {
        const auto query = vector_of(content_of(sequences, s, p), p, head, 77, shape.dim);
        c.q.insert(c.q.end(), query.begin(), query.end());
      }
    }
  }
  // Sequences that share lie next to each other in a list of block numbers.
  c.order.resize(c.rows());
  std::iota(c.order.begin(), c.order.end(), 0);
  std::stable_sort(c.order.begin(), c.order.end(), [&](int a, int b) {
    const auto list = [&](int row) { return std::vector<int>(c.blocks_of(row), c.blocks_of(row) + c.positions[row] / kBlock + 1); };
    return list(a) < list(b);
  });
  for (int row = 0; row < c.rows(); row++) {
    c.split_start.push_back(c.n_splits);
    c.n_splits += c.last_split(row) - c.first_split(row) + 1;
  }
  poison(c);
  return c;
}

// Whether two rows have the blocks of tokens from..to in common, as far as both read.
inline bool agree(const Case& c, int a, int b, int from, int to) {
  const int end = std::min({to, c.positions[a] + 1, c.positions[b] + 1});
  for (int token = from; token < end; token += kBlock)
    if (c.blocks_of(a)[token / kBlock] != c.blocks_of(b)[token / kBlock]) return false;
  return true;
}

// {first, rows}: neighbours in `order`, at most `most` of them, whose blocks agree as far as they read.
inline std::vector<int> row_tiles(const Case& c, int most) {
  std::vector<int> work_tiles;
  for (int i = 0, n; i < c.rows(); i += n) {
    const auto fits = [&](int j) {
      for (int k = i; k < j; k++)
        if (!agree(c, c.order[k], c.order[j], 0, 1 << 30)) return false;
      return true;
    };
    for (n = 1; n < most && i + n < c.rows() && fits(i + n);) n++;
    work_tiles.insert(work_tiles.end(), {i, n});
  }
  return work_tiles;
}

// {first, rows, split, 0}
inline std::vector<int> split_tiles(const Case& c, int most) {
  std::vector<int> work_tiles;
  int last = 0;
  for (int row = 0; row < c.rows(); row++) last = std::max(last, c.last_split(row));
  for (int split = 0; split <= last; split++) {
    const auto sees = [&](int i) { return c.first_split(c.order[i]) <= split && split <= c.last_split(c.order[i]); };
    for (int i = 0, n; i < c.rows(); i += n) {
      n = 1;
      if (!sees(i)) continue;
      const auto fits = [&](int j) {
        for (int k = i; k < j; k++)
          if (!agree(c, c.order[k], c.order[j], split * kSplit, (split + 1) * kSplit)) return false;
        return sees(j);
      };
      while (n < most && i + n < c.rows() && fits(i + n)) n++;
      work_tiles.insert(work_tiles.end(), {i, n, split, 0});
    }
  }
  return work_tiles;
}

// The largest error of `out` against attention in f64, where values lie in -2..2.
inline double worst_error(const Case& c, const std::vector<bf16>& out) {
  const Shape& s = c.shape;
  double worst = 0;
  for (int row = 0; row < c.rows(); row++)
    for (int head = 0; head < s.heads; head++) {
      const int kv = head / (s.heads / s.kv_heads), first = first_seen(c.positions[row], s.window);
      const bf16* q = &c.q[(size_t(row) * s.heads + head) * s.dim];
      std::vector<double> sum(s.dim);
      double total = c.sinks.empty() ? 0 : std::exp(double(c.sinks[head]));
      for (int p = first; p <= c.positions[row]; p++) {
        const size_t at = ((size_t(c.blocks_of(row)[p / kBlock]) * s.kv_heads + kv) * kBlock + p % kBlock) * s.dim;
        double dot = 0;
        for (int d = 0; d < s.dim; d++) dot += double(widen(q[d])) * widen(c.keys[at + d]);
        const double score = s.cap > 0 ? s.cap * std::tanh(dot * s.scale / s.cap) : dot * s.scale;
        const double weight = std::exp(score);
        total += weight;
        for (int d = 0; d < s.dim; d++) sum[d] += weight * widen(c.values[at + d]);
      }
      for (int d = 0; d < s.dim; d++) {
        const double got = widen(out[(size_t(row) * s.heads + head) * s.dim + d]);
        const double error = std::fabs(got - sum[d] / total);
        if (!(error <= worst)) worst = error;  // NaN too
      }
    }
  return worst;
}
