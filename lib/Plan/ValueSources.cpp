//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Plan/ValueSources.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::agent;

namespace {
class Tracer {
public:
  SmallVector<plan::ValueSource> found;

  void trace(Value value, AmountAttr every, LoopOp carrier) {
    if (!seen.insert({value, carrier ? carrier.getOperation() : nullptr}).second)
      return;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      unsigned index = argument.getArgNumber();
      if (auto loop = dyn_cast<LoopOp>(parent)) {
        trace(loop.getInitial()[index], every, carrier);
        // What an inner loop carried in an earlier run of an outer one arrives with the outer loop's run.
        bool within = carrier && carrier->isProperAncestor(loop);
        trace(loop.getBody().front().getTerminator()->getOperand(index), every, within ? carrier : loop);
      } else if (auto map = dyn_cast<MapOp>(parent)) {
        trace(map.getOver(), every, carrier);
      } else {
        found.push_back({nullptr, value, every, carrier});
      }
      return;
    }
    Operation *op = value.getDefiningOp();
    unsigned index = cast<OpResult>(value).getResultNumber();
    if (auto stream = dyn_cast<StreamOp>(op))
      return trace(stream.getValue(), stream.getEveryAttr(), carrier);
    if (isa<JoinOp, TransferOp, KvTransferOp>(op)) {
      for (Value part : op->getOperands())
        trace(part, every, carrier);
      return;
    }
    if (isa<BranchOp, LoopOp, MapOp>(op)) {
      for (Region &region : op->getRegions())
        trace(region.front().getTerminator()->getOperand(index), every, carrier);
      return;
    }
    found.push_back({op, value, every, carrier});
  }

private:
  llvm::SmallDenseSet<std::pair<Value, Operation *>> seen;
};
} // namespace

SmallVector<plan::ValueSource> plan::sourcesOf(Value value) {
  Tracer tracer;
  tracer.trace(value, AmountAttr(), LoopOp());
  return tracer.found;
}
