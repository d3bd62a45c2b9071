// PyTorch operator for Code2Wav: decodes the codes of new frames to 16-bit samples, and updates the stream states.
//
// The reference implementation is runtime/model/code2wav.py. Its results differ only by rounding. The order of
// additions in a sample does not depend on the chunk, on the other streams, on the number of threads or on the
// instruction set. With bfloat16 weights, the inputs of products are rounded to bfloat16 too, and denormal numbers may
// count as zero. Activations are [time, channels] for each stream. The rows before the new inputs of a causal
// convolution are its earlier inputs.

#include "layers.h"

#include <stdexcept>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

constexpr int64_t ROWS_OF_A_TASK = 48;
constexpr int64_t TILES_OF_A_TASK = 4;
constexpr int64_t MIN_PRODUCTS_OF_A_TASK = 1 << 20;
constexpr int64_t MIN_SEGMENT_NUMBERS = 1 << 16;     // Number of activations that fit into the cache of a core.
constexpr int64_t UNITS = 3;                         // Number of residual units of a block.
constexpr float MIN_CLUSTER_USAGE = 1e-5f;
constexpr float FULL_SCALE = 32767.0f;

// Causal convolution, stored as eight 64-bit words. Tiles are [N / 16, taps, C, 16] in FLOAT32 or FLOAT16, and
// [N / 16, taps, C / 2, 16, 2] in BFLOAT16. The N outputs of a transposed convolution belong to `stride` time steps.
struct Taps {
  int64_t kind, N, C, taps, dilation;
  const void* tiles;
  const float* bias;  // [N, padded to whole tiles], or null.
  int64_t state;      // Offset of the earlier inputs in the state of a stream.

  int64_t left() const { return (taps - 1) * dilation; }
  int64_t inputs() const { return kind == BFLOAT16 ? (C + 1) / 2 : C; }  // Inputs of a tap, or pairs of inputs.
};

// Two adjacent bfloat16 numbers.
struct Pair {
  uint16_t first, second;
};

// Parameters of SnakeBeta, [N, padded to whole tiles]: e^alpha and 1 / (e^beta + eps).
struct Snake {
  const float *alpha, *gain;
};

// Rows of activations with a constant stride, or no rows.
struct Rows {
  float* first = nullptr;
  int64_t interval = 0;

  float* at(int64_t row, int64_t n) const { return first ? first + row * interval + n : nullptr; }
};

// Epilogue of a product: `plain` receives (sum + bias) * scale + residual, and `active` receives SnakeBeta of it.
struct Finish {
  const float *bias = nullptr, *scale = nullptr;
  Rows residual, plain, active;
  Snake snake = {};
};

#if defined(__x86_64__)

