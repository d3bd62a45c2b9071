// PyTorch operators that multiply rows by float32, float16, int8 and int4 weights on a CPU.
//
// For int8 and int4 weights, each row is quantized to int8 with one scale, and the sums within a group are exact
// integers. Float32 numbers are added in a fixed order. Therefore the result of a row does not depend on the batch, the
// number of threads or the instruction set. reference.py is the reference implementation. Compile without fused
// multiply-add (-ffp-contract=off), which would change results.

#include "products.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,f16c")))
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__ARM_FEATURE_DOTPROD)
#define DOTPROD
#else
#define DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

namespace {

constexpr int MAX_ROWS = 8;                    // Maximum number of rows per pass over a tile.
constexpr int LANES = 16;                      // Number of partial sums with floating-point weights.
constexpr int CHAINS = 4;                      // Maximum number of (row, output) pairs in registers.
constexpr int64_t MIN_WEIGHTS_OF_A_TASK = 1 << 18;
constexpr float MIN_LARGEST = 1e-30f;          // Lower bound, to avoid a division by zero.
constexpr float LEVELS = 127.0f;

// Int8 weights of one tile: values[k / 4][output][4] are the weights plus 128.
struct Int8Tile {
  const uint8_t* values;
  const float* scales;
};

struct Rows {
  int64_t count, width, groups;
  std::vector<int8_t> values;       // [count, width]
  std::vector<int32_t> group_sums;  // [count, groups]
  std::vector<int32_t> sums;        // [count]
  std::vector<float> scales;        // [count]
};

inline int32_t word(const int8_t* x) {
  int32_t bits;
  std::memcpy(&bits, x, 4);
  return bits;
}

CLONES void round_row(const float* x, int64_t count, int8_t* values, float* scale) {
  // Magnitudes have the same order as the bits of their floats. NaN has the largest bits.
  const auto* bits = reinterpret_cast<const uint32_t*>(x);
  uint32_t most = 0;
  for (int64_t k = 0; k < count; ++k) most = std::max(most, bits[k] & 0x7FFFFFFFu);
  float largest;
  std::memcpy(&largest, &most, 4);
  if (largest < MIN_LARGEST) largest = MIN_LARGEST;
  const float inverse = LEVELS / largest;
  for (int64_t k = 0; k < count; ++k)
    values[k] = static_cast<int8_t>(static_cast<int32_t>(__builtin_rintf(x[k] * inverse)));
  *scale = largest / LEVELS;
}

CLONES void sum_groups(const int8_t* values, int64_t groups, int32_t* sums) {
  for (int64_t group = 0; group < groups; ++group) {
    int32_t sum = 0;
    for (int k = 0; k < GROUP; ++k) sum += values[group * GROUP + k];
    sums[group] = sum;
  }
}

Rows round_rows(const float* x, int64_t count, int64_t K) {
  Rows rows;
  rows.count = count;
  rows.groups = (K + GROUP - 1) / GROUP;
  rows.width = rows.groups * GROUP;
  rows.values.resize(count * rows.width);
  rows.group_sums.resize(count * rows.groups);
  rows.sums.resize(count);
  rows.scales.resize(count);
  for (int64_t row = 0; row < count; ++row) {
    round_row(x + row * K, K, &rows.values[row * rows.width], &rows.scales[row]);
    sum_groups(&rows.values[row * rows.width], rows.groups, &rows.group_sums[row * rows.groups]);
    for (int64_t group = 0; group < rows.groups; ++group) rows.sums[row] += rows.group_sums[row * rows.groups + group];
  }
  return rows;
}

// Each kernel multiplies R rows, starting at `row`, by one tile. out: [R, TILE].

template <int R>
void int4_portable(const Int4Block* blocks, const Rows& rows, int64_t row, float* out) {
  float total[R][TILE] = {};
  for (int64_t group = 0; group < rows.groups; ++group) {
    const Int4Block& block = blocks[group];
    for (int r = 0; r < R; ++r) {
      const int8_t* x = &rows.values[(row + r) * rows.width + group * GROUP];
      const int32_t sum = rows.group_sums[(row + r) * rows.groups + group];
      for (int n = 0; n < TILE; ++n) {
        int32_t dot = -8 * sum;
        for (int k = 0; k < GROUP / 2; ++k) {
          const uint8_t both = block.values[(k / QUAD * TILE + n) * QUAD + k % QUAD];
          dot += (both & 15) * x[k] + (both >> 4) * x[GROUP / 2 + k];
        }
        total[r][n] += static_cast<float>(dot) * from_bfloat16(block.scales[n]);
        total[r][n] += static_cast<float>(sum) * from_bfloat16(block.offsets[n]);
      }
    }
  }
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < TILE; ++n) out[r * TILE + n] = total[r][n] * rows.scales[row + r];
}

