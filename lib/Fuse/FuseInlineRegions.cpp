//===- FuseInlineRegions.cpp - Bodies of control flow return to their ops ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Passes.h"
#include "lib/Fuse/Regions.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEINLINEREGIONS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
struct FuseInlineRegions : fuse::impl::FuseInlineRegionsBase<FuseInlineRegions> {
  void runOnOperation() override {
    SmallVector<func::FuncOp> outlined;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(outlinedAttr))
        outlined.push_back(function);
    if (outlined.empty())
      return;
    SymbolTable symbols(getOperation());
    SmallVector<func::CallOp> calls;
    getOperation().walk([&](func::CallOp call) { calls.push_back(call); });
    for (func::CallOp call : calls)
      if (auto function = symbols.lookup<func::FuncOp>(call.getCallee());
          function && llvm::is_contained(outlined, function))
        inlineInto(call, function);
    for (func::FuncOp function : outlined)
      function.erase();
  }

  /// Moves the body of a function, which nothing else calls, to the call.
  static void inlineInto(func::CallOp call, func::FuncOp function) {
    Block &body = function.getBody().front();
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), call.getOperands()))
      argument.replaceAllUsesWith(operand);
    Operation *terminator = body.getTerminator();
    for (auto [result, value] : llvm::zip_equal(call.getResults(), terminator->getOperands()))
      result.replaceAllUsesWith(value);
    call->getBlock()->getOperations().splice(call->getIterator(), body.getOperations(), body.begin(),
                                             terminator->getIterator());
    call.erase();
    terminator->erase();
  }
};
} // namespace
