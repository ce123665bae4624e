// Addition to the residual stream and root-mean-square norm, in one reading of each row:
//
//   if add:     x[r] += add_norm ? rms(add[r]) * add_norm : add[0][r] + .. + add[n_add - 1][r] (+ bias), term by term
//               x[r] *= scale
//   out[r] = weight ? bf16(rms(x[r]) * weight) : bf16(x[r])      (where centred, of x[r] - mean(x[r]))
//   rms(v) = v / sqrt(mean(v^2) + eps)
//
//   x         [rows, cols]  f32, written only where there is something to add or scale is not 1
//   add       [n_add, rows, cols]  f32 or null: of a product, the sums of its slices (gemm.cuh), so that x has the bits
//             that gemm_merge.cu gives it; n_add is 1 with add_norm
//   bias      [cols]        f32 or null
//   add_norm  [cols]        f32 or null: the norm of a half's output, as Gemma has it
//   weight    [cols]        f32 or null (Gemma's 1 is in it)
//   out       [rows, cols]  bf16 or null
//   scale     of a layer's output; 1 changes no bit
//
//   residual_norm_of_experts:  the same with add[0][r], the sum of the row's experts (expert_sum.cuh, where ld is cols)
//
//   normed_sum:  to[r] = rms(a[r]) * a_norm + rms(b[r]) * b_norm
//
//   a b to    [rows, cols]  f32; `to` may be one of the others
//
//   group_norm:  x[r][g] = rms(x[r][g]) * weight[g], in place      (where centred, of x[r][g] - mean(x[r][g]))
//
//   x         [rows, width]   f32: the first groups * cols values of each row; width and cols multiples of 4
//   weight    [groups, cols]  f32
//
//   layer_norm:  out[r] = bf16(y), stream[r] = y,  y = rms(x[r] - mean(x[r])) * weight + bias
//
//   stream    [rows, cols]  f32 or null; may be x
//
// `residual_norm`, because CUDA's math library has a `norm` of its own.
//
// Launch: block 256, grid (rows), of group_norm (rows, groups); the first two with dynamic shared memory of 4 * cols rounded
// up to 16 bytes (more than 48 KiB only beyond 12,288 columns). x, add, a, b, to and out 16-byte aligned. One block owns a
// row and reads nothing of another. Sums have one order: thread t adds columns 4 t to 4 t + 3, then those 1024 further on;
// threads are added by block_sum. Squares are fused with their sum; the other products and sums are rounded one by one.
// Moves per row, for columns n: 4 n (x), with add 4 n + 4 n n_add more, with weight 2 n more; weights stay in the cache.
//
// Adding the slices of a split-K product here saves gemm_merge.cu's launch and its reading and writing of x; adding the
// experts, that of merge_experts.
//
// Proved by kernels/tests/norm.cpp: against f64 at odd shapes with each combination of arguments, centred and not, of
// groups and with a bias; alone as in a batch. kernels/tests/experts.cpp: experts as merge_experts adds them, to the bit.
#include "expert_sum.cuh"

namespace {

constexpr int kThreads = 256;

// The four columns from c on; zeros beyond the row's end.
__device__ __forceinline__ float4 load(const float* row, int c, int cols) {
  if (cols % 4 == 0) return *reinterpret_cast<const float4*>(row + c);
  float4 v = {row[c], 0.0f, 0.0f, 0.0f};
  if (c + 1 < cols) v.y = row[c + 1];
  if (c + 2 < cols) v.z = row[c + 2];
  if (c + 3 < cols) v.w = row[c + 3];
  return v;
}

__device__ __forceinline__ void store(float* __restrict__ row, int c, int cols, float4 v) {
  if (cols % 4 == 0) {
    *reinterpret_cast<float4*>(row + c) = v;
    return;
  }
  row[c] = v.x;
  if (c + 1 < cols) row[c + 1] = v.y;
  if (c + 2 < cols) row[c + 2] = v.z;
  if (c + 3 < cols) row[c + 3] = v.w;
}

struct __align__(8) FourBf16 {
  bf16 x, y, z, w;
};

__device__ __forceinline__ void store(bf16* __restrict__ row, int c, int cols, float4 v) {
  FourBf16 out;
  narrow(v.x, out.x), narrow(v.y, out.y), narrow(v.z, out.z), narrow(v.w, out.w);
  if (cols % 4 == 0) {
    *reinterpret_cast<FourBf16*>(row + c) = out;
    return;
  }
  row[c] = out.x;
  if (c + 1 < cols) row[c + 1] = out.y;
  if (c + 2 < cols) row[c + 2] = out.z;
  if (c + 3 < cols) row[c + 3] = out.w;
}

__device__ __forceinline__ float add_squares(float sum, float4 v) {
  sum = __fmaf_rn(v.x, v.x, sum);
  sum = __fmaf_rn(v.y, v.y, sum);
  sum = __fmaf_rn(v.z, v.z, sum);
  return __fmaf_rn(v.w, v.w, sum);
}

// v * by * weight, each product rounded.
__device__ __forceinline__ float4 scaled(float4 v, float by, float4 weight) {
  return {__fmul_rn(__fmul_rn(v.x, by), weight.x), __fmul_rn(__fmul_rn(v.y, by), weight.y),
          __fmul_rn(__fmul_rn(v.z, by), weight.z), __fmul_rn(__fmul_rn(v.w, by), weight.w)};
}

__device__ __forceinline__ float4 sum(float4 a, float4 b) {
  return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w)};
}

