//===- RowEmitter.cpp - What the elements of a row share: norms, softmax, reductions ----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/RowEmitter.h"
#include "lib/Kernel/Reads.h"
#include "lib/Kernel/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace intarsia::kernel {

RowEmitter::NormInput RowEmitter::normInput(Value tensor, const RowScope &row) {
  NormInput input{tensor, body.sizes.of(tensor).back(), row.prefix, Value()};
  auto inMemory = body.storage.find(tensor);
  bool isF32 = inMemory != body.storage.end() && inMemory->second.elementType.isF32();
  if (!isF32)
    input.scratch = body.scratch(input.length * 4);
  return input;
}

Element RowEmitter::readFirst(const NormInput &input, Value i, int64_t width) {
  Element x = tensors.evaluate(input.tensor, indicesOf(input.prefix, i), width);
  if (succeeded(x) && input.scratch)
    memory.store(*x, input.scratch, i, b.getF32Type(), width);
  return x;
}

Element RowEmitter::readAgain(const NormInput &input, Value i, int64_t width) {
  if (!input.scratch)
    return readFirst(input, i, width);
  return memory.load(input.scratch, i, b.getF32Type(), width);
}

LogicalResult RowEmitter::prepareSoftmax(nn::SoftmaxOp softmax, const RowScope &row) {
  Value length = body.size(body.sizes.of(softmax.getInput()).back());
  NormInput input = normInput(softmax.getInput(), row);
  Type f32 = b.getF32Type();
  Value powers = input.scratch ? input.scratch : body.scratch(input.length * 4);
  Element maximum =
      reduce(length, Combination::MAXIMUMF, f32, [&](Value i, int64_t width) { return readFirst(input, i, width); });
  if (failed(maximum))
    return failure();
  // A row of -inf: exp(-inf - 0) gives zeros, and so does their quotient by a sum that is kept from zero.
  Value lowest = floatConstant(-std::numeric_limits<double>::infinity(), f32, 1);
  Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, *maximum, lowest);
  Value largest = arith::SelectOp::create(b, loc, none, floatConstant(0.0, f32, 1), *maximum);
  Element sum = reduce(length, Combination::ADD, f32, [&](Value i, int64_t width) -> Element {
    Element x = readAgain(input, i, width);
    if (failed(x))
      return failure();
    Value shifted = arith::SubFOp::create(b, loc, *x, splat(largest, width));
    Value e = emitExpNonPositive(b, loc, shifted);
    memory.store(e, powers, i, f32, width);
    return e;
  });
  if (failed(sum))
    return failure();
  Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, *sum, floatConstant(0.0, f32, 1));
  Value divisor = arith::SelectOp::create(b, loc, isZero, floatConstant(1.0, f32, 1), *sum);
  Value inverse = arith::DivFOp::create(b, loc, floatConstant(1.0, f32, 1), divisor);
  tensors.bound[softmax.getResult()] = [=, this](ArrayRef<Index> indices, int64_t width) -> Element {
    return arith::MulFOp::create(b, loc, memory.load(powers, indices.back().base, b.getF32Type(), width),
                                 splat(inverse, width))
        .getResult();
  };
  return success();
}

LogicalResult RowEmitter::prepareCumulate(nn::CumulateOp cumulate, const RowScope &row) {
  Value input = cumulate.getInput();
  AffineExpr length = body.sizes.of(input).back();
  Type type = MemoryEmitter::computeType(cast<RankedTensorType>(input.getType()).getElementType());
  int64_t bytes = llvm::divideCeil(MemoryEmitter::storedType(type).getIntOrFloatBitWidth(), 8);
  Value combined = body.scratch(length * bytes);
  LogicalResult emitted = code->rowLoops->emitPrefixes(
      body.size(length), {{cumulate.getKind(), type}, cumulate.getExclusive(), cumulate.getReverse()},
      [&](Value i, int64_t width) { return tensors.evaluate(input, indicesOf(row.prefix, i), width); },
      [&](Value i, int64_t width, Value prefix) { memory.store(prefix, combined, i, type, width); });
  tensors.bound[cumulate.getResult()] = [=, this](ArrayRef<Index> indices, int64_t width) -> Element {
    return memory.load(combined, indices.back().base, type, width);
  };
  return emitted;
}

