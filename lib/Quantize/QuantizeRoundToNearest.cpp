//===- QuantizeRoundToNearest.cpp - Quantizes weights to a block format ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/BlockFormats.h"
#include "dialects/Nn/Prepacking.h"
#include "intarsia/Quantize/Quantize.h"
#include "lib/Quantize/QuantizedInputs.h"
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
/// Returns the weight that a matrix of windows is, transposed and reshaped as importers do it; null for other values.
nn::WeightOp windowsOf(Value value) {
  value = nn::reshapeSource(value);
  if (auto transpose = value.getDefiningOp<linalg::TransposeOp>())
    value = nn::reshapeSource(transpose.getInput());
  return value.getDefiningOp<nn::WeightOp>();
}

/// Returns true if a value is a matrix of an archive: as stored, transposed or quantized there.
bool isStoredMatrix(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() != 2 || !type.hasStaticShape())
    return false;
  if (auto transpose = value.getDefiningOp<linalg::TransposeOp>())
    return transpose.getInput().getDefiningOp<nn::WeightOp>();
  return nn::storedWeight(value) && nn::isPrepacked(value);
}

/// Returns the weight that such a matrix is.
nn::WeightOp storedMatrix(Value value) {
  nn::WeightOp windows = windowsOf(value);
  return windows ? windows : nn::storedWeight(value);
}

/// Returns the matrix that a linear, a convolution (asProductToQuantize) or an embedding reads; null for other ops, and
/// for products whose factors are both quantized already: kernels do not multiply every pair of formats.
OpOperand *matrixOf(Operation *op) {
  if (ContractionOpInterface product = asProductToQuantize(op)) {
    bool areQuantized =
        product.getLeft().getDefiningOp<nn::DequantizeOp>() && product.getRight().getDefiningOp<nn::DequantizeOp>();
    return areQuantized ? nullptr : &product.getRightOperand();
  }
  auto embedding = dyn_cast<nn::EmbeddingOp>(op);
  return embedding ? &embedding.getTableMutable() : nullptr;
}

