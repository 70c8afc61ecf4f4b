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
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;

namespace intarsia {

std::string tooDeepMessage(StringRef name) {
  return (name + ": nested deeper than " + llvm::Twine(deepestMlir) + " levels, as no IR of a model or an agent is")
      .str();
}

llvm::Error checkNesting(llvm::MemoryBufferRef buffer) {
  if (isBytecode(buffer))
    return llvm::Error::success();
  if (std::optional<TextPosition> position = deeperMlir(buffer.getBuffer()))
    return llvm::createStringError(tooDeepMessage(
        (buffer.getBufferIdentifier() + ":" + llvm::Twine(position->line) + ":" + llvm::Twine(position->column))
            .str()));
  return llvm::Error::success();
}

namespace {
/// The form that a file states for itself, and the program that wrote it.
struct StatedForm {
  int64_t form;
  StringRef producer; // "intarsia 0.1.0"
};

constexpr StringRef formText = "rt.form = ", producerText = "rt.producer = \"", formInBytecode = ", form ";

/// Returns the line of a text that the module begins in. Aliases may come before it.
StringRef moduleLine(StringRef text) {
  for (StringRef line, rest = text; !rest.empty();) {
    std::tie(line, rest) = rest.split('\n');
    if (line.ltrim().starts_with("module"))
      return line;
  }
  return "";
}

/// Finds a text outside of the strings of a line, and returns what follows it; nullopt if it is not there.
std::optional<StringRef> findOutsideStrings(StringRef line, StringRef wanted) {
  bool isInString = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (!isInString && line.substr(i).starts_with(wanted))
      return line.substr(i + wanted.size());
    if (line[i] == '\\' && isInString)
      ++i;
    else if (line[i] == '"')
      isInString = !isInString;
  }
  return std::nullopt;
}

std::optional<StatedForm> statedForm(llvm::MemoryBufferRef buffer) {
  StatedForm result = {0, ""};
  StringRef text = buffer.getBuffer();
  if (isBytecode(buffer)) {
    // The magic number, the version of the format in a byte, the producer with a zero behind it.
    StringRef producer = text.drop_front(std::min<size_t>(text.size(), 5)).take_until([](char c) { return c == 0; });
    size_t at = producer.rfind(formInBytecode);
    if (at == StringRef::npos || producer.substr(at + formInBytecode.size()).getAsInteger(10, result.form))
      return std::nullopt;
    result.producer = producer.take_front(at);
    return result;
  }
  StringRef line = moduleLine(text);
  std::optional<StringRef> form = findOutsideStrings(line, formText);
  if (!form || form->consumeInteger(10, result.form))
    return std::nullopt;
  if (std::optional<StringRef> producer = findOutsideStrings(line, producerText))
    result.producer = producer->take_until([](char c) { return c == '"'; });
  return result;
}
} // namespace

std::string bytecodeProducer(StringRef program) { return (program + formInBytecode + llvm::Twine(irForm)).str(); }

llvm::Error checkForm(llvm::MemoryBufferRef buffer) {
  std::optional<StatedForm> stated = statedForm(buffer);
  if (!stated || stated->form == irForm)
    return llvm::Error::success();
  return llvm::createStringError(buffer.getBufferIdentifier() + ": is IR of form " + llvm::Twine(stated->form) +
                                 (stated->producer.empty() ? "" : ", which " + stated->producer + " wrote") +
                                 "; this version reads form " + llvm::Twine(irForm) +
                                 ": make it again from the model with this version, or go on with that one");
}