LogicalResult RowEmitter::prepareNorm(NormOpInterface norm, const RowScope &row) {
  NormStatistics statistics = norm.getStatistics();
  Value features = body.size(body.sizes.of(norm.getInput()).back());
  NormInput input = normInput(norm.getInput(), row);
  if (statistics.groups == 1) {
    FailureOr<Moments> moments = momentsOf(statistics, input, constant(0), features);
    if (failed(moments))
      return failure();
    tensors.bound[norm->getResult(0)] = [=, this](ArrayRef<Index> indices, int64_t width) -> Element {
      Element x =
          input.scratch ? readAgain(input, indices.back().base, width) : tensors.evaluate(input.tensor, indices, width);
      if (failed(x))
        return failure();
      return scaled(norm, normalized(*x, *moments, width), indices.back().base, width);
    };
    return success();
  }
  // Groups are normalized into scratch one by one: the lanes of one vector may lie in several.
  Type f32 = b.getF32Type();
  Value normal = input.scratch ? input.scratch : body.scratch(input.length * 4);
  Value groups = constant(statistics.groups), count = div(features, groups);
  LogicalResult stored = forLoop(constant(0), groups, constant(1), [&](Value group) -> LogicalResult {
    Value begin = mul(group, count);
    FailureOr<Moments> moments = momentsOf(statistics, input, begin, count);
    if (failed(moments))
      return failure();
    return vectorLoop(count, [&](Value i, int64_t width) -> LogicalResult {
      Value at = add(begin, i);
      Element x = readAgain(input, at, width);
      if (succeeded(x))
        memory.store(normalized(*x, *moments, width), normal, at, f32, width);
      return x;
    });
  });
  tensors.bound[norm->getResult(0)] = [=, this](ArrayRef<Index> indices, int64_t width) {
    Value x = memory.load(normal, indices.back().base, b.getF32Type(), width);
    return scaled(norm, x, indices.back().base, width);
  };
  return stored;
}

/// Emits the statistics of `count` features from `begin` on.
FailureOr<RowEmitter::Moments> RowEmitter::momentsOf(const NormStatistics &statistics, const NormInput &input,
                                                     Value begin, Value count) {
  Type f32 = b.getF32Type();
  Value scalarCount = arith::UIToFPOp::create(b, loc, f32, count);
  Moments moments;
  if (statistics.isCentred) {
    Element sum = reduce(count, Combination::ADD, f32,
                         [&](Value i, int64_t width) { return readFirst(input, add(begin, i), width); });
    if (failed(sum))
      return failure();
    moments.mean = arith::DivFOp::create(b, loc, *sum, scalarCount);
  }
  Element squares = reduce(count, Combination::ADD, f32, [&](Value i, int64_t width) -> Element {
    Value at = add(begin, i);
    Element element = moments.mean ? readAgain(input, at, width) : readFirst(input, at, width);
    if (failed(element))
      return failure();
    Value x = *element;
    if (moments.mean)
      x = arith::SubFOp::create(b, loc, x, splat(moments.mean, width));
    return arith::MulFOp::create(b, loc, x, x).getResult();
  });
  if (failed(squares))
    return failure();
  Value epsilon = floatConstant(statistics.epsilon, f32, 1);
  Value variance = arith::AddFOp::create(b, loc, arith::DivFOp::create(b, loc, *squares, scalarCount), epsilon);
  moments.inverse = emitRsqrt(b, loc, variance);
  return moments;
}

Value RowEmitter::normalized(Value x, const Moments &moments, int64_t width) {
  if (moments.mean)
    x = arith::SubFOp::create(b, loc, x, splat(moments.mean, width));
  return arith::MulFOp::create(b, loc, x, splat(moments.inverse, width));
}

Element RowEmitter::scaled(NormOpInterface norm, Value x, Value at, int64_t width) {
  Indices feature{{at, true}};
  Element scale = tensors.evaluate(norm.getScale(), feature, width);
  if (failed(scale))
    return failure();
  x = arith::MulFOp::create(b, loc, x, *scale);
  if (!norm.getBias())
    return x;
  Element bias = tensors.evaluate(norm.getBias(), feature, width);
  if (failed(bias))
    return failure();
  return arith::AddFOp::create(b, loc, x, *bias).getResult();
}

Element RowEmitter::largestMagnitude(const NormInput &input, Value begin, Value count, bool isFirst) {
  return reduce(count, Combination::MAXIMUMF, b.getF32Type(), [&](Value i, int64_t width) -> Element {
    Value at = add(begin, i);
    Element x = isFirst ? readFirst(input, at, width) : readAgain(input, at, width);
    return failed(x) ? x : Element(math::AbsFOp::create(b, loc, *x).getResult());
  });
}