namespace avx512 {
#define TARGET __attribute__((target("avx512f")))
using Vector = __m512;
constexpr int WIDTH = 16, ROWS_OF_FOUR = 6, ROWS_OF_TWO = 12, ROWS_OF_ONE = 12;
TARGET inline Vector all(float x) { return _mm512_set1_ps(x); }
TARGET inline Vector load(const float* x) { return _mm512_loadu_ps(x); }
TARGET inline Vector load(const uint16_t* x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
TARGET inline void store(float* out, Vector x) { _mm512_storeu_ps(out, x); }
TARGET inline Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
TARGET inline Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
TARGET inline Vector fuse(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
TARGET inline Vector nearest(Vector x) { return _mm512_roundscale_ps(x, 0); }
TARGET inline Vector least(Vector a, Vector b) { return _mm512_min_ps(a, b); }
TARGET inline Vector most(Vector a, Vector b) { return _mm512_max_ps(a, b); }
#include "tiles.h"
#undef TARGET
}  // namespace avx512

namespace avx512_bfloat16 {
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
using namespace avx512;
using avx512::all, avx512::fuse, avx512::load;
TARGET inline __m512bh all(Pair x) { return (__m512bh)_mm512_set1_epi32(x.second << 16 | x.first); }
TARGET inline __m512bh load(const Pair* x) { return (__m512bh)_mm512_loadu_si512(x); }
TARGET inline Vector fuse(__m512bh a, __m512bh b, Vector c) { return _mm512_dpbf16_ps(c, a, b); }

// Round C numbers to pairs.
TARGET void narrow(const float* x, int64_t C, Pair* out) {
  for (int64_t c = 0; c < C; c += WIDTH) {
    const int64_t count = std::min<int64_t>(WIDTH, C - c);
    const __m512 wide = _mm512_maskz_loadu_ps((1u << count) - 1, x + c);
    _mm256_mask_storeu_epi16(out + c / 2, (1u << (count + count % 2)) - 1, (__m256i)_mm512_cvtneps_pbh(wide));
  }
}

#include "tiles.h"
#undef TARGET
}  // namespace avx512_bfloat16

namespace avx2 {
#define TARGET __attribute__((target("avx2,fma,f16c")))
using Vector = __m256;
constexpr int WIDTH = 8, ROWS_OF_FOUR = 1, ROWS_OF_TWO = 3, ROWS_OF_ONE = 6;
TARGET inline Vector all(float x) { return _mm256_set1_ps(x); }
TARGET inline Vector load(const float* x) { return _mm256_loadu_ps(x); }
TARGET inline Vector load(const uint16_t* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
TARGET inline void store(float* out, Vector x) { _mm256_storeu_ps(out, x); }
TARGET inline Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
TARGET inline Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
TARGET inline Vector fuse(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
TARGET inline Vector nearest(Vector x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
TARGET inline Vector least(Vector a, Vector b) { return _mm256_min_ps(a, b); }
TARGET inline Vector most(Vector a, Vector b) { return _mm256_max_ps(a, b); }
#include "tiles.h"
#undef TARGET
}  // namespace avx2

#elif defined(__aarch64__)

namespace neon {
#define TARGET
using Vector = float32x4_t;
constexpr int WIDTH = 4, ROWS_OF_FOUR = 1, ROWS_OF_TWO = 3, ROWS_OF_ONE = 6;
inline Vector all(float x) { return vdupq_n_f32(x); }
inline Vector load(const float* x) { return vld1q_f32(x); }
inline Vector load(const uint16_t* x) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x))); }
inline void store(float* out, Vector x) { vst1q_f32(out, x); }
inline Vector add(Vector a, Vector b) { return vaddq_f32(a, b); }
inline Vector multiply(Vector a, Vector b) { return vmulq_f32(a, b); }
inline Vector fuse(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
inline Vector nearest(Vector x) { return vrndnq_f32(x); }
inline Vector least(Vector a, Vector b) { return vminq_f32(a, b); }
inline Vector most(Vector a, Vector b) { return vmaxq_f32(a, b); }
#include "tiles.h"
#undef TARGET
}  // namespace neon

#endif

namespace portable {
#define TARGET
using Vector = float;
constexpr int WIDTH = 1, ROWS_OF_FOUR = 1, ROWS_OF_TWO = 1, ROWS_OF_ONE = 1;
inline Vector all(float x) { return x; }
inline Vector load(const float* x) { return *x; }
inline Vector load(const uint16_t* x) { return from_float16(*x); }
inline void store(float* out, Vector x) { *out = x; }
inline Vector add(Vector a, Vector b) { return a + b; }
inline Vector multiply(Vector a, Vector b) { return a * b; }
inline Vector fuse(Vector a, Vector b, Vector c) { return std::fma(a, b, c); }
inline Vector nearest(Vector x) { return std::nearbyint(x); }
inline Vector least(Vector a, Vector b) { return a < b ? a : b; }
inline Vector most(Vector a, Vector b) { return a > b ? a : b; }
inline Pair all(Pair x) { return x; }
inline Pair load(const Pair* x) { return *x; }
inline Vector fuse(Pair a, Pair b, Vector c) {
  c = std::fma(from_bfloat16(a.second), from_bfloat16(b.second), c);  // Same order as x86's instruction.
  return std::fma(from_bfloat16(a.first), from_bfloat16(b.first), c);
}

void narrow(const float* x, int64_t C, Pair* out) {
  for (int64_t c = 0; c < C; c += 2) *out++ = {to_bfloat16(x[c]), c + 1 < C ? to_bfloat16(x[c + 1]) : uint16_t{}};
}

#include "tiles.h"
#undef TARGET
}  // namespace portable

#if defined(__x86_64__)
const bool has_bfloat16 = __builtin_cpu_supports("avx512bf16");
#endif

void multiply_narrow_rows(const Taps& taps, const float* x, int64_t interval, int64_t rows, const Finish& finish,
                          int64_t tile, int64_t end) {
  auto* narrow = portable::narrow;
  auto* multiply = portable::multiply_rows<Pair, Pair>;
#if defined(__x86_64__)
  if (level == WIDE_VECTORS && has_bfloat16) {
    narrow = avx512_bfloat16::narrow;
    multiply = avx512_bfloat16::multiply_rows<Pair, Pair>;
  }
#endif
  // Adjacent rows share most of their inputs.
  const int64_t range = taps.left() + 1, inputs = taps.inputs();
  const bool is_shared = interval == taps.C;
  const int64_t count = is_shared ? taps.left() + rows : range * rows;
  thread_local std::vector<Pair> pairs;
  pairs.resize(count * inputs);
  for (int64_t at = 0; at < count; ++at)
    narrow(is_shared ? x + at * taps.C : x + at / range * interval + at % range * taps.C, taps.C, &pairs[at * inputs]);
  multiply(taps, pairs.data(), (is_shared ? 1 : range) * inputs, rows, finish, tile, end);
}

void multiply_rows(const Taps& taps, const float* x, int64_t interval, int64_t rows, const Finish& finish, int64_t tile,
                   int64_t end) {
  if (taps.kind == BFLOAT16) return multiply_narrow_rows(taps, x, interval, rows, finish, tile, end);
#if defined(__x86_64__)
  if (level == WIDE_VECTORS) return avx512::multiply_rows(taps, x, interval, rows, finish, tile, end);
  if (level == VECTORS) return avx2::multiply_rows(taps, x, interval, rows, finish, tile, end);
#elif defined(__aarch64__)
  return neon::multiply_rows(taps, x, interval, rows, finish, tile, end);
#endif
  portable::multiply_rows(taps, x, interval, rows, finish, tile, end);
}

// Rows of several streams. The rows of stream b begin at first + b * stream.
struct Streams {
  float* first = nullptr;
  int64_t stream = 0;
};

// Parts of `Finish` for the rows of several streams.
struct Outputs {
  Streams plain = {}, active = {};
  Snake snake = {};
  Streams residual = {};
  const float* scale = nullptr;
};

// Compute T outputs of B streams. x: new inputs, after `left` rows of earlier inputs.
void convolve(const Taps& taps, Streams x, int64_t B, int64_t T, const Outputs& out) {
  // The rows of a task have a constant stride: they are adjacent rows of a stream, or the same row of all streams.
  const bool is_along_time = T >= B;
  const int64_t count = is_along_time ? T : B, others = is_along_time ? B : T;
  const int64_t pieces = (count + ROWS_OF_A_TASK - 1) / ROWS_OF_A_TASK, tiles = (taps.N + TILE - 1) / TILE;
  const int64_t groups = (tiles + TILES_OF_A_TASK - 1) / TILES_OF_A_TASK;
  const int64_t products = TILES_OF_A_TASK * TILE * taps.taps * taps.C * std::min(count, ROWS_OF_A_TASK);
  const int64_t grain = std::max<int64_t>(1, MIN_PRODUCTS_OF_A_TASK / products);
  torch::stable::parallel_for(0, groups * others * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / (others * pieces), other = task / pieces % others, piece = task % pieces;
      const int64_t row = count * piece / pieces, rows = count * (piece + 1) / pieces - row;
      const auto rows_of = [&](Streams streams, int64_t width) {
        if (!streams.first) return Rows{};
        const int64_t b = is_along_time ? other : row, t = is_along_time ? row : other;
        return Rows{streams.first + b * streams.stream + t * width, is_along_time ? width : streams.stream};
      };
      const Rows input = rows_of(x, taps.C);
      const Finish finish = {taps.bias, out.scale, rows_of(out.residual, taps.N), rows_of(out.plain, taps.N),
                             rows_of(out.active, taps.N), out.snake};
      multiply_rows(taps, input.first - taps.left() * taps.C, input.interval, rows, finish, group * TILES_OF_A_TASK,
                    std::min(tiles, (group + 1) * TILES_OF_A_TASK));
    }
  });
}

