//===- ImageNorm.cpp - Norms over the positions of images ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Reductions and arithmetic: no decision of the compiler asks for a norm as a whole, so they are no ops of nn.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"

#include "dialects/Interfaces/ReferenceBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace intarsia::importer {

Value ModuleBuilder::imageNorm(Location at, Value input, const Shape &shape, Value scale, Value bias, int64_t groups,
                               double epsilon, std::optional<unsigned> channelAxis) {
  unsigned axis = channelAxis.value_or(shape.size() - 1);
  int64_t channels = shape[axis].value;
  if (groups < 1 || ShapedType::isDynamic(channels) || channels % groups != 0) {
    errors.report("a norm of " + llvm::Twine(groups) + " groups is not possible of " +
                  (ShapedType::isDynamic(channels) ? llvm::Twine("a number of channels that is not known")
                                                   : llvm::Twine(channels) + " channels"));
    return input;
  }
  Type element = cast<RankedTensorType>(input.getType()).getElementType(), f32 = builder.getF32Type();
  unsigned rank = shape.size();
  // Dimensions are those of the input, of which that of channels is two: groups, and channels of a group.
  Shape split;
  llvm::SmallVector<ReassociationIndices> parts(rank);
  Size count(channels / groups);
  for (unsigned d = 0; d < rank; ++d) {
    parts[d].push_back(split.size());
    split.push_back(d == axis ? Size(groups) : shape[d]);
    if (d == axis) {
      parts[d].push_back(split.size());
      split.push_back(channels / groups);
    } else if (d != 0) {
      count = compute(at, SizeOp::Multiply, count, shape[d]);
    }
  }
  Value x = expandShape(at, input, split, parts);
  llvm::SmallVector<unsigned, 4> all(llvm::to_vector(llvm::seq<unsigned>(0, rank + 1))), kept = {0, axis};
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
          {expandShape(at, parameter, {Size(groups), Size(channels / groups)}, {{0, 1}}), {axis, axis + 1}});
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

Value ModuleBuilder::responseNorm(Location at, Value input, unsigned axis, int64_t size, double alpha, double beta,
                                  double bias) {
  auto type = cast<RankedTensorType>(input.getType());
  Type element = type.getElementType();
  if (size < 1) {
    errors.report("a local response norm of " + llvm::Twine(size) + " elements is not possible");
    return input;
  }
  reference::ReferenceBuilder loops(at, builder);
  loops.sumType = builder.getF32Type();
  reference::MixedSizes sizes = loops.sizesOf(input);
  unsigned rank = sizes.size();
  // A neighbour is at most as far away as there are channels, however large the window is.
  int64_t farthest = type.isDynamicDim(axis) ? size : std::max<int64_t>(0, type.getDimSize(axis) - 1);
  int64_t before = std::min((size - 1) / 2, farthest), after = std::min(size / 2, farthest);
  Value bounds = loops.filled({builder.getIndexAttr(before + 1 + after)}, builder.getF32FloatAttr(0));
  Value length = getValueOrCreateConstantIndexOp(builder, at, sizes[axis]);
  Value sums = loops.reduce(sizes, 1, 0, {{bounds, loops.map(rank + 1, {rank})}}, [&](ScalarBuilder &b, ValueRange v) {
    Integer place = b.indexOf(axis) + b.indexOf(rank), end = Integer(b, length) + before;
    Integer isThere = (Integer(b, b.index(before)) <= place) & (place < end);
    llvm::SmallVector<Value> at;
    for (unsigned d = 0; d < rank; ++d)
      at.push_back(d == axis ? choose(isThere, place - before, 0) : b.indexOf(d));
    Value x = b.widen(tensor::ExtractOp::create(b, input, at));
    return b.add(v.back(), b.select(isThere, b.mul(x, x), b.f32(0)));
  });
  AffineMap all = loops.identity(rank);
  return loops.parallel(sizes, element, {{input, all}, {sums, all}}, [&](ScalarBuilder &b, ValueRange v) {
    Value base = b.add(b.f32(float(bias)), b.mul(b.f32(float(alpha / double(size))), v[1]));
    Value divisor = math::PowFOp::create(b, base, b.f32(float(beta)));
    return b.narrow(b.div(b.widen(v[0]), divisor), element);
  });
}

} // namespace intarsia::importer
