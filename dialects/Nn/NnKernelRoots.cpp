//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The answers of ops to questions of phases about the kernels that compute them
// (dialects/Interfaces/KernelOpInterfaces.td).
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

//===-- Operands that are read as they are stored ----------------------------------------------------------------===//

StoredOperand LinearOp::getStoredOperand(unsigned operand) {
  if (operand == 0)
    return StoredOperand::None;
  return operand == 1 ? StoredOperand::Matrix : StoredOperand::Vector;
}

StoredOperand ExpertsOp::getStoredOperand(unsigned operand) {
  if (operand < getGateUpMutable().getOperandNumber())
    return StoredOperand::None;
  return operand <= getDownMutable().getOperandNumber() ? StoredOperand::Matrix : StoredOperand::Vector;
}

StoredOperand EmbeddingOp::getStoredOperand(unsigned operand) {
  return operand == 0 ? StoredOperand::Table : StoredOperand::None;
}

//===-- Operands that are read row by row ------------------------------------------------------------------------===//

/// An operand that is dequantized from values which nn.quantize gives is quantized where it is read.
static RowInput rowInputOf(Value operand) {
  auto dequantize = operand.getDefiningOp<DequantizeOp>();
  if (!dequantize)
    return {operand, {}};
  auto quantize = dequantize.getQuantized().getDefiningOp<QuantizeOp>();
  if (!quantize)
    return {operand, {dequantize}};
  return {quantize.getInput(), {dequantize, quantize}};
}

RowInput LinearOp::getRowInput() { return rowInputOf(getInput()); }

RowInput ExpertsOp::getRowInput() { return rowInputOf(getInput()); }

//===-- Operands that are indices --------------------------------------------------------------------------------===//

using SizesRange = llvm::ArrayRef<llvm::SmallVector<AffineExpr>>;

SmallVector<IndexOperand> EmbeddingOp::getIndexOperands(SizesRange sizes) {
  return {{getIndicesMutable().getOperandNumber(), "indices", sizes[getTableMutable().getOperandNumber()][0],
           /*isGuarded=*/true}};
}

/// Returns the operands that say where in a cache tokens are: slots, rows of the page table, pages.
static SmallVector<IndexOperand> slotOperands(SizesRange sizes, OpOperand &positions, OpOperand &sequences,
                                              OpOperand &pageTable, CacheFormatAttr format, unsigned cache) {
  const Sizes &table = sizes[pageTable.getOperandNumber()];
  AffineExpr page = format.isOpen() ? sizes[cache][format.getSlotDimension()]
                                    : getAffineConstantExpr(format.getPage(), format.getContext());
  return {{positions.getOperandNumber(), "positions", table[1] * page},
          {sequences.getOperandNumber(), "sequences", table[0]},
          {pageTable.getOperandNumber(), "page_table", sizes[cache][0]}};
}

SmallVector<IndexOperand> CacheAppendOp::getIndexOperands(SizesRange sizes) {
  if (getTail())
    return {{getSequencesMutable().getOperandNumber(), "sequences", sizes[0][0]}};
  return slotOperands(sizes, getPositionsMutable(), getSequencesMutable(), *getPageTableMutable().begin(), getFormat(),
                      /*cache=*/0);
}

SmallVector<IndexOperand> CachedAttentionOp::getIndexOperands(SizesRange sizes) {
  return slotOperands(sizes, getPositionsMutable(), getSequencesMutable(), getPageTableMutable(), getKeyFormat(),
                      getKeysMutable().begin()->getOperandNumber());
}

//===-- States that are updated in place -------------------------------------------------------------------------===//

OpOperand &CacheAppendOp::getUpdatedOperand(unsigned result) { return getCacheMutable()[result]; }