struct Codebook {
  const float *sums, *usage;
};

struct Layer {
  const float *input_norm, *attention_scale, *post_norm, *mlp_scale;
  Taps qkv, o, gate_up, down;
};

struct Stage {
  Taps upsample, widen, narrow;
  const float *depthwise, *depthwise_bias, *norm, *norm_bias, *gamma;
  int64_t taps, state;
};

struct Unit {
  Taps first, second;
  Snake between, after;  // `after` precedes the next convolution.
};

struct Block {
  Taps upsample;
  Snake head;
  Unit units[UNITS];

  int64_t channels() const { return units[0].first.C; }
  int64_t rate() const { return upsample.N / channels(); }
};

// Network, stored as 64-bit words of a tensor (`_plan` in runtime/model/native_code2wav.py).
struct Network {
  int64_t groups, size, width, heads, kv_heads, d, window, ring, depth, stages, blocks, last_taps, last_state;
  const float *rates, *norm, *last, *last_bias;
  const Codebook* codebooks;
  const Layer* layers;
  const Stage* stage;
  const Block* block;
  Snake head;
  Taps project_first, project_rest, entry, input, output, first;
};

// Compute the depthwise convolution and LayerNorm of rows [T, C]. x: new inputs, after taps - 1 earlier inputs.
CLONES void normed_depthwise(const float* x, const Stage& stage, int64_t T, int64_t C, float eps, float* out) {
  for (int64_t t = 0; t < T; ++t, x += C, out += C) {
    for (int64_t c = 0; c < C; ++c) out[c] = stage.depthwise_bias[c];
    for (int64_t tap = 0; tap < stage.taps; ++tap) {
      const float *input = x + (tap - stage.taps + 1) * C, *weight = stage.depthwise + tap * C;
      for (int64_t c = 0; c < C; ++c) out[c] += input[c] * weight[c];
    }
    float lanes[LANES] = {};
    for (int64_t c = 0; c < C; ++c) lanes[c % LANES] += out[c];
    float sum = 0.0f;
    for (int lane = 0; lane < LANES; ++lane) sum += lanes[lane];
    const float mean = sum / static_cast<float>(C);
    for (int64_t c = 0; c < C; ++c) out[c] -= mean;
    const float scale = 1.0f / std::sqrt(dot(out, out, C) / static_cast<float>(C) + eps);
    for (int64_t c = 0; c < C; ++c) out[c] = out[c] * scale * stage.norm[c] + stage.norm_bias[c];
  }
}

