// Product of rows and a matrix of any kind, shared by all operators.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#if defined(__x86_64__)
#define CLONES __attribute__((target_clones("default", "avx2")))
#else
#define CLONES
#endif

using torch::stable::Tensor;

enum Kind : int64_t { FLOAT32, FLOAT16, BFLOAT16, INT8, INT4 };  // BFLOAT16 is not a kind of `Matrix`.

// Instruction set of the kernels: portable, AVX2 or arm64's dot products, AVX-512 with VNNI.
enum Level : int64_t { PORTABLE = 0, VECTORS = 1, WIDE_VECTORS = 2 };
extern int64_t level;

// Matrix of a linear layer. It is stored as six 64-bit words of a tensor (`matrix` in runtime/model/native_layers.py).
struct Matrix {
  int64_t kind, N, K;
  const void* values;    // Rows [N, K] of FLOAT32 and FLOAT16; tiles or blocks of INT8 and INT4.
  const float* scales;   // INT8 only.
  const float* bias;     // [N], or null.
};

inline float from_bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

// The result is exact for finite numbers: shift the exponent as an integer, then correct its bias by multiplying.
inline float from_float16(uint16_t bits) {
  const uint32_t size = static_cast<uint32_t>(bits & 0x7FFF) << 13;
  float value;
  std::memcpy(&value, &size, 4);
  value *= 0x1p112f;
  return bits & 0x8000 ? -value : value;
}

// Multiply contiguous rows [M, K] by the matrix and add the bias. out: [M, N].
void multiply(const Matrix& matrix, const float* x, int64_t M, float* out);
