//===- ConstantTable.cpp - Weights as a module names them --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/ConstantTable.h"

using namespace mlir;

namespace intarsia::lower {

FlatSymbolRefAttr ConstantTable::add(const WeightExpression &expression, rt::LayoutAttr layout, Location location) {
  Builder builder(location.getContext());
  OperationState state(location, rt::ConstantOp::getOperationName());
  if (expression.value) {
    state.addAttribute("value", expression.value);
  } else {
    SmallVector<Attribute> archives(expression.archives.begin(), expression.archives.end());
    SmallVector<Attribute> keys(expression.keys.begin(), expression.keys.end());
    state.addAttribute("archives", builder.getArrayAttr(archives));
    state.addAttribute("keys", builder.getArrayAttr(keys));
    if (llvm::any_of(expression.blocks, [](Attribute type) { return type != nullptr; })) {
      SmallVector<Attribute> blocks;
      for (Attribute type : expression.blocks)
        blocks.push_back(type ? type : builder.getUnitAttr());
      state.addAttribute("blocks", builder.getArrayAttr(blocks));
    }
    if (expression.transposed)
      state.addAttribute("transposed", builder.getUnitAttr());
    if (expression.format)
      state.addAttribute("format", expression.format);
    if (expression.mxfp4)
      state.addAttribute("mxfp4", builder.getUnitAttr());
    if (!expression.strides.empty())
      state.addAttribute("strides", builder.getDenseI64ArrayAttr(expression.strides));
  }
  state.addAttribute("layout", layout);
  state.addAttribute("type", TypeAttr::get(expression.type));
  auto [entry, isNew] = names.try_emplace(state.attributes.getDictionary(location.getContext()));
  if (isNew) {
    std::string name = expression.value ? "constant" : expression.keys.front().str();
    if (expression.keys.size() > 1 && !expression.mxfp4)
      name += ".joined";
    if (layout.getKind() == rt::LayoutKind::Panels)
      name += ".panels";
    state.addAttribute("sym_name", builder.getStringAttr(name));
    Operation *constant = Operation::create(state);
    symbols.insert(constant, Block::iterator(before));
    entry->second = FlatSymbolRefAttr::get(cast<rt::ConstantOp>(constant).getSymNameAttr());
  }
  return entry->second;
}

} // namespace intarsia::lower
