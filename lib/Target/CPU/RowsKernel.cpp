//===- RowsKernel.cpp - Kernels without a matmul: rows, reductions, elementwise ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"

#include "intarsia/module_abi.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// A tile handles at least this many elements: about 1 us of elementwise work, five times what a dispatch costs.
constexpr int64_t kElementsPerTile = 4096;
/// Tiles per thread, so that a thread that is held up does not hold up the others.
constexpr int64_t kTilesPerThread = 4;

class RowsKernel final : public KernelEmitter {
public:
  using KernelEmitter::KernelEmitter;

private:
  LogicalResult analyze() override { return findParts(); }
  LogicalResult run() override;
  void launch() override;

  LogicalResult findParts();
  LogicalResult emitPart(unsigned p, Value tile);
  LogicalResult emitRowsOfPart(unsigned p, Value tile);
  // Slots of the launch.
  static int64_t slotOfRows(unsigned p) { return ITX_PLAN_PRIVATE + 2 * p; }
  static int64_t slotOfTiles(unsigned p) { return ITX_PLAN_PRIVATE + 2 * p + 1; }

  /// Outputs whose rows are the same rows. Parts have tiles of their own, one after another.
  struct Part {
    Sizes leading;
    SmallVector<unsigned> outputs;
    Value rowsPerTile, tiles; ///< of the run function
  };
  RowEmitter rowEmitter{function, tensors};
  SmallVector<Part> parts;
};
} // namespace

Emitter makeRowsKernel(rt::KernelOp kernel, Operation *, const TileConfig &config) {
  return std::make_unique<RowsKernel>(kernel, config);
}

LogicalResult RowsKernel::findParts() {
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i) {
    ArrayRef<AffineExpr> extents = function.sizes.of(function.yielded(i));
    ArrayRef<AffineExpr> leading = extents.empty() ? extents : extents.drop_back();
    auto same = llvm::find_if(parts, [&](const Part &part) {
      bool scalar = function.sizes.of(function.yielded(part.outputs.front())).empty();
      return !scalar && !extents.empty() && ArrayRef<AffineExpr>(part.leading) == leading;
    });
    if (same == parts.end())
      parts.push_back({Sizes(leading.begin(), leading.end()), {i}, {}, {}});
    else
      same->outputs.push_back(i);
  }
  if (slotOfRows(parts.size()) > ITX_PLAN_LENGTH)
    return function.refuse(kernel, "its results have more than " + Twine((ITX_PLAN_LENGTH - ITX_PLAN_PRIVATE) / 2) +
                                       " different shapes");
  return success();
}

void RowsKernel::launch() {
  Value tiles = constant(0);
  for (auto [p, part] : llvm::enumerate(parts)) {
    Value rows = function.product(part.leading);
    ArrayRef<AffineExpr> extents = function.sizes.of(function.yielded(part.outputs.front()));
    Value elements = mul(rows, extents.empty() ? constant(1) : function.size(extents.back()));
    Value wanted = min(mul(function.threads, constant(kTilesPerThread)), div(elements, constant(kElementsPerTile)));
    wanted = max(min(wanted, rows), constant(1));
    Value rowsPerTile = max(ceilDiv(rows, wanted), constant(1));
    Value partTiles = ceilDiv(rows, rowsPerTile);
    function.setSlot(slotOfRows(p), rowsPerTile);
    function.setSlot(slotOfTiles(p), partTiles);
    tiles = add(tiles, partTiles);
  }
  function.setSlot(ITX_PLAN_TILES, tiles);
}

LogicalResult RowsKernel::run() {
  for (auto [p, part] : llvm::enumerate(parts)) {
    part.rowsPerTile = function.slot(slotOfRows(p));
    part.tiles = function.slot(slotOfTiles(p));
  }
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) { return emitPart(0, tile); });
}

/// Emits the part that a tile, counted from the first one of part `p`, belongs to.
LogicalResult RowsKernel::emitPart(unsigned p, Value tile) {
  if (p + 1 == parts.size())
    return emitRowsOfPart(p, tile);
  return ifThen(
      less(tile, parts[p].tiles), [&] { return emitRowsOfPart(p, tile); },
      [&] { return emitPart(p + 1, sub(tile, parts[p].tiles)); });
}

LogicalResult RowsKernel::emitRowsOfPart(unsigned p, Value tile) {
  const Part &part = parts[p];
  unsigned first = part.outputs.front();
  if (function.sizes.of(function.yielded(first)).empty()) {
    Element element = tensors.evaluate(function.yielded(first), {}, 1);
    if (succeeded(element))
      tensors.store(*element, function.outputs[first], {}, 1);
    return element;
  }
  Value begin = mul(tile, part.rowsPerTile);
  Value end = min(add(begin, part.rowsPerTile), function.product(part.leading));
  return forLoop(begin, end, constant(1),
                 [&](Value flat) { return rowEmitter.emitRow(tensors.makeRow(flat, part.leading), part.outputs); });
}

} // namespace intarsia::cpu
