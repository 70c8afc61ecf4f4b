//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Mlir/MlirFile.h"

#include "lib/Support/Nesting.h"
#include "lib/Support/StackGuard.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;

namespace intarsia {

std::string tooDeepMessage(StringRef name) {
  return (name + ": nested deeper than " + llvm::Twine(deepestMlir) + " levels, as no IR of a model or an agent is")
      .str();
}

llvm::Error checkNesting(llvm::MemoryBufferRef buffer) {
  if (isBytecode(buffer))
    return llvm::Error::success();
  if (std::optional<TextPlace> place = deeperMlir(buffer.getBuffer()))
    return llvm::createStringError(tooDeepMessage(
        (buffer.getBufferIdentifier() + ":" + llvm::Twine(place->line) + ":" + llvm::Twine(place->column)).str()));
  return llvm::Error::success();
}

namespace {
/// Measures attributes and types, each once and without recursion.
class ElementDepth {
public:
  bool isTooDeep(Attribute attribute) { return isTooDeep({attribute.getAsOpaquePointer(), true}); }
  bool isTooDeep(Type type) { return isTooDeep({type.getAsOpaquePointer(), false}); }

private:
  struct Element {
    const void *pointer;
    bool isAttribute;
  };
  DenseMap<const void *, size_t> depths; ///< 0: begun; what contains itself counts once

  bool isTooDeep(Element root) {
    SmallVector<Element> open{root};
    while (!open.empty()) {
      Element element = open.back();
      depths.try_emplace(element.pointer, 0);
      size_t depth = 1, before = open.size();
      auto visit = [&](Element inner) {
        if (auto known = depths.find(inner.pointer); known != depths.end())
          depth = std::max(depth, known->second + 1);
        else if (inner.pointer)
          open.push_back(inner);
      };
      auto visitAttribute = [&](Attribute inner) { visit({inner.getAsOpaquePointer(), true}); };
      auto visitType = [&](Type inner) { visit({inner.getAsOpaquePointer(), false}); };
      if (element.isAttribute)
        Attribute::getFromOpaquePointer(element.pointer).walkImmediateSubElements(visitAttribute, visitType);
      else
        Type::getFromOpaquePointer(element.pointer).walkImmediateSubElements(visitAttribute, visitType);
      if (open.size() > before)
        continue; // again, when all within are known
      open.pop_back();
      depths[element.pointer] = depth;
      if (depth > deepestMlir)
        return true;
    }
    return false;
  }
};
} // namespace

static bool isTooDeep(ModuleOp module) {
  ElementDepth elements;
  auto isDeepType = [&](Type type) { return elements.isTooDeep(type); };
  SmallVector<std::pair<Operation *, size_t>> open{{module, 1}};
  while (!open.empty()) {
    auto [op, depth] = open.pop_back_val();
    if (depth > deepestMlir || elements.isTooDeep(op->getAttrDictionary()) ||
        elements.isTooDeep(LocationAttr(op->getLoc())) || llvm::any_of(op->getResultTypes(), isDeepType))
      return true;
    for (Region &region : op->getRegions())
      for (Block &block : region) {
        if (llvm::any_of(block.getArgumentTypes(), isDeepType))
          return true;
        for (Operation &inner : block)
          open.push_back({&inner, depth + 1});
      }
  }
  return false;
}

llvm::Expected<OwningOpRef<ModuleOp>> parseMlir(std::unique_ptr<llvm::MemoryBuffer> buffer, llvm::SourceMgr &sources,
                                                const ParserConfig &config) {
  if (llvm::Error error = checkNesting(*buffer))
    return std::move(error);
  bool isBinary = isBytecode(*buffer);
  std::string message = tooDeepMessage(buffer->getBufferIdentifier());
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  // The bytecode reader rarely recurses, but verification and destruction of the result do.
  StackGuard guard("error: " + message);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, config);
  if (module && isBinary && isTooDeep(*module)) {
    module = nullptr;
    return llvm::createStringError(message);
  }
  return module;
}

} // namespace intarsia
