//===- LayerNames.cpp - Layers of a model by the names of its ops ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/LayerNames.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace intarsia {

/// Returns an op's name, and how much of it is that of its layer: 0 if it has no number.
static std::pair<StringRef, size_t> nameAndLayer(Operation *op) {
  auto location = op->getLoc()->findInstanceOf<NameLoc>();
  if (!location)
    return {"", 0};
  StringRef name = location.getName().getValue(), rest = name;
  while (!rest.empty()) {
    auto [part, behind] = rest.split('.');
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      return {name, part.end() - name.begin()};
    rest = behind;
  }
  return {name, 0};
}

std::string layerName(Operation *op) {
  auto [name, length] = nameAndLayer(op);
  return (length ? name.take_front(length) : name).str();
}

std::string numberedLayerName(Operation *op) {
  auto [name, length] = nameAndLayer(op);
  return name.take_front(length).str();
}

} // namespace intarsia
