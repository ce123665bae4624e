// What the fast products share: bf16 rows in stages of shared memory, and a tile of sums on its way to y.
#pragma once

#include "gemm.cuh"
#include "mma.cuh"

namespace gemm {

// ROWS rows of DEPTH bf16 values in shared memory, copied from a matrix [rows, K] by a block of THREADS.
//
// A row is DEPTH / 8 chunks of 16 bytes; chunk c of row r stands where chunk c ^ turn(r) would. ldmatrix reads one
// chunk of eight rows in a row: with the turn these are eight different groups of four banks, and so are the eight
// chunks that neighbouring threads copy.
template <int ROWS, int DEPTH, int THREADS>
class Rows {
  static constexpr int kChunks = DEPTH / 8;
  static constexpr int kRowsAtOnce = THREADS / kChunks < ROWS ? THREADS / kChunks : ROWS;
  static constexpr int kTurns = ROWS / kRowsAtOnce;
  static_assert(DEPTH == 32 || DEPTH % 64 == 0, "a row fills half of the banks, or all of them");
  static_assert(THREADS % kChunks == 0 && ROWS % kRowsAtOnce == 0 && kTurns <= 32, "whole turns of all threads");

  const bf16* from_;  // this thread's chunk of the next stage, in its first row
  size_t step_;       // elements to its next row
  unsigned in_;       // bit t: its row of turn t is one of the matrix
  int place_, k_;     // of its chunk within a stage, in bytes; its first k

 public:
  static constexpr int kRowBytes = DEPTH * 2, kBytes = ROWS * kRowBytes;

  __device__ __forceinline__ Rows(const bf16* matrix, int first, int rows, int k, int K) {
    const int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
    in_ = 0;
    if (row < kRowsAtOnce) {
#pragma unroll
      for (int t = 0; t < kTurns; t++) in_ |= static_cast<unsigned>(first + row + t * kRowsAtOnce < rows) << t;
    }
    k_ = k + chunk * 8;
    from_ = matrix + static_cast<size_t>(first + row) * K + k_;
    step_ = static_cast<size_t>(kRowsAtOnce) * K;
    place_ = at(row, chunk);
  }

  // Where chunk `chunk` of row `row` stands, in bytes.
  static __device__ __forceinline__ int at(int row, int chunk) {
    const int turn = DEPTH == 32 ? row / 2 % 4 : row % 8;
    return row * kRowBytes + (chunk ^ turn) * 16;
  }

