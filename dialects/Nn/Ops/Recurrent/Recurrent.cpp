//===- Recurrent.cpp - Recurrent layers -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Shared.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

//===-- Gates and activations -------------------------------------------------------------------------------------===//

static int64_t gatesOf(RecurrentKind kind) {
  switch (kind) {
  case RecurrentKind::Lstm:
    return 4;
  case RecurrentKind::Gru:
    return 3;
  case RecurrentKind::Rnn:
    return 1;
  }
  llvm_unreachable("unknown kind of a recurrent layer");
}

/// Returns the number of activations of a direction.
static int64_t activationsOf(RecurrentKind kind) {
  return kind == RecurrentKind::Lstm ? 3 : kind == RecurrentKind::Gru ? 2 : 1;
}

int64_t RecurrentOp::getGateCount() { return gatesOf(getKind()); }

int64_t RecurrentOp::getBlockOf(int64_t gate) {
  std::optional<ArrayRef<int64_t>> order = getGateOrder();
  return order ? (*order)[gate] : gate;
}

RecurrentFunction RecurrentOp::getFunction(int64_t direction, int64_t number) {
  int64_t index = direction * activationsOf(getKind()) + number;
  RecurrentFunction function{number == 0 && getKind() != RecurrentKind::Rnn ? RecurrentActivation::Sigmoid
                                                                            : RecurrentActivation::Tanh};
  if (std::optional<ArrayAttr> given = getActivations())
    function.kind = cast<RecurrentActivationAttr>((*given)[index]).getValue();
  if (std::optional<ArrayRef<float>> alphas = getAlphas())
    function.alpha = (*alphas)[index];
  if (std::optional<ArrayRef<float>> betas = getBetas())
    function.beta = (*betas)[index];
  return function;
}

//===-- Verifier --------------------------------------------------------------------------------------------------===//

static LogicalResult verifyGates(RecurrentOp op) {
  int64_t count = op.getGateCount();
  if (std::optional<ArrayRef<int64_t>> order = op.getGateOrder()) {
    SmallVector<int64_t> sorted(*order);
    llvm::sort(sorted);
    if (!llvm::equal(sorted, llvm::seq<int64_t>(0, count)))
      return op.emitOpError() << "has the gate order [" << *order << "], which does not name each of 0 to " << count - 1
                              << " once";
  }
  auto gates = typeOf(op.getGates()), recurrent = typeOf(op.getRecurrent());
  if (!recurrent.hasStaticShape())
    return op.emitOpError() << "needs recurrent weights of static sizes, they are " << recurrent;
  int64_t rows = op.getDirectionCount() * count * op.getHiddenSize();
  if (op.getHiddenSize() < 1 || recurrent.getDimSize(0) != rows)
    return op.emitOpError() << "recurrent is " << recurrent << ": " << op.getDirectionCount() << " directions of "
                            << count << " gates and a hidden state of " << op.getHiddenSize() << " need " << rows
                            << " rows";
  if (gates.getShape().back() != rows)
    return op.emitOpError() << "gates is " << gates << ", recurrent has " << rows
                            << " rows: gates needs as many features";
  return success();
}

/// Verifies a vector with `count` numbers for each number of the hidden state.
static LogicalResult verifyVector(RecurrentOp op, StringRef name, Value vector, int64_t count) {
  if (!vector)
    return success();
  if (failed(verifyRank(op, name, vector, 1)) || failed(verifyStoredElement(op, name, vector, "gates", op.getGates())))
    return failure();
  int64_t needed = op.getDirectionCount() * count * op.getHiddenSize();
  if (lastSize(vector) == needed)
    return success();
  return op.emitOpError() << name << " is " << typeOf(vector) << ", " << op.getDirectionCount() << " directions of "
                          << count << " gates and a hidden state of " << op.getHiddenSize() << " need " << needed
                          << " elements";
}