template <int R>
void int8_portable(const Int8Tile& tile, const Rows& rows, int64_t row, float* out) {
  for (int r = 0; r < R; ++r) {
    int32_t dot[TILE];
    for (int n = 0; n < TILE; ++n) dot[n] = -128 * rows.sums[row + r];
    const uint8_t* weight = tile.values;
    for (int64_t k = 0; k < rows.width; k += QUAD) {
      const int8_t* x = &rows.values[(row + r) * rows.width + k];
      for (int n = 0; n < TILE; ++n, weight += QUAD)
        dot[n] += weight[0] * x[0] + weight[1] * x[1] + weight[2] * x[2] + weight[3] * x[3];
    }
    for (int n = 0; n < TILE; ++n)
      out[r * TILE + n] = static_cast<float>(dot[n]) * tile.scales[n] * rows.scales[row + r];
  }
}

inline float wide(float weight) { return weight; }
inline float wide(uint16_t weight) { return from_float16(weight); }

// Sum the lanes pairwise, with distances of 8, 4, 2 and 1.
inline float sum_lanes(float* lanes) {
  for (int half = LANES / 2; half; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

// Multiply R rows of x by N rows of floating-point weights. Lane k % LANES adds its products in ascending order of k.
template <int R, int N, typename Weight>
void dense_portable(const Weight* weight, int64_t K, const float* x, float* out, int64_t stride) {
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) {
      float lanes[LANES] = {};
      int64_t k = 0;
      for (; k + LANES <= K; k += LANES)
        for (int lane = 0; lane < LANES; ++lane) lanes[lane] += x[r * K + k + lane] * wide(weight[n * K + k + lane]);
      for (; k < K; ++k) lanes[k % LANES] += x[r * K + k] * wide(weight[n * K + k]);
      out[r * stride + n] = sum_lanes(lanes);
    }
}

#if defined(__x86_64__)

AVX2 inline __m256 load_eight(const float* weight) { return _mm256_loadu_ps(weight); }
AVX2 inline __m256 load_eight(const uint16_t* weight) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(weight)));
}

AVX2 inline float sum_eight(__m256 lanes) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

template <int R, int N, typename Weight>
AVX2 void dense_avx2(const Weight* weight, int64_t K, const float* x, float* out, int64_t stride) {
  __m256 total[R][N][2];
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) total[r][n][0] = total[r][n][1] = _mm256_setzero_ps();
  int64_t k = 0;
  for (; k + LANES <= K; k += LANES)
    for (int n = 0; n < N; ++n)
      for (int half = 0; half < 2; ++half) {
        const __m256 loaded = load_eight(weight + n * K + k + half * 8);
        for (int r = 0; r < R; ++r)
          total[r][n][half] = _mm256_add_ps(
              total[r][n][half], _mm256_mul_ps(loaded, _mm256_loadu_ps(x + r * K + k + half * 8)));
      }
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) {
      if (k < K) {
        float lanes[LANES];
        for (int half = 0; half < 2; ++half) _mm256_storeu_ps(lanes + half * 8, total[r][n][half]);
        for (int64_t rest = k; rest < K; ++rest) lanes[rest - k] += x[r * K + rest] * wide(weight[n * K + rest]);
        for (int half = 0; half < 2; ++half) total[r][n][half] = _mm256_loadu_ps(lanes + half * 8);
      }
      out[r * stride + n] = sum_eight(_mm256_add_ps(total[r][n][0], total[r][n][1]));
    }
}

AVX2 inline __m256 eight_from_bfloat16(const uint16_t* bits) {
  const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bits));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
}

