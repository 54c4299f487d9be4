// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// multiply multiplies two matrices on the GPU, tile by tile through shared memory, and compares with the CPU: every element up to a
// size of 512, and 4096 of them, picked at random, beyond. It fails if one differs by more than rounding.
//
//   multiply [SIZE]

#include "matrix.cuh"

constexpr int tile = 16;

__global__ void multiply(const float *a, const float *b, float *c, int n) {
  __shared__ float as[tile][tile], bs[tile][tile];
  const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += tile) {
    const int ac = k + threadIdx.x, br = k + threadIdx.y;
    as[threadIdx.y][threadIdx.x] = row < n && ac < n ? a[static_cast<size_t>(row) * n + ac] : 0;
    bs[threadIdx.y][threadIdx.x] = br < n && column < n ? b[static_cast<size_t>(br) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < tile; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n) c[static_cast<size_t>(row) * n + column] = sum;
}

// differs compares one element. The sum of n products of numbers below 1 is rounded at most n times by the last bit.
bool differs(const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &c, int n, int row, int column) {
  double want = 0, scale = 0;
  for (int k = 0; k < n; k++) {
    const double product = static_cast<double>(a[static_cast<size_t>(row) * n + k]) * b[static_cast<size_t>(k) * n + column];
    want += product;
    scale += std::fabs(product);
  }
  const double got = c[static_cast<size_t>(row) * n + column];
  if (std::fabs(got - want) <= n * 1.2e-7 * scale) return false;
  std::fprintf(stderr, "error: element %d, %d is %g, not %g\n", row, column, got, want);
  return true;
}

int main(int argc, char **argv) {
  const int n = size(argc, argv, 2048);
  announce();
  const size_t elements = static_cast<size_t>(n) * n;
  const std::vector<float> a = random_numbers(elements, 1), b = random_numbers(elements, 2);
  std::vector<float> c(elements);
  Device da(a), db(b), dc(elements);
  const dim3 threads(tile, tile), blocks((n + tile - 1) / tile, (n + tile - 1) / tile);
  const float ms = milliseconds([&] { multiply<<<blocks, threads>>>(da.get(), db.get(), dc.get(), n); });
  dc.copy_to(c);
  if (n <= 512) {
    for (int row = 0; row < n; row++)
      for (int column = 0; column < n; column++)
        if (differs(a, b, c, n, row, column)) return 1;
  } else {
    std::mt19937 generator(3);
    std::uniform_int_distribution<int> any(0, n - 1);
    for (int i = 0; i < 4096; i++) {
      const int row = any(generator), column = any(generator);
      if (differs(a, b, c, n, row, column)) return 1;
    }
  }
  std::printf("multiply: %d x %d in %.3f ms, %.0f GFLOP/s, equal to the CPU's\n", n, n, ms, 2.0 * n * n * n / ms / 1e6);
  return 0;
}
