//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The answers of nn.linear and nn.matmul to ContractionOpInterface.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Verify.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

/// Returns the map from so many loops to these.
static AffineMap mapTo(ArrayRef<unsigned> loops, unsigned count, MLIRContext *context) {
  return AffineMap::getMultiDimMapWithTargets(count, loops, context);
}

//===-- Linear -------------------------------------------------------------------------------------------------===//

OpOperand &LinearOp::getLeftOperand() { return getInputMutable(); }

SmallVector<OpOperand *> LinearOp::getRightOperands() { return {&getWeightMutable()}; }

MutableOperandRange LinearOp::getBiasOperand() { return getBiasMutable(); }

/// Loops are those of the result, then the features that are summed.
ContractionMaps LinearOp::getMaps() {
  unsigned depth = typeOf(getInput()).getRank(), column = depth - 1;
  SmallVector<unsigned> loops = llvm::to_vector(llvm::seq(depth));
  AffineMap result = mapTo(loops, depth + 1, getContext());
  loops.back() = depth;
  return {mapTo(loops, depth + 1, getContext()), mapTo({column, depth}, depth + 1, getContext()), result};
}

//===-- Matmul -------------------------------------------------------------------------------------------------===//

OpOperand &MatmulOp::getLeftOperand() { return getLhsMutable(); }

SmallVector<OpOperand *> MatmulOp::getRightOperands() { return {&getRhsMutable()}; }

MutableOperandRange MatmulOp::getBiasOperand() { return MutableOperandRange(*this, getNumOperands(), 0); }

/// Loops are those of the result, then what is summed.
ContractionMaps MatmulOp::getMaps() {
  unsigned depth = typeOf(getLhs()).getRank(), column = depth - 1, row = depth - 2;
  auto map = [&](unsigned outer, unsigned inner) {
    SmallVector<unsigned> loops = llvm::to_vector(llvm::seq(row));
    loops.append({outer, inner});
    return mapTo(loops, depth + 1, getContext());
  };
  return {getTransposeLhs() ? map(depth, row) : map(row, depth),
          getTransposeRhs() ? map(column, depth) : map(depth, column), map(row, column)};
}
