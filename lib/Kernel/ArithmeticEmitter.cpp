//===- ArithmeticEmitter.cpp - Elementwise ops on vectors -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/ArithmeticEmitter.h"
#include "lib/Kernel/MathFunctions.h"
#include "lib/Kernel/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::kernel {

/// Returns why the CPU target cannot compile an elementwise op, or nothing if it can.
static StringRef whyNotElementwise(Operation *op, const VectorInstructions &instructions) {
  if (isa<math::MathDialect>(op->getDialect()))
    switch (mathKind(op)) {
    case MathKind::Polynomial:
      return getElementTypeOrSelf(op->getOperand(0).getType()).isF64()
                 ? "its polynomials are for f32; cast to f32 before it and back after it (arith.truncf, arith.extf)"
                 : "";
    case MathKind::Rounding:
      return instructions.rounds ? ""
                                 : "a variant for processors without SSE4.1 has no instruction for it; add +sse4.1 to "
                                   "the target or compile for cpu:x86-64-v2 or newer";
    case MathKind::None:
      return "there is no polynomial for it";
    default:
      return "";
    }
  if (isa<arith::RemFOp>(op))
    return "processors have no instruction for the remainder of floats; compute it as a - b * trunc(a / b)";
  if (isa<arith::ScalingExtFOp, arith::ScalingTruncFOp>(op))
    return "processors have no instruction for it; convert with arith.extf or arith.truncf, and multiply or divide by "
           "the scale";
  if (isa<arith::TruncFOp>(op)) {
    bool fromF64 = getElementTypeOrSelf(op->getOperand(0).getType()).isF64();
    return fromF64 && getElementTypeOrSelf(op->getResult(0).getType()).getIntOrFloatBitWidth() < 32
               ? "processors have no instruction from f64 to floats narrower than f32; cast to f32 first, which rounds "
                 "a second time"
               : "";
  }
  return "";
}

Element ArithmeticEmitter::emitElementwise(Operation *op, ArrayRef<Value> operands, int64_t width) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  Type type = vectorOf(memory.computeType(element), width);

  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    if (auto value = dyn_cast<FloatAttr>(constantOp.getValue()))
      return floatConstant(value.getValueAsDouble(), memory.computeType(element), width);
    const APInt &integer = cast<IntegerAttr>(constantOp.getValue()).getValue();
    if (!integer.isSignedIntN(64))
      return body.refuse(op, "integers have at most 64 bits");
    Value scalar =
        arith::ConstantOp::create(b, loc, b.getIntegerAttr(memory.computeType(element), integer.getSExtValue()));
    return splat(scalar, width);
  }
  if (StringRef reason = whyNotElementwise(op, code->instructions); !reason.empty())
    return body.refuse(op, reason);
  if (Value function = emitMathFunction(b, loc, op, operands))
    return function;
  if (isa<arith::ExtFOp, arith::TruncFOp, arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return emitCast(op, operands[0], width);
  if (isa<arith::BitcastOp>(op))
    return emitBitcast(op, operands[0], width);

  bool isLargest = isa<arith::MaxNumFOp>(op);
  // LLVM narrows these between conversions from and to f16, and has a call of fmaxf or fminf for that.
  if ((isLargest || isa<arith::MinNumFOp>(op)) && element.getIntOrFloatBitWidth() < 32) {
    auto predicate = isLargest ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
    Value isFirst = arith::CmpFOp::create(b, loc, predicate, operands[0], operands[1]);
    Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, operands[1], operands[1]);
    Value takesFirst = arith::OrIOp::create(b, loc, isFirst, isNan);
    return Value(arith::SelectOp::create(b, loc, takesFirst, operands[0], operands[1]));
  }

  SmallVector<Value> arguments(operands);
  OperationState state(loc, op->getName());
  if (isa<arith::SelectOp>(op) && width > 1)
    for (Value &argument : arguments)
      if (!isa<VectorType>(argument.getType()))
        argument = splat(argument, width);
  state.addOperands(arguments);
  state.addTypes(type);
  state.attributes = op->getDiscardableAttrDictionary();
  state.propertiesAttr = op->getPropertiesAsAttribute();
  Operation *created = b.create(state);
  return created->getResult(0);
}

/// Emits a cast, whose types differ from the op's once everything narrow is computed in f32.
Value ArithmeticEmitter::emitCast(Operation *op, Value x, int64_t width) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  Type type = vectorOf(memory.computeType(element), width);
  if (isa<arith::ExtFOp>(op))
    return x.getType() == type ? x : arith::ExtFOp::create(b, loc, type, x).getResult();
  if (isa<arith::TruncFOp>(op)) {
    if (element != memory.computeType(element))
      return memory.widen(memory.narrow(x, element, width), memory.computeType(element), width);
    return x.getType() == type ? x : arith::TruncFOp::create(b, loc, type, x).getResult();
  }
  unsigned from = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
  unsigned to = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  if (from == to)
    return x;
  if (from > to)
    return arith::TruncIOp::create(b, loc, type, x);
  if (isa<arith::IndexCastOp>(op))
    return arith::ExtSIOp::create(b, loc, type, x);
  return arith::ExtUIOp::create(b, loc, type, x);
}

/// Emits a bitcast. The bits of floats of 16 bits, which are computed in f32, are those that are stored.
Value ArithmeticEmitter::emitBitcast(Operation *op, Value x, int64_t width) {
  Type from = getElementTypeOrSelf(op->getOperand(0).getType()), to = getElementTypeOrSelf(op->getResult(0).getType());
  if (from != memory.computeType(from))
    x = memory.narrow(x, from, width);
  Value bits = arith::BitcastOp::create(b, loc, vectorOf(to, width), x);
  return to == memory.computeType(to) ? bits : memory.widen(bits, memory.computeType(to), width);
}

/// Applies an activation to `width` elements of a type.
Value ArithmeticEmitter::emitActivation(Operation *op, Value x, Type type, int64_t width) {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](nn::GeluOp gelu) { return emitGelu(b, loc, x, gelu.getForm()); })
      .Case([&](nn::SiluOp) { return emitSilu(b, loc, x); })
      .Case([&](nn::TanhOp) { return emitTanh(b, loc, x); })
      .Case([&](nn::SigmoidOp) { return emitSigmoid(b, loc, x); })
      // maximumf keeps NaN, as the op says.
      .Case([&](nn::ReluOp) -> Value { return arith::MaximumFOp::create(b, loc, x, floatConstant(0.0, type, width)); });
}

} // namespace intarsia::kernel
