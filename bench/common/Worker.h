//===- Worker.h - How a measured program talks to the harness -------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The harness keeps one process for each engine and asks them in turn, so that a change of the machine's clock affects
// all of them. Lines on standard input: `time CALLS WARMUP` (answer: {"ms": [...]}, one number a timed call) and
// `save PATH` (answer: {"saved": true}; the last result as raw little-endian f32). End of input ends the process.
// The first line of output says that the engine is ready and describes it. bench/engine_worker.py has the same
// protocol.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_BENCH_WORKER_H
#define INTARSIA_BENCH_WORKER_H

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

namespace intarsia::bench {

inline double nowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A buffer aligned to a page; every engine gets the same alignment.
template <typename T> class Buffer {
public:
  explicit Buffer(size_t count) : count(count) {
    size_t bytes = (count * sizeof(T) + 4095) / 4096 * 4096;
    pointer = static_cast<T *>(std::aligned_alloc(4096, bytes));
    if (!pointer)
      throw std::bad_alloc();
  }
  Buffer(Buffer &&other) noexcept : pointer(other.pointer), count(other.count) { other.pointer = nullptr; }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { std::free(pointer); }
  T *data() { return pointer; }
  size_t size() const { return count; }
  T &operator[](size_t index) { return pointer[index]; }

private:
  T *pointer;
  size_t count;
};

/// Returns the value at `index` of a test matrix, in [-1, 1]: the index through MurmurHash3's finalizer, as in
/// bench/gemm_torch.py, so that the engines' results can be compared.
inline float testValue(uint32_t index, uint32_t seed) {
  uint32_t hash = index + seed * 0x9e3779b9u;
  hash = (hash ^ (hash >> 16)) * 0x85ebca6bu;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35u;
  return (static_cast<int>((hash >> 12) % 2001u) - 1000) / 1000.0f;
}

inline void fillTest(Buffer<float> &buffer, uint32_t seed) {
  for (size_t i = 0; i < buffer.size(); ++i)
    buffer[i] = testValue(static_cast<uint32_t>(i), seed);
}

inline bool saveRaw(const std::string &path, const float *data, size_t count) {
  FILE *file = std::fopen(path.c_str(), "wb");
  if (!file)
    return false;
  bool written = std::fwrite(data, sizeof(float), count, file) == count;
  return std::fclose(file) == 0 && written;
}

/// Serves the harness until the end of input. `ready` is the JSON object of the first line.
inline int serve(const std::string &ready, const std::function<void()> &call,
                 const std::function<bool(const std::string &)> &save) {
  std::cout << ready << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "time") {
      int calls = 0, warmup = 0;
      words >> calls >> warmup;
      for (int i = 0; i < warmup; ++i)
        call();
      std::vector<double> ms(static_cast<size_t>(calls));
      for (double &entry : ms) {
        double start = nowMs();
        call();
        entry = nowMs() - start;
      }
      std::cout << "{\"ms\": [";
      for (size_t i = 0; i < ms.size(); ++i)
        std::cout << (i ? ", " : "") << ms[i];
      std::cout << "]}" << std::endl;
    } else if (command == "save") {
      std::string path;
      std::getline(words >> std::ws, path);
      std::cout << (save(path) ? "{\"saved\": true}" : "{\"error\": \"the result cannot be written\"}") << std::endl;
    } else {
      std::cout << "{\"error\": \"unknown command\"}" << std::endl;
    }
  }
  return 0;
}

} // namespace intarsia::bench

#endif
