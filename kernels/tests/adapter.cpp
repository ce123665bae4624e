// adapter.cu: against f64 at odd ranks and widths, several adapters and none in one launch, a row alone as in any
// company, and nothing else written.
#include "../adapter.cu"

#include "random.h"

namespace {

constexpr int kAdapters = 3;

// Matrices of one input with three adapters: one that adds to all of them, one to the last alone, one to none.
struct Case {
  int K;
  std::vector<int> outputs;
  std::vector<float> memory[kAdapters];  // a and b of each matrix
  std::vector<Pair> pairs;
  std::vector<bf16> x;
  std::vector<float> y;  // rows of all outputs

  int n_rows() const { return int(x.size()) / K; }
  int width() const {
    int sum = 0;
    for (const int n : outputs) sum += n;
    return sum;
  }
  int most() const {
    int most = 0;
    for (const Pair& pair : pairs) most = std::max(most, pair.rank);
    return most;
  }
};

// `ranks` of the first two adapters. Each matrix begins 16-byte aligned, as on the device.
Case make(Random& random, int rows, int K, std::vector<int> outputs, const int (&ranks)[2]) {
  Case c{K, outputs, {}, {}, random.bf16s(size_t(rows) * K), {}};
  c.y = random.numbers(size_t(rows) * c.width());
  for (int adapter = 0; adapter < kAdapters; adapter++) {
    const int rank = adapter < 2 ? ranks[adapter] : 0;
    size_t room = 0, at = 0;
    for (const int n : outputs) room += size_t(rank) * (K + (n + 3) / 4 * 4);
    c.memory[adapter] = random.numbers(room + 4);
    float* start = c.memory[adapter].data();
    while (reinterpret_cast<uintptr_t>(start) % 16) start++;
    int first = 0;
    for (size_t m = 0; m < outputs.size(); m++) {
      const bool adds = adapter == 0 || (adapter == 1 && m + 1 == outputs.size());
      const float scale = 0.75f + float(adapter);
      c.pairs.push_back(adds ? Pair{start + at, start + at + size_t(rank) * K, rank, scale, first, outputs[m]}
                             : Pair{nullptr, nullptr, 0, 0.0f, first, outputs[m]});
      at += size_t(rank) * (K + (outputs[m] + 3) / 4 * 4);
      first += outputs[m];
    }
  }
  return c;
}

using Item = std::vector<int>;  // an adapter and its rows

std::vector<float> run(const Case& c, const std::vector<Item>& wanted) {
  std::vector<int> items(wanted.size() * kItem, -1);
  for (size_t i = 0; i < wanted.size(); i++) std::copy(wanted[i].begin(), wanted[i].end(), items.begin() + i * kItem);
  const int matrices = int(c.outputs.size()), most = c.most(), n = int(wanted.size());
  std::vector<float4> hidden(size_t(n) * matrices * most * kRows / 4, float4{NAN, NAN, NAN, NAN});
  float* const h = reinterpret_cast<float*>(hidden.data());
  std::vector<float> y = c.y;
  host::launch(dim3(n, matrices, (most + kRanks - 1) / kRanks), dim3(kThreads), 0,
               [&] { adapter_shrink(c.x.data(), c.pairs.data(), items.data(), h, c.K, matrices, most); });
  const int widest = *std::max_element(c.outputs.begin(), c.outputs.end());
  host::launch(dim3(n, matrices, (widest + kThreads - 1) / kThreads), dim3(kThreads), 0,
               [&] { adapter_expand(c.pairs.data(), items.data(), h, y.data(), matrices, most, c.width()); });
  return y;
}

// What a row becomes in f64, and how large the sums are that it comes from.
void row_in_f64(const Case& c, int row, int adapter, std::vector<double>& sum, std::vector<double>& size) {
  const int width = c.width(), matrices = int(c.outputs.size());
  for (int n = 0; n < width; n++) sum[n] = c.y[size_t(row) * width + n], size[n] = std::fabs(sum[n]);
  for (int m = 0; m < matrices; m++) {
    const Pair& pair = c.pairs[adapter * matrices + m];
    for (int j = 0; j < pair.rank; j++) {
      double inner = 0, inner_size = 0;
      for (int k = 0; k < c.K; k++) {
        const double product = double(pair.a[size_t(j) * c.K + k]) * double(widen(c.x[size_t(row) * c.K + k]));
        inner += product, inner_size += std::fabs(product);
      }
      for (int n = 0; n < pair.n; n++) {
        const double b = double(pair.scale) * double(pair.b[size_t(j) * pair.n + n]);
        sum[pair.first + n] += b * inner, size[pair.first + n] += std::fabs(b) * inner_size;
      }
    }
  }
}

void check(Tally& tally, const Case& c, const std::vector<Item>& items, const std::string& name) {
  const int width = c.width();
  const auto all = run(c, items);
  std::vector<bool> taken(c.n_rows());
  std::vector<double> sum(width), size(width);
  double error = 0;
  bool alone = true;
  for (const Item& item : items) {
    if (item[0] < 0) continue;
    for (size_t i = 1; i < item.size(); i++) {
      const int row = item[i];
      taken[row] = true;
      row_in_f64(c, row, item[0], sum, size);
      const auto by_itself = run(c, {{item[0], row}});
      for (int n = 0; n < width; n++) {
        const float got = all[size_t(row) * width + n];
        const double off = std::fabs(double(got) - sum[n]) / (size[n] * std::ldexp(1.0, -22));
        error = std::isnan(off) ? INFINITY : std::max(error, off);
        alone &= std::memcmp(&got, &by_itself[size_t(row) * width + n], sizeof got) == 0;
      }
    }
  }
  tally.check(error <= 1.0, name + " is wrong by " + std::to_string(error));
  tally.check(alone, name + ": a row alone differs");
  bool untouched = true;
  for (int row = 0; row < c.n_rows(); row++)
    if (!taken[row])
      untouched &= std::memcmp(&all[size_t(row) * width], &c.y[size_t(row) * width], width * sizeof(float)) == 0;
  tally.check(untouched, name + ": a row that takes no adapter changes");
}

}  // namespace

int main() {
  Tally tally{"adapter"};
  Random random{1};
  // Items in any order, full and not, of adapters that add to all matrices, to one, to none, and items without an
  // adapter.
  const std::vector<Item> items = {{1, 3, 0}, {-1}, {0, 9, 8, 7, 6, 5, 4, 2, 1}, {2, 10}, {0, 12}, {-1}};
  const struct {
    int K;
    std::vector<int> outputs;
    int ranks[2];
  } shapes[] = {{16, {16}, {1, 3}}, {64, {64, 32, 32}, {4, 8}}, {1040, {257}, {5, 2}}, {2080, {40, 300}, {16, 33}}};
  for (size_t i = 0; i < std::size(shapes); i += kFewer / 4 + 1) {
    const auto& [K, outputs, ranks] = shapes[i];
    const Case c = make(random, 14, K, outputs, ranks);
    const std::string name = std::to_string(outputs.size()) + " matrices of " + std::to_string(K) + " columns";
    check(tally, c, items, name);
    tally.check(same_bits(run(c, {{2, 1, 2, 3}, {-1}}), c.y), name + ": an adapter that adds nothing adds something");
  }
  return tally.end();
}