/// Returns the linears that compute the function's result "logits", alone or before elementwise ops.
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
    if (asProductWithWeight(op))
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
    QuantizeOptions options;
    options.format = format;
    options.parts.assign(parts.begin(), parts.end());
    options.tensors.assign(tensors.begin(), tensors.end());
    // Devices may be faster with inputs that some of the weights are not multiplied by.
    if (llvm::Error error = joinErrors(checkActivations(activations), checkQuantizeOptions(options))) {
      function.emitError() << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    if ((options.format == "none" && tensors.empty()) || function.isExternal())
      return;
    options.activations = activations;
    llvm::StringMap<PartFormat> formats;
    if (options.format != "none")
      formats = llvm::cantFail(parsePartFormats(options, &getContext()));
    llvm::StringMap<nn::BlockFormatAttr> ofTensors = llvm::cantFail(parseTensorFormats(options.tensors, &getContext()));
    // A pass object processes several functions.
    firstOf.clear();
    weights.clear();
    choices.clear();
    wides.clear();
    inputs = QuantizedInputs();
    DenseSet<Operation *> heads = findHeads(function);
    SmallVector<Operation *> consumers;
    bool fails = false;
    function.walk([&](Operation *op) {
      OpOperand *operand = matrixOf(op);
      Value matrix = operand ? operand->get() : Value();
      bool hasWindows =
          matrix && isa<ContractionOpInterface>(op) && multipliesWindows(cast<ContractionOpInterface>(op));
      if (!matrix || !(hasWindows ? windowsOf(matrix) && nn::isPrepacked(matrix) : isStoredMatrix(matrix)))
        return;
      bool isLinear = !isa<nn::EmbeddingOp>(op);
      consumers.push_back(op);
      Value key = keyOf(matrix); // from the first consumer, so that it dominates the other consumers
      // The choice of experts depends on small differences, so routers, which are small, are not quantized.
      if (isLinear && llvm::any_of(op->getUsers(), llvm::IsaPred<nn::RouteOp>))
        return;
      StringRef part = !isLinear ? "embedding" : heads.contains(op) ? "lm_head" : "linears";
      nn::WeightOp weight = storedMatrix(matrix);
      if (auto own = weight ? ofTensors.find(weight.getKey()) : ofTensors.end(); own != ofTensors.end()) {
        if (own->second && (!hasWindows || multipliesByRows(own->second)))
          fails |= failed(choose(op, key, part, {own->second, own->second.getName(), /*isNamed=*/true}));
        return;
      }
      auto asked = formats.find(part);
      if (asked != formats.end() && (!hasWindows || multipliesByRows(asked->second.format)))
        fails |= failed(choose(op, key, asked->first(), asked->second));
    });
    if (fails)
      return signalPassFailure();
    for (Operation *op : consumers) {
      if (!choices.contains(keyOf(matrixOf(op)->get())))
        continue;
      if (auto embedding = dyn_cast<nn::EmbeddingOp>(op))
        quantize(embedding);
      else
        quantize(cast<ContractionOpInterface>(op));
    }
    if (auto asked = formats.find("experts"); asked != formats.end()) {
      expertsFormat = asked->second.format;
      function.walk([&](nn::ExpertsOp experts) { quantize(experts); });
    }
  }

  bool multipliesIntegers() const { return activations == "8" || haveFewScales(activations); }

  /// Returns true if integers of a row are added up before they are scaled: blocks of a matrix of windows would not be
  /// those of positions.
  bool multipliesByRows(nn::BlockFormatAttr format) const {
    return haveFewScales(activations) && format.getElement() == nn::BlockElement::I8 && format.getBlock() == 0;
  }

  /// Returns one value for all ops that name the same weight.
  Value keyOf(Value matrix) {
    nn::WeightOp weight = nn::storedWeight(matrix);
    if (!weight)
      return matrix;
    return firstOf.try_emplace({weight.getArchiveAttr(), weight.getKeyAttr()}, matrix).first->second;
  }

  /// Chooses the format of a matrix. If several parts read it, this is the format that the user named for one of them,
  /// or else the one with more bits.
  LogicalResult choose(Operation *consumer, Value key, StringRef part, const PartFormat &asked) {
    auto [entry, isFirst] = choices.try_emplace(key, Choice{asked, part});
    Choice &choice = entry->second;
    if (isFirst || choice.asked.format == asked.format) {
      choice.asked.isNamed |= asked.isNamed;
      return success();
    }
    if (choice.asked.isNamed && asked.isNamed)
      return consumer->emitError() << "one matrix is " << choice.part << " and " << part << ", and has the formats "
                                   << choice.asked.name << " and " << asked.name
                                   << ": it is stored once, name one format for both";
    auto bits = [](const PartFormat &part) { return nn::elementBits(part.format.getElement()); };
    if (asked.isNamed || (!choice.asked.isNamed && bits(asked) > bits(choice.asked)))
      choice = {asked, part};
    return success();
  }

  /// Quantizes a weight; `format` has the axis of a matrix of rank 2.
  Value quantizedWeight(Value matrix, nn::BlockFormatAttr format) {
    matrix = keyOf(matrix);
    Value &result = weights[matrix];
    if (!result) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfterValue(matrix);
      int64_t last = cast<RankedTensorType>(matrix.getType()).getRank() - 1;
      format = nn::BlockFormatAttr::get(&getContext(), format.getElement(), format.getScale(), format.getBlock(), last);
      result = quantizeAndDequantize(builder, matrix.getLoc(), matrix, format, builder.getF32Type(), /*areRows=*/false);
    }
    return result;
  }

  /// Quantizes a matrix that a linear or an embedding reads.
  Value quantizedMatrix(Value matrix) { return quantizedWeight(matrix, choices.lookup(keyOf(matrix)).asked.format); }

  /// Returns a value of 16-bit floats in f32, one for all that ask for it.
  Value widened(Value narrow) {
    Value &wide = wides[narrow];
    if (!wide) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfterValue(narrow);
      wide = arith::ExtFOp::create(builder, narrow.getLoc(),
                                   cast<RankedTensorType>(narrow.getType()).clone(builder.getF32Type()), narrow);
    }
    return wide;
  }

  /// Returns a linear with quantized weights, which are f32, in place of one that computes in 16-bit floats.
  ContractionOpInterface widened(ContractionOpInterface linear) {
    auto narrow = cast<RankedTensorType>(linear->getResult(0).getType());
    if (narrow.getElementType().isF32())
      return linear;
    OpBuilder builder(linear);
    Value input = widened(linear.getLeft()), bias = linear.getBias() ? widened(linear.getBias()) : Value();
    ContractionOpInterface wide =
        linear.cloneWith(builder, linear.getLoc(), narrow.clone(builder.getF32Type()), input, linear.getRight(), bias);
    linear->replaceAllUsesWith(arith::TruncFOp::create(builder, linear.getLoc(), narrow, wide->getResult(0)));
    linear->erase();
    return wide;
  }

  void quantize(ContractionOpInterface linear) {
    linear = widened(linear);
    nn::BlockFormatAttr format = choices.lookup(keyOf(linear.getRight())).asked.format;
    linear.getRightOperand().assign(quantizedMatrix(linear.getRight()));
    if (multipliesIntegers() && format.hasIntegerValues())
      inputs.quantize(linear.getLeftOperand(), inputBlockBeside(format, activations));
    else if (quantizesInputsTo(activations, format))
      inputs.quantizeToFloats(linear.getLeftOperand(), format);
  }

  /// Returns the quantized weights of experts; null if the value is not a weight, or has scales already.
  Value quantizedRows(Value value) {
    Operation *op = value.getDefiningOp();
    auto type = cast<RankedTensorType>(value.getType());
    auto dequantize = dyn_cast_if_present<nn::DequantizeOp>(op);
    if (dequantize && dequantize.getScales())
      return nullptr;
    if (nn::storedWeight(value))
      return type.getRank() > 1 ? quantizedWeight(value, expertsFormat) : Value();
    auto transpose = dyn_cast_if_present<linalg::TransposeOp>(op);
    if (transpose && !movesRows(op)) {
      // The weight is stored by columns.
      Operation *source = transpose.getInput().getDefiningOp();
      while (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(source))
        source = source->getOperand(0).getDefiningOp();
      return isa_and_nonnull<nn::WeightOp>(source) ? quantizedWeight(value, expertsFormat) : Value();
    }
    if (!movesRows(op))
      return nullptr;
    SmallVector<Value> operands(op->getOperands());
    for (Value &part : MutableArrayRef(operands).take_front(transpose ? 1 : operands.size()))
      if (part = quantizedRows(part); !part)
        return nullptr;
    OpBuilder builder(op);
    if (transpose) {
      Value empty = tensor::EmptyOp::create(builder, op->getLoc(), type.getShape(), builder.getF32Type());
      return linalg::TransposeOp::create(builder, op->getLoc(), operands[0], empty, transpose.getPermutation())
          ->getResult(0);
    }
    Operation *moved = builder.clone(*op);
    moved->setOperands(operands);
    moved->getResult(0).setType(type.clone(builder.getF32Type()));
    return moved->getResult(0);
  }

  /// Erases ops that moved the rows of a weight and are now unused.
  static void eraseDead(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isOpTriviallyDead(op))
      return;
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    for (Value operand : operands)
      eraseDead(operand);
  }

  void quantize(nn::ExpertsOp experts) {
    Value gateUp = experts.getGateUp(), down = experts.getDown();
    if (Value quantized = quantizedRows(gateUp)) {
      experts.getGateUpMutable().assign(quantized);
      eraseDead(gateUp);
      if (multipliesIntegers() && expertsFormat.hasIntegerValues())
        inputs.quantize(experts);
    }
    if (Value quantized = quantizedRows(down)) {
      experts.getDownMutable().assign(quantized);
      eraseDead(down);
      if (multipliesIntegers() && expertsFormat.hasIntegerValues())
        QuantizedInputs::quantizeIntermediate(experts);
    }
  }

  void quantize(nn::EmbeddingOp embedding) {
    OpBuilder builder(embedding);
    auto narrow = cast<RankedTensorType>(embedding.getResult().getType());
    auto wide = narrow.clone(builder.getF32Type());
    Value rows = nn::EmbeddingOp::create(builder, embedding.getLoc(), wide, quantizedMatrix(embedding.getTable()),
                                         embedding.getIndices());
    // Ops that widen the rows are no longer needed.
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

  struct Choice {
    PartFormat asked;
    StringRef part;
  };
  nn::BlockFormatAttr expertsFormat;
  DenseMap<std::pair<Attribute, Attribute>, Value> firstOf;
  DenseMap<Value, Choice> choices; // formats of the matrices to quantize
  DenseMap<Value, Value> weights;  // stored matrix → quantized matrix
  DenseMap<Value, Value> wides;    // 16-bit floats → f32
  QuantizedInputs inputs;
};
} // namespace
} // namespace intarsia::quantize
