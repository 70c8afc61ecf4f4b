//===- Options.h - Command line of intarsia-worker ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_WORKER_OPTIONS_H
#define INTARSIA_TOOLS_WORKER_OPTIONS_H

#include "intarsia/engine.h"

#include <string>
#include <vector>

namespace intarsia::worker {

struct Options {
  std::string module; // empty: the model that computes nothing
  std::string listen, token;
  bool once = false;
  int world = 0; // ranks that the command line asks for; 0: it does not say

  std::string function, draft, spillFolder, variant;
  std::vector<std::string> devices;
  uint64_t memory = 0; // bytes that the process may use; 0: no limit
  int threads = 0;     // 0: default
  itx_cache_options cache = {};
  itx_engine_options engine = {};
  itx_mock_options mock = {};
};

/// Parses the command line. Returns false if the program should end with `exitCode`: after --help, --version or an
/// error, which it has printed.
bool parseOptions(int argc, char **argv, Options &options, int &exitCode);

} // namespace intarsia::worker

#endif
