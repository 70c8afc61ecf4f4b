//===- MemoryEmitter.cpp - Elements in memory, and as they are computed with ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/MemoryEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::kernel {

Type MemoryEmitter::computeType(Type element) {
  if (element.isIndex())
    return IntegerType::get(element.getContext(), 64);
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
    return Float32Type::get(element.getContext());
  return element;
}

Type MemoryEmitter::storedType(Type element) {
  if (element.isInteger(1) || isa<Float8E4M3FNType>(element))
    return IntegerType::get(element.getContext(), 8);
  if (element.isIndex())
    return IntegerType::get(element.getContext(), 64);
  return element;
}

Value MemoryEmitter::offsetPointer(Value pointer, Value elements, Type elementType) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), storedType(elementType), pointer,
                             ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(elements)});
}

Value MemoryEmitter::loadAt(Value pointer, Value offset, Type elementType, int64_t width) {
  Type stored = storedType(elementType);
  unsigned alignment = stored.getIntOrFloatBitWidth() / 8;
  Value value =
      LLVM::LoadOp::create(b, loc, vectorOf(stored, width), offsetPointer(pointer, offset, elementType), alignment);
  if (elementType.isInteger(1)) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(value.getType()));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  }
  if (isa<Float8E4M3FNType>(elementType))
    return widenE4M3(value, width);
  Type compute = computeType(elementType);
  if (compute != stored)
    value = widen(value, compute, width);
  return value;
}

void MemoryEmitter::storeAt(Value value, Value pointer, Value offset, Type elementType, int64_t width) {
  Type stored = storedType(elementType);
  if (elementType.isInteger(1))
    value = arith::ExtUIOp::create(b, loc, vectorOf(stored, width), value);
  else if (isa<Float8E4M3FNType>(elementType))
    value = narrowE4M3(value, width);
  else if (stored != computeType(elementType))
    value = narrow(value, stored, width);
  unsigned alignment = stored.getIntOrFloatBitWidth() / 8;
  LLVM::StoreOp::create(b, loc, value, offsetPointer(pointer, offset, elementType), alignment);
}

} // namespace intarsia::kernel
