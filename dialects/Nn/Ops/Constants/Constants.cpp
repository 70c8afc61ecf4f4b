//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Ops/Constants/Constants.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

#define GET_OP_CLASSES
#include "dialects/Nn/ConstantsOps.cpp.inc"

std::optional<int64_t> nn::storedBytes(ShapedType type) {
  Type element = type.getElementType();
  if (!type.hasStaticShape() || !element.isIntOrFloat())
    return std::nullopt;
  unsigned width = element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth();
  std::optional<int64_t> bytes = width / 8;
  if (width != 8 && width != 16 && width != 32 && width != 64)
    return std::nullopt;
  for (int64_t size : type.getShape())
    bytes = bytes ? llvm::checkedMul(*bytes, size) : bytes;
  return bytes;
}

LogicalResult ConstantsOp::verify() {
  for (NamedAttribute tensor : getTensors()) {
    auto elements = dyn_cast<DenseResourceElementsAttr>(tensor.getValue());
    if (!elements)
      return emitOpError() << "tensor " << tensor.getName() << " is no dense_resource";
    std::optional<int64_t> bytes = storedBytes(elements.getType());
    if (!bytes)
      return emitOpError() << "tensor " << tensor.getName() << " is " << elements.getType()
                           << ", which archives do not hold";
    AsmResourceBlob *blob = elements.getRawHandle().getBlob();
    if (!blob)
      return emitOpError() << "tensor " << tensor.getName() << ": the resource '" << elements.getRawHandle().getKey()
                           << "' is not in the file";
    if (int64_t(blob->getData().size()) != *bytes)
      return emitOpError() << "tensor " << tensor.getName() << " is " << elements.getType() << ", which has " << *bytes
                           << " bytes, its resource has " << blob->getData().size();
  }
  return success();
}

/// Returns a number that tensors with the same type and bytes share. Only the beginning is read: a file of many
/// gigabytes would be read from end to end otherwise.
static llvm::hash_code hashBeginning(DenseResourceElementsAttr elements) {
  constexpr size_t readBytes = 4096;
  ArrayRef<char> data = elements.getRawHandle().getBlob()->getData();
  return llvm::hash_combine(elements.getType(), llvm::hash_combine_range(data.take_front(readBytes)));
}

StringAttr ConstantsBuilder::add(DenseResourceElementsAttr elements) {
  StringAttr &key = keys[elements];
  if (key)
    return key;
  SmallVector<StringAttr, 1> &alike = byBeginning[hashBeginning(elements)];
  ArrayRef<char> data = elements.getRawHandle().getBlob()->getData();
  for (StringAttr other : alike) {
    DenseResourceElementsAttr known = tensors[other];
    if (known.getType() == elements.getType() && known.getRawHandle().getBlob()->getData() == data)
      return key = other;
  }
  std::string name = elements.getRawHandle().getKey().str();
  auto isTaken = [&](StringRef wanted) { return tensors.contains(StringAttr::get(module.getContext(), wanted)); };
  for (unsigned number = 2; isTaken(name); ++number) // two types of one resource
    name = (elements.getRawHandle().getKey() + "_" + Twine(number)).str();
  key = StringAttr::get(module.getContext(), name);
  tensors[key] = elements;
  alike.push_back(key);
  return key;
}

StringAttr ConstantsBuilder::add(DenseElementsAttr elements) {
  StringAttr &key = keys[elements];
  if (key)
    return key;
  AsmResourceBlob blob;
  if (elements.getElementType().isInteger(1)) {
    SmallVector<char> bytes;
    for (bool bit : elements.getValues<bool>())
      bytes.push_back(bit);
    blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, /*align=*/1);
  } else {
    // The context, which holds the bytes, outlives its resources.
    blob = UnmanagedAsmResourceBlob::allocateWithAlign(elements.getRawData(), alignof(uint64_t));
  }
  auto resource = DenseResourceElementsAttr::get(elements.getType(), "constant", std::move(blob));
  StringAttr found = add(resource);
  return keys[elements] = found;
}

FlatSymbolRefAttr ConstantsBuilder::finish() {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<NamedAttribute> entries;
  for (auto [key, elements] : tensors)
    entries.emplace_back(key, elements);
  auto op = ConstantsOp::create(builder, module.getLoc(), builder.getStringAttr("constants"),
                                builder.getDictionaryAttr(entries));
  return FlatSymbolRefAttr::get(SymbolTable(module).insert(op, Block::iterator(op)));
}