// Process eight outputs at a time, because the registers hold sums of four rows. Eight pairs of 15 * 127 fit into
// 16 bits.
template <int R>
AVX2 void int4_avx2_half(const Int4Block* blocks, const Rows& rows, int64_t row, int half, float* out) {
  const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  __m256 total[R];
  for (int r = 0; r < R; ++r) total[r] = _mm256_setzero_ps();
  for (int64_t group = 0; group < rows.groups; ++group) {
    const Int4Block& block = blocks[group];
    __m256i dot[R];
    for (int r = 0; r < R; ++r) dot[r] = _mm256_setzero_si256();
    for (int b = 0; b < 4; ++b) {
      const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block.values + b * 64 + half * 32));
      const __m256i low = _mm256_and_si256(both, nibble), high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
      for (int r = 0; r < R; ++r) {
        const int8_t* x = &rows.values[(row + r) * rows.width + group * GROUP + QUAD * b];
        dot[r] = _mm256_add_epi16(dot[r], _mm256_maddubs_epi16(low, _mm256_set1_epi32(word(x))));
        dot[r] = _mm256_add_epi16(dot[r], _mm256_maddubs_epi16(high, _mm256_set1_epi32(word(x + GROUP / 2))));
      }
    }
    const __m256 scales = eight_from_bfloat16(block.scales + half * 8);
    const __m256 offsets = eight_from_bfloat16(block.offsets + half * 8);
    for (int r = 0; r < R; ++r) {
      const int32_t sum = rows.group_sums[(row + r) * rows.groups + group];
      const __m256i whole = _mm256_sub_epi32(_mm256_madd_epi16(dot[r], ones), _mm256_set1_epi32(8 * sum));
      total[r] = _mm256_add_ps(total[r], _mm256_mul_ps(_mm256_cvtepi32_ps(whole), scales));
      total[r] = _mm256_add_ps(total[r], _mm256_mul_ps(_mm256_set1_ps(static_cast<float>(sum)), offsets));
    }
  }
  for (int r = 0; r < R; ++r)
    _mm256_storeu_ps(out + r * TILE + half * 8, _mm256_mul_ps(total[r], _mm256_set1_ps(rows.scales[row + r])));
}

template <int R>
AVX2 void int4_avx2(const Int4Block* blocks, const Rows& rows, int64_t row, float* out) {
  if constexpr (R > 4) {
    int4_avx2<4>(blocks, rows, row, out);
    int4_avx2<R - 4>(blocks, rows, row + 4, out + 4 * TILE);
  } else {
    for (int half = 0; half < 2; ++half) int4_avx2_half<R>(blocks, rows, row, half, out);
  }
}

VNNI inline __m512 sixteen_from_bfloat16(const uint16_t* bits) {
  const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}

template <int R>
VNNI void int4_vnni(const Int4Block* blocks, const Rows& rows, int64_t row, float* out) {
  const __m512i nibble = _mm512_set1_epi8(15);
  __m512 total[R];
  for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_ps();
  for (int64_t group = 0; group < rows.groups; ++group) {
    const Int4Block& block = blocks[group];
    __m512i dot[R];
    for (int r = 0; r < R; ++r) dot[r] = _mm512_set1_epi32(-8 * rows.group_sums[(row + r) * rows.groups + group]);
    for (int b = 0; b < 4; ++b) {
      const __m512i both = _mm512_loadu_si512(block.values + b * 64);
      const __m512i low = _mm512_and_si512(both, nibble), high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
      for (int r = 0; r < R; ++r) {
        const int8_t* x = &rows.values[(row + r) * rows.width + group * GROUP + QUAD * b];
        dot[r] = _mm512_dpbusd_epi32(dot[r], low, _mm512_set1_epi32(word(x)));
        dot[r] = _mm512_dpbusd_epi32(dot[r], high, _mm512_set1_epi32(word(x + GROUP / 2)));
      }
    }
    const __m512 scales = sixteen_from_bfloat16(block.scales), offsets = sixteen_from_bfloat16(block.offsets);
    for (int r = 0; r < R; ++r) {
      const float sum = static_cast<float>(rows.group_sums[(row + r) * rows.groups + group]);
      total[r] = _mm512_add_ps(total[r], _mm512_mul_ps(_mm512_cvtepi32_ps(dot[r]), scales));
      total[r] = _mm512_add_ps(total[r], _mm512_mul_ps(_mm512_set1_ps(sum), offsets));
    }
  }
  for (int r = 0; r < R; ++r)
    _mm512_storeu_ps(out + r * TILE, _mm512_mul_ps(total[r], _mm512_set1_ps(rows.scales[row + r])));
}

