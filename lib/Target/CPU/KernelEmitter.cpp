//===- KernelEmitter.cpp - The two functions of a kernel --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "intarsia/module_abi.h"

using namespace mlir;

namespace intarsia::cpu {

LogicalResult KernelEmitter::emit(ModuleOp module, StringRef launchName, StringRef runName) {
  if (failed(function.checkSizes()) || failed(analyze()))
    return failure();
  // The body is emitted first: it says how much scratch the launch has to ask for.
  function.beginRun(module, runName);
  if (failed(run()))
    return failure();
  function.beginLaunch(module, launchName);
  function.setSlot(ITX_PLAN_WORKSPACE_BYTES, function.size(function.workspaceBytes));
  function.setSlot(ITX_PLAN_SHARED_BYTES, constant(0));
  function.setSlot(ITX_PLAN_ZEROED_BYTES, constant(0));
  function.setSlot(ITX_PLAN_FINISH_TILES, constant(0));
  launch();
  function.refuseOverflow();
  b.clearInsertionPoint();
  return success();
}

} // namespace intarsia::cpu
