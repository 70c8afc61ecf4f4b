//===- Deploy.h - Artifacts for all pools of a plan ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COMPILER_DEPLOY_H
#define INTARSIA_COMPILER_DEPLOY_H

#include "intarsia/Compiler/Compiler.h"
#include <map>

namespace intarsia {

struct DeployOptions {
  std::string plan;                          ///< what intarsia-plan --json has written
  std::map<std::string, std::string> models; ///< directory or file of each model of the plan, by its name there
  std::string output;                        ///< folder to write
  CompileOptions common;                     ///< threads, verbose, requireCubin and embedWeights of each compilation
};

/// Compiles the models of a plan for the pools that they are on: an artifact for each model, pool, precision and split,
/// `<output>/<pool>/<model>….itx`, and `<output>/deployment.json`, which says what runs where (docs/plan.md). A folder
/// that an earlier call has written is replaced as a whole, when everything is compiled. On an error prints to standard
/// error, leaves the folder as it was and returns false.
bool deploy(const DeployOptions &options);

} // namespace intarsia

#endif
