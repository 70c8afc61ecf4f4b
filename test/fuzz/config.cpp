//===- config.cpp - Fuzz the reader of config.json and modules.json ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Config.h"
#include <cmath>
#include <sys/mman.h>
#include <unistd.h>

using namespace intarsia::importer;

/// Asks for each setting in every way that a builder may.
static void ask(const Config &config, int depth) {
  const llvm::json::Object *settings = config.value().getAsObject();
  if (!settings)
    return;
  for (const auto &entry : *settings) {
    llvm::StringRef name = entry.first;
    int64_t integer = config.integer(name, 1);
    double number = config.number(name, 1, 0, 1e9);
    auto [first, second] = config.integerPair(name, 1);
    if (integer < 1 || integer > 1 << 28 || !(number >= 0 && number <= 1e9) || first < 1 || second < 1)
      __builtin_trap();
    for (double item : config.numbers(name, -1, 1))
      if (!(std::abs(item) <= 1))
        __builtin_trap();
    (void)config.flag(name, false);
    (void)config.string(name, "");
    (void)config.strings(name);
    config.refuse(name, config.string(name, ""), {"a", "b"});
    config.refuseIfSet(name, "reason");
    if (std::optional<Config> section = config.section(name); section && depth < 4)
      ask(*section, depth + 1);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  int file = memfd_create("config", 0);
  if (file < 0 || write(file, data, bytes) != ssize_t(bytes))
    __builtin_trap();
  Errors errors;
  std::optional<Config> config = Config::read("/proc/self/fd", std::to_string(file), errors);
  if (!config && errors.message().empty())
    __builtin_trap();
  if (config)
    ask(*config, 0);
  close(file);
  return 0;
}
