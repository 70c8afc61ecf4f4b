//===- QuantizeRoundToNearest.cpp - Rounds weights to a block format ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize.h"
#include "lib/Quantize/Rounded.h"
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
/// Whether a value is a matrix of an archive, as stored, transposed or in blocks.
bool isStoredMatrix(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() != 2 || !type.hasStaticShape())
    return false;
  if (auto transpose = value.getDefiningOp<linalg::TransposeOp>())
    value = transpose.getInput();
  else if (auto blocks = value.getDefiningOp<nn::DequantizeBlocksOp>())
    value = blocks.getBlocks();
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
    // One pass object sees one function after another.
    firstOf.clear();
    weights.clear();
    inputs = RoundedInputs();
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
    auto blocks = matrix.getDefiningOp<nn::DequantizeBlocksOp>();
    auto weight = (blocks ? blocks.getBlocks() : matrix).getDefiningOp<nn::WeightOp>();
    if (!weight)
      return matrix;
    return firstOf.try_emplace({weight.getArchiveAttr(), weight.getKeyAttr()}, matrix).first->second;
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
    if (activations == 8)
      inputs.round(linear, /*block=*/32);
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
  DenseMap<Value, Value> weights; // as stored, as rounded
  RoundedInputs inputs;
};
} // namespace
} // namespace intarsia::quantize
