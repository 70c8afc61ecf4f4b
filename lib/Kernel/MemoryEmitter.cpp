//===- MemoryEmitter.cpp - Elements in memory, and as they are computed with ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/MemoryEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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

Value MemoryEmitter::at(Value pointer, Value elements, Type elementType) {
  return LLVM::GEPOp::create(b, loc, pointer.getType(), storedType(elementType), pointer,
                             ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(elements)});
}

/// Returns a power of two, at most `most`, that divides an integer whatever the sizes are.
static int64_t divisorOf(Value value, int64_t most) {
  APInt known;
  if (matchPattern(value, m_ConstantInt(&known)))
    return known.isZero() ? most : std::min<int64_t>(most, int64_t(1) << std::min<unsigned>(known.countr_zero(), 32));
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    bool isIndex = loop && argument == loop.getInductionVar();
    return isIndex ? std::min(divisorOf(loop.getLowerBound(), most), divisorOf(loop.getStep(), most)) : 1;
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::MulIOp>(op))
    return std::min(most, divisorOf(op->getOperand(0), most) * divisorOf(op->getOperand(1), most));
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp, arith::RemSIOp, arith::RemUIOp>(op))
    return std::min(divisorOf(op->getOperand(0), most), divisorOf(op->getOperand(1), most));
  if (isa<arith::SelectOp>(op))
    return std::min(divisorOf(op->getOperand(1), most), divisorOf(op->getOperand(2), most));
  return 1;
}

/// Returns the bytes, at most `most`, that an address is a multiple of; buffers begin at multiples of `ofBuffers`.
static int64_t alignmentOf(Value pointer, int64_t most, int64_t ofBuffers) {
  if (isa<BlockArgument>(pointer) || isa<LLVM::AddressOfOp>(pointer.getDefiningOp()))
    return std::min(most, ofBuffers);
  auto step = pointer.getDefiningOp<LLVM::GEPOp>();
  if (!step || step.getDynamicIndices().size() != 1 || step.getRawConstantIndices().size() != 1 ||
      !step.getElemType().isIntOrFloat())
    return 1;
  int64_t bytes = step.getElemType().getIntOrFloatBitWidth() / 8;
  return std::min(alignmentOf(step.getBase(), most, ofBuffers),
                  std::min(most, bytes * divisorOf(step.getDynamicIndices()[0], most)));
}

int64_t MemoryEmitter::vectorAlignment(Value address, Type stored, int64_t width) {
  int64_t ofElement = stored.getIntOrFloatBitWidth() / 8;
  if (code->instructions.bufferAlignment == 0 || width == 1)
    return ofElement;
  return std::max(ofElement, alignmentOf(address, ofElement * width, code->instructions.bufferAlignment));
}

Value MemoryEmitter::load(Value pointer, Value offset, Type elementType, int64_t width) {
  Type stored = storedType(elementType);
  Value address = at(pointer, offset, elementType);
  Value value = LLVM::LoadOp::create(b, loc, vectorOf(stored, width), address, vectorAlignment(address, stored, width));
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

void MemoryEmitter::store(Value value, Value pointer, Value offset, Type elementType, int64_t width) {
  Type stored = storedType(elementType);
  if (elementType.isInteger(1))
    value = arith::ExtUIOp::create(b, loc, vectorOf(stored, width), value);
  else if (isa<Float8E4M3FNType>(elementType))
    value = narrowE4M3(value, width);
  else if (stored != computeType(elementType))
    value = narrow(value, stored, width);
  Value address = at(pointer, offset, elementType);
  LLVM::StoreOp::create(b, loc, value, address, vectorAlignment(address, stored, width));
}

} // namespace intarsia::kernel