LogicalResult RowEmitter::prepareE2M1(Value dequantized, nn::QuantizeOp quantize, const RowScope &row) {
  Type f32 = b.getF32Type();
  NormInput input = normInput(quantize.getInput(), row);
  // A block is read before its dequantized elements are stored.
  Value values = input.scratch ? input.scratch : body.scratch(input.length * 4);
  Value length = body.size(input.length), block = constant(quantize.getFormat().getBlock()), ofRow;
  if (quantize.hasRowScales()) {
    Element largest = largestMagnitude(input, constant(0), length, /*isFirst=*/true);
    if (failed(largest))
      return failure();
    ofRow = memory.rowScaleE2M1(*largest);
  }
  std::optional<int64_t> known = getConstantIntValue(length);
  bool areWhole = known && *known % quantize.getFormat().getBlock() == 0;
  LogicalResult stored = forLoop(constant(0), length, block, [&](Value begin) -> LogicalResult {
    Value count = areWhole ? block : min(block, sub(length, begin));
    Element largest = largestMagnitude(input, begin, count, /*isFirst=*/!ofRow);
    if (failed(largest))
      return failure();
    MemoryEmitter::BlockScale scale = memory.scaleE2M1(*largest, ofRow);
    return vectorLoop(count, [&](Value i, int64_t width) -> LogicalResult {
      Value at = add(begin, i);
      Element x = readAgain(input, at, width);
      if (failed(x))
        return failure();
      Value element = memory.roundE2M1(memory.quotient(*x, scale.whole, width), width);
      memory.store(arith::MulFOp::create(b, loc, splat(scale.whole, width), element), values, at, f32, width);
      return success();
    });
  });
  tensors.bound[dequantized] = [=, this](ArrayRef<Index> indices, int64_t width) -> Element {
    return memory.load(values, indices.back().base, b.getF32Type(), width);
  };
  return stored;
}

LogicalResult RowEmitter::prepareE4M3(Value dequantized, nn::QuantizeOp quantize, const RowScope &row) {
  Type f32 = b.getF32Type();
  NormInput input = normInput(quantize.getInput(), row);
  Element largest = largestMagnitude(input, constant(0), body.size(input.length), /*isFirst=*/true);
  if (failed(largest))
    return failure();
  Value scale = arith::DivFOp::create(b, loc, *largest, floatConstant(floatE4M3.largest, f32, 1));
  Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, scale, floatConstant(0.0, f32, 1));
  // Zeros by 1 are zeros too.
  Value divisor = arith::SelectOp::create(b, loc, isZero, floatConstant(1.0, f32, 1), scale);
  tensors.bound[dequantized] = [=, this](ArrayRef<Index> indices, int64_t width) -> Element {
    Element x =
        input.scratch ? readAgain(input, indices.back().base, width) : tensors.evaluate(input.tensor, indices, width);
    if (failed(x))
      return failure();
    Value ratio = arith::DivFOp::create(b, loc, *x, splat(divisor, width));
    return arith::MulFOp::create(b, loc, memory.widenE4M3(memory.narrowE4M3(ratio, width), width), splat(scale, width))
        .getResult();
  };
  return success();
}

/// True if an op computes a row that is reduced and read once more, and that takes longer than reading it from scratch.
bool RowEmitter::isReadTwice(Operation *op, const RowScope &row) {
  if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return false;
  Value value = op->getResult(0);
  ArrayRef<AffineExpr> extents = body.sizes.of(value);
  auto nest = dyn_cast<linalg::LinalgOp>(op);
  bool isElementwise = nest ? nest.getNumReductionLoops() == 0 : OpTrait::hasElementwiseMappableTraits(op);
  if (!isElementwise || extents.empty() || extents.drop_back() != ArrayRef<AffineExpr>(row.sizes))
    return false;
  bool isReduced = llvm::any_of(value.getUsers(), [](Operation *user) {
    auto reduction = dyn_cast<linalg::LinalgOp>(user);
    return reduction && reduction.getNumReductionLoops() != 0;
  });
  if (!isReduced || value.hasOneUse())
    return false;
  return takesLong(op);
}

/// Computes a row into scratch.
LogicalResult RowEmitter::prepareTwice(Value value, const RowScope &row) {
  AffineExpr length = body.sizes.of(value).back();
  Type type = memory.computeType(cast<RankedTensorType>(value.getType()).getElementType());
  SmallVector<Value> prefix(row.prefix);
  Value elements = body.scratch(length * int64_t(llvm::divideCeil(type.getIntOrFloatBitWidth(), 8)));
  LogicalResult stored = vectorLoop(body.size(length), [&](Value i, int64_t width) -> LogicalResult {
    Element element = tensors.evaluate(value, indicesOf(row.prefix, i), width);
    if (succeeded(element))
      memory.store(*element, elements, i, type, width);
    return element;
  });
  tensors.bound[value] = [=, this](ArrayRef<Index> at, int64_t width) -> Element {
    bool isOfRow = llvm::all_of(llvm::zip_equal(at.drop_back(), prefix), [](auto both) {
      return std::get<0>(both).base == std::get<1>(both) && !std::get<0>(both).lane;
    });
    if (isOfRow)
      return memory.load(elements, at.back().base, type, width);
    // Another row: its elements are computed.
    auto ofRow = tensors.bound.find(value)->second;
    tensors.bound.erase(value);
    Element element = tensors.evaluate(value, at, width);
    tensors.bound[value] = ofRow;
    return element;
  };
  return stored;
}