static LogicalResult verifyState(RecurrentOp op, StringRef name, Value state) {
  if (!state)
    return success();
  if (failed(verifyRank(op, name, state, 3)) || failed(verifyStoredElement(op, name, state, "gates", op.getGates())) ||
      failed(verifyCount(op, name, typeOf(state).getDimSize(0), "directions", "the layer", op.getDirectionCount())) ||
      failed(verifyCount(op, name, lastSize(state), "hidden features", "recurrent", op.getHiddenSize())))
    return failure();
  return verifyCount(op, name, typeOf(state).getDimSize(1), "sequences", "gates",
                     typeOf(op.getGates()).getDimSize(op.getBatchDimension()));
}

static LogicalResult verifyActivations(RecurrentOp op) {
  int64_t needed = op.getDirectionCount() * activationsOf(op.getKind());
  auto verifyNumber = [&](StringRef name, auto list) -> LogicalResult {
    if (!list || int64_t(list->size()) == needed)
      return success();
    return op.emitOpError() << "has " << list->size() << " " << name << ", " << op.getDirectionCount()
                            << " directions of this kind have " << needed;
  };
  if (failed(verifyNumber("activations", op.getActivations())) || failed(verifyNumber("alphas", op.getAlphas())) ||
      failed(verifyNumber("betas", op.getBetas())))
    return failure();
  for (int64_t index = 0; index < needed; ++index) {
    RecurrentFunction function = op.getFunction(0, index);
    bool hasBeta = llvm::is_contained(
        {RecurrentActivation::Affine, RecurrentActivation::ScaledTanh, RecurrentActivation::HardSigmoid},
        function.kind);
    bool hasAlpha = hasBeta || llvm::is_contained({RecurrentActivation::LeakyRelu, RecurrentActivation::ThresholdedRelu,
                                                   RecurrentActivation::Elu},
                                                  function.kind);
    if (hasAlpha && !op.getAlphas())
      return op.emitOpError() << "has no alphas, which '" << stringifyRecurrentActivation(function.kind) << "' needs";
    if (hasBeta && !op.getBetas())
      return op.emitOpError() << "has no betas, which '" << stringifyRecurrentActivation(function.kind) << "' needs";
  }
  return success();
}

LogicalResult RecurrentOp::verify() {
  if (failed(verifyRank(*this, "gates", getGates(), 3)) || failed(verifyRank(*this, "recurrent", getRecurrent(), 2)) ||
      failed(verifyStoredElement(*this, "recurrent", getRecurrent(), "gates", getGates())) ||
      failed(verifyGates(*this)) || failed(verifyVector(*this, "bias", getBias(), getGateCount())) ||
      failed(verifyVector(*this, "peepholes", getPeepholes(), 3)) ||
      failed(verifyState(*this, "hidden", getInitialHidden())) ||
      failed(verifyState(*this, "cell", getInitialCell())) || failed(verifyActivations(*this)))
    return failure();
  bool isLstm = getKind() == RecurrentKind::Lstm;
  StringRef kind = stringifyRecurrentKind(getKind());
  if (!isLstm && (getInitialCell() || getPeepholes() || getCoupled()))
    return emitOpError() << "is of the kind '" << kind << "', which has no "
                         << (getInitialCell() ? "cells"
                             : getPeepholes() ? "peepholes"
                                              : "coupled gates");
  if (getLinearBeforeReset() && getKind() != RecurrentKind::Gru)
    return emitOpError() << "is of the kind '" << kind << "', which has no reset gate";
  if (std::optional<APFloat> clip = getClip(); clip && !(clip->convertToFloat() > 0))
    return emitOpError() << "has a clip of " << clip->convertToFloat() << ", which must be positive";
  if (!getLengths())
    return success();
  if (failed(verifyRank(*this, "lengths", getLengths(), 1)))
    return failure();
  return verifyCount(*this, "lengths", lastSize(getLengths()), "sequences", "gates",
                     typeOf(getGates()).getDimSize(getBatchDimension()));
}

//===-- Sizes and work --------------------------------------------------------------------------------------------===//

