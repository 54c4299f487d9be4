// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// What the two programs share: errors of CUDA, matrices of random numbers, and the clock of the device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <cuda_runtime.h>

// check ends the program if a call of CUDA has failed.
#define check(call) checked((call), #call, __FILE__, __LINE__)

inline void checked(cudaError_t err, const char *call, const char *file, int line) {
  if (err != cudaSuccess) {
    std::fprintf(stderr, "error: %s:%d: %s: %s\n", file, line, call, cudaGetErrorString(err));
    std::exit(1);
  }
}

// size is the number of rows and columns: the first argument, or what is given here.
inline int size(int argc, char **argv, int otherwise) {
  if (argc < 2) return otherwise;
  int n = std::atoi(argv[1]);
  if (n < 1 || n > 16384) {
    std::fprintf(stderr, "error: %s is no size between 1 and 16384\n", argv[1]);
    std::exit(2);
  }
  return n;
}

// announce prints which device the container was given. That there is none is the most frequent fault.
inline void announce() {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, 0));
  std::printf("device: %s, compute capability %d.%d, %d seen\n", p.name, p.major, p.minor, count);
}

// random returns n numbers between -1 and 1, the same ones each time.
inline std::vector<float> random_numbers(size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<float> v(n);
  for (float &x : v) x = between(generator);
  return v;
}

// Device is memory of the device that goes with its variable.
class Device {
 public:
  explicit Device(size_t n) : bytes_(n * sizeof(float)) { check(cudaMalloc(reinterpret_cast<void **>(&data_), bytes_)); }
  explicit Device(const std::vector<float> &v) : Device(v.size()) { check(cudaMemcpy(data_, v.data(), bytes_, cudaMemcpyHostToDevice)); }
  ~Device() { cudaFree(data_); }
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  float *get() const { return data_; }
  void copy_to(std::vector<float> &v) const { check(cudaMemcpy(v.data(), data_, bytes_, cudaMemcpyDeviceToHost)); }

 private:
  float *data_ = nullptr;
  size_t bytes_;
};

// milliseconds returns how long the device takes for what launch starts, the second time: the first loads the kernel.
template <typename Launch>
float milliseconds(Launch launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  float ms = 0;
  for (int i = 0; i < 2; i++) {
    check(cudaEventRecord(begin));
    launch();
    check(cudaGetLastError());
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&ms, begin, end));
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return ms;
}
