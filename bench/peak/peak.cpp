//===- peak.cpp - What this machine can do at most ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: intarsia-bench-peak                  prints a JSON object: each loop's best of five, with 1 and 2 threads
//        intarsia-bench-peak f32|bf16|int8|read THREADS   serves one loop as a worker of the harness
//        intarsia-bench-peak read THREADS FILE...         reads files that are mapped, as weights are: their pages in
//                                                         memory are those that another process maps
// The arithmetic loops keep 16 accumulators (x86: of the widest vector that the CPU has) in flight, which covers
// latency times throughput of the FMA units of every core so far, and touch no memory.
//===----------------------------------------------------------------------------------------------------------===//
#include "../common/Worker.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

using namespace intarsia::bench;

namespace {

volatile double sink; // results go here, so that no loop is optimised away

#define REPEAT16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/// A loop of `iterations` rounds of 16 instructions.
struct ArithmeticLoop {
  const char *key;
  const char *instruction;
  double operationsPerIteration; // a multiply-add counts as two
  void (*run)(long iterations);
};

#if defined(__x86_64__)

#define LOOP512(NAME, TARGET, INSTRUCTION)                                                                             \
  __attribute__((noinline, target(TARGET))) void NAME(long iterations) {                                               \
    __m512 a = _mm512_set1_ps(1.0000001f), b = _mm512_set1_ps(1e-9f);                                                  \
    REPEAT16(DECLARE512)                                                                                               \
    for (long i = 0; i < iterations; ++i) {                                                                            \
      REPEAT16(INSTRUCTION)                                                                                            \
    }                                                                                                                  \
    __m512 sum = _mm512_setzero_ps();                                                                                  \
    REPEAT16(SUM512)                                                                                                   \
    sink = _mm512_cvtss_f32(sum);                                                                                      \
  }
#define DECLARE512(i) __m512 c##i = _mm512_setzero_ps();
#define SUM512(i) sum = _mm512_add_ps(sum, c##i);
// Uses inline assembly, because a compiler would see that the loop's value is known.
#define FMA(i) asm volatile("vfmadd231ps %1, %2, %0" : "+v"(c##i) : "v"(a), "v"(b));
#define DOT_BF16(i) asm volatile("vdpbf16ps %1, %2, %0" : "+v"(c##i) : "v"(a), "v"(b));
#define DOT_INT8(i) asm volatile("vpdpbusd %1, %2, %0" : "+v"(c##i) : "v"(a), "v"(b));

LOOP512(fmaAvx512, "avx512f", FMA)
LOOP512(dotBf16Avx512, "avx512f", DOT_BF16)
LOOP512(dotInt8Avx512, "avx512f", DOT_INT8)

// AVX2 has 16 registers: 12 accumulators beside the two factors.
#define REPEAT12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define DECLARE256(i) __m256 c##i = _mm256_setzero_ps();
#define SUM256(i) sum = _mm256_add_ps(sum, c##i);
__attribute__((noinline, target("avx2,fma"))) void fmaAvx2(long iterations) {
  __m256 a = _mm256_set1_ps(1.0000001f), b = _mm256_set1_ps(1e-9f);
  REPEAT12(DECLARE256)
  for (long i = 0; i < iterations; ++i) {
    REPEAT12(FMA)
  }
  __m256 sum = _mm256_setzero_ps();
  REPEAT12(SUM256)
  sink = _mm256_cvtss_f32(sum);
}

__attribute__((noinline, target("avx2"))) uint64_t readBytes(const char *data, size_t bytes) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (size_t i = 0; i + 128 <= bytes; i += 128) {
    const auto *p = reinterpret_cast<const __m256i *>(data + i);
    a = _mm256_xor_si256(a, _mm256_loadu_si256(p));
    b = _mm256_xor_si256(b, _mm256_loadu_si256(p + 1));
    c = _mm256_xor_si256(c, _mm256_loadu_si256(p + 2));
    d = _mm256_xor_si256(d, _mm256_loadu_si256(p + 3));
  }
  a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  return static_cast<uint64_t>(_mm256_extract_epi64(a, 0));
}

