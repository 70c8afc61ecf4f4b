//===- QuantizeMatmulPrecision.cpp - Types that matrices may be multiplied in ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Prepacking.h"
#include "intarsia/Quantize/Quantize.h"
#include "lib/Quantize/QuantizedInputs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZEMATMULPRECISION
#include "lib/Quantize/Passes.h.inc"

/// Returns the tensors that a product of computed tensors multiplies; of caches, the rows that the call adds to them.
static SmallVector<Value> factorsOf(Operation *product) {
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(product)
      .Case([](ContractionOpInterface op) { return SmallVector<Value>{op.getLeft(), op.getRight()}; })
      .Case([](nn::AttentionOp op) { return SmallVector<Value>{op.getQuery(), op.getKey(), op.getValue()}; })
      .Case([](nn::CachedAttentionOp op) {
        SmallVector<Value> factors{op.getQuery()};
        for (Value cache : llvm::concat<Value>(SmallVector<Value>(op.getKeys()), SmallVector<Value>(op.getValues())))
          if (auto append = cache.getDefiningOp<nn::CacheAppendOp>())
            factors.push_back(append.getRows());
        return factors;
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

namespace {
/// Returns the op as a contraction if it multiplies by weights: a linear, experts.
static ContractionOpInterface withWeights(Operation *op) {
  auto contraction = dyn_cast<ContractionOpInterface>(op);
  return contraction && contraction.hasStoredRight() ? contraction : nullptr;
}

/// Returns true if the left side of a contraction is quantized to integers of 8 bits.
static bool hasInputInBytes(ContractionOpInterface op) {
  auto dequantize = op.getLeft().getDefiningOp<nn::DequantizeOp>();
  auto format = dequantize ? dyn_cast<nn::BlockFormatAttr>(dequantize.getFormat()) : nullptr;
  return format && format.getElement() == nn::BlockElement::I8;
}

/// The products with weights that compute what an op multiplies, and that read its result, through all other ops.
class Surroundings {
public:
  /// Returns the one type that all of them may be multiplied in. Null if one may not be rounded, if two have different
  /// types, or if a tensor comes from, or goes to, anywhere else.
  static Type precisionAround(Operation *product) {
    Surroundings before, after;
    if (!llvm::all_of(factorsOf(product), [&](Value factor) { return before.followBack(factor); }) ||
        !llvm::all_of(product->getResults(), [&](Value result) { return after.followUses(result); }))
      return nullptr;
    return before.type == after.type ? before.type : Type();
  }

  /// Returns true if there are some, and the inputs of all are quantized to integers of 8 bits.
  static bool haveInputsInBytes(Operation *product) {
    Surroundings around;
    return llvm::all_of(factorsOf(product), [&](Value factor) { return around.followBack(factor); }) &&
           llvm::all_of(product->getResults(), [&](Value result) { return around.followUses(result); }) &&
           around.type && around.areInBytes;
  }

private:
  bool followBack(Value value) {
    // Indices and masks are not multiplied, and the values of quantized weights are no tensors of floats.
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !isa<FloatType>(type.getElementType()))
      return true;
    Operation *op = value.getDefiningOp();
    if (!op || isa<RegionBranchOpInterface, CallOpInterface>(op))
      return false;
    if (!seen.insert(op).second)
      return true;
    if (ContractionOpInterface product = withWeights(op))
      return meet(product);
    return llvm::all_of(op->getOperands(), [&](Value operand) { return followBack(operand); });
  }

  bool followUses(Value value) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (isa<tensor::DimOp>(user) || !seen.insert(user).second)
        return true;
      if (ContractionOpInterface product = withWeights(user))
        return meet(product);
      if (user->hasTrait<OpTrait::IsTerminator>() || isa<RegionBranchOpInterface, CallOpInterface>(user))
        return false;
      return llvm::all_of(user->getResults(), [&](Value result) { return followUses(result); });
    });
  }

  bool meet(ContractionOpInterface op) {
    // Inputs that are quantized have fewer bits than f16.
    bool isQuantized = op.getLeft().getDefiningOp<nn::DequantizeOp>() != nullptr;
    std::optional<Type> precision = op.getPrecision();
    if (!precision && isQuantized)
      precision = Float16Type::get(op->getContext());
    if (!precision || (type && type != *precision))
      return false;
    type = *precision;
    areInBytes &= hasInputInBytes(op);
    return true;
  }

  Type type;              ///< of those that were met so far
  bool areInBytes = true; ///< the inputs of all have integers of 8 bits
  llvm::DenseSet<Operation *> seen;
};

struct QuantizeMatmulPrecision : impl::QuantizeMatmulPrecisionBase<QuantizeMatmulPrecision> {
  using QuantizeMatmulPrecisionBase::QuantizeMatmulPrecisionBase;

  void runOnOperation() override {
    if (llvm::Error error = checkMatmulPrecision(precision)) {
      getOperation().emitError() << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    if (llvm::Error error = checkAttention(attention)) {
      getOperation().emitError() << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    getOperation().walk([&](Operation *op) {
      ContractionOpInterface product = withWeights(op);
      // Rows between the two matrices of experts are quantized, or multiplied in the same type as the input.
      auto experts = dyn_cast<nn::ExpertsOp>(op);
      if (!product || product.getPrecision() || (experts && experts.getIntermediateFormat()))
        return;
      SmallVector<Type> types;
      for (OpOperand *weight : product.getRightOperands())
        types.push_back(precisionOf(product.getLeft(), weight->get()));
      if (types.front() && llvm::all_equal(types))
        product.setPrecision(types.front());
    });
    // What these have around them is known only now.
    getOperation().walk([&](Operation *op) {
      auto round = [&](auto product) {
        Type type = precision == "stored" ? Surroundings::precisionAround(product) : namedPrecision();
        if (attention == "8" && isa<nn::AttentionOp>(op) && Surroundings::haveInputsInBytes(product))
          type = IntegerType::get(&getContext(), 8);
        if (type && !product.getPrecision())
          product.setPrecision(type);
      };
      llvm::TypeSwitch<Operation *>(op).Case<nn::AttentionOp, nn::CachedAttentionOp>(round).Case(
          [&](ContractionOpInterface product) {
            if (!product.hasStoredRight())
              round(product);
          });
    });
  }

  /// Returns the type that the option names; null for `f32`.
  Type namedPrecision() {
    MLIRContext *context = &getContext();
    return llvm::StringSwitch<Type>(precision)
        .Case("tf32", FloatTF32Type::get(context))
        .Case("bf16", BFloat16Type::get(context))
        .Case("f16", Float16Type::get(context))
        .Default(Type());
  }

  /// Returns the type that rows and a weight may be multiplied in; null if they are multiplied as they are.
  Type precisionOf(Value input, Value weight) {
    if (precision != "stored")
      return namedPrecision();
    // Inputs that are quantized are multiplied as integers.
    if (input.getDefiningOp<nn::DequantizeOp>())
      return nullptr;
    // Matrices of experts may be put together from those of each.
    while (movesRows(weight.getDefiningOp()))
      weight = weight.getDefiningOp()->getOperand(0);
    if (weight.getDefiningOp<nn::DequantizeOp>())
      return Float16Type::get(&getContext());
    Type element = getElementTypeOrSelf(weight);
    return element.getIntOrFloatBitWidth() == 16 ? element : Type();
  }
};
} // namespace
} // namespace intarsia::quantize
