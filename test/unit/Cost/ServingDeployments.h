//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Deployments of catalogue models, and bare figures whose times can be worked out by hand.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_SERVINGDEPLOYMENTS_H
#define INTARSIA_TEST_SERVINGDEPLOYMENTS_H

#include "intarsia/Cost/ServingCost.h"
#include <gtest/gtest.h>
#include <map>

namespace deployments {
using namespace intarsia;

/// Every time 0, every efficiency and factor 1: bare peaks. `changes` are lines that replace those of the same names.
inline ServingEfficiency figures(std::map<std::string, double> changes = {}, bool operators = false) {
  std::string text = "engines: [trtllm, vllm, sglang, splitwise]\ngenerations: [ampere, hopper, blackwell]\n";
  text += operators ? "operators: measured\nfigures:\n" : "figures:\n";
  for (const char *name : ServingFigures::names()) {
    double value = llvm::StringRef(name).ends_with("_us") || llvm::StringRef(name).ends_with("long_slowdown") ? 0 : 1;
    if (auto change = changes.find(name); change != changes.end()) {
      value = change->second;
      changes.erase(change);
    }
    text += "  " + std::string(name) + ": " + std::to_string(value) + "\n";
  }
  EXPECT_TRUE(changes.empty()) << "no figure " << changes.begin()->first;
  return llvm::cantFail(ServingEfficiency::parse(text, "test.yaml"));
}

inline Deployment deploy(llvm::StringRef model, llvm::StringRef device, NumberFormat weights,
                         ParallelDegrees degrees = {}) {
  Deployment deployment;
  deployment.shape = llvm::cantFail(findShape(model));
  deployment.device = llvm::cantFail(findDevice(device));
  deployment.precision = usualPrecision(*deployment.shape, *deployment.device, weights, NumberFormat::BF16);
  deployment.degrees = degrees;
  return deployment;
}

inline std::string refusal(const Deployment &deployment) {
  llvm::Expected<ServingCost> cost = ServingCost::create(deployment);
  return cost ? "" : llvm::toString(cost.takeError());
}

inline ServingCost create(const Deployment &deployment, const ServingEfficiency *efficiency = nullptr) {
  return llvm::cantFail(ServingCost::create(deployment, efficiency));
}

} // namespace deployments

#endif