// GELU with the error function of Abramowitz and Stegun 7.1.26 (error 1.5e-7). Compilers can vectorize it.
CLONES void gelu(float* x, int64_t count) {
  for (int64_t at = 0; at < count; ++at) {
    const float size = std::fabs(x[at]) * 0.707106781f, t = 1.0f / (1.0f + 0.3275911f * size);
    float sum = 1.061405429f * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    const float half_tail = 0.5f * sum * t * exponential(-size * size);
    x[at] *= x[at] < 0.0f ? half_tail : 1.0f - half_tail;
  }
}

// Compute the attention of one query over `count` positions of a ring buffer, starting at `first`, and over its own key
// and value.
CLONES void attend_ring(const float* q, const float* keys, const float* values, int64_t first, int64_t count,
                        int64_t ring, const float* own_key, const float* own_value, int64_t d, float* scores,
                        float* out) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  float most = -INFINITE, sum = 0.0f;
  for (int64_t at = 0; at <= count; ++at) {
    scores[at] = dot(q, at < count ? keys + (first + at) % ring * d : own_key, d) * scale;
    most = std::max(most, scores[at]);
  }
  for (int64_t at = 0; at <= count; ++at) scores[at] = exponential(scores[at] - most);
  for (int64_t at = 0; at <= count; ++at) sum += scores[at];
  std::memset(out, 0, d * sizeof(float));
  for (int64_t at = 0; at <= count; ++at) {
    const float share = scores[at] / sum, *value = at < count ? values + (first + at) % ring * d : own_value;
    for (int64_t i = 0; i < d; ++i) out[i] += share * value[i];
  }
}

