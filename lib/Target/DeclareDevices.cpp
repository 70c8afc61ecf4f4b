//===- DeclareDevices.cpp - What a module is compiled for ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Target/Target.h"
#include "mlir/Pass/Pass.h"

namespace intarsia::target {
#define GEN_PASS_DECL_TARGETDECLAREDEVICES
#define GEN_PASS_DEF_TARGETDECLAREDEVICES
#include "lib/Target/Passes.h.inc"

namespace {
struct DeclareDevices : impl::TargetDeclareDevicesBase<DeclareDevices> {
  using TargetDeclareDevicesBase::TargetDeclareDevicesBase;

  void runOnOperation() override {
    std::vector<std::string> wanted(targets.begin(), targets.end());
    if (wanted.empty())
      wanted.push_back("cpu");
    if (failed(declareDevices(getOperation(), wanted)))
      signalPassFailure();
  }
};
} // namespace
} // namespace intarsia::target
