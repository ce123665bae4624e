// gather.cu: pieces of any widths, in place and apart, some of them missing.
#include "../gather.cu"

#include "random.h"

namespace {

constexpr int kRows = 5;

using Words = std::vector<uint32_t>;

void call(const uint4* const (&p)[8], const int (&e)[8], uint4* out, int width, int in_place) {
  gather_16(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], out, kRows,
            width, in_place);
}
void call(const uint32_t* const (&p)[8], const int (&e)[8], uint32_t* out, int width, int in_place) {
  gather_4(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], out, kRows,
           width, in_place);
}

bool same(uint32_t a, uint32_t b) { return a == b; }
bool same(const uint4& a, const uint4& b) { return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w; }
void set(uint32_t& to, uint32_t value) { to = value; }
void set(uint4& to, uint32_t value) { to = {value, value + 1, value + 2, value + 3}; }

// `missing`: this piece is null, so its columns keep what was there.
template <typename T>
void one_case(Tally& tally, const std::vector<int>& widths, int in_place, int missing, const std::string& name) {
  int ends[8], width = 0;
  for (int i = 0; i < 8; i++) ends[i] = width += i < int(widths.size()) ? widths[i] : 0;
  std::vector<T> wanted(size_t(kRows) * width + 1), out(wanted.size());
  for (size_t i = 0; i < out.size(); i++) set(out[i], 7), set(wanted[i], 7);
  std::vector<std::vector<T>> pieces(8);
  const T* at[8] = {};
  for (int i = 0, first = 0; i < int(widths.size()); first = ends[i++]) {
    const int own = in_place ? width : widths[i], shift = in_place ? first : 0;
    pieces[i].resize(size_t(kRows) * own + 1);
    for (T& value : pieces[i]) set(value, 9);
    for (int row = 0; row < kRows; row++)
      for (int c = 0; c < widths[i]; c++) {
        set(pieces[i][size_t(row) * own + shift + c], 1000 * (i + 1) + 100 * row + c);
        if (i != missing) wanted[size_t(row) * width + first + c] = pieces[i][size_t(row) * own + shift + c];
      }
    if (i != missing) at[i] = pieces[i].data();
  }
  host::launch(dim3(kRows, (width + 255) / 256), dim3(256), 0, [&] { call(at, ends, out.data(), width, in_place); });
  bool right = true;
  for (size_t i = 0; i < out.size(); i++) right &= same(out[i], wanted[i]);
  tally.check(right, name + (in_place ? ", in place" : ", apart") + ", without " + std::to_string(missing));
}

}  // namespace

int main() {
  Tally tally{"gather"};
  for (const auto& widths : {std::vector<int>{3, 5}, {1}, {300, 0, 212, 40}, {9, 9, 9, 9, 9, 9, 9, 1}, {0, 0, 6}})
    for (const int in_place : {0, 1})
      for (const int missing : {-1, 0, 2}) {
        one_case<uint32_t>(tally, widths, in_place, missing, "words");
        one_case<uint4>(tally, widths, in_place, missing, "vectors");
      }
  return tally.end();
}