CLONES void last_samples(const float* x, const Network& network, int64_t T, int64_t C, int16_t* out,
                         int16_t* is_broken) {
  for (int64_t t = 0; t < T; ++t) {
    float sample = dot(x + (t - network.last_taps + 1) * C, network.last, network.last_taps * C) + *network.last_bias;
    sample = sample < -1.0f ? -1.0f : sample > 1.0f ? 1.0f : sample;
    if (sample != sample) *is_broken = 1, sample = 0.0f;
    out[t] = static_cast<int16_t>(__builtin_rintf(sample * FULL_SCALE));
  }
}

using Numbers = std::vector<float>;

// One call of the operator for B streams, whose states are rows of `memory`.
class Call {
 public:
  Call(const Network& network, float* memory, int64_t state, const int32_t* rows, int64_t B, int64_t n,
       int64_t sounding, float eps, float norm_eps, int16_t* out, int64_t interval)
      : network(network), memory(memory), state(state), rows(rows), B(B), n(n), sounding(sounding), eps(eps),
        norm_eps(norm_eps), out(out), interval(interval) {
    // All memory is allocated here, because a failed call must not change a state.
    const int64_t M = B * n;
    const Taps &entry = network.entry, &first = network.first;
    embedded.resize(std::max(network.project_first.C, network.project_rest.C) * M);
    entries.resize(B * (entry.left() + n) * entry.C);
    latents.resize(M * entry.N);
    hidden.resize(M * network.input.N);
    normed.resize(hidden.size());
    cos.resize(M * network.d);
    sin.resize(cos.size());
    scores.resize(network.window);
    for (int64_t index = 0; index < network.depth; ++index) {
      const Layer& layer = network.layers[index];
      qkv.resize(std::max<size_t>(qkv.size(), M * layer.qkv.N));
      attended.resize(std::max<size_t>(attended.size(), M * layer.o.C));
      both.resize(std::max<size_t>(both.size(), M * layer.gate_up.N));
      gated.resize(std::max<size_t>(gated.size(), M * layer.down.C));
    }
    int64_t T = sounding;
    for (int64_t index = 0; index < network.stages; ++index) {
      const Stage& stage = network.stage[index];
      const int64_t C = stage.upsample.C;
      T *= stage.upsample.N / C;
      upsampled.resize(std::max<size_t>(upsampled.size(), B * (stage.taps - 1 + T) * C));
      staged.resize(std::max<size_t>(staged.size(), B * (first.left() + T) * C));
      depthwise.resize(std::max<size_t>(depthwise.size(), B * T * C));
      wide.resize(std::max<size_t>(wide.size(), B * T * stage.widen.N));
    }
    staged.resize(std::max<size_t>(staged.size(), B * (first.left() + T) * first.C));
    begin.resize(B * (left_of(0) + T) * first.N);
    levels.resize(network.blocks);
    for (int64_t index = 0; index < network.blocks; ++index) {
      const Block& block = network.block[index];
      const int64_t C = block.channels(), rate = block.rate();
      const int64_t weights = block.upsample.N * block.upsample.C * block.upsample.taps +
                              UNITS * C * C * (block.units[0].first.taps + 1);
      Level& level = levels[index];
      level.segment = std::max<int64_t>(1, std::max(MIN_SEGMENT_NUMBERS, weights) / (B * rate * C));
      T = std::min(T, level.segment) * rate;
      int64_t left = left_of(index + 1);
      for (const Unit& unit : block.units) left = std::max(left, unit.first.left());
      level.plain.resize(B * T * C);
      level.inner.resize(B * T * C);
      level.active.resize(B * (left + T) * C);
    }
  }