// Multiply weight magnitudes by rows with the weights' signs. The sum of two products 127 * 127 fits into
// 16 bits, but the sum of two products 255 * 127 does not.
template <int R>
AVX2 void int8_avx2(const Int8Tile& tile, const Rows& rows, int64_t row, float* out) {
  if constexpr (R > 4) {
    int8_avx2<4>(tile, rows, row, out);
    int8_avx2<R - 4>(tile, rows, row + 4, out + 4 * TILE);
  } else {
    const __m256i ones = _mm256_set1_epi16(1), away = _mm256_set1_epi8(static_cast<char>(128));
    __m256i total[R][2];
    for (int r = 0; r < R; ++r) total[r][0] = total[r][1] = _mm256_setzero_si256();
    const uint8_t* values = tile.values;
    for (int64_t k = 0; k < rows.width; k += QUAD, values += TILE * QUAD)
      for (int half = 0; half < 2; ++half) {
        const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + half * 32));
        const __m256i weight = _mm256_xor_si256(stored, away), size = _mm256_abs_epi8(weight);
        for (int r = 0; r < R; ++r) {
          const __m256i x = _mm256_set1_epi32(word(&rows.values[(row + r) * rows.width + k]));
          const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x, weight));
          total[r][half] = _mm256_add_epi32(total[r][half], _mm256_madd_epi16(pairs, ones));
        }
      }
    for (int r = 0; r < R; ++r)
      for (int half = 0; half < 2; ++half) {
        const __m256 scales = _mm256_loadu_ps(tile.scales + half * 8);
        const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(total[r][half]), scales);
        _mm256_storeu_ps(out + r * TILE + half * 8, _mm256_mul_ps(scaled, _mm256_set1_ps(rows.scales[row + r])));
      }
  }
}

template <int R>
VNNI void int8_vnni(const Int8Tile& tile, const Rows& rows, int64_t row, float* out) {
  __m512i total[R];
  for (int r = 0; r < R; ++r) total[r] = _mm512_set1_epi32(-128 * rows.sums[row + r]);
  const uint8_t* values = tile.values;
  for (int64_t k = 0; k < rows.width; k += QUAD, values += TILE * QUAD) {
    const __m512i weight = _mm512_loadu_si512(values);
    for (int r = 0; r < R; ++r)
      total[r] = _mm512_dpbusd_epi32(total[r], weight, _mm512_set1_epi32(word(&rows.values[(row + r) * rows.width + k])));
  }
  for (int r = 0; r < R; ++r) {
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(total[r]), _mm512_loadu_ps(tile.scales));
    _mm512_storeu_ps(out + r * TILE, _mm512_mul_ps(scaled, _mm512_set1_ps(rows.scales[row + r])));
  }
}

#elif defined(__aarch64__)

DOTPROD inline int8x16_t four_times(const int8_t* x) { return vreinterpretq_s8_s32(vdupq_n_s32(word(x))); }

template <int R>
DOTPROD void int4_neon(const Int4Block* blocks, const Rows& rows, int64_t row, float* out) {
  for (int r = 0; r < R; ++r) {
    float32x4_t total[4] = {};
    for (int64_t group = 0; group < rows.groups; ++group) {
      const Int4Block& block = blocks[group];
      const int8_t* x = &rows.values[(row + r) * rows.width + group * GROUP];
      const int32_t sum = rows.group_sums[(row + r) * rows.groups + group];
      for (int q = 0; q < 4; ++q) {
        int32x4_t dot = vdupq_n_s32(-8 * sum);
        for (int b = 0; b < 4; ++b) {
          const uint8x16_t both = vld1q_u8(block.values + b * 64 + 16 * q);
          dot = vdotq_s32(dot, vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15))), four_times(x + QUAD * b));
          dot = vdotq_s32(dot, vreinterpretq_s8_u8(vshrq_n_u8(both, 4)), four_times(x + GROUP / 2 + QUAD * b));
        }
        const float32x4_t scales = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(block.scales + 4 * q), 16));
        const float32x4_t offsets = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(block.offsets + 4 * q), 16));
        total[q] = vaddq_f32(total[q], vmulq_f32(vcvtq_f32_s32(dot), scales));
        total[q] = vaddq_f32(total[q], vmulq_n_f32(offsets, static_cast<float>(sum)));
      }
    }
    for (int q = 0; q < 4; ++q) vst1q_f32(out + r * TILE + 4 * q, vmulq_n_f32(total[q], rows.scales[row + r]));
  }
}

