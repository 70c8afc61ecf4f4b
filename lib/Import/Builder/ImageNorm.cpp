//===- ImageNorm.cpp - Norms over the positions of images ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Two reductions and arithmetic: no decision of the compiler asks for the norm as a whole, so it is no op of nn.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::importer {

Value ModuleBuilder::imageNorm(Location at, Value input, const Shape &shape, Value scale, Value bias, int64_t groups,
                               double epsilon) {
  int64_t channels = shape.back().value;
  if (groups < 1 || ShapedType::isDynamic(channels) || channels % groups != 0) {
    errors.report("a norm of " + llvm::Twine(groups) + " groups is not possible of " +
                  (ShapedType::isDynamic(channels) ? llvm::Twine("a number of channels that is not known")
                                                   : llvm::Twine(channels) + " channels"));
    return input;
  }
  Type element = cast<RankedTensorType>(input.getType()).getElementType(), f32 = builder.getF32Type();
  unsigned rank = shape.size();
  // Dimensions are those of the input, of which the last is two: groups, and channels of a group.
  Shape split(shape.begin(), shape.end() - 1);
  split.append({Size(groups), Size(channels / groups)});
  llvm::SmallVector<ReassociationIndices> parts;
  Size count(channels / groups);
  for (unsigned d = 0; d + 1 < rank; ++d) {
    parts.push_back({d});
    if (d != 0)
      count = compute(at, SizeOp::Multiply, count, shape[d]);
  }
  parts.push_back({rank - 1, rank});
  Value x = expandShape(at, input, split, parts);
  llvm::SmallVector<unsigned, 4> all(llvm::to_vector(llvm::seq<unsigned>(0, rank + 1))), kept = {0, rank - 1};
  Shape statistics = {shape[0], Size(groups)};

  Value index = getValueOrCreateConstantIndexOp(builder, at, size(count));
  auto mean = [&](Value sums) {
    return elementwise(at, f32, statistics, {{sums, {0, 1}}}, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
      Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
      return arith::DivFOp::create(b, loc, v[0], arith::SIToFPOp::create(b, loc, f32, number));
    });
  };
  Value means = mean(reduce(at, builder.getF32FloatAttr(0), split, kept, {{x, all}},
                            [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                              return arith::AddFOp::create(b, loc, v[1], widened(b, loc, v[0], f32));
                            }));
  auto centred = [&](OpBuilder &b, Location loc, Value value, Value meanOfGroup) -> Value {
    return arith::SubFOp::create(b, loc, widened(b, loc, value, f32), meanOfGroup);
  };
  Value variances = mean(reduce(at, builder.getF32FloatAttr(0), split, kept, {{x, all}, {means, kept}},
                                [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
                                  Value distance = centred(b, loc, v[0], v[1]);
                                  Value square = arith::MulFOp::create(b, loc, distance, distance);
                                  return arith::AddFOp::create(b, loc, v[2], square);
                                }));
  llvm::SmallVector<Operand> operands = {{x, all}, {means, kept}, {variances, kept}};
  for (Value parameter : {scale, bias})
    if (parameter)
      operands.push_back(
          {expandShape(at, parameter, {Size(groups), Size(channels / groups)}, {{0, 1}}), {rank - 1, rank}});
  Value result = elementwise(at, element, split, operands, [&](OpBuilder &b, Location loc, ValueRange v) -> Value {
    Value least = floatConstant(b, loc, f32, epsilon);
    Value inverse = math::RsqrtOp::create(b, loc, arith::AddFOp::create(b, loc, v[2], least).getResult());
    Value y = arith::MulFOp::create(b, loc, centred(b, loc, v[0], v[1]), inverse);
    if (scale)
      y = arith::MulFOp::create(b, loc, y, widened(b, loc, v[3], f32));
    if (bias)
      y = arith::AddFOp::create(b, loc, y, widened(b, loc, v[scale ? 4 : 3], f32));
    return element == f32 ? y : arith::TruncFOp::create(b, loc, element, y).getResult();
  });
  return collapseShape(at, result, parts);
}

} // namespace intarsia::importer