  void run(const int32_t* codes) {
    for (int64_t at = 0; at < B * n * network.groups; ++at)
      if (codes[at] < 0 || codes[at] >= network.size) throw std::runtime_error("a code is not in its codebook");
    look_up(codes);
    transform();
    vocode();
  }

 private:
  struct Level {
    int64_t segment;
    Numbers plain, inner, active;
  };

  float* stream(int64_t b) const { return memory + rows[b * 3] * state; }

  // Return the number of earlier inputs of a block's first convolution, or of the network's last one.
  int64_t left_of(int64_t index) const {
    return index < network.blocks ? network.block[index].upsample.left() : network.last_taps - 1;
  }

  // Return streams of rows [left + T, C] that begin with the stored earlier inputs.
  Streams with_past(Numbers& numbers, int64_t left, int64_t T, int64_t C, int64_t offset) const {
    const int64_t size = (left + T) * C;
    for (int64_t b = 0; b < B; ++b)
      std::memcpy(&numbers[b * size], stream(b) + offset, left * C * sizeof(float));
    return {numbers.data() + left * C, size};
  }

  // Store the last inputs of a convolution for the next call.
  void keep(Streams x, int64_t left, int64_t T, int64_t C, int64_t offset) const {
    for (int64_t b = 0; b < B; ++b)
      std::memcpy(stream(b) + offset, x.first + b * x.stream + (T - left) * C, left * C * sizeof(float));
  }

  void look_up(const int32_t* codes) {
    const Taps &entry = network.entry, &one = network.project_first, &rest = network.project_rest;
    const int64_t width = network.width;
    const Streams x = with_past(entries, entry.left(), n, entry.C, entry.state), sums = {embedded.data(), n * width};
    for (const bool is_first : {true, false}) {
      for (int64_t m = 0; m < B * n; ++m)
        for (int64_t group = is_first ? 0 : 1; group < (is_first ? 1 : network.groups); ++group) {
          const Codebook& book = network.codebooks[group];
          const int64_t code = codes[m * network.groups + group];
          const float usage = std::max(book.usage[code], MIN_CLUSTER_USAGE);
          for (int64_t at = 0; at < width; ++at) {
            const float value = book.sums[code * width + at] / usage;
            float& sum = embedded[m * width + at];
            sum = group < 2 ? value : sum + value;
          }
        }
      if (is_first)
        convolve(one, sums, B, n, {x});
      else
        convolve(rest, sums, B, n, {x, {}, {}, x});
    }
    convolve(entry, x, B, n, {{latents.data(), n * entry.N}});
    keep(x, entry.left(), n, entry.C, entry.state);
  }

  // Apply a linear layer to the frames of all streams.
  void apply(const Taps& linear, const Numbers& x, Numbers& out, const float* scale = nullptr, bool is_added = false) {
    const Streams result = {out.data(), B * n * linear.N};
    convolve(linear, {const_cast<float*>(x.data()), B * n * linear.C}, 1, B * n,
             {result, {}, {}, is_added ? result : Streams{}, scale});
  }

  void transform() {
    const int64_t M = B * n, H = network.input.N, d = network.d, heads = network.heads, groups = network.kv_heads;
    for (int64_t m = 0; m < M; ++m) {
      const auto position = static_cast<float>(rows[m / n * 3 + 2] + m % n);
      for (int64_t at = 0; at < d; ++at) {
        const float angle = position * network.rates[at % (d / 2)];
        cos[m * d + at] = std::cos(angle);
        sin[m * d + at] = std::sin(angle);
      }
    }
    apply(network.input, latents, hidden);
    for (int64_t index = 0; index < network.depth; ++index) {
      const Layer& layer = network.layers[index];
      const int64_t width = layer.qkv.N, inner = layer.down.C;
      rms_norm(hidden.data(), layer.input_norm, M, H, eps, normed.data());
      apply(layer.qkv, normed, qkv);
      for (int64_t m = 0; m < M; ++m) attend(index, m, &qkv[m * width], &attended[m * heads * d]);
      apply(layer.o, attended, hidden, layer.attention_scale, true);
      rms_norm(hidden.data(), layer.post_norm, M, H, eps, normed.data());
      apply(layer.gate_up, normed, both);
      for (int64_t m = 0; m < M; ++m)
        swiglu(&both[2 * m * inner], &both[(2 * m + 1) * inner], inner, &gated[m * inner]);
      apply(layer.down, gated, hidden, layer.mlp_scale, true);
    }
    rms_norm(hidden.data(), network.norm, M, H, eps, normed.data());
    apply(network.output, normed, latents);
  }

