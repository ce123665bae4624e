// The gated nonlinearity of the feed-forward half:
//
//   out[r][c] = bf16(f(gate[r][c]) * up[r][c])
//   silu: f(x) = x / (1 + e^-x)
//   gelu: f(x) = x / (1 + e^-2u),  u = sqrt(2 / pi) (x + 0.044715 x^3): GELU's tanh approximation
//   erf gelu:  out = bf16(x (1 + erf(x / sqrt 2)) / 2),  x = up
//   xielu:     out = bf16(f(up) + beta up),  f(x) = positive x^2 above 0, negative (e^min(x, eps) - 1 - x) below
//   clamped:   out = bf16((u + 1) g / (1 + e^(-alpha g))),  g = min(gate, limit), u = up cut at -limit and limit
//
//   gate_up  [rows, 2 n]  f32, each row its n gates, then its n ups; of the last two [rows, n], ups alone
//   out      [rows, n]    bf16
//
// Launch: block 256, grid (rows, ceil(n / 1024)): a thread takes four columns. gate_up 16-byte and out 8-byte aligned.
// Moves per row: 10 n bytes.
//
// Proved by kernels/tests/gate.cpp: each against f64 from -100 to 100, infinities, NaN, odd widths.
#include "gate.cuh"

namespace {

struct __align__(8) FourBf16 {
  bf16 values[4];
};

template <typename F>
__device__ __forceinline__ void alone(F f, const float* up, bf16* __restrict__ out, int n) {
  const int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 4;
  const size_t row = static_cast<size_t>(blockIdx.x) * n;
  for (int i = c; i < n && i < c + 4; i++) narrow(f(up[row + i]), out[row + i]);
}

template <typename F>
__device__ __forceinline__ void gate(F f, const float* gate_up, bf16* __restrict__ out, int n) {
  const int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * 4;
  if (c >= n) return;
  const float* gates = gate_up + static_cast<size_t>(blockIdx.x) * 2 * n;
  const float* ups = gates + n;
  bf16* to = out + static_cast<size_t>(blockIdx.x) * n;
  if (n % 4 != 0) {
    for (int i = c; i < n && i < c + 4; i++) narrow(f(gates[i], ups[i]), to[i]);
    return;
  }
  const float4 g = *reinterpret_cast<const float4*>(gates + c), u = *reinterpret_cast<const float4*>(ups + c);
  FourBf16 four;
  narrow(f(g.x, u.x), four.values[0]);
  narrow(f(g.y, u.y), four.values[1]);
  narrow(f(g.z, u.z), four.values[2]);
  narrow(f(g.w, u.w), four.values[3]);
  *reinterpret_cast<FourBf16*>(to + c) = four;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    gate_silu(const float* gate_up, bf16* __restrict__ out, int rows, int n) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) < rows) gate(Silu(), gate_up, out, n);
}

extern "C" __global__ void __launch_bounds__(256)
    gate_gelu(const float* gate_up, bf16* __restrict__ out, int rows, int n) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) < rows) gate(GeluTanh(), gate_up, out, n);
}

extern "C" __global__ void __launch_bounds__(256)
    gate_clamped(const float* gate_up, bf16* __restrict__ out, int rows, int n, float limit, float alpha) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) < rows) gate(ClampedSwiglu{limit, alpha}, gate_up, out, n);
}

extern "C" __global__ void __launch_bounds__(256)
    xielu(const float* up, bf16* __restrict__ out, int rows, int n, float positive, float negative, float beta, float eps) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) < rows) alone(Xielu{positive, negative, beta, eps}, up, out, n);
}

extern "C" __global__ void __launch_bounds__(256) gelu(const float* up, bf16* __restrict__ out, int rows, int n) {
  await_earlier();
  if (static_cast<int>(blockIdx.x) < rows) alone(Gelu(), up, out, n);
}
