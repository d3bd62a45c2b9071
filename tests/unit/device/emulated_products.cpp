// Program that multiplies rows with a matrix by products.cpp, for a processor that torch is not installed for.
//
// Arguments: kind, level, M, N, K. Input: the bytes of x, of the values and, for eight bits, of the scales. Output: the
// products.

#include "emulated_torch.h"
#include "products.cpp"

int main(int, char** arguments) {
  const int64_t kind = atoll(arguments[1]), wanted = atoll(arguments[2]);
  const int64_t M = atoll(arguments[3]), N = atoll(arguments[4]), K = atoll(arguments[5]);
  if (use_level(wanted) != wanted) return 3;
  std::vector<char> input;
  for (int byte; (byte = getchar()) != EOF;) input.push_back(static_cast<char>(byte));
  const auto* x = reinterpret_cast<const float*>(input.data());
  const auto* values = input.data() + M * K * sizeof(float);
  const int64_t tiles = (N + TILE - 1) / TILE;
  const auto* scales = reinterpret_cast<const float*>(input.data() + input.size()) - tiles * TILE;
  std::vector<float> out(M * N);
  multiply({kind, N, K, values, scales}, x, M, out.data());
  fwrite(out.data(), sizeof(float), out.size(), stdout);
}
