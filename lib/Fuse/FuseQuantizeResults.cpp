//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Fuser.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEQUANTIZERESULTS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// A group that quantizes the rows of an operand, and its nn.quantize.
struct Reader {
  nn::GroupOp group;
  unsigned operand;
  nn::QuantizeOp quantize;

  /// Returns the factors of features outside of the group; null if there are none.
  Value factors() {
    Value inside = quantize.getFactors();
    return inside ? group.getInputs()[cast<BlockArgument>(inside).getArgNumber()] : Value();
  }
};

struct FuseQuantizeResults : fuse::impl::FuseQuantizeResultsBase<FuseQuantizeResults> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    SmallVector<nn::GroupOp> groups;
    function.walk([&](nn::GroupOp group) { groups.push_back(group); });
    for (nn::GroupOp group : groups) {
      const target::Device &device = devices->lookup(group->getAttr(rt::deviceAttr));
      for (unsigned result = 0; result < group.getNumResults(); ++result) {
        SmallVector<Reader> readers;
        auto passes = [&](Reader reader) {
          return device.target->passesQuantized(group, reader.group, reader.quantize);
        };
        if (succeeded(findReaders(group, result, readers)) && llvm::all_of(readers, passes)) {
          quantize(group, result, readers);
          break; // the group is another one now, with one such result
        }
      }
    }
  }

  /// Finds what reads a result. Fails unless all of it quantizes the result as it is, alike, on the same device.
  static LogicalResult findReaders(nn::GroupOp group, unsigned result, SmallVectorImpl<Reader> &readers) {
    for (OpOperand &use : group.getResult(result).getUses()) {
      if (isa<tensor::DimOp>(use.getOwner()))
        continue;
      auto reader = dyn_cast<nn::GroupOp>(use.getOwner());
      if (!reader || reader.getRoot() != KernelRoot::Linear ||
          reader->getAttr(rt::deviceAttr) != group->getAttr(rt::deviceAttr))
        return failure();
      BlockArgument inside = reader.getBodyBlock().getArgument(use.getOperandNumber());
      nn::QuantizeOp quantize;
      for (Operation *user : inside.getUsers()) {
        if (isa<tensor::DimOp>(user))
          continue;
        if (quantize || !isa<nn::QuantizeOp>(user))
          return failure();
        quantize = cast<nn::QuantizeOp>(user);
      }
      bool isPlain = quantize && !quantize.getChannels() && quantize->getNumResults() == 2 &&
                     (!quantize.getFactors() || isa<BlockArgument>(quantize.getFactors()));
      if (!isPlain)
        return failure();
      Reader found{reader, use.getOperandNumber(), quantize};
      if (!readers.empty() && (quantize->getAttrs() != readers.front().quantize->getAttrs() ||
                               found.factors() != readers.front().factors()))
        return failure();
      readers.push_back(found);
    }
    return success(!readers.empty());
  }

  /// Lets a group yield quantized values and scales in place of a result, and its readers take them.
  static void quantize(nn::GroupOp group, unsigned result, ArrayRef<Reader> readers) {
    Operation *yield = group.getBodyBlock().getTerminator();
    OpBuilder builder(yield);
    Value value = yield->getOperand(result);
    auto quantized = cast<nn::QuantizeOp>(builder.clone(*readers.front().quantize));
    quantized->setOperand(0, value);
    quantized->setLoc(group.getLoc());
    if (Value factors = Reader(readers.front()).factors()) {
      group.getInputsMutable().append(factors);
      quantized.getFactorsMutable().assign(group.getBodyBlock().addArgument(factors.getType(), group.getLoc()));
    }
    yield->setOperand(result, quantized.getQuantized());
    yield->insertOperands(yield->getNumOperands(), quantized.getScales());

    SmallVector<Type> types(yield->getOperandTypes());
    builder.setInsertionPoint(group);
    OperationState state(group.getLoc(), group->getName(), group->getOperands(), types, group->getAttrs());
    Region *body = state.addRegion();
    body->takeBody(group->getRegion(0));
    auto grown = cast<nn::GroupOp>(builder.create(state));
    for (unsigned i = 0; i < group.getNumResults(); ++i)
      if (i != result)
        group.getResult(i).replaceAllUsesWith(grown.getResult(i));
    Value values = grown.getResult(result), scales = grown.getResults().back();
    for (Reader reader : readers) {
      nn::GroupOp into = reader.group;
      BlockArgument inside = into.getBodyBlock().getArgument(reader.operand);
      nn::QuantizeOp inner = reader.quantize;
      into.getInputsMutable().append(scales);
      BlockArgument innerScales = into.getBodyBlock().addArgument(scales.getType(), inside.getLoc());
      into.getInputsMutable().slice(reader.operand, 1).assign(values);
      inner.getQuantized().replaceAllUsesWith(inside);
      inner.getScales().replaceAllUsesWith(innerScales);
      inner->erase();
      inside.setType(cast<RankedTensorType>(values.getType()));
    }
    // The sizes of the result are those of the quantized values.
    group.getResult(result).replaceAllUsesWith(values);
    group->erase();
  }
};
} // namespace
