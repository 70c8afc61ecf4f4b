//===- QuantizeRoundToNearest.cpp - Rounds weights to a block format ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZEROUNDTONEAREST
#include "lib/Quantize/Passes.h.inc"

namespace {
/// Whether a value is a matrix of an archive, as stored or transposed.
bool isStoredMatrix(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() != 2 || !type.hasStaticShape())
    return false;
  if (auto transpose = value.getDefiningOp<linalg::TransposeOp>())
    value = transpose.getInput();
  return value.getDefiningOp<nn::WeightOp>();
}

/// The linears that compute the function's result "logits", alone or before what is done element by element.
DenseSet<Operation *> findHeads(func::FuncOp function) {
  DenseSet<Operation *> heads;
  SmallVector<Value> worklist;
  for (auto returnOp : function.getBody().getOps<func::ReturnOp>())
    for (auto [number, operand] : llvm::enumerate(returnOp.getOperands()))
      if (auto name = function.getResultAttrOfType<StringAttr>(number, "nn.name"); name && name == "logits")
        worklist.push_back(operand);
  DenseSet<Operation *> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (isa<nn::LinearOp>(op))
      heads.insert(op);
    else if (op->hasTrait<OpTrait::Elementwise>() || isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
      llvm::append_range(worklist, op->getOperands());
  }
  return heads;
}

struct QuantizeRoundToNearest : impl::QuantizeRoundToNearestBase<QuantizeRoundToNearest> {
  using QuantizeRoundToNearestBase::QuantizeRoundToNearestBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    QuantizeOptions options{format, activations, {parts.begin(), parts.end()}};
    if (llvm::Error error = checkQuantizeOptions(options)) {
      function.emitError() << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    if (options.format == "none" || function.isExternal())
      return;
    weightFormat = *parseWeightFormat(options.format, &getContext());
    auto asks = [&](StringRef part) { return parts.empty() || llvm::is_contained(parts, part); };
    DenseSet<Operation *> heads = findHeads(function);
    SmallVector<Operation *> readers;
    DenseSet<Value> chosen;
    function.walk([&](Operation *op) {
      auto linear = dyn_cast<nn::LinearOp>(op);
      if (!linear && !isa<nn::EmbeddingOp>(op))
        return;
      Value matrix = op->getOperand(linear ? 1 : 0);
      if (!isStoredMatrix(matrix))
        return;
      readers.push_back(op);
      Value key = keyOf(matrix); // of the first reader, so that it dominates those of the others
      if (asks(!linear ? "embedding" : heads.contains(op) ? "lm_head" : "linears"))
        chosen.insert(key);
    });
    for (Operation *op : readers) {
      bool isLinear = isa<nn::LinearOp>(op);
      if (!chosen.contains(keyOf(op->getOperand(isLinear ? 1 : 0))))
        continue;
      if (auto linear = dyn_cast<nn::LinearOp>(op))
        round(linear);
      else
        round(cast<nn::EmbeddingOp>(op));
    }
  }

  /// A weight may be named by several ops: those of one key are one matrix.
  Value keyOf(Value matrix) {
    auto weight = matrix.getDefiningOp<nn::WeightOp>();
    if (!weight)
      return matrix;
    return firstOf.try_emplace({weight.getArchiveAttr(), weight.getKeyAttr()}, matrix).first->second;
  }

  Value rounded(OpBuilder &builder, Location location, Value input, nn::BlockFormatAttr format, Type element) {
    auto type = cast<RankedTensorType>(input.getType());
    SmallVector<int64_t> scaleShape(type.getShape());
    scaleShape[format.getAxis()] = format.getBlockCount(scaleShape[format.getAxis()]);
    Type codes = type.clone(format.getCodeType()), scales = RankedTensorType::get(scaleShape, format.getScaleType());
    Type tensorScale = format.hasTensorScale() ? RankedTensorType::get({}, builder.getF32Type()) : Type();
    auto quantize =
        nn::QuantizeOp::create(builder, location, codes, scales, /*zero_points=*/Type(), tensorScale, input, format);
    return nn::DequantizeOp::create(builder, location, type.clone(element), quantize.getCodes(), quantize.getScales(),
                                    quantize.getZeroPoints(), quantize.getTensorScale(), format);
  }

  Value roundedWeight(Value matrix) {
    matrix = keyOf(matrix);
    Value &result = weights[matrix];
    if (!result) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfterValue(matrix);
      result = rounded(builder, matrix.getLoc(), matrix, weightFormat, builder.getF32Type());
    }
    return result;
  }

  void round(nn::LinearOp linear) {
    linear.getWeightMutable().assign(roundedWeight(linear.getWeight()));
    Value input = linear.getInput();
    auto type = cast<RankedTensorType>(input.getType());
    if (activations != 8 || type.getRank() == 0)
      return;
    Value &result = inputs[input];
    if (!result) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfterValue(input);
      auto format =
          nn::BlockFormatAttr::get(&getContext(), nn::BlockElement::I8, nn::BlockScale::F32, 32, type.getRank() - 1);
      result = rounded(builder, linear.getLoc(), input, format, type.getElementType());
    }
    linear.getInputMutable().assign(result);
  }

  void round(nn::EmbeddingOp embedding) {
    OpBuilder builder(embedding);
    auto narrow = cast<RankedTensorType>(embedding.getResult().getType());
    auto wide = narrow.clone(builder.getF32Type());
    Value rows = nn::EmbeddingOp::create(builder, embedding.getLoc(), wide, roundedWeight(embedding.getTable()),
                                         embedding.getIndices());
    // What widens the rows has nothing left to do.
    for (Operation *user : llvm::make_early_inc_range(embedding.getResult().getUsers()))
      if (auto extend = dyn_cast<arith::ExtFOp>(user); extend && extend.getType() == wide) {
        extend.replaceAllUsesWith(rows);
        extend.erase();
      }
    if (!embedding.use_empty()) {
      if (narrow != wide)
        rows = arith::TruncFOp::create(builder, embedding.getLoc(), narrow, rows);
      embedding.replaceAllUsesWith(rows);
    }
    embedding.erase();
  }

  nn::BlockFormatAttr weightFormat;
  DenseMap<std::pair<Attribute, Attribute>, Value> firstOf;
  DenseMap<Value, Value> weights, inputs; // as stored, as rounded
};
} // namespace
} // namespace intarsia::quantize