std::string invalidHint(llvm::MemoryBufferRef buffer) {
  if (statedForm(buffer))
    return "";
  // Every version that had forms declared devices in what it wrote, and its name in bytecode.
  if (!buffer.getBuffer().contains(isBytecode(buffer) ? "intarsia" : "rt.device"))
    return "; what is read are the dialects builtin, func, linalg, tensor, arith, math, scf, cf, affine, "
           "bufferization, "
           "ub, tm_tensor and nn as MLIR " LLVM_VERSION_STRING
           " has them: lower others to these, and write IR of other versions with that one";
  return "; it does not say which form of IR it is in: this version reads form " + std::to_string(irForm) +
         ", and files of versions before that did not say theirs must be made again from the model";
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

//===-- Attributes ----------------------------------------------------------------------------------------------===//

/// Reports dimensions that are no dimensions of any tensor: MLIR keeps them as 32 bits.
static LogicalResult checkReassociation(Operation *op) {
  auto groups = op->getAttrOfType<ArrayAttr>("reassociation");
  for (Attribute group : groups ? groups.getValue() : ArrayRef<Attribute>()) {
    auto dimensions = dyn_cast<ArrayAttr>(group);
    for (Attribute attribute : dimensions ? dimensions.getValue() : ArrayRef<Attribute>())
      if (auto dimension = dyn_cast<IntegerAttr>(attribute); dimension && !dimension.getValue().isIntN(16))
        return op->emitError() << "'" << op->getName() << "' op reassociation has " << dimension
                               << ", which is no dimension of a tensor";
  }
  return success();
}

/// Compares the sizes of a list of integers that are operands with the operands.
static LogicalResult checkDynamic(Operation *op, StringRef name, int64_t operands) {
  auto integers = op->getAttrOfType<DenseI64ArrayAttr>(name);
  if (!integers || llvm::count(integers.asArrayRef(), ShapedType::kDynamic) == operands)
    return success();
  return op->emitError() << "'" << op->getName() << "' op " << name << " has "
                         << llvm::count(integers.asArrayRef(), ShapedType::kDynamic) << " dynamic sizes, and the op "
                         << operands << " operands for them";
}

/// Returns the number of operands in a segment of an op; nullopt if it has no such segment.
static std::optional<int64_t> segmentSize(Operation *op, unsigned segment) {
  auto sizes = op->getAttrOfType<DenseI32ArrayAttr>("operandSegmentSizes");
  return sizes && unsigned(sizes.size()) > segment ? std::optional<int64_t>(sizes[segment]) : std::nullopt;
}

LogicalResult checkAttributes(Operation *root) {
  WalkResult result = root->walk([](Operation *op) -> WalkResult {
    StringRef name = op->getName().getStringRef();
    if (name == "tensor.concat") {
      auto dimension = op->getAttrOfType<IntegerAttr>("dim");
      if (dimension && dimension.getValue().isNegative())
        return op->emitError() << "'tensor.concat' op dim is " << dimension.getInt()
                               << ", must be a dimension of the tensors";
    } else if (name == "tensor.pad") {
      for (auto [segment, sizes] : {std::pair<unsigned, StringRef>{1, "static_low"}, {2, "static_high"}})
        if (std::optional<int64_t> count = segmentSize(op, segment); count && failed(checkDynamic(op, sizes, *count)))
          return WalkResult::interrupt();
    } else if (name == "linalg.pack") {
      if (std::optional<int64_t> count = segmentSize(op, 3);
          count && failed(checkDynamic(op, "static_inner_tiles", *count)))
        return WalkResult::interrupt();
    } else if (name == "linalg.unpack") {
      if (op->getNumOperands() >= 2 && failed(checkDynamic(op, "static_inner_tiles", op->getNumOperands() - 2)))
        return WalkResult::interrupt();
    }
    return checkReassociation(op);
  });
  return failure(result.wasInterrupted());
}

llvm::Expected<OwningOpRef<ModuleOp>> parseMlir(std::unique_ptr<llvm::MemoryBuffer> buffer, llvm::SourceMgr &sources,
                                                const ParserConfig &config) {
  if (llvm::Error error = checkForm(*buffer))
    return std::move(error);
  if (llvm::Error error = checkNesting(*buffer))
    return std::move(error);
  bool isBinary = isBytecode(*buffer);
  std::string message = tooDeepMessage(buffer->getBufferIdentifier());
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  // The bytecode reader rarely recurses, but verification and destruction of the result do.
  StackGuard guard("error: " + message);
  ParserConfig unverified(config.getContext(), /*verifyAfterParse=*/false);
  // Resources of bytecode stay in the buffer, which lives as long as the module: the pointer owns nothing.
  std::shared_ptr<llvm::SourceMgr> owner(std::shared_ptr<void>(), &sources);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(owner, unverified);
  if (module && isBinary && isTooDeep(*module)) {
    module = nullptr;
    return llvm::createStringError(message);
  }
  if (module && (failed(checkAttributes(*module)) || (config.shouldVerifyAfterParse() && failed(verify(*module)))))
    module = nullptr;
  return module;
}

} // namespace intarsia