std::vector<ArithmeticLoop> loops() {
  std::vector<ArithmeticLoop> result;
  if (__builtin_cpu_supports("avx512f"))
    result.push_back({"f32", "vfmadd231ps zmm", 16 * 16 * 2, fmaAvx512});
  else if (__builtin_cpu_supports("fma"))
    result.push_back({"f32", "vfmadd231ps ymm", 12 * 8 * 2, fmaAvx2});
  if (__builtin_cpu_supports("avx512bf16"))
    result.push_back({"bf16", "vdpbf16ps zmm", 16 * 16 * 4, dotBf16Avx512});
  if (__builtin_cpu_supports("avx512vnni"))
    result.push_back({"int8", "vpdpbusd zmm", 16 * 16 * 8, dotInt8Avx512});
  return result;
}

bool canRead() { return __builtin_cpu_supports("avx2"); }

#elif defined(__aarch64__)

#define DECLARE128(i) float32x4_t c##i = vdupq_n_f32(0);
#define SUM128(i) sum = vaddq_f32(sum, c##i);
#define FMLA(i) asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(c##i) : "w"(a), "w"(b));
__attribute__((noinline)) void fmaNeon(long iterations) {
  float32x4_t a = vdupq_n_f32(1.0000001f), b = vdupq_n_f32(1e-9f);
  REPEAT16(DECLARE128)
  for (long i = 0; i < iterations; ++i) {
    REPEAT16(FMLA)
  }
  float32x4_t sum = vdupq_n_f32(0);
  REPEAT16(SUM128)
  sink = vgetq_lane_f32(sum, 0);
}

__attribute__((noinline)) uint64_t readBytes(const char *data, size_t bytes) {
  uint64x2_t a = vdupq_n_u64(0), b = a;
  for (size_t i = 0; i + 32 <= bytes; i += 32) {
    const auto *p = reinterpret_cast<const uint64_t *>(data + i);
    a = veorq_u64(a, vld1q_u64(p));
    b = veorq_u64(b, vld1q_u64(p + 2));
  }
  return vgetq_lane_u64(veorq_u64(a, b), 0);
}

std::vector<ArithmeticLoop> loops() { return {{"f32", "fmla v.4s", 16 * 4 * 2, fmaNeon}}; }
bool canRead() { return true; }

#endif

/// Runs body(0 … threads - 1), each on its own thread.
void inParallel(int threads, const std::function<void(int)> &body) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(body, i);
  body(0);
  for (std::thread &thread : others)
    thread.join();
}

double bestMs(int rounds, const std::function<void()> &body) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    double start = nowMs();
    body();
    best = std::min(best, nowMs() - start);
  }
  return best;
}

double arithmeticGops(const ArithmeticLoop &loop, int threads) {
  const long iterations = 10'000'000; // some 50 ms: the threads' start does not count
  double ms = bestMs(5, [&] { inParallel(threads, [&](int) { loop.run(iterations); }); });
  return threads * static_cast<double>(iterations) * loop.operationsPerIteration / ms / 1e6;
}

/// Memory of its own, or mapped files, of each of which every thread reads a part.
class Reading {
public:
  Reading(size_t megabytes, int threads) : own(megabytes << 20), threads(threads) {
    std::memset(own.data(), 1, own.size());
    pieces.emplace_back(own.data(), own.size());
  }
  Reading(const std::vector<std::string> &files, int threads) : own(0), threads(threads) {
    for (const std::string &file : files) {
      int descriptor = open(file.c_str(), O_RDONLY);
      struct stat info = {};
      if (descriptor < 0 || fstat(descriptor, &info) != 0 || info.st_size == 0) {
        std::fprintf(stderr, "error: %s cannot be read\n", file.c_str());
        std::exit(1);
      }
      void *mapped = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
      close(descriptor);
      if (mapped == MAP_FAILED) {
        std::fprintf(stderr, "error: %s cannot be mapped\n", file.c_str());
        std::exit(1);
      }
      pieces.emplace_back(static_cast<const char *>(mapped), static_cast<size_t>(info.st_size)); // until the end
    }
  }