__device__ __forceinline__ float add_all(float sum, float4 v) {
  return __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, v.x), v.y), v.z), v.w);
}

// v - mean in the columns from c on; zeros beyond the row's end.
__device__ __forceinline__ float4 centred_at(float4 v, float mean, int c, int cols) {
  v.x = __fsub_rn(v.x, mean);
  v.y = c + 1 < cols ? __fsub_rn(v.y, mean) : 0.0f;
  v.z = c + 2 < cols ? __fsub_rn(v.z, mean) : 0.0f;
  v.w = c + 3 < cols ? __fsub_rn(v.w, mean) : 0.0f;
  return v;
}

// v and `n` rows, one in each matrix of `matrix` values, and a bias.
__device__ __forceinline__ float4 added(float4 v, const float* row, int n, size_t matrix,
                                        const float* bias, int c, int cols) {
#pragma unroll 4
  for (int s = 0; s < n; s++) v = sum(v, load(row + s * matrix, c, cols));
  return bias ? sum(v, load(bias, c, cols)) : v;
}

// 1 / sqrt(squares / cols + eps), where `squares` is this thread's share.
__device__ __forceinline__ float inverse_root(float squares, int cols, float eps, float* scratch) {
  const float mean = __fdiv_rn(block_sum(squares, scratch), static_cast<float>(cols));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

// A row of x with what is added to it: `addend(c)` in the four columns from c on, of which `added(v, c)` is the sum
// with v.
struct Row {
  float* __restrict__ x;
  const float *add_norm, *weight;
  bf16* __restrict__ out;
  int cols;
  float eps, scale;
  bool centred;

  template <class Addend, class Added>
  __device__ __forceinline__ void add_and_norm(bool adds, Addend addend, Added added, float4* held) const {
    __shared__ float scratch[32];
    const int first = static_cast<int>(threadIdx.x) * 4;
    float by = 0.0f;
    if (adds && add_norm) {
      float squares = 0.0f;
      for (int c = first; c < cols; c += 4 * kThreads) {
        const float4 v = addend(c);
        squares = add_squares(squares, v);
        held[c / 4] = v;
      }
      by = inverse_root(squares, cols, eps, scratch);
    }

    float squares = 0.0f;
    for (int c = first; c < cols; c += 4 * kThreads) {
      float4 v = load(x, c, cols);
      if (adds) v = add_norm ? sum(v, scaled(held[c / 4], by, load(add_norm, c, cols))) : added(v, c);
      if (adds || scale != 1.0f) {
        v = {__fmul_rn(v.x, scale), __fmul_rn(v.y, scale), __fmul_rn(v.z, scale), __fmul_rn(v.w, scale)};
        store(x, c, cols, v);
      }
      squares = add_squares(squares, v);
      held[c / 4] = v;
    }
    if (!out) return;
    if (!weight) {
      for (int c = first; c < cols; c += 4 * kThreads) store(out, c, cols, held[c / 4]);
      return;
    }
    if (centred) {
      float total = 0.0f;
      for (int c = first; c < cols; c += 4 * kThreads) total = add_all(total, held[c / 4]);
      const float mean = __fdiv_rn(block_sum(total, scratch), static_cast<float>(cols));
      squares = 0.0f;
      for (int c = first; c < cols; c += 4 * kThreads) {
        held[c / 4] = centred_at(held[c / 4], mean, c, cols);
        squares = add_squares(squares, held[c / 4]);
      }
    }
    by = inverse_root(squares, cols, eps, scratch);
    for (int c = first; c < cols; c += 4 * kThreads)
      store(out, c, cols, scaled(held[c / 4], by, load(weight, c, cols)));
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    residual_norm(float* __restrict__ x, const float* add, int n_add, const float* bias,
                  const float* add_norm, const float* weight, bf16* __restrict__ out, int rows,
                  int cols, float eps, float scale, int centred) {
  await_earlier();
  // What a thread has read of the row; no other thread touches it.
  DYNAMIC_SHARED(float4, held);
  if (static_cast<int>(blockIdx.x) >= rows) return;
  const size_t at = static_cast<size_t>(blockIdx.x) * cols, matrix = static_cast<size_t>(rows) * cols;
  const Row row = {x + at, add_norm, weight, out ? out + at : nullptr, cols, eps, scale, centred != 0};
  row.add_and_norm(
      add != nullptr, [&](int c) { return load(add + at, c, cols); },
      [&](float4 v, int c) { return added(v, add + at, n_add, matrix, bias, c, cols); }, held);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    residual_norm_of_experts(float* __restrict__ x, const float* outputs, const int* places, const float* weights,
                             const float* shared, const float* factors, int top_k, const float* add_norm,
                             const float* weight, bf16* __restrict__ out, int rows, int cols, float eps, float scale,
                             int centred) {
  await_earlier();
  DYNAMIC_SHARED(float4, held);
  const int r = static_cast<int>(blockIdx.x);
  if (r >= rows) return;
  const size_t at = static_cast<size_t>(r) * cols;
  const ExpertSum experts = {outputs, places, weights, shared, factors, top_k, cols, cols};
  const Row row = {x + at, add_norm, weight, out ? out + at : nullptr, cols, eps, scale, centred != 0};
  row.add_and_norm(
      true, [&](int c) { return experts.at(r, c); }, [&](float4 v, int c) { return sum(v, experts.at(r, c)); }, held);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    normed_sum(const float* a, const float* a_norm, const float* b, const float* b_norm, float* to, int rows, int cols,
               float eps) {
  await_earlier();
  __shared__ float scratch[32];
  if (static_cast<int>(blockIdx.x) >= rows) return;
  const size_t at = static_cast<size_t>(blockIdx.x) * cols;
  const int first = static_cast<int>(threadIdx.x) * 4;
  const auto inverse_root_of = [&](const float* row) {
    float squares = 0.0f;
    for (int c = first; c < cols; c += 4 * kThreads) squares = add_squares(squares, load(row, c, cols));
    return inverse_root(squares, cols, eps, scratch);
  };
  a += at, b += at;
  const float by_a = inverse_root_of(a), by_b = inverse_root_of(b);
  for (int c = first; c < cols; c += 4 * kThreads)
    store(to + at, c, cols,
          sum(scaled(load(a, c, cols), by_a, load(a_norm, c, cols)), scaled(load(b, c, cols), by_b, load(b_norm, c, cols))));
}

extern "C" __global__ void __launch_bounds__(kThreads)
    group_norm(float* x, const float* weight, int rows, int width, int groups, int cols, float eps, int centred) {
  await_earlier();
  __shared__ float scratch[32];
  if (static_cast<int>(blockIdx.x) >= rows || static_cast<int>(blockIdx.y) >= groups) return;
  x += static_cast<size_t>(blockIdx.x) * width + static_cast<size_t>(blockIdx.y) * cols;
  weight += static_cast<size_t>(blockIdx.y) * cols;
  const int first = static_cast<int>(threadIdx.x) * 4;
  float mean = 0.0f;
  if (centred) {
    float total = 0.0f;
    for (int c = first; c < cols; c += 4 * kThreads) total = add_all(total, load(x, c, cols));
    mean = __fdiv_rn(block_sum(total, scratch), static_cast<float>(cols));
  }
  const auto at = [&](int c) {
    const float4 v = load(x, c, cols);
    return centred ? centred_at(v, mean, c, cols) : v;
  };
  float squares = 0.0f;
  for (int c = first; c < cols; c += 4 * kThreads) squares = add_squares(squares, at(c));
  const float by = inverse_root(squares, cols, eps, scratch);
  for (int c = first; c < cols; c += 4 * kThreads) store(x, c, cols, scaled(at(c), by, load(weight, c, cols)));
}

extern "C" __global__ void __launch_bounds__(kThreads)
    layer_norm(const float* x, const float* weight, const float* bias, float* stream, bf16* __restrict__ out, int rows,
               int cols, float eps) {
  await_earlier();
  __shared__ float scratch[32];
  if (static_cast<int>(blockIdx.x) >= rows) return;
  const size_t start = static_cast<size_t>(blockIdx.x) * cols;
  x += start;
  const int first = static_cast<int>(threadIdx.x) * 4;
  float total = 0.0f;
  for (int c = first; c < cols; c += 4 * kThreads) total = add_all(total, load(x, c, cols));
  const float mean = __fdiv_rn(block_sum(total, scratch), static_cast<float>(cols));
  const auto at = [&](int c) { return centred_at(load(x, c, cols), mean, c, cols); };
  float squares = 0.0f;
  for (int c = first; c < cols; c += 4 * kThreads) squares = add_squares(squares, at(c));
  const float by = inverse_root(squares, cols, eps, scratch);
  for (int c = first; c < cols; c += 4 * kThreads) {
    const float4 normed = sum(scaled(at(c), by, load(weight, c, cols)), load(bias, c, cols));
    store(out + start, c, cols, normed);
    if (stream) store(stream + start, c, cols, normed);
  }
}
