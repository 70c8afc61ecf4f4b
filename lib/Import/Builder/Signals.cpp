//===- Signals.cpp - Fourier transforms of windows of a signal ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/Signals.h"

#include "dialects/Interfaces/ReferenceBuilder.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

using namespace mlir;

namespace intarsia::importer {

using reference::Integer;
using reference::MixedSizes;
using reference::ReferenceBuilder;
using reference::ScalarBuilder;

static Type elementOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getElementType(); }

Size frameCount(ModuleBuilder &graph, Location at, const Size &length, int64_t size, int64_t step) {
  // The number of steps that a signal is too short by at most is added first: divisions are of numbers from 0 on.
  int64_t added = length.isDynamic() ? llvm::divideCeil(uint64_t(size), uint64_t(step)) : 0;
  Size last = graph.compute(at, SizeOp::Add, length, added * step - size);
  return graph.compute(at, SizeOp::Add, graph.compute(at, SizeOp::Divide, last, step), 1 - added);
}

Value stft(ModuleBuilder &graph, Location at, Value signal, Value window, int64_t size, int64_t step, bool isOnesided) {
  Size length = graph.sizeOf(at, signal, 1);
  if (size < 1 || step < 1 || (!length.isDynamic() && length.value < size)) {
    graph.sink().report("windows of " + llvm::Twine(size) + " elements every " + llvm::Twine(step) +
                        " are not possible of a signal of " +
                        (length.isDynamic() ? llvm::Twine("any length") : llvm::Twine(length.value) + " elements"));
    return signal;
  }
  if (length.isDynamic()) {
    OpBuilder &ops = graph.getBuilder();
    Value least = arith::ConstantIndexOp::create(ops, at, size);
    Value isLong = arith::CmpIOp::create(ops, at, arith::CmpIPredicate::sge, length.index, least);
    cf::AssertOp::create(ops, at, isLong, ("a signal has a window of " + llvm::Twine(size) + " elements").str());
  }
  Size windows = frameCount(graph, at, length, size, step);
  ReferenceBuilder builder(at, graph.getBuilder());
  MixedSizes sizes = builder.sizesOf(signal);
  sizes[1] = graph.size(windows);
  sizes.insert(sizes.begin() + 2, builder.getIndexAttr(size));
  AffineExpr batch, number, place, part;
  bindDims(builder.getContext(), batch, number, place, part);
  SmallVector<std::pair<Value, AffineMap>> inputs = {
      {signal, AffineMap::get(4, 0, {batch, number * step + place, part}, builder.getContext())}};
  if (window)
    inputs.push_back({window, builder.map(4, {2})});
  Value parts = builder.parallel(sizes, elementOf(signal), inputs,
                                 [&](ScalarBuilder &b, ValueRange v) { return window ? b.mul(v[0], v[1]) : v[0]; });
  return nn::FftOp::create(builder, parts, /*axis=*/2, /*inverse=*/false, isOnesided, /*length=*/IntegerAttr());
}

Value istft(ModuleBuilder &graph, Location at, Value transforms, Value window, int64_t size, int64_t step,
            bool isOnesided) {
  if (size < 1 || step < 1) {
    graph.sink().report("windows of " + llvm::Twine(size) + " elements every " + llvm::Twine(step) +
                        " are not possible: both must be at least 1");
    return transforms;
  }
  int64_t wanted = isOnesided ? size / 2 + 1 : size, given = cast<RankedTensorType>(transforms.getType()).getDimSize(2);
  if (!ShapedType::isDynamic(given) && given != wanted) {
    graph.sink().report("transforms of " + llvm::Twine(given) + " elements are added up to windows of " +
                        llvm::Twine(size) + ", whose transforms have " + llvm::Twine(wanted));
    return transforms;
  }
  ReferenceBuilder builder(at, graph.getBuilder());
  Value parts = nn::FftOp::create(builder, transforms, /*axis=*/2, /*inverse=*/true, isOnesided,
                                  isOnesided ? builder.getI64IntegerAttr(size) : IntegerAttr());
  Size windows = graph.sizeOf(at, transforms, 1);
  Size length = graph.compute(at, SizeOp::Multiply, graph.compute(at, SizeOp::Subtract, windows, 1), step);
  length = graph.compute(at, SizeOp::Add, length, size);
  MixedSizes partSizes = builder.sizesOf(parts), sizes = {partSizes[0], graph.size(length), partSizes[3]};
  Value count = getValueOrCreateConstantIndexOp(builder, at, partSizes[1]);
  int64_t overlapping = (size + step - 1) / step;
  Value bounds = builder.filled({builder.getIndexAttr(overlapping)}, builder.getF32FloatAttr(0));
  // Windows that reach a place are the last one that begins before it and some before that.
  auto overlapped = [&](const MixedSizes &outer, unsigned time,
                        llvm::function_ref<Value(ScalarBuilder &, Integer, Integer)> term) {
    unsigned rank = outer.size();
    return builder.fold(builder.filled(outer, builder.getF32FloatAttr(0)), 1, {{bounds, builder.map(rank + 1, {rank})}},
                        [&](ScalarBuilder &b, ValueRange v) {
                          Integer place = b.indexOf(time), number = place / step, before = b.indexOf(rank);
                          Integer isThere = before <= number;
                          number = number - choose(isThere, before, number);
                          Integer inside = place - number * step, all(b, count), end(b, b.index(size));
                          isThere = isThere & (number < all) & (inside < end);
                          number = smaller(number, all - 1);
                          inside = smaller(inside, end - 1);
                          Value value = term(b, number, inside);
                          return b.add(v.back(), b.select(isThere, value, b.f32(0)));
                        });
  };
  auto weightOf = [&](ScalarBuilder &b, Integer inside) {
    return b.widen(tensor::ExtractOp::create(b, window, Value(inside)));
  };
  Value sums = overlapped(sizes, 1, [&](ScalarBuilder &b, Integer number, Integer inside) {
    Value value = b.widen(tensor::ExtractOp::create(b, parts, ValueRange{b.indexOf(0), number, inside, b.indexOf(2)}));
    return window ? b.mul(value, weightOf(b, inside)) : value;
  });
  Value squares = overlapped({sizes[1]}, 0, [&](ScalarBuilder &b, Integer, Integer inside) {
    Value weight = window ? weightOf(b, inside) : b.f32(1);
    return b.mul(weight, weight);
  });
  return builder.parallel(sizes, elementOf(transforms), {{sums, builder.identity(3)}, {squares, builder.map(3, {1})}},
                          [&](ScalarBuilder &b, ValueRange v) {
                            Value isAbove = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, v[1], b.f32(1e-11f));
                            Value result = b.select(isAbove, b.div(v[0], v[1]), v[0]);
                            return b.narrow(result, elementOf(transforms));
                          });
}

} // namespace intarsia::importer