template <int R>
DOTPROD void int8_neon(const Int8Tile& tile, const Rows& rows, int64_t row, float* out) {
  int32x4_t total[R][4] = {};
  const uint8_t* values = tile.values;
  for (int64_t k = 0; k < rows.width; k += QUAD, values += TILE * QUAD)
    for (int q = 0; q < 4; ++q) {
      const int8x16_t weight = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(values + 16 * q), vdupq_n_u8(128)));
      for (int r = 0; r < R; ++r)
        total[r][q] = vdotq_s32(total[r][q], weight, four_times(&rows.values[(row + r) * rows.width + k]));
    }
  for (int r = 0; r < R; ++r)
    for (int q = 0; q < 4; ++q) {
      const float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(total[r][q]), vld1q_f32(tile.scales + 4 * q));
      vst1q_f32(out + r * TILE + 4 * q, vmulq_n_f32(scaled, rows.scales[row + r]));
    }
}

#endif

int64_t best_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return WIDE_VECTORS;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma") ? VECTORS
                                                                                                          : PORTABLE;
#elif defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP) & (1 << 20) ? VECTORS : PORTABLE;  // HWCAP_ASIMDDP
#elif defined(__aarch64__) && defined(__APPLE__)
  return VECTORS;
#else
  return PORTABLE;
#endif
}

}  // namespace

int64_t level = best_level();

namespace {

template <int R>
void multiply(const Int4Block* tile, const Rows& rows, int64_t row, float* out) {
#if defined(__x86_64__)
  if (level == WIDE_VECTORS) return int4_vnni<R>(tile, rows, row, out);
  if (level == VECTORS) return int4_avx2<R>(tile, rows, row, out);
#elif defined(__aarch64__)
  if (level == VECTORS) return int4_neon<R>(tile, rows, row, out);
#endif
  int4_portable<R>(tile, rows, row, out);
}

template <int R>
void multiply(const Int8Tile& tile, const Rows& rows, int64_t row, float* out) {
#if defined(__x86_64__)
  if (level == WIDE_VECTORS) return int8_vnni<R>(tile, rows, row, out);
  if (level == VECTORS) return int8_avx2<R>(tile, rows, row, out);
#elif defined(__aarch64__)
  if (level == VECTORS) return int8_neon<R>(tile, rows, row, out);
#endif
  int8_portable<R>(tile, rows, row, out);
}

template <int R, typename Tile>
void multiply_rows(int64_t count, const Tile& tile, const Rows& rows, int64_t row, float* out) {
  if constexpr (R > 1)
    if (count < R) return multiply_rows<R - 1>(count, tile, rows, row, out);
  multiply<R>(tile, rows, row, out);
}

template <typename TileAt>
void multiply_tiles(const float* x, int64_t M, int64_t N, int64_t K, float* out, TileAt tile_at) {
  const int64_t tiles = (N + TILE - 1) / TILE;
  const Rows rows = round_rows(x, M, K);
  const int64_t grain = std::max<int64_t>(1, MIN_WEIGHTS_OF_A_TASK / (rows.width * TILE));
  torch::stable::parallel_for(0, tiles, grain, [&](int64_t begin, int64_t end) {
    float made[MAX_ROWS * TILE];
    for (int64_t t = begin; t < end; ++t) {
      const int64_t outputs = std::min<int64_t>(TILE, N - t * TILE);
      const auto tile = tile_at(t, rows);
      for (int64_t row = 0; row < M; row += MAX_ROWS) {
        const int64_t count = std::min<int64_t>(MAX_ROWS, M - row);
        multiply_rows<MAX_ROWS>(count, tile, rows, row, made);
        for (int64_t r = 0; r < count; ++r)
          std::memcpy(out + (row + r) * N + t * TILE, made + r * TILE, outputs * sizeof(float));
      }
    }
  });
}

template <int R, int N, typename Weight>
void multiply_dense(const Weight* weight, int64_t K, const float* x, float* out, int64_t stride) {
#if defined(__x86_64__)
  if (level >= VECTORS) return dense_avx2<R, N>(weight, K, x, out, stride);
#endif
  dense_portable<R, N>(weight, K, x, out, stride);
}

template <typename Weight>
void multiply_dense(const Weight* weight, const float* x, int64_t M, int64_t N, int64_t K, float* out) {
  const int64_t grain = std::max<int64_t>(1, MIN_WEIGHTS_OF_A_TASK / K);
  torch::stable::parallel_for(0, N, grain, [&](int64_t begin, int64_t end) {
    int64_t n = begin;
    for (; n + CHAINS <= end; n += CHAINS) {
      int64_t row = 0;
      for (; row + CHAINS <= M; row += CHAINS)
        for (int one = 0; one < CHAINS; ++one)
          multiply_dense<CHAINS, 1>(weight + (n + one) * K, K, x + row * K, out + row * N + n + one, N);
      for (; row < M; ++row) multiply_dense<1, CHAINS>(weight + n * K, K, x + row * K, out + row * N + n, N);
    }
    for (; n < end; ++n)
      for (int64_t row = 0; row < M; ++row) multiply_dense<1, 1>(weight + n * K, K, x + row * K, out + row * N + n, N);
  });
}

Tensor product(const Tensor& x, Matrix matrix) {
  Tensor result = torch::stable::new_empty(x, {x.size(0), matrix.N});
  multiply(matrix, static_cast<const float*>(x.data_ptr()), x.size(0), static_cast<float*>(result.data_ptr()));
  return result;
}

// The next operators return the product of rows and a weight matrix. x: [M, K] float32; result: [M, N] float32.
//
// blocks: [N / 16, K / 32, 320] uint8 (`Int4Block`).
Tensor int4_product(Tensor x, Tensor blocks, int64_t N) { return product(x, {INT4, N, x.size(1), blocks.data_ptr()}); }

// values: [N' / 16, K' / 4, 16, 4] uint8, weights plus 128, padded to whole tiles and groups; scales: [N'] float32.
Tensor int8_product(Tensor x, Tensor values, Tensor scales, int64_t N) {
  return product(x, {INT8, N, x.size(1), values.data_ptr(), static_cast<const float*>(scales.data_ptr())});
}

// weight: [N, K] float16.
Tensor float16_product(Tensor x, Tensor weight) {
  return product(x, {FLOAT16, weight.size(0), x.size(1), weight.data_ptr()});
}

// Limit the instruction set of the kernels to `wanted`, and return the one in use. A negative number removes the limit.
int64_t use_level(int64_t wanted) {
  level = wanted < 0 ? best_level() : std::min(wanted, best_level());
  return level;
}

}  // namespace

