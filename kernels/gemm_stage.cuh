// What the fast products share: bf16 rows in stages of shared memory, and a tile of sums on its way to y.
//
// Proved by kernels/tests/gemm.cpp.
#pragma once

#include "gemm.cuh"
#include "mma.cuh"

namespace gemm {

// ROWS rows of DEPTH bf16 values in shared memory, copied from a matrix [rows, K] by a block of THREADS.
//
// A row is DEPTH / 8 chunks of 16 bytes; chunk c of row r stands where chunk c ^ swizzle(r) would. ldmatrix reads one
// chunk of eight rows in a row: with the swizzle these are eight different groups of four banks, and so are the eight
// chunks that neighbouring threads copy.
template <int ROWS, int DEPTH, int THREADS>
class Rows {
 public:
  static constexpr int kRowBytes = DEPTH * 2, kBytes = ROWS * kRowBytes;
  static constexpr int kChunks = DEPTH / 8;
  static constexpr int kRowsAtOnce = THREADS / kChunks < ROWS ? THREADS / kChunks : ROWS;
  static constexpr int kRounds = ROWS / kRowsAtOnce;

 private:
  static_assert(DEPTH == 32 || DEPTH % 64 == 0, "a row fills half of the banks, or all of them");
  static_assert(THREADS % kChunks == 0 && ROWS % kRowsAtOnce == 0 && kRounds <= 32, "whole rounds of all threads");

  const bf16* from_;  // this thread's chunk of the next stage, in its first row
  size_t step_;       // elements to its next row
  unsigned in_;       // bit t: its row of round t is one of the matrix
  int place_, k_;     // of its chunk within a stage, in bytes; its first k

 public:
  __device__ __forceinline__ Rows(const bf16* matrix, int first, int rows, int k, int K) {
    const int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
    in_ = 0;
    if (row < kRowsAtOnce) {
#pragma unroll
      for (int t = 0; t < kRounds; t++) in_ |= static_cast<unsigned>(first + row + t * kRowsAtOnce < rows) << t;
    }
    k_ = k + chunk * 8;
    from_ = matrix + static_cast<size_t>(first + row) * K + k_;
    step_ = static_cast<size_t>(kRowsAtOnce) * K;
    place_ = at(row, chunk);
  }

  // Where chunk `chunk` of row `row` stands, in bytes.
  static __device__ __forceinline__ int at(int row, int chunk) {
    const int swizzle = DEPTH == 32 ? row / 2 % 4 : row % 8;
    return row * kRowBytes + (chunk ^ swizzle) * 16;
  }

  // Starts the copy of the next DEPTH values of all rows; zeros outside of the matrix.
  __device__ __forceinline__ void copy(unsigned char* stage, int K) {
    if (kRowsAtOnce * kChunks == THREADS || threadIdx.x < kRowsAtOnce * kChunks) {
#pragma unroll
      for (int t = 0; t < kRounds; t++) {
        const int below = t * kRowsAtOnce;  // rows; where it is less than 8, they flip bits of the chunk's swizzle
        cp_async_16(stage + (place_ ^ below % 8 * 16) + below * kRowBytes, from_ + t * step_, (in_ >> t & 1) && k_ < K);
      }
    }
    from_ += DEPTH;
    k_ += DEPTH;
  }
  static_assert(kRowsAtOnce % 8 == 0 || (DEPTH != 32 && 8 % kRowsAtOnce == 0), "bits of the swizzle can be flipped");
};

// The same for rows of a matrix that lie anywhere in it: row i is row rows[i]; null: row i. There are `n`, from 0 on.
template <int ROWS, int DEPTH, int THREADS>
class GatheredRows {
  using R = Rows<ROWS, DEPTH, THREADS>;
  const bf16* from_[R::kRounds];  // this thread's chunk of the next stage, in each of its rows
  unsigned in_;
  int place_, k_;

 public:
  __device__ __forceinline__ GatheredRows(const bf16* matrix, const int* rows, int n, int K) {
    const int row = threadIdx.x / R::kChunks, chunk = threadIdx.x % R::kChunks;
    in_ = 0, k_ = chunk * 8, place_ = R::at(row, chunk);
#pragma unroll
    for (int t = 0; t < R::kRounds; t++) {
      const int at = row + t * R::kRowsAtOnce;
      const bool in = row < R::kRowsAtOnce && at < n;
      in_ |= static_cast<unsigned>(in) << t;
      from_[t] = matrix + static_cast<size_t>(!in ? 0 : rows == nullptr ? at : rows[at]) * K + k_;
    }
  }

