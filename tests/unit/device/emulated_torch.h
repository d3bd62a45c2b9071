// The few names of torch that the kernels need, for a processor that torch is not installed for. Torch's headers are
// empty files there.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <vector>

namespace torch::stable {
struct Tensor {
  int64_t size(int) const { return 0; }
  void* data_ptr() const { return nullptr; }
};
inline Tensor new_empty(const Tensor&, std::initializer_list<int64_t>) { return {}; }
template <typename Run>
void parallel_for(int64_t begin, int64_t end, int64_t, Run run) {
  run(begin, end);
}
}  // namespace torch::stable

struct Library {
  void def(const char*) {}
  void impl(const char*, void*) {}
};
#define TORCH_BOX(operation) reinterpret_cast<void*>(operation)
#define STABLE_TORCH_LIBRARY_FRAGMENT(name, library) STABLE_TORCH_LIBRARY(name, library)
#define STABLE_TORCH_LIBRARY(name, library) [[maybe_unused]] static void define(Library library)
#define STABLE_TORCH_LIBRARY_IMPL(name, key, library) [[maybe_unused]] static void implement_##key(Library library)