  // Starts the copy of the next DEPTH values of all rows; zeros outside of the matrix.
  __device__ __forceinline__ void copy(unsigned char* stage, int K) {
    if (kRowsAtOnce * kChunks == THREADS || threadIdx.x < kRowsAtOnce * kChunks) {
#pragma unroll
      for (int t = 0; t < kTurns; t++) {
        const int below = t * kRowsAtOnce;  // rows; where it is less than 8, they flip bits of the chunk's turn
        cp_async_16(stage + (place_ ^ below % 8 * 16) + below * kRowBytes, from_ + t * step_, (in_ >> t & 1) && k_ < K);
      }
    }
    from_ += DEPTH;
    k_ += DEPTH;
  }
  static_assert(kRowsAtOnce % 8 == 0 || (DEPTH != 32 && 8 % kRowsAtOnce == 0), "bits of the turn can be flipped");
};

// Fragments of k16 step `step` from rows in shared memory. `row` is a multiple of 8, so that it moves no chunk and a
// lane's address is one for all rows but for a constant. 16 rows as mma_bf16's a, its 16x16 operand:
template <class Stage>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], const unsigned char* stage, int row, int step) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x4(a, stage + row * Stage::kRowBytes + Stage::at(lane % 16, 2 * step + lane / 16));
}
// 16 rows, or 8, as two b, or one:
template <class Stage>
__device__ __forceinline__ void load_b(uint32_t (&b)[2][2], const unsigned char* stage, int row, int step) {
  const int lane = threadIdx.x % 32;
  uint32_t both[4];
  ldmatrix_x4(both, stage + row * Stage::kRowBytes + Stage::at(lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
  b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
}
template <class Stage>
__device__ __forceinline__ void load_b(uint32_t (&b)[1][2], const unsigned char* stage, int row, int step) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x2(b[0], stage + row * Stage::kRowBytes + Stage::at(lane % 8, 2 * step + lane / 8 % 2));
}
template <class Stage, int J>
__device__ __forceinline__ void load_tokens(uint32_t (&b)[J][2], const unsigned char* stage, int row, int step) {
  if constexpr (J == 1) {
    load_b<Stage>(b, stage, row, step);
  } else {
#pragma unroll
    for (int j = 0; j < J; j += 2) {
      uint32_t two[2][2];
      load_b<Stage>(two, stage, row + 8 * j, step);
#pragma unroll
      for (int i = 0; i < 4; i++) b[j + i / 2][i % 2] = two[i / 2][i % 2];
    }
  }
}

// The value, which the compiler cannot know: what is computed from it stays where it is written. Otherwise the places
// of all elements of y would be computed before the loop over k, and stay in registers that the loop needs.
__device__ __forceinline__ int unknown(int value) {
#ifndef HOST_KERNEL_TEST
  asm volatile("" : "+r"(value));
#endif
  return value;
}

// A warp's sums of a segment: 16 I outputs from `output`, 8 J tokens from `token`, as mma_bf16 deals them out.
//
// All of a batch's old values are read before the first is written: a border in the middle of k costs the latency of
// the second-level cache once a batch, and not once a value.
template <int I, int J>
__device__ __forceinline__ void settle_tile(const Problem& p, const float (&sum)[I][J][4], int token, int output,
                                            bool first, bool last) {
  constexpr int kBatch = I >= 4 ? 1 : 4 / I < J ? 4 / I : J;  // tokens / 8 of a batch
  const int lane = threadIdx.x % 32;
  token = unknown(token + lane % 4 * 2), output = unknown(output + lane / 4);
  const bool fresh = first && !p.add, biased = last && p.bias != nullptr;
  const int rows = p.M - token, columns = p.N - output;  // that are left from the lane's first
  float bias[I][2] = {};
#pragma unroll
  for (int e = 0; e < 2 * I; e++)
    if (biased && 8 * e < columns) bias[e / 2][e % 2] = p.bias[output + 8 * e];
  float* y = p.y + static_cast<size_t>(token) * p.ldy + output;
#pragma unroll
  for (int begin = 0; begin < J; begin += kBatch) {
    float old[kBatch][2][2 * I];
#pragma unroll
    for (int j = 0; j < kBatch; j++)
#pragma unroll
      for (int e = 0; e < 4 * I; e++) {
        const int row = 8 * j + e / (2 * I), column = 8 * (e % (2 * I));
        old[j][e / (2 * I)][e % (2 * I)] = 0.0f;
        if (!fresh && 8 * begin + row < rows && column < columns)
          old[j][e / (2 * I)][e % (2 * I)] = y[static_cast<size_t>(row) * p.ldy + column];
      }
#pragma unroll
    for (int j = 0; j < kBatch; j++)
#pragma unroll
      for (int e = 0; e < 4 * I; e++) {
        const int row = 8 * j + e / (2 * I), column = 8 * (e % (2 * I)), c = e / (2 * I), i = e % (2 * I) / 2, r = e % 2;
        float v = sum[i][begin + j][c + 2 * r];
        v = fresh ? v : __fadd_rn(old[j][c][2 * i + r], v);
        v = biased ? __fadd_rn(v, bias[i][r]) : v;
        if (8 * begin + row < rows && column < columns) y[static_cast<size_t>(row) * p.ldy + column] = v;
      }
    y += static_cast<size_t>(8 * kBatch) * p.ldy;
  }
}

}  // namespace gemm