  __device__ __forceinline__ void copy(unsigned char* stage, int K) {
    if (R::kRowsAtOnce * R::kChunks == THREADS || threadIdx.x < R::kRowsAtOnce * R::kChunks) {
#pragma unroll
      for (int t = 0; t < R::kRounds; t++) {
        const int below = t * R::kRowsAtOnce;
        cp_async_16(stage + (place_ ^ below % 8 * 16) + below * R::kRowBytes, from_[t], (in_ >> t & 1) && k_ < K);
        from_[t] += DEPTH;
      }
    }
    k_ += DEPTH;
  }
};

// Fragments of k16 step `step` from rows in shared memory. `row` is a multiple of 8, so that it moves no chunk and a
// lane's address is one for all rows but for a constant. 16 rows as mma_bf16's a, its 16x16 operand:
template <class Stage>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], const unsigned char* stage, int row, int step) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x4(a, stage + row * Stage::kRowBytes + Stage::at(lane % 16, 2 * step + lane / 16));
}
// 16 rows as two b.
template <class Stage>
__device__ __forceinline__ void load_b(uint32_t (&b)[2][2], const unsigned char* stage, int row, int step) {
  const int lane = threadIdx.x % 32;
  uint32_t both[4];
  ldmatrix_x4(both, stage + row * Stage::kRowBytes + Stage::at(lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
  b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
}
// 16 rows, or 8, of two steps from `step` on: [step][8 rows].
template <class Stage>
__device__ __forceinline__ void load_two_steps(uint32_t (&b)[2][2][2], const unsigned char* stage, int row, int step) {
  load_b<Stage>(b[0], stage, row, step);
  load_b<Stage>(b[1], stage, row, step + 1);
}
template <class Stage>
__device__ __forceinline__ void load_two_steps(uint32_t (&b)[2][1][2], const unsigned char* stage, int row, int step) {
  const int lane = threadIdx.x % 32;
  uint32_t both[4];
  ldmatrix_x4(both, stage + row * Stage::kRowBytes + Stage::at(lane % 8, 2 * step + lane / 8));
  b[0][0][0] = both[0], b[0][0][1] = both[1], b[1][0][0] = both[2], b[1][0][1] = both[3];
}

// The value, which the compiler cannot know: what is computed from it stays where it is written. Otherwise the places
// of all elements of y would be computed before the loop over k, and stay in registers that the loop needs.
__device__ __forceinline__ int unknown(int value) {
#ifndef HOST_KERNEL_TEST
  asm volatile("" : "+r"(value));
#endif
  return value;
}

// A warp's sums of a slice: 16 I outputs from `output`, 8 J tokens from `token`, as mma_bf16 deals them out. INSIDE:
// all of them are in y.
//
// All of a batch's old values are read before the first is written: a border in the middle of k costs the latency of
// the second-level cache once a batch, and not once a value.
template <bool INSIDE, int I, int J>
__device__ __forceinline__ void settle_elements(const Problem& p, const float (&sum)[I][J][4], int token, int output,
                                                bool fresh, bool biased) {
  constexpr int kBatch = I >= 4 ? 1 : 4 / I < J ? 4 / I : J;  // tokens / 8 of a batch
  const int lane = threadIdx.x % 32;
  token = unknown(token + lane % 4 * 2), output = unknown(output + lane / 4);
  const int rows = p.M - token, columns = p.N - output;  // that are left from the lane's first
  const auto in = [&](int row, int column) { return INSIDE || (row < rows && column < columns); };
  float bias[2 * I] = {};
#pragma unroll
  for (int n = 0; n < 2 * I; n++)
    if (biased && in(0, 8 * n)) bias[n] = p.bias[output + 8 * n];
#pragma unroll
  for (int begin = 0; begin < J; begin += kBatch) {
    float* const y = p.y + static_cast<size_t>(token + 8 * begin) * p.ldy + output;
    float old[kBatch][2][2 * I] = {};
#pragma unroll
    for (int m = 0; m < 2 * kBatch; m++) {
      const int row = m / 2 * 8 + m % 2;
#pragma unroll
      for (int n = 0; n < 2 * I; n++)
        if (!fresh && in(8 * begin + row, 8 * n)) old[m / 2][m % 2][n] = y[static_cast<size_t>(row) * p.ldy + 8 * n];
    }
#pragma unroll
    for (int m = 0; m < 2 * kBatch; m++) {
      const int row = m / 2 * 8 + m % 2;
#pragma unroll
      for (int n = 0; n < 2 * I; n++) {
        float v = sum[n / 2][begin + m / 2][m % 2 + n % 2 * 2];
        v = fresh ? v : __fadd_rn(old[m / 2][m % 2][n], v);
        v = biased ? __fadd_rn(v, bias[n]) : v;
        if (in(8 * begin + row, 8 * n)) y[static_cast<size_t>(row) * p.ldy + 8 * n] = v;
      }
    }
  }
}

template <int I, int J>
__device__ __forceinline__ void settle_tile(const Problem& p, const float (&sum)[I][J][4], int token, int output,
                                            bool first, bool last) {
  const bool fresh = first && !p.add, biased = last && p.bias != nullptr;
  if (token + 8 * J <= p.M && output + 16 * I <= p.N) {
    settle_elements<true>(p, sum, token, output, fresh, biased);
  } else {
    settle_elements<false>(p, sum, token, output, fresh, biased);
  }
}

}  // namespace gemm
