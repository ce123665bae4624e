// Where the sums of a product are cut: the length of a segment of k, from the shape of the weight alone. Never from
// the number of tokens or the card, or a token's bits would depend on its batch or on the machine.
//
// With few tokens a product is a read of the weight, and 64 outputs a block do not fill a card where n is small. Two
// blocks on each of about 130 multiprocessors are wanted; a segment has at least 1,024 values, so that a block has
// work and a product of many tokens seldom stops at a border. At most 16 segments.
//
// crates/engine/src/model/cuda/products.rs has the same function; kernels/tests/segments.txt is checked against both.
//
// Proved by kernels/tests/gemm.cpp, with kernels/tests/segments.txt.
#pragma once

namespace gemm {

// Outputs of a block, blocks that are wanted, the least length of a segment, the most segments.
constexpr int kSegmentOutputs = 64, kSegmentBlocks = 256, kSegmentLeast = 1024, kSegmentsMost = 16;
// A multiple of it: blocks of 256 values stay whole, and tiles of k end where a segment ends.
constexpr int kSegmentUnit = 256;

// The segment for a weight [n, k]: a multiple of 256, at least 256, and at least k where there is one segment alone.
constexpr int segment(int n, int k) {
  const int tiles = n < kSegmentOutputs ? 1 : (n + kSegmentOutputs - 1) / kSegmentOutputs;
  int segments = (kSegmentBlocks + tiles - 1) / tiles;
  if (segments > k / kSegmentLeast) segments = k / kSegmentLeast;
  if (segments > kSegmentsMost) segments = kSegmentsMost;
  if (segments < 1) segments = 1;
  const int length = (k + segments - 1) / segments;
  return length < kSegmentUnit ? kSegmentUnit : (length + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit;
}

// How many segments that makes.
constexpr int segments(int n, int k) { return (k + segment(n, k) - 1) / segment(n, k); }

}  // namespace gemm
