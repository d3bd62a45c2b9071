// PyTorch operators for the decoder layers of a frame, and for all passes of the code predictor with sampling.
//
// The reference implementations are runtime/model/layers.py and runtime/engine/execution/sampling.py. Their results
// differ only by rounding. The order of additions in a row does not depend on the other rows or on the number of
// threads.

#include "layers.h"

#include <functional>

namespace {

constexpr int64_t MIN_NUMBERS_OF_A_TASK = 1 << 16;  // Number of keys and values per task.

// Layer, stored as 64-bit words of a tensor (runtime/model/native_layers.py).
struct Layer {
  const float *input_norm, *post_norm, *q_norm, *k_norm;
  Matrix qkv, o, gate_up, down;
};

// Embedding table and head of a codebook.
struct Codebook {
  Matrix head;
  int64_t table_kind;
  const void* table;
};

// KV cache: keys, values [layers, slots, heads, positions, d]; cos, sin [positions, d].
struct Cache {
  float *keys, *values;
  const float *cos, *sin;
  int64_t slots, heads, positions, d;

  int64_t offset(int64_t layer, int64_t slot, int64_t head, int64_t position) const {
    return (((layer * slots + slot) * heads + head) * positions + position) * d;
  }
};

Cache cache_of(const Tensor& keys, const Tensor& values, const Tensor& cos, const Tensor& sin) {
  return {data<float>(keys), data<float>(values), data<float>(cos), data<float>(sin),
          keys.size(1),      keys.size(2),        keys.size(3),     keys.size(4)};
}

CLONES void add(const float* x, int64_t count, float* sum) {
  for (int64_t at = 0; at < count; ++at) sum[at] += x[at];
}

// Attend from one query to the first `count` positions.
CLONES void attend(const float* q, const float* keys, const float* values, int64_t count, int64_t d, float* scores,
                   float* out) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  float most = -INFINITE, sum = 0.0f;
  for (int64_t at = 0; at < count; ++at) {
    scores[at] = dot(q, keys + at * d, d) * scale;
    most = std::max(most, scores[at]);
  }
  for (int64_t at = 0; at < count; ++at) scores[at] = exponential(scores[at] - most);
  for (int64_t at = 0; at < count; ++at) sum += scores[at];
  std::memset(out, 0, d * sizeof(float));
  for (int64_t at = 0; at < count; ++at) {
    const float share = scores[at] / sum;
    for (int64_t i = 0; i < d; ++i) out[i] += share * values[at * d + i];
  }
}

// Run `count` new positions of each row through the layers, in place. x: [B, count, H]; slots, starts: [B].
void run_layers(float* x, int64_t B, int64_t count, const Layer* layers, int64_t depth, const Cache& cache,
                const int64_t* slots, const int64_t* starts, float eps) {
  const int64_t M = B * count, H = layers[0].qkv.K, d = cache.d, groups = cache.heads;
  const int64_t heads = layers[0].o.K / d, width = layers[0].qkv.N, inner = layers[0].down.K;
  int64_t longest = 0;
  for (int64_t row = 0; row < B; ++row) longest = std::max(longest, starts[row] + count);
  std::vector<float> normed(M * H), qkv(M * width), attended(M * heads * d), both(M * 2 * inner), gated(M * inner);
  for (int64_t index = 0; index < depth; ++index) {
    const Layer& layer = layers[index];
    rms_norm(x, layer.input_norm, M, H, eps, normed.data());
    multiply(layer.qkv, normed.data(), M, qkv.data());
    for (int64_t m = 0; m < M; ++m) {
      const int64_t slot = slots[m / count], position = starts[m / count] + m % count;
      float* q = &qkv[m * width];
      float *k = q + heads * d, *v = k + groups * d;
      rms_norm(q, layer.q_norm, heads, d, eps, q);
      rms_norm(k, layer.k_norm, groups, d, eps, k);
      for (int64_t head = 0; head < heads + groups; ++head)
        rotate(q + head * d, cache.cos + position * d, cache.sin + position * d, d);
      for (int64_t head = 0; head < groups; ++head) {
        const int64_t at = cache.offset(index, slot, head, position);
        std::memcpy(cache.keys + at, k + head * d, d * sizeof(float));
        std::memcpy(cache.values + at, v + head * d, d * sizeof(float));
      }
    }
    const int64_t grain = std::max<int64_t>(1, MIN_NUMBERS_OF_A_TASK / (longest * d));
    torch::stable::parallel_for(0, M * heads, grain, [&](int64_t begin, int64_t end) {
      std::vector<float> scores(longest);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t m = task / heads, head = task % heads, row = m / count;
        const int64_t at = cache.offset(index, slots[row], head / (heads / groups), 0);
        attend(&qkv[m * width + head * d], cache.keys + at, cache.values + at, starts[row] + m % count + 1, d,
               scores.data(), &attended[task * d]);
      }
    });
    multiply(layer.o, attended.data(), M, normed.data());
    add(normed.data(), M * H, x);
    rms_norm(x, layer.post_norm, M, H, eps, normed.data());
    multiply(layer.gate_up, normed.data(), M, both.data());
    for (int64_t m = 0; m < M; ++m) swiglu(&both[2 * m * inner], &both[(2 * m + 1) * inner], inner, &gated[m * inner]);
    multiply(layer.down, gated.data(), M, normed.data());
    add(normed.data(), M * H, x);
  }
}

