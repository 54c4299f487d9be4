// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// add adds two matrices on the GPU and compares every element with what the CPU makes of them. It fails if one differs.
//
//   add [SIZE]

#include "matrix.cuh"

__global__ void add(const float *a, const float *b, float *c, size_t n) {
  size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) c[i] = a[i] + b[i];
}

int main(int argc, char **argv) {
  const int rows = size(argc, argv, 4096);
  const size_t n = static_cast<size_t>(rows) * rows;
  announce();
  const std::vector<float> a = random_numbers(n, 1), b = random_numbers(n, 2);
  std::vector<float> c(n);
  Device da(a), db(b), dc(n);
  const int threads = 256;
  const int blocks = static_cast<int>(std::min<size_t>((n + threads - 1) / threads, 65535));
  const float ms = milliseconds([&] { add<<<blocks, threads>>>(da.get(), db.get(), dc.get(), n); });
  dc.copy_to(c);
  for (size_t i = 0; i < n; i++) {
    if (c[i] != a[i] + b[i]) {
      std::fprintf(stderr, "error: element %zu is %g, not %g\n", i, c[i], a[i] + b[i]);
      return 1;
    }
  }
  std::printf("add: %d x %d in %.3f ms, %.1f GB/s, equal to the CPU's\n", rows, rows, ms, 3 * n * sizeof(float) / ms / 1e6);
  return 0;
}