  void run(size_t repeats) {
    inParallel(threads, [&](int thread) {
      uint64_t sum = 0;
      for (size_t i = 0; i < repeats; ++i) {
        asm volatile("" ::: "memory"); // otherwise the compiler keeps only one pass
        for (auto [data, size] : pieces)
          sum += readBytes(data + static_cast<size_t>(thread) * partOf(size), partOf(size));
      }
      sink = static_cast<double>(sum);
    });
  }

  double bytes() const {
    size_t sum = 0;
    for (auto [data, size] : pieces)
      sum += partOf(size) * static_cast<size_t>(threads);
    return static_cast<double>(sum);
  }

private:
  size_t partOf(size_t size) const { return size / static_cast<size_t>(threads) / 128 * 128; }

  Buffer<char> own;
  std::vector<std::pair<const char *, size_t>> pieces;
  int threads;
};

/// Measures the bandwidth of all threads together reading `megabytes` again and again.
double readGBps(size_t megabytes, int threads) {
  Reading reading(megabytes, threads);
  size_t repeats = std::max<size_t>(1, 1024 / megabytes);
  double ms = bestMs(5, [&] { reading.run(repeats); });
  return reading.bytes() * static_cast<double>(repeats) / ms / 1e6;
}

int report() {
  std::vector<std::string> rows;
  for (int threads = 1; threads <= 2; ++threads) {
    for (const ArithmeticLoop &loop : loops()) {
      char row[160];
      std::snprintf(row, sizeof row, R"({"key": "%s", "what": "%s", "threads": %d, "value": %.1f, "unit": "GOP/s"})",
                    loop.key, loop.instruction, threads, arithmeticGops(loop, threads));
      rows.emplace_back(row);
    }
    // 1 MiB fits the second-level cache, 16 MiB the third of most machines, 1024 MiB none.
    for (size_t megabytes : {size_t(1), size_t(16), size_t(1024)}) {
      if (!canRead())
        break;
      char row[160];
      std::snprintf(row, sizeof row,
                    R"({"key": "read", "what": "read %zu MiB", "threads": %d, "value": %.1f, "unit": "GB/s"})",
                    megabytes, threads, readGBps(megabytes, threads));
      rows.emplace_back(row);
    }
  }
  std::puts("[");
  for (size_t i = 0; i < rows.size(); ++i)
    std::printf("  %s%s\n", rows[i].c_str(), i + 1 < rows.size() ? "," : "");
  std::puts("]");
  return 0;
}

/// Returns the worker's first line. `count` is the operations or bytes of a call.
std::string readyLine(const char *what, int threads, const char *unit, double count) {
  std::ostringstream line;
  line << "{\"ready\": true, \"version\": \"" << what << "\", \"settings\": {\"threads\": " << threads << "}, \""
       << unit << "\": " << std::fixed << count << "}";
  return line.str();
}

int serveLoop(const std::string &key, int threads, const std::vector<std::string> &files) {
  const auto save = [](const std::string &) { return false; };
  if (key == "read" && canRead() && !files.empty()) {
    Reading reading(files, threads);
    return serve(readyLine("read files", threads, "bytes", reading.bytes()), [&] { reading.run(1); }, save);
  }
  if (key == "read" && canRead()) {
    Reading reading(1024, threads);
    return serve(readyLine("read 1024 MiB", threads, "bytes", reading.bytes()), [&] { reading.run(1); }, save);
  }
  const long iterations = 1'000'000;
  for (const ArithmeticLoop &loop : loops()) {
    if (key != loop.key)
      continue;
    double operations = threads * static_cast<double>(iterations) * loop.operationsPerIteration;
    return serve(
        readyLine(loop.instruction, threads, "operations", operations),
        [&] { inParallel(threads, [&](int) { loop.run(iterations); }); }, save);
  }
  std::fprintf(stderr, "error: this CPU has no instruction for '%s'\n", key.c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc >= 3)
    return serveLoop(argv[1], std::atoi(argv[2]), {argv + 3, argv + argc});
  return report();
}