void multiply(const Matrix& matrix, const float* x, int64_t M, float* out) {
  const int64_t N = matrix.N, K = matrix.K;
  if (matrix.kind == FLOAT32) {
    multiply_dense(static_cast<const float*>(matrix.values), x, M, N, K, out);
  } else if (matrix.kind == FLOAT16) {
    multiply_dense(static_cast<const uint16_t*>(matrix.values), x, M, N, K, out);
  } else if (matrix.kind == INT4) {
    const auto* first = static_cast<const Int4Block*>(matrix.values);
    multiply_tiles(x, M, N, K, out, [=](int64_t t, const Rows& rows) { return first + t * rows.groups; });
  } else {
    const auto* first = static_cast<const uint8_t*>(matrix.values);
    multiply_tiles(x, M, N, K, out, [=](int64_t t, const Rows& rows) {
      return Int8Tile{first + t * TILE * rows.width, matrix.scales + t * TILE};
    });
  }
  if (matrix.bias)
    for (int64_t row = 0; row < M; ++row)
      for (int64_t n = 0; n < N; ++n) out[row * N + n] += matrix.bias[n];
}

STABLE_TORCH_LIBRARY(voicewright, library) {
  library.def("int4_product(Tensor x, Tensor blocks, int N) -> Tensor");
  library.def("int8_product(Tensor x, Tensor values, Tensor scales, int N) -> Tensor");
  library.def("float16_product(Tensor x, Tensor weight) -> Tensor");
  library.def("use_level(int wanted) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(voicewright, CPU, library) {
  library.impl("int4_product", TORCH_BOX(&int4_product));
  library.impl("int8_product", TORCH_BOX(&int8_product));
  library.impl("float16_product", TORCH_BOX(&float16_product));
}

STABLE_TORCH_LIBRARY_IMPL(voicewright, CompositeExplicitAutograd, library) {
  library.impl("use_level", TORCH_BOX(&use_level));
}