  // Compute the attention of one frame. Its key and value then replace the oldest frame's.
  void attend(int64_t layer, int64_t m, float* q, float* out) {
    const int64_t d = network.d, heads = network.heads, groups = network.kv_heads, past = network.window - 1;
    const int64_t position = rows[m / n * 3 + 2] + m % n, count = std::min(position, past), size = groups * past * d;
    float *keys = stream(m / n) + network.ring + 2 * layer * size, *values = keys + size;
    float *own_keys = q + heads * d, *own_values = own_keys + groups * d;
    for (int64_t head = 0; head < heads + groups; ++head) rotate(q + head * d, &cos[m * d], &sin[m * d], d);
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t group = head / (heads / groups), at = group * past * d;
      attend_ring(q + head * d, keys + at, values + at, position - count, count, past, own_keys + group * d,
                  own_values + group * d, d, scores.data(), out + head * d);
    }
    for (int64_t group = 0; group < groups && past; ++group) {
      const int64_t at = (group * past + position % past) * d;
      std::memcpy(keys + at, own_keys + group * d, d * sizeof(float));
      std::memcpy(values + at, own_values + group * d, d * sizeof(float));
    }
  }

  void vocode() {
    const Taps& first = network.first;
    int64_t T = sounding, C = network.output.N;
    Streams x = {latents.data() + (n - sounding) * C, n * C};
    for (int64_t index = 0; index < network.stages; ++index) {
      const Stage& stage = network.stage[index];
      const int64_t before = T;
      T *= stage.upsample.N / stage.upsample.C;
      const Streams y = with_past(upsampled, stage.taps - 1, T, C, stage.state);
      convolve(stage.upsample, x, B, before, {y});
      for (int64_t b = 0; b < B; ++b)
        normed_depthwise(y.first + b * y.stream, stage, T, C, norm_eps, &depthwise[b * T * C]);
      keep(y, stage.taps - 1, T, C, stage.state);
      convolve(stage.widen, {depthwise.data(), T * C}, B, T, {{wide.data(), T * stage.widen.N}});
      gelu(wide.data(), B * T * stage.widen.N);
      const bool is_last = index + 1 == network.stages;
      x = is_last ? with_past(staged, first.left(), T, C, first.state) : Streams{staged.data(), T * C};
      convolve(stage.narrow, {wide.data(), T * stage.widen.N}, B, T, {x, {}, {}, y, stage.gamma});
    }
    const Streams y = with_past(begin, left_of(0), T, first.N, offset_of(0));
    convolve(first, x, B, T, {{}, y, network.head});
    keep(x, first.left(), T, C, first.state);
    for (int64_t b = 0; b < B; ++b) out[(b + 1) * interval - 1] = 0;
    decode(0, y, T, first.N, 0);
  }

  int64_t offset_of(int64_t index) const {
    return index < network.blocks ? network.block[index].upsample.state : network.last_state;
  }

  // Run T rows [C] through the blocks starting at `index`, in segments whose activations fit into the cache. Return the
  // index of the next sample.
  int64_t decode(int64_t index, Streams x, int64_t T, int64_t C, int64_t sample) {
    if (index == network.blocks) {
      for (int64_t b = 0; b < B; ++b)
        last_samples(x.first + b * x.stream, network, T, C, out + b * interval + sample, out + (b + 1) * interval - 1);
      sample += T;
    } else {
      const Block& block = network.block[index];
      Level& level = levels[index];
      for (int64_t row = 0; row < T; row += level.segment) {
        const int64_t rows = std::min(level.segment, T - row), made = rows * block.rate();
        decode_block(block, level, index, {x.first + row * C, x.stream}, rows);
        const Streams active = {level.active.data() + left_of(index + 1) * block.channels(),
                                (left_of(index + 1) + made) * block.channels()};
        sample = decode(index + 1, active, made, block.channels(), sample);
      }
    }
    keep(x, left_of(index), T, C, offset_of(index));
    return sample;
  }

  void decode_block(const Block& block, Level& level, int64_t index, Streams x, int64_t T) {
    const int64_t C = block.channels(), made = T * block.rate();
    const Streams plain = {level.plain.data(), made * C}, inner = {level.inner.data(), made * C};
    const auto input_of = [&](const Taps& taps) { return with_past(level.active, taps.left(), made, C, taps.state); };
    Streams active = input_of(block.units[0].first);
    convolve(block.upsample, x, B, T, {plain, active, block.head});
    for (int64_t at = 0; at < UNITS; ++at) {
      const Unit& unit = block.units[at];
      convolve(unit.first, active, B, made, {{}, inner, unit.between});
      keep(active, unit.first.left(), made, C, unit.first.state);
      const bool is_last = at + 1 == UNITS;
      active = is_last ? with_past(level.active, left_of(index + 1), made, C, offset_of(index + 1))
                       : input_of(block.units[at + 1].first);
      convolve(unit.second, inner, B, made, {is_last ? Streams{} : plain, active, unit.after, plain});
    }
  }

  const Network& network;
  float* memory;
  int64_t state;
  const int32_t* rows;
  int64_t B, n, sounding;
  float eps, norm_eps;
  int16_t* out;
  int64_t interval;
  Numbers embedded, entries, latents, hidden, normed, cos, sin, scores, qkv, attended, both, gated;
  Numbers upsampled, staged, depthwise, wide, begin;
  std::vector<Level> levels;
};

