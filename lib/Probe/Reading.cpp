//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Reading.h"
#include "MultiplyAdds.h"
#include "lib/Support/MachineLimits.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <time.h>

namespace intarsia::probe {

std::vector<int> threadsAllowed(const std::string &root) {
  std::vector<int> processors = allowedProcessors();
  processors.resize(std::min(processors.size(), size_t(usableThreads(root))));
  return processors;
}

Seconds secondsOn(const std::vector<int> &threads, const std::function<void(size_t)> &work) {
  auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  std::vector<double> own(threads.size());
  for (size_t i = 0; i < threads.size(); ++i)
    running.emplace_back([&, i] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(threads[i], &set);
      pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
      work(i);
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      own[i] = double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
    });
  for (std::thread &thread : running)
    thread.join();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          *std::max_element(own.begin(), own.end())};
}

Reading::Reading(std::vector<int> given, double bytes) : threads(std::move(given)), words(threads.size()) {
  // Counts are multiples of 16 words; the thread that reads a page also touches it first.
  count = int64_t(bytes / double(threads.size()) / 8) / 16 * 16;
  secondsOn(threads, [&](size_t i) {
    words[i] = std::make_unique_for_overwrite<uint64_t[]>(size_t(count));
    for (int64_t word = 0; word < count; ++word)
      words[i][size_t(word)] = uint64_t(word);
  });
}

double Reading::seconds() const {
  std::vector<uint64_t> sums(threads.size());
  double seconds = secondsOn(threads, [&](size_t i) { sums[i] = sumOf(words[i].get(), count); }).all;
  for (uint64_t sum : sums)
    if (sum != uint64_t(count) * uint64_t(count - 1) / 2)
      llvm::report_fatal_error("memory was read wrongly while its bandwidth was measured");
  return seconds;
}

} // namespace intarsia::probe
