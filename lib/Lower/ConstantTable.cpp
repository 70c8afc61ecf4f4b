//===- ConstantTable.cpp - Weights as a module names them --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/ConstantTable.h"

#include "dialects/Nn/Prepacking.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace intarsia::lower {

/// Copies the ops that make a tensor to the end of a recipe, operands before their users. What leaves elements and
/// shape as they are is left out, so that equal tensors have equal recipes.
static Value copySlice(OpBuilder &builder, Value value, IRMapping &copies) {
  if (Value known = copies.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (isa<tensor::CastOp>(op) || nn::isIdentityTranspose(op)) {
    Value source = copySlice(builder, op->getOperand(0), copies);
    copies.map(value, source);
    return source;
  }
  auto transpose = dyn_cast<linalg::TransposeOp>(op);
  for (Value operand : transpose ? op->getOperands().take_front() : op->getOperands())
    copySlice(builder, operand, copies);
  Value init; // only there for its shape
  if (transpose)
    init = tensor::EmptyOp::create(builder, op->getLoc(), cast<RankedTensorType>(value.getType()).getShape(),
                                   getElementTypeOrSelf(value.getType()));
  Operation *copy = builder.clone(*op, copies);
  if (transpose)
    copy->setOperand(1, init);
  copy->setDiscardableAttrs(DictionaryAttr::get(op->getContext()));
  return copies.lookup(value);
}

static size_t hashOf(rt::ConstantOp constant) {
  llvm::hash_code hash = llvm::hash_combine(Attribute(constant.getLayout()), constant.getType());
  constant.getRecipe().walk([&](Operation *op) {
    hash = llvm::hash_combine(hash, op->getName(), op->getAttrDictionary(),
                              llvm::hash_combine_range(op->getResultTypes()));
  });
  return hash;
}

static bool areEqual(rt::ConstantOp a, rt::ConstantOp b) {
  return a.getLayout() == b.getLayout() && a.getType() == b.getType() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getRecipe(), &b.getRecipe(),
                                                    OperationEquivalence::IgnoreLocations);
}

/// Returns a name for people, which several constants may have.
static std::string nameOf(rt::ConstantOp constant) {
  std::string name;
  bool isConcatenated = false;
  constant.getRecipe().walk([&](Operation *op) {
    if (auto weight = dyn_cast<nn::WeightOp>(op); weight && name.empty())
      name = weight.getKey();
    if (auto concat = dyn_cast<tensor::ConcatOp>(op))
      isConcatenated |= concat.getInputs().size() > 1;
  });
  if (name.empty())
    name = "constant";
  if (isConcatenated)
    name += ".concatenated";
  return name + constant.getLayout().getNameSuffix().str();
}

FlatSymbolRefAttr ConstantTable::add(Value tensor, rt::LayoutAttrInterface layout) {
  OpBuilder builder(tensor.getContext());
  auto constant = rt::ConstantOp::create(builder, tensor.getLoc(), /*sym_name=*/"", layout,
                                         cast<RankedTensorType>(tensor.getType()));
  OwningOpRef<rt::ConstantOp> owner(constant);
  builder.setInsertionPointToStart(&constant.getRecipe().emplaceBlock());
  IRMapping copies;
  Value made = copySlice(builder, tensor, copies);
  rt::YieldOp::create(builder, tensor.getLoc(), made);

  SmallVector<rt::ConstantOp, 1> &equals = constants[hashOf(constant)];
  for (rt::ConstantOp other : equals)
    if (areEqual(constant, other))
      return FlatSymbolRefAttr::get(other.getSymNameAttr());
  constant.setSymName(nameOf(constant));
  symbols.insert(owner.release(), Block::iterator(before));
  equals.push_back(constant);
  return FlatSymbolRefAttr::get(constant.getSymNameAttr());
}

} // namespace intarsia::lower
