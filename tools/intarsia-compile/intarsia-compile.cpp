//===- intarsia-compile.cpp - Compiles a model into an artifact --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Options.h"
#include "tools/Limits.h"

#include "llvm/Support/InitLLVM.h"

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  intarsia::explainLimits();
  intarsia::explainTruncatedFiles();
  auto [options, deployed] = intarsia::parseOptions(argc, argv);
  return (deployed ? intarsia::deploy(*deployed) : intarsia::compile(options)) ? 0 : 1;
}
