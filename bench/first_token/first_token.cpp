//===- first_token.cpp - A language model's first token through the C API, as a worker of the harness ---------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: intarsia-bench-first-token ARTIFACT TOKENS
// A call reads a prompt of TOKENS tokens into an empty sequence and finds the most likely next token. The first line of
// output also has the milliseconds of loading and of the first call, the peak resident memory of the process by then,
// and the cache's share of it. Threads: ITX_THREADS.
//===----------------------------------------------------------------------------------------------------------===//
#include "../common/Worker.h"
#include "intarsia/runtime.h"

#include <algorithm>
#include <fstream>

using namespace intarsia::bench;

namespace {

void require(itx_status status) {
  if (status == ITX_OK)
    return;
  std::fprintf(stderr, "error: %s\n", itx_last_error());
  std::exit(1);
}

/// Returns Linux's high-water mark of resident memory.
uint64_t mostResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0)
      return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3 || std::atoll(argv[2]) < 1) {
    std::fprintf(stderr, "usage: %s ARTIFACT TOKENS\n", argv[0]);
    return 1;
  }
  const int64_t count = std::atoll(argv[2]);
  double start = nowMs();
  itx_module *module = nullptr;
  itx_cache *cache = nullptr;
  itx_cache_info info = {};
  info.struct_bytes = sizeof(info);
  itx_cache_options options = {sizeof(options), 1, 0, 0};
  require(itx_module_load(argv[1], nullptr, &module));
  require(itx_cache_create(module, nullptr, &options, &cache));
  require(itx_cache_get_info(cache, &info));
  double loaded = nowMs();

  std::vector<int64_t> prompt(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    prompt[static_cast<size_t>(i)] = (7 * i + 3) % info.vocabulary;
  itx_tensor *logits = nullptr;
  int64_t token = 0;
  auto call = [&] {
    itx_tensor_free(logits);
    logits = nullptr;
    itx_sequence *sequence = nullptr;
    require(itx_sequence_create(cache, &sequence));
    itx_chunk chunk = {sequence, prompt.data(), count, 1};
    require(itx_cache_step(cache, &chunk, 1, &logits));
    const auto *row = static_cast<const float *>(itx_tensor_data(logits));
    token = std::max_element(row, row + info.vocabulary) - row;
    itx_sequence_free(sequence);
  };
  call();
  double first = nowMs();
  // Pages of the cache take memory once they are written to.
  int64_t pages = (count + info.page_tokens - 1) / info.page_tokens;
  uint64_t cacheBytes = static_cast<uint64_t>(pages) * info.page_bytes + info.sequence_bytes;
  std::ostringstream ready;
  ready << std::fixed << "{\"ready\": true, \"version\": \"Intarsia " << itx_version()
        << "\", \"settings\": {\"threads\": " << itx_threads() << ", \"variant\": \"" << itx_module_variant(module)
        << "\"}, \"load_ms\": " << loaded - start << ", \"first_call_ms\": " << first - loaded
        << ", \"resident_bytes\": " << mostResidentBytes() << ", \"cache_bytes\": " << cacheBytes
        << ", \"token\": " << token << "}";
  return serve(ready.str(), call, [&](const std::string &path) {
    return logits && saveRaw(path, static_cast<const float *>(itx_tensor_data(logits)),
                             static_cast<size_t>(itx_tensor_elements(logits)));
  });
}
