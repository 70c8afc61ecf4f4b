//===- Options.h - Command line of intarsia-run -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_OPTIONS_H
#define INTARSIA_TOOLS_RUN_OPTIONS_H

#include <cstdint>
#include <string>
#include <vector>

namespace intarsia::run {

/// NAME=@FILE; the name may be empty if the option allows it.
struct NamedFile {
  std::string name;
  std::string path;
};

struct Options {
  std::string module;   // empty: the module inside this executable
  std::string function; // empty: "main", with ids "step"
  std::vector<NamedFile> inputs;
  std::vector<NamedFile> outputs;
  std::vector<int64_t> ids; // a prompt for a language model
  int64_t maxTokens = 1;    // maximal tokens to generate
  int benchmark = 0;        // timed calls; 0: none
  std::string profile;
  bool timing = false; // print what simulated devices took
  std::string variant;
  std::vector<std::string> devices; // names of those of this machine that the model may use; empty: all
  double verifyKernels = 0;         // tolerance; 0: kernels are not verified
  bool list = false;
  std::string dumpCode;     // folder for the code of devices; empty: nothing is written
  bool listDevices = false; // then no artifact is needed
  bool verify = false;
  int threads = 0;                         // 0: default
  uint64_t memory = 0;                     // bytes that the process may use; 0: no limit
  int world = 0;                           // ranks that the command line asks for; 0: it does not say
  std::string rankText, rendezvous, token; // of a world of several hosts
  std::vector<int> ranks;                  // that run on this host; empty: all
};

/// Parses the command line. Returns false if the program should end with `exitCode`: after --help, --version or an
/// error, which it has printed. `carriesModule` means that the command line names no artifact.
bool parseOptions(int argc, char **argv, bool carriesModule, Options &options, int &exitCode);

} // namespace intarsia::run

#endif
