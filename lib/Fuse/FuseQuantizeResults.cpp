//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/RowScales.h"
#include "lib/Fuse/Fuser.h"
#include "lib/Fuse/KernelShapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"

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
  /// Returns their numbers; null if they are not known, or if one of them or its reciprocal is no finite number.
  DenseFPElementsAttr constantFactors() {
    DenseFPElementsAttr numbers;
    Value known = factors();
    if (!known || !matchPattern(known, m_Constant(&numbers)))
      return nullptr;
    bool areFinite = llvm::all_of(numbers.getValues<APFloat>(), [](const APFloat &number) {
      return number.isFinite() && reciprocal(number).isFinite();
    });
    return areFinite ? numbers : DenseFPElementsAttr();
  }
  static APFloat reciprocal(const APFloat &number) { return APFloat(number.getSemantics(), 1) / number; }
};

/// An operand of a group, or of what returns or passes on results of groups. Appending operands moves the OpOperands of
/// an op, but leaves these numbers as they are.
struct Use {
  Operation *owner;
  unsigned operand;
};

DenseElementsAttr reciprocals(DenseFPElementsAttr numbers) {
  return numbers.mapValues(numbers.getElementType(),
                           [](const APFloat &number) { return Reader::reciprocal(number).bitcastToAPInt(); });
}

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
        SmallVector<Use> others;
        findReaders(group, result, readers, others);
        bool isReadAsItIs = !others.empty();
        auto passes = [&](Reader reader) {
          return device.target->passesQuantized(group, reader.group, reader.quantize);
        };
        // Beside the result itself the integers are worth writing where each is found alone.
        bool isWorthIt = !readers.empty() && (!isReadAsItIs || readers.front().quantize.getUnitScale());
        if (isWorthIt && llvm::all_of(readers, passes)) {
          auto mayReadBytes = [&](Use use) { return readsElements(group, result, use); };
          bool areBytes = isReadAsItIs && readers.front().quantize->hasAttr(nn::replacesInputAttr) &&
                          (!readers.front().factors() || readers.front().constantFactors()) &&
                          llvm::all_of(others, mayReadBytes);
          quantize(group, result, readers, areBytes ? ArrayRef(others) : ArrayRef<Use>(), isReadAsItIs && !areBytes);
          break; // the group is another one now, with one such result
        }
      }
    }
  }

  /// Finds what quantizes a result as it is, alike, on the same device, and what else reads it.
  static void findReaders(nn::GroupOp group, unsigned result, SmallVectorImpl<Reader> &readers,
                          SmallVectorImpl<Use> &others) {
    for (OpOperand &use : group.getResult(result).getUses()) {
      if (isa<tensor::DimOp>(use.getOwner()))
        continue;
      std::optional<Reader> found = readerOf(group, use);
      Value factors = found ? found->factors() : Value();
      bool areThere = !factors || DominanceInfo().properlyDominates(factors, group);
      bool isAlike = found && areThere &&
                     (readers.empty() || (found->quantize->getAttrs() == readers.front().quantize->getAttrs() &&
                                          factors == readers.front().factors()));
      if (isAlike)
        readers.push_back(*found);
      else
        others.push_back({use.getOwner(), use.getOperandNumber()});
    }
  }

  /// True for an operand of a kernel around a product, on the device of the group whose result it is, that elementwise
  /// ops read in f32: they may as well read its bytes, times the reciprocal factors, if there are any, which are f32.
  static bool readsElements(nn::GroupOp group, unsigned result, Use use) {
    auto reader = dyn_cast<nn::GroupOp>(use.owner);
    if (!reader || (reader.getRoot() != KernelRoot::Linear && reader.getRoot() != KernelRoot::Conv) ||
        reader->getAttr(rt::deviceAttr) != group->getAttr(rt::deviceAttr) ||
        !getElementTypeOrSelf(group.getResult(result)).isF32())
      return false;
    return llvm::all_of(reader.getBodyBlock().getArgument(use.operand).getUsers(), [](Operation *op) {
      return isa<tensor::DimOp>(op) || isElementwise(op) || isParallelGeneric(op);
    });
  }

  /// Returns a reader that does nothing with a result but quantize it.
  static std::optional<Reader> readerOf(nn::GroupOp group, OpOperand &use) {
    auto reader = dyn_cast<nn::GroupOp>(use.getOwner());
    if (!reader || (reader.getRoot() != KernelRoot::Linear && reader.getRoot() != KernelRoot::Conv) ||
        reader->getAttr(rt::deviceAttr) != group->getAttr(rt::deviceAttr))
      return std::nullopt;
    nn::QuantizeOp quantize;
    for (Operation *user : reader.getBodyBlock().getArgument(use.getOperandNumber()).getUsers()) {
      if (isa<tensor::DimOp>(user))
        continue;
      if (quantize || !isa<nn::QuantizeOp>(user))
        return std::nullopt;
      quantize = cast<nn::QuantizeOp>(user);
    }
    bool isPlain = quantize && !quantize.getChannels() && quantize->getNumResults() == 2 &&
                   (!quantize.getFactors() || isa<BlockArgument>(quantize.getFactors()));
    return isPlain ? std::optional(Reader{reader, use.getOperandNumber(), quantize}) : std::nullopt;
  }

  /// Lets the elementwise ops of a group read the bytes of what they have read in floats, times factors unless these
  /// are null.
  static void readBytes(Use use, Value bytes, Value factors) {
    auto group = cast<nn::GroupOp>(use.owner);
    Block &body = group.getBodyBlock();
    BlockArgument inside = body.getArgument(use.operand);
    auto type = cast<RankedTensorType>(inside.getType());
    SmallVector<Value> read{inside};
    if (factors) {
      group.getInputsMutable().append(factors);
      read.push_back(body.addArgument(factors.getType(), inside.getLoc()));
    }
    group.getInputsMutable().slice(use.operand, 1).assign(bytes);
    OpBuilder builder = OpBuilder::atBlockBegin(&body);
    Location at = inside.getLoc();
    inside.setType(cast<RankedTensorType>(bytes.getType()));
    Value empty =
        tensor::EmptyOp::create(builder, at, tensor::getMixedSizes(builder, at, inside), type.getElementType());
    AffineMap all = builder.getMultiDimIdentityMap(type.getRank());
    SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
    SmallVector<AffineMap> maps{all};
    if (factors)
      maps.push_back(all.getMinorSubMap(1));
    maps.push_back(all);
    auto numbers = linalg::GenericOp::create(
        builder, at, type, read, empty, maps, loops, [&](OpBuilder &b, Location at, ValueRange v) {
          Value number = arith::SIToFPOp::create(b, at, type.getElementType(), v[0]);
          linalg::YieldOp::create(b, at, factors ? arith::MulFOp::create(b, at, number, v[1]).getResult() : number);
        });
    inside.replaceUsesWithIf(numbers.getResult(0), [&](OpOperand &reading) {
      return reading.getOwner() != numbers && !isa<tensor::DimOp>(reading.getOwner());
    });
  }

  /// Lets a group yield quantized values and scales in place of a result, or beside it, and its readers take them.
  /// `others` read the result in elementwise ops.
  static void quantize(nn::GroupOp group, unsigned result, ArrayRef<Reader> readers, ArrayRef<Use> others,
                       bool keepsResult) {
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
    if (keepsResult)
      yield->insertOperands(yield->getNumOperands(), quantized.getQuantized());
    else
      yield->setOperand(result, quantized.getQuantized());
    yield->insertOperands(yield->getNumOperands(), quantized.getScales());

    SmallVector<Type> types(yield->getOperandTypes());
    builder.setInsertionPoint(group);
    OperationState state(group.getLoc(), group->getName(), group->getOperands(), types, group->getAttrs());
    Region *body = state.addRegion();
    body->takeBody(group->getRegion(0));
    auto grown = cast<nn::GroupOp>(builder.create(state));
    for (unsigned i = 0; i < group.getNumResults(); ++i)
      if (i != result || keepsResult)
        group.getResult(i).replaceAllUsesWith(grown.getResult(i));
    Value inverse = Reader(readers.front()).factors();
    Value values = grown.getResult(keepsResult ? grown.getNumResults() - 2 : result);
    Value scales = grown.getResults().back();
    if (!others.empty()) {
      Value factors;
      if (inverse) {
        builder.setInsertionPointAfterValue(inverse);
        DenseFPElementsAttr numbers = Reader(readers.front()).constantFactors();
        factors = arith::ConstantOp::create(builder, inverse.getLoc(), reciprocals(numbers));
      }
      for (Use use : others)
        readBytes(use, values, factors);
    }
    for (Reader reader : readers) {
      nn::GroupOp into = reader.group;
      BlockArgument inside = into.getBodyBlock().getArgument(reader.operand);
      nn::QuantizeOp inner = reader.quantize;
      into.getInputsMutable().append(scales);
      BlockArgument innerScales = into.getBodyBlock().addArgument(scales.getType(), inside.getLoc());
      into.getInputsMutable().slice(reader.operand, 1).assign(values);
      for (Operation *user : inner.getQuantized().getUsers())
        if (auto dequantize = dyn_cast<nn::DequantizeOp>(user))
          dequantize.setUnitScale(inner.getUnitScale());
      inner.getQuantized().replaceAllUsesWith(inside);
      inner.getScales().replaceAllUsesWith(innerScales);
      inner->erase();
      inside.setType(cast<RankedTensorType>(values.getType()));
    }
    // The sizes of the result are those of the quantized values.
    if (!keepsResult)
      group.getResult(result).replaceAllUsesWith(values);
    group->erase();
  }
};
} // namespace
