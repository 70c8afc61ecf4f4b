//===- RowsKernel.cpp - Elementwise and row-wise kernels of GPUs ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/RowParts.h"
#include "lib/Target/GPU/FunctionEmitter.h"
#include "lib/Target/GPU/KernelRoots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t threadsOfBlock = 256;
/// Blocks of a multiprocessor that hide the latency of memory: half of the warps that it can have, whose lanes then
/// have 64 registers, for several vectors on their way.
constexpr int32_t leastBlocks = 4;
/// Rows that are fewer than this are cut into pieces, so that the multiprocessors of the largest GPUs (304 on an
/// MI300X) have eight warps each.
constexpr int64_t fewRows = 2048;
/// Elements of a piece: four vectors for each lane.
constexpr int64_t columnsOfPiece = 512;

/// A warp computes a row of the results, a piece of a row, or an element whose inputs its lanes share. Results whose
/// rows are the same rows are computed by one function.
class RowsKernel final : public KernelEmitter {
public:
  using KernelEmitter::KernelEmitter;

private:
  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  LogicalResult emitScalar(unsigned output);
  LogicalResult emitUnits(const kernel::RowPart &part);
  LogicalResult emitPiece(const kernel::RowPart &part, Value unit);
  LogicalResult emitElement(const kernel::RowPart &part, Value unit);

  RowEmitter rowEmitter{function, tensors};
  std::vector<kernel::RowPart> parts;
};
} // namespace

Emitter makeRowsKernel(rt::KernelOp kernel, const Architecture &architecture) {
  return std::make_unique<RowsKernel>(kernel, architecture);
}

void RowsKernel::chooseShape(KernelShape &shape) {
  kernel::WalkLimits limits{
      .lanes = architecture.warpSize, .fewRows = fewRows, .columns = columnsOfPiece, .reducedColumns = 0};
  parts = kernel::findRowParts(function, limits);
  shape.state("kernel", "rows");
  shape.state("threads", threadsOfBlock);
  shape.state("parts", kernel::describe(parts, b.getContext()));
}

LogicalResult RowsKernel::run() {
  for (const kernel::RowPart &part : parts)
    if (failed(part.merged.empty() ? emitScalar(part.outputs.front()) : emitUnits(part)))
      return failure();
  return success();
}

LogicalResult RowsKernel::emitScalar(unsigned output) {
  function.beginLaunch(architecture.warpSize, number(1));
  Element element = tensors.evaluate(function.yielded(output), {}, 1);
  if (failed(element))
    return failure();
  Value isFirst = equal(function.lane, constant(0));
  ifThen(isFirst, [&] { tensors.store(*element, function.outputs[output], {}, 1); });
  function.endLaunch();
  return success();
}

/// Emits a function whose warps have a row each, a piece of one, or an element.
LogicalResult RowsKernel::emitUnits(const kernel::RowPart &part) {
  AffineExpr units = function.productExpression(part.leading), length = function.productExpression(part.merged);
  if (part.walk == kernel::Walk::Columns && part.columns != 0)
    units = units * length.ceilDiv(part.columns);
  else if (part.walk == kernel::Walk::Elements)
    units = units * length;
  function.beginLaunch(threadsOfBlock, units.ceilDiv(threadsOfBlock / architecture.warpSize));
  function.planRegistersFor(leastBlocks);
  Value unit = add(mul(function.block, constant(function.warpsOfBlock)), function.warp);
  LogicalResult emitted = ifThen(less(unit, function.size(units)), [&]() -> LogicalResult {
    if (part.walk == kernel::Walk::Columns)
      return emitPiece(part, unit);
    if (part.walk == kernel::Walk::Elements)
      return emitElement(part, unit);
    return rowEmitter.emitRow(tensors.makeRow(unit, part.leading), part.outputs);
  });
  function.endLaunch();
  return emitted;
}

LogicalResult RowsKernel::emitPiece(const kernel::RowPart &part, Value unit) {
  Value length = function.product(part.merged), row = unit, begin = constant(0), count = length;
  if (part.columns != 0) {
    Value pieces = ceilDiv(length, constant(part.columns));
    row = div(unit, pieces);
    begin = mul(sub(unit, mul(row, pieces)), constant(part.columns));
    // Pieces of one length have vectors, and as many turns for all lanes.
    auto known = getConstantIntValue(length);
    count =
        known && *known % part.columns == 0 ? constant(part.columns) : min(constant(part.columns), sub(length, begin));
  }
  SmallVector<Value> prefix = function.delinearize(row, part.leading);
  auto at = [&](Value i) {
    Indices indices;
    for (Value index : prefix)
      indices.push_back({index});
    indices.append(part.merged.size() - 1, Index{constant(0)});
    indices.push_back({add(begin, i), true});
    return indices;
  };
  auto compute = [&](Value i, int64_t width) -> FailureOr<SmallVector<Value>> {
    SmallVector<Value> elements;
    for (unsigned output : part.outputs) {
      Element element = tensors.evaluate(function.yielded(output), at(i), width);
      if (failed(element))
        return failure();
      elements.push_back(*element);
    }
    return elements;
  };
  return function.emitStoreLoop(count, compute, [&](Value i, int64_t width, ArrayRef<Value> elements) {
    for (auto [output, element] : llvm::zip_equal(part.outputs, elements))
      tensors.store(element, function.outputs[output], at(i), width);
  });
}

LogicalResult RowsKernel::emitElement(const kernel::RowPart &part, Value unit) {
  Sizes extents(part.leading);
  llvm::append_range(extents, part.merged);
  Indices at;
  for (Value index : function.delinearize(unit, extents))
    at.push_back({index});
  for (unsigned output : part.outputs) {
    Element element = tensors.evaluate(function.yielded(output), at, 1);
    if (failed(element))
      return failure();
    ifThen(equal(function.lane, constant(0)), [&] { tensors.store(*element, function.outputs[output], at, 1); });
  }
  return success();
}

} // namespace intarsia::gpu
