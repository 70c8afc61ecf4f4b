//===- Casts.cpp - Elements as those of another type --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/OpTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::onnx {
namespace {

void castTo(NodeContext &node, DataType to) {
  Value x = node.tensor(0);
  SmallRounding rounding = node.rounding();
  if (!node.isRefused())
    node.result(0, node.cast(x, node.typeOf(0), to, rounding), to);
}

void cast(NodeContext &node) { castTo(node, DataType(node.integer("to", 0))); }

void castLike(NodeContext &node) { castTo(node, node.typeOf(1)); }

/// Keeps the bits of elements, of types that have as many.
void bitCast(NodeContext &node) {
  Value x = node.tensor(0);
  DataType from = node.typeOf(0);
  auto to = DataType(node.integer("to", 0));
  Type type = node.irType(to);
  if (node.isRefused())
    return;
  if (!type || bitsOf(from) != bitsOf(to) || bitsOf(from) == 6)
    return node.refuse("elements of type " + nameOf(from) + " have no type " + nameOf(to) + " of as many bits");
  bool isFew = bitsOf(from) < 8;
  if (from == to || (node.irType(from) == type && !isFew))
    return node.result(0, x, to);
  Value result = node.broadcast({x}, type, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
    Value value = v[0];
    if (isBool(from))
      value = arith::ExtUIOp::create(b, loc, b.getI8Type(), value);
    if (isBool(to)) {
      Value zero = arith::ConstantOp::create(b, loc, b.getIntegerAttr(value.getType(), 0));
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
    }
    if (value.getType() != type)
      return arith::BitcastOp::create(b, loc, type, value);
    // A byte of IR has elements of fewer bits in its low ones, and their sign in the others.
    if (isSmallInteger(to))
      return wrapSmallInteger(b, loc, value, to);
    Value mask = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, (1 << bitsOf(to)) - 1));
    return arith::AndIOp::create(b, loc, value, mask);
  });
  node.result(0, result, to);
}

} // namespace

llvm::ArrayRef<OpRow> castOps() {
  static const OpRow rows[] = {
      {"", "Cast", 6, cast, Takes::Elements},
      {"", "CastLike", 15, castLike, Takes::Elements},
      {"", "BitCast", 26, bitCast, Takes::Elements},
  };
  return rows;
}

} // namespace intarsia::onnx