// Decode the new frames of B streams to 16-bit samples, and advance the states of the streams.
//
// plan: [words]; memory: [slots, numbers of a state]; rows: [B, 3] int32 (slot, parity, frames so far); codes: [B, n, Q]
// int32; out: [B, samples of the last frames + 1] int16, with 1 at the end if a sample was not finite.
void decode_codes(Tensor plan, Tensor memory, Tensor rows, Tensor codes, int64_t sounding, double eps, double norm_eps,
                  Tensor out) {
  Call call(*reinterpret_cast<const Network*>(data<int64_t>(plan)), data<float>(memory), memory.size(1),
            data<int32_t>(rows), codes.size(0), codes.size(1), sounding, static_cast<float>(eps),
            static_cast<float>(norm_eps), data<int16_t>(out), out.size(1));
  call.run(data<int32_t>(codes));
}

// Compute a convolution without padding and bias. x: [B, T + (taps - 1) * dilation, C]; result: [B, T, N].
Tensor convolve_tiles(Tensor x, Tensor tiles, int64_t kind, int64_t N, int64_t taps, int64_t dilation) {
  const int64_t B = x.size(0), C = x.size(2);
  const Taps convolution = {kind, N, C, taps, dilation, tiles.data_ptr()};
  const int64_t T = x.size(1) - convolution.left();
  Tensor result = torch::stable::new_empty(x, {B, T, N});
  convolve(convolution, {data<float>(x) + convolution.left() * C, x.size(1) * C}, B, T,
           {{data<float>(result), T * N}});
  return result;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(voicewright, library) {
  library.def(
      "decode_codes(Tensor plan, Tensor(a!) memory, Tensor rows, Tensor codes, int sounding, float eps, "
      "float norm_eps, Tensor(b!) out) -> ()");
  library.def("convolve_tiles(Tensor x, Tensor tiles, int kind, int N, int taps, int dilation) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(voicewright, CPU, library) {
  library.impl("decode_codes", TORCH_BOX(&decode_codes));
  library.impl("convolve_tiles", TORCH_BOX(&convolve_tiles));
}
