// Operations of decoder layers between the matrix products. Each result is computed in a fixed order.

#pragma once

#include "products.h"

#include <cmath>
#include <limits>

namespace {

constexpr int LANES = 16;  // Number of partial sums, so that compilers can vectorize.
constexpr float INFINITE = std::numeric_limits<float>::infinity();

template <typename Number>
Number* data(const Tensor& tensor) {
  return static_cast<Number*>(tensor.data_ptr());
}

// Exponential function of Cephes, with an error of two units in the last place. Compilers can vectorize it.
inline float exponential(float x) {
  x = x > 88.0f ? 88.0f : x;
  x = x < -87.0f ? -87.0f : x;
  const float whole = __builtin_rintf(x * 1.44269504f);
  const float rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  float sum = 1.9875691500e-4f * rest + 1.3981999507e-3f;
  sum = sum * rest + 8.3334519073e-3f;
  sum = sum * rest + 4.1665795894e-2f;
  sum = sum * rest + 1.6666665459e-1f;
  sum = sum * rest + 5.0000001201e-1f;
  const int32_t bits = (static_cast<int32_t>(whole) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return (sum * rest * rest + rest + 1.0f) * power;
}

inline float dot(const float* a, const float* b, int64_t count) {
  float lanes[LANES] = {};
  int64_t at = 0;
  for (; at + LANES <= count; at += LANES)
    for (int lane = 0; lane < LANES; ++lane) lanes[lane] += a[at + lane] * b[at + lane];
  for (; at < count; ++at) lanes[at % LANES] += a[at] * b[at];
  for (int half = LANES / 2; half; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

CLONES void rms_norm(const float* x, const float* weight, int64_t rows, int64_t width, float eps, float* out) {
  for (int64_t row = 0; row < rows; ++row, x += width, out += width) {
    const float scale = 1.0f / std::sqrt(dot(x, x, width) / static_cast<float>(width) + eps);
    for (int64_t at = 0; at < width; ++at) out[at] = x[at] * scale * weight[at];
  }
}

// Apply split-half RoPE to one head in place.
CLONES void rotate(float* x, const float* cos, const float* sin, int64_t d) {
  const int64_t half = d / 2;
  for (int64_t at = 0; at < half; ++at) {
    const float first = x[at], second = x[half + at];
    x[at] = first * cos[at] - second * sin[at];
    x[half + at] = second * cos[half + at] + first * sin[half + at];
  }
}

CLONES void swiglu(const float* gate, const float* up, int64_t width, float* out) {
  for (int64_t at = 0; at < width; ++at) out[at] = gate[at] / (1.0f + exponential(-gate[at])) * up[at];
}

}  // namespace