LogicalResult RecurrentOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, ValueRange operands,
                                            DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
                                            SmallVectorImpl<Type> &results) {
  RecurrentOp::Adaptor op(operands, attributes, properties, regions);
  auto gates = dyn_cast<RankedTensorType>(op.getGates().getType());
  auto recurrent = dyn_cast<RankedTensorType>(op.getRecurrent().getType());
  if (!gates || gates.getRank() != 3 || !recurrent || recurrent.getRank() != 2)
    return emitOptionalError(location, "'nn.recurrent' op needs gates of rank 3 and recurrent weights of rank 2");
  int64_t directions = op.getDirection() == Direction::Bidirectional ? 2 : 1, hidden = recurrent.getDimSize(1);
  SmallVector<int64_t> shape(gates.getShape());
  shape.back() = ShapedType::isDynamic(hidden) ? hidden : directions * hidden;
  results.push_back(RankedTensorType::get(shape, gates.getElementType()));
  int64_t batch = gates.getDimSize(op.getSequenceFirst() ? 1 : 0);
  unsigned states = op.getKind() == RecurrentKind::Lstm ? 2 : 1;
  results.append(states, RankedTensorType::get({directions, batch, hidden}, gates.getElementType()));
  return success();
}

SmallVector<Sizes> RecurrentOp::inferResultSizes(SizesRange sizes) {
  AffineExpr directions = getAffineConstantExpr(getDirectionCount(), getContext());
  Sizes result = sizes[0], state = {directions, sizes[0][getBatchDimension()], sizes[1][1]};
  result.back() = directions * sizes[1][1];
  SmallVector<Sizes> results{result, state};
  if (getFinalCell())
    results.push_back(state);
  return results;
}

SizePairs RecurrentOp::getEqualSizes(SizesRange sizes) {
  AffineExpr batch = sizes[0][getBatchDimension()];
  SizePairs pairs;
  for (auto [operand, dimension] :
       {std::pair<Value, unsigned>{getInitialHidden(), 1}, {getInitialCell(), 1}, {getLengths(), 0}})
    if (operand) {
      auto number = llvm::find(getOperands(), operand) - getOperands().begin();
      pairs.push_back({batch, sizes[number][dimension]});
    }
  return pairs;
}

/// Each number of a state is a sum of products for each gate, and what the formula combines them by.
Work RecurrentOp::getWork(SizesRange operandSizes, SizesRange) {
  AffineExpr gates = elementCount(getContext(), operandSizes[0]);
  return {gates * (2 * getHiddenSize() + 4), gates + gates.floorDiv(getGateCount())};
}

//===-- Kernels ---------------------------------------------------------------------------------------------------===//

StoredOperand RecurrentOp::getStoredOperand(unsigned operand) {
  OpOperand &use = (*this)->getOpOperand(operand);
  auto isOneOf = [&](MutableOperandRange range) {
    return llvm::any_of(range, [&](OpOperand &other) { return &other == &use; });
  };
  if (&use == &getRecurrentMutable())
    return StoredOperand::Matrix;
  return isOneOf(getBiasMutable()) || isOneOf(getPeepholesMutable()) ? StoredOperand::Vector : StoredOperand::None;
}

//===-- Canonicalization ------------------------------------------------------------------------------------------===//

namespace {
/// Takes off operands that are 0 and would be 0 without them.
struct DropZeroOperands : OpRewritePattern<RecurrentOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RecurrentOp op, PatternRewriter &rewriter) const override {
    SmallVector<MutableOperandRange> zeros;
    for (MutableOperandRange range :
         {op.getPeepholesMutable(), op.getInitialCellMutable(), op.getInitialHiddenMutable()})
      if (!range.empty() && matchPattern(range[0].get(), m_AnyZeroFloat()))
        zeros.push_back(range);
    if (zeros.empty())
      return rewriter.notifyMatchFailure(op, "neither peepholes nor initial states are constant zero");
    rewriter.modifyOpInPlace(op, [&] { zeros.front().clear(); });
    return success();
  }
};
} // namespace

void RecurrentOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropZeroBias<RecurrentOp>, DropZeroOperands>(context);
}