LogicalResult RowEmitter::prepareRow(const RowScope &row, ArrayRef<Value> roots) {
  // The ops that the roots need are found backwards and prepared in the order of the kernel's body.
  DenseSet<Operation *> needed;
  SmallVector<Value> worklist(roots);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || tensors.bound.count(value) || body.storage.count(value) || !needed.insert(op).second)
      continue;
    llvm::append_range(worklist, op->getOperands());
  }
  for (Operation &op : body.kernel.getBody().front()) {
    if (!needed.count(&op))
      continue;
    if (isa<RowwiseOpInterface>(op)) {
      ArrayRef<AffineExpr> extents = body.sizes.of(op.getResult(0));
      if (extents.drop_back() != ArrayRef<AffineExpr>(row.sizes))
        return body.refuse(&op, "its rows are not the rows of the kernel's result");
      LogicalResult prepared =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case([&](nn::SoftmaxOp softmax) { return prepareSoftmax(softmax, row); })
              .Case([&](nn::CumulateOp cumulate) { return prepareCumulate(cumulate, row); })
              .Case([&](NormOpInterface norm) { return prepareNorm(norm, row); })
              .Default([&](Operation *other) { return body.refuse(other, "its rows have no code here"); });
      if (failed(prepared))
        return failure();
      continue;
    }
    if (isa<nn::DequantizeOp>(op))
      if (nn::QuantizeOp quantize = quantizedToFloats(op.getResult(0))) {
        if (body.sizes.of(op.getResult(0)).drop_back() != ArrayRef<AffineExpr>(row.sizes))
          return body.refuse(&op, "its rows are not the rows of the kernel's result");
        bool isE2M1 = quantize.getFormat().getElement() == nn::BlockElement::E2M1;
        if (failed(isE2M1 ? prepareE2M1(op.getResult(0), quantize, row) : prepareE4M3(op.getResult(0), quantize, row)))
          return failure();
        continue;
      }
    if (isReadTwice(&op, row)) {
      if (failed(prepareTwice(op.getResult(0), row)))
        return failure();
      continue;
    }
    // A reduction that is the same for the whole row is computed once.
    auto reduction = dyn_cast<linalg::LinalgOp>(op);
    if (!reduction || reduction.getNumReductionLoops() == 0 || op.getNumResults() != 1)
      continue;
    ArrayRef<AffineExpr> extents = body.sizes.of(op.getResult(0));
    if (extents.size() > row.sizes.size() || extents != ArrayRef<AffineExpr>(row.sizes).take_front(extents.size()))
      continue;
    // It is remembered for the row.
    if (failed(tensors.evaluate(op.getResult(0), indicesOf(ArrayRef(row.prefix).take_front(extents.size())), 1)))
      return failure();
  }
  return success();
}

LogicalResult RowEmitter::emitRow(const RowScope &row, ArrayRef<unsigned> indices) {
  RowGuard inRow(tensors, row);
  SmallVector<Value> roots;
  for (unsigned i : indices)
    roots.push_back(body.yielded(i));
  if (failed(prepareRow(row, roots)))
    return failure();
  auto at = [&](Value i) { return indicesOf(row.prefix, i); };
  // Outputs of one length are computed together: what they share is computed once.
  SmallVector<unsigned> rest(indices.begin(), indices.end());
  while (!rest.empty()) {
    AffineExpr length = body.sizes.of(body.yielded(rest.front())).back();
    SmallVector<unsigned> together, others;
    for (unsigned i : rest)
      (body.sizes.of(body.yielded(i)).back() == length ? together : others).push_back(i);
    auto compute = [&](Value i, int64_t width) -> FailureOr<SmallVector<Value>> {
      SmallVector<Value> elements;
      code->memo.emplace_back();
      for (unsigned output : together) {
        Element element = tensors.evaluate(body.yielded(output), at(i), width);
        if (failed(element))
          return failure();
        elements.push_back(*element);
      }
      code->memo.pop_back();
      return elements;
    };
    LogicalResult stored = code->rowLoops->emitStoreLoop(
        body.size(length), compute, [&](Value i, int64_t width, ArrayRef<Value> elements) {
          for (auto [output, element] : llvm::zip_equal(together, elements))
            tensors.store(element, body.outputs[output], at(i), width);
        });
    if (failed(stored))
      return failure();
    rest = others;
  }
  return success();
}

} // namespace intarsia::kernel
