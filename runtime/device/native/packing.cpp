// PyTorch operators that quantize weight matrices and store them in the layout of the products.
//
// The reference implementations are `Int8.of` and `Int4.of` in runtime/device/quantized.py, followed by `int8_tiles`
// and `int4_blocks` in __init__.py. The results are bitwise equal.

#include "products.h"

#include <cmath>

#define INLINE inline __attribute__((always_inline))  // A function that is not inlined would not use AVX2.

namespace {

constexpr int64_t MIN_WEIGHTS_OF_A_TASK = 1 << 16;
constexpr float MIN_SCALE = 1e-30f;

INLINE float wide(float weight) { return weight; }
INLINE float wide(uint16_t weight) { return from_bfloat16(weight); }

// Map a float to an integer that compares in the same order. Compilers vectorize the minimum of integers, but not of
// floats.
INLINE int32_t order_of(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits ^ (bits >> 31 & 0x7FFFFFFF);
}

INLINE float number_of(int32_t order) {
  const int32_t bits = order ^ (order >> 31 & 0x7FFFFFFF);
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// Quantize a row of K weights to int8, and return its scale. values: weights plus 128.
template <typename Weight>
INLINE float round_to_int8(const Weight* row, int64_t K, uint8_t* values) {
  int32_t most = 0;
  for (int64_t k = 0; k < K; ++k) most = std::max(most, order_of(std::fabs(wide(row[k]))));
  const float scale = std::max(number_of(most), MIN_SCALE) / 127.0f;
  for (int64_t k = 0; k < K; ++k)
    values[k] = static_cast<uint8_t>(static_cast<int32_t>(__builtin_rintf(wide(row[k]) / scale)) + 128);
  return scale;
}

// Quantize a group of weights to int4 with a scale and an offset.
template <typename Weight>
INLINE void round_to_int4(const Weight* group, uint8_t* values, uint16_t* scale, uint16_t* offset) {
  int32_t orders[2] = {order_of(wide(group[0])), order_of(wide(group[0]))};
  for (int k = 0; k < GROUP; ++k) {
    orders[0] = std::min(orders[0], order_of(wide(group[k])));
    orders[1] = std::max(orders[1], order_of(wide(group[k])));
  }
  const float least = number_of(orders[0]), most = number_of(orders[1]);
  *scale = to_bfloat16(std::max((most - least) / 15.0f, MIN_SCALE));
  const float step = from_bfloat16(*scale);
  *offset = to_bfloat16(least + 8.0f * step);
  const float middle = from_bfloat16(*offset);
  for (int k = 0; k < GROUP; ++k) {
    const float value = __builtin_rintf((wide(group[k]) - middle) / step + 8.0f);
    values[k] = static_cast<uint8_t>(static_cast<int32_t>(value < 0.0f ? 0.0f : value > 15.0f ? 15.0f : value));
  }
}

template <typename Weight>
CLONES void pack_int8_tile(const Weight* weight, int64_t rows, int64_t K, int64_t width, uint8_t* tile, float* scales) {
  std::vector<uint8_t> values(width, 128);
  for (int64_t n = 0; n < TILE; ++n) {
    if (n < rows)
      scales[n] = round_to_int8(weight + n * K, K, values.data());
    else
      scales[n] = 0.0f, std::fill(values.begin(), values.end(), 128);
    for (int64_t k = 0; k < width; k += QUAD) std::memcpy(tile + k * TILE + n * QUAD, &values[k], QUAD);
  }
}

template <typename Weight>
CLONES void pack_int4_tile(const Weight* weight, int64_t K, Int4Block* blocks) {
  uint8_t values[GROUP];
  for (int64_t n = 0; n < TILE; ++n)
    for (int64_t group = 0; group < K / GROUP; ++group) {
      Int4Block& block = blocks[group];
      round_to_int4(weight + n * K + group * GROUP, values, &block.scales[n], &block.offsets[n]);
      for (int k = 0; k < GROUP / 2; ++k) values[k] |= values[GROUP / 2 + k] << 4;
      for (int k = 0; k < GROUP / 2; k += QUAD) std::memcpy(&block.values[k * TILE + n * QUAD], values + k, QUAD);
    }
}

// Call `pack` with the address of the first weight of each tile, in parallel.
template <typename Pack>
void each_tile(const Tensor& weight, bool is_narrow, const Pack& pack) {
  const int64_t N = weight.size(0), K = weight.size(1);
  const int64_t grain = std::max<int64_t>(1, MIN_WEIGHTS_OF_A_TASK / (TILE * K));
  torch::stable::parallel_for(0, (N + TILE - 1) / TILE, grain, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile)
      if (is_narrow)
        pack(static_cast<const uint16_t*>(weight.data_ptr()) + tile * TILE * K, tile);
      else
        pack(static_cast<const float*>(weight.data_ptr()) + tile * TILE * K, tile);
  });
}

// Quantize a weight matrix to int8, and write the values in tiles and one scale per output.
//
// weight: [N, K] float32, or bfloat16 if `is_narrow`; tiles: [N' / 16, K' / 4, 16, 4] uint8; scales: [N'] float32.
void pack_int8(Tensor weight, bool is_narrow, Tensor tiles, Tensor scales) {
  const int64_t N = weight.size(0), K = weight.size(1), width = tiles.size(1) * QUAD;
  each_tile(weight, is_narrow, [&](const auto* rows, int64_t tile) {
    pack_int8_tile(rows, std::min<int64_t>(TILE, N - tile * TILE), K, width,
                   static_cast<uint8_t*>(tiles.data_ptr()) + tile * TILE * width,
                   static_cast<float*>(scales.data_ptr()) + tile * TILE);
  });
}

// Quantize a weight matrix to int4, and write the values, scales and offsets in blocks (`Int4Block`).
//
// weight: [N, K] float32, or bfloat16 if `is_narrow`, with whole tiles and groups; blocks: [N / 16, K / 32, 320] uint8.
void pack_int4(Tensor weight, bool is_narrow, Tensor blocks) {
  const int64_t K = weight.size(1);
  each_tile(weight, is_narrow, [&](const auto* rows, int64_t tile) {
    pack_int4_tile(rows, K, static_cast<Int4Block*>(blocks.data_ptr()) + tile * K / GROUP);
  });
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(voicewright, library) {
  library.def("pack_int8(Tensor weight, bool is_narrow, Tensor(a!) tiles, Tensor(b!) scales) -> ()");
  library.def("pack_int4(Tensor weight, bool is_narrow, Tensor(a!) blocks) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(voicewright, CPU, library) {
  library.impl("pack_int8", TORCH_BOX(&pack_int8));
  library.impl("pack_int4", TORCH_BOX(&pack_int4));
}
