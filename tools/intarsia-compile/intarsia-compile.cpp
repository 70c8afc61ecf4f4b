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
  auto [options, deployed, listsOps] = intarsia::parseOptions(argc, argv);
  bool isDone = deployed   ? intarsia::deploy(*deployed)
                : listsOps ? intarsia::listOps(options)
                           : intarsia::compile(options);
  return isDone ? 0 : 1;
}