const Layer* layers_of(const Tensor& plan) { return reinterpret_cast<const Layer*>(data<int64_t>(plan)); }

// Return the hidden states of `count` new positions of each row, before the final norm.
//
// x: [B * count, H]; layers: [depth, words]; keys, values: [depth, S, kv_heads, T, d]; slots, starts: [B] int64.
Tensor decode_layers(Tensor x, Tensor layers, Tensor keys, Tensor values, Tensor cos, Tensor sin, Tensor slots,
                     Tensor starts, double eps) {
  const int64_t B = slots.size(0);
  Tensor result = torch::stable::clone(x);
  run_layers(data<float>(result), B, x.size(0) / B, layers_of(layers), layers.size(0),
             cache_of(keys, values, cos, sin), data<int64_t>(slots), data<int64_t>(starts), static_cast<float>(eps));
  return result;
}

uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

constexpr uint32_t GOLDEN = 0x9E3779B9u;

// Sampling of one row: temperature, top-k, top-p, and hash-based noise (runtime/engine/execution/sampling.py).
struct Choice {
  float temperature, top_p;
  int64_t top_k;
  bool is_greedy;
  uint32_t key;  // Hash of seed and frame.
};

float gumbel(uint32_t key, int64_t code) {
  const uint32_t bits = mix(mix(key ^ (GOLDEN * static_cast<uint32_t>(code + 1))) + key);
  return -std::log(-std::log((static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f));
}

// Return the lowest score that top-p allows. scores: the scores that top-k allows.
float least_of_top_p(std::vector<float>& scores, float top_p) {
  std::sort(scores.begin(), scores.end());
  const float most = scores.back();
  float sum = 0.0f, mass = 0.0f;
  for (const float score : scores) sum += std::exp(score - most);
  for (size_t at = 0; at < scores.size(); ++at) {
    mass += std::exp(scores[at] - most) / sum;
    const bool is_last = at + 1 == scores.size() || scores[at + 1] > scores[at];  // Last of equal scores.
    if (is_last && mass > 1.0f - top_p) return scores[at];
  }
  return most;
}

int64_t sample(float* scores, int64_t V, const Choice& choice, int64_t codebook, std::vector<float>& kept) {
  if (choice.is_greedy) return std::max_element(scores, scores + V) - scores;
  for (int64_t code = 0; code < V; ++code) scores[code] /= choice.temperature;
  float least = -INFINITE;
  if (choice.top_k < V) {
    kept.assign(scores, scores + V);
    std::nth_element(kept.begin(), kept.begin() + choice.top_k - 1, kept.end(), std::greater<float>());
    least = kept[choice.top_k - 1];
  }
  if (choice.top_p < 1.0f) {
    kept.clear();
    for (int64_t code = 0; code < V; ++code)
      if (scores[code] >= least) kept.push_back(scores[code]);
    least = least_of_top_p(kept, choice.top_p);
  }
  const uint32_t key = mix(choice.key + GOLDEN * static_cast<uint32_t>(codebook + 1));
  int64_t best = 0;
  float most = -INFINITE;
  for (int64_t code = 0; code < V; ++code) {
    if (scores[code] < least) continue;
    const float noisy = scores[code] + gumbel(key, code);
    if (noisy > most) most = noisy, best = code;
  }
  return best;
}

void read_table(const Codebook& codebook, int64_t code, int64_t width, float* out) {
  for (int64_t at = code * width; at < (code + 1) * width; ++at)
    if (codebook.table_kind == FLOAT32)
      *out++ = static_cast<const float*>(codebook.table)[at];
    else if (codebook.table_kind == FLOAT16)
      *out++ = from_float16(static_cast<const uint16_t*>(codebook.table)[at]);
    else
      *out++ = from_bfloat16(static_cast<const uint16_t*>(codebook.table)[at]);
}

// Sample codes 1 to Q-1 of each row. Return [B, Q] int64: the codes, then 1 if all scores were finite, otherwise 0.
//
// x: [B, 2, H']; norm: [H']; codebooks: [Q - 1, words]; project: [1 or 0, words]; reals: [2, S] temperature, top_p;
// ints: [2, S] top_k, greedy; seeds, frames: [S]; rows: [B].
Tensor predict_codes(Tensor x, Tensor layers, Tensor norm, Tensor codebooks, Tensor project, Tensor keys, Tensor values,
                     Tensor cos, Tensor sin, Tensor reals, Tensor ints, Tensor seeds, Tensor frames, Tensor rows,
                     double eps) {
  const int64_t B = x.size(0), H = x.size(2), S = reals.size(1), last = codebooks.size(0);
  Tensor result = torch::stable::new_empty(rows, {B, last + 1});
  const Cache cache = cache_of(keys, values, cos, sin);
  const auto* books = reinterpret_cast<const Codebook*>(data<int64_t>(codebooks));
  const auto* small = project.size(0) ? reinterpret_cast<const Matrix*>(data<int64_t>(project)) : nullptr;
  const int64_t V = books[0].head.N, outer = small ? small->K : H;
  std::vector<float> input(data<float>(x), data<float>(x) + B * 2 * H), ends(B * H), scores(B * V), embedded(B * outer);
  std::vector<float> kept;
  std::vector<int64_t> slots(B), starts(B);
  std::vector<Choice> choices(B);
  int64_t* out = data<int64_t>(result);
  for (int64_t row = 0; row < B; ++row) {
    const int64_t slot = data<int64_t>(rows)[row];
    const auto seed = static_cast<uint64_t>(data<int64_t>(seeds)[slot]);
    const uint32_t key = mix(static_cast<uint32_t>(seed)) ^ static_cast<uint32_t>(seed >> 32);
    const auto frame = static_cast<uint32_t>(data<int64_t>(frames)[slot]);
    slots[row] = row;
    choices[row] = {data<float>(reals)[slot], data<float>(reals)[S + slot], data<int64_t>(ints)[slot],
                    data<int64_t>(ints)[S + slot] != 0, mix(key + GOLDEN * frame)};
    out[row * (last + 1) + last] = 1;
  }
  for (int64_t book = 0, count = 2; book < last; ++book, count = 1) {
    run_layers(input.data(), B, count, layers_of(layers), layers.size(0), cache, slots.data(), starts.data(),
               static_cast<float>(eps));
    for (int64_t row = 0; row < B; ++row) {
      rms_norm(&input[(row * count + count - 1) * H], data<float>(norm), 1, H, static_cast<float>(eps), &ends[row * H]);
      starts[row] += count;
    }
    multiply(books[book].head, ends.data(), B, scores.data());
    for (int64_t row = 0; row < B; ++row) {
      float sum = 0.0f;
      for (int64_t code = 0; code < V; ++code) sum += scores[row * V + code];
      const bool is_finite = std::isfinite(sum);
      const int64_t code = is_finite ? sample(&scores[row * V], V, choices[row], book + 1, kept) : 0;
      out[row * (last + 1) + book] = code;
      if (!is_finite) out[row * (last + 1) + last] = 0;
      if (book + 1 < last) read_table(books[book], code, outer, small ? &embedded[row * outer] : &input[row * H]);
    }
    if (small && book + 1 < last) multiply(*small, embedded.data(), B, input.data());
  }
  return result;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(voicewright, library) {
  library.def(
      "decode_layers(Tensor x, Tensor layers, Tensor keys, Tensor values, Tensor cos, Tensor sin, Tensor slots, "
      "Tensor starts, float eps) -> Tensor");
  library.def(
      "predict_codes(Tensor x, Tensor layers, Tensor norm, Tensor codebooks, Tensor project, Tensor keys, "
      "Tensor values, Tensor cos, Tensor sin, Tensor reals, Tensor ints, Tensor seeds, Tensor frames, Tensor rows, "
      "float eps) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(voicewright, CPU, library) {
  library.impl("decode_layers", TORCH_BOX(&decode_layers));
  library.impl("predict_codes", TORCH_BOX(&predict_codes));
}
