// Program that runs a causal convolution of code2wav.cpp, also on processors without torch.
//
// Arguments: level, kind, B, T, C, N, taps, dilation. Input: the bytes of x, bias, alpha, gain, residual and tiles. Output:
// the results without and with SnakeBeta.

#include "emulated_torch.h"

#include "code2wav.cpp"

int64_t level;

int main(int, char** arguments) {
  int64_t number[8];
  for (int at = 0; at < 8; ++at) number[at] = atoll(arguments[at + 1]);
  const auto [wanted, kind, B, T, C, N, taps, dilation] = number;
  level = wanted;
  std::vector<char> input;
  for (int byte; (byte = getchar()) != EOF;) input.push_back(static_cast<char>(byte));
  auto* x = reinterpret_cast<float*>(input.data());
  const int64_t length = T + (taps - 1) * dilation, width = (N + TILE - 1) / TILE * TILE;
  float *bias = x + B * length * C, *residual = bias + 3 * width;
  const Taps convolution = {kind, N, C, taps, dilation, residual + B * T * N, bias};
  std::vector<float> out(2 * B * T * N);
  convolve(convolution, {x + convolution.left() * C, length * C}, B, T,
           {{out.data(), T * N}, {out.data() + B * T * N, T * N}, {bias + width, bias + 2 * width}, {residual, T * N}});
  fwrite(out.data(), sizeof(float), out.size(), stdout);
}
