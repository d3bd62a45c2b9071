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

constexpr int TILE = 16;   // Number of outputs per tile.
constexpr int QUAD = 4;    // Number of adjacent values along K in a 32-bit word.
constexpr int GROUP = 32;  // Number of int4 weights that share a scale and an offset.

// Int4 weights of one group of a tile. Byte [b][output][i] has k = 4b + i (low half) and k = 16 + 4b + i (high half).
struct Int4Block {
  uint8_t values[GROUP / 2 * TILE];
  uint16_t scales[TILE];   // bfloat16
  uint16_t offsets[TILE];  // bfloat16. The offset is the weight of value 8.
};
static_assert(sizeof(Int4Block) == 320);

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

// Round to nearest even.
inline uint16_t to_bfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return (x != x ? bits | 1 << 22 : bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
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
