//===- RowsKernel.cpp - Kernels without a matmul: rows, reductions, elementwise ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"

#include "intarsia/module_abi.h"
#include "lib/Kernel/RowParts.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// A tile handles at least this many elements: about 1 us of elementwise work, five times what a dispatch costs.
constexpr int64_t kElementsPerTile = 4096;
/// Tiles per thread, so that a thread that is held up does not hold up the others.
constexpr int64_t kTilesPerThread = 4;
/// Rows that are fewer than this are cut into columns, so that 16 threads have kTilesPerThread tiles each.
constexpr int64_t kFewRows = 64;
/// Vectors of results that a reduction over outer dimensions keeps in registers: of each row that is read, 512 bytes
/// lie side by side (with 16 lanes of f32).
constexpr int64_t kVectorsOfReduction = 8;

class RowsKernel final : public KernelEmitter {
public:
  using KernelEmitter::KernelEmitter;

private:
  using Walk = kernel::Walk;
  /// Parts have tiles of their own, one after another.
  struct Part : kernel::RowPart {
    Value unitsPerTile, tiles; ///< of the run function
  };

  LogicalResult analyze() override { return findParts(); }
  void chooseShape(KernelShape &shape) override {
    shape.state("kernel", "rows");
    shape.state("tile_elements", kElementsPerTile);
    shape.state("tiles_per_thread", kTilesPerThread);
    shape.state("parts", kernel::describe(parts, b.getContext()));
  }
  LogicalResult run() override;
  void launch() override;

  LogicalResult findParts();
  Value unitsOf(const Part &part);
  Sizes tilesOf(const Part &part);
  LogicalResult emitPart(unsigned p, Value tile);
  LogicalResult emitUnitsOfPart(unsigned p, Value tile);
  LogicalResult emitColumns(const Part &part, Value unit);
  LogicalResult emitTile(const Part &part, Value unit);
  LogicalResult emitNeighbours(const Part &part, ArrayRef<SmallVector<Value>> rows, Value begin, Value end);
  LogicalResult emitPlaces(const Part &part, ArrayRef<kernel::Place> places);
  SmallVector<SmallVector<int64_t>> widthsOf(const Part &part, Value end);
  LogicalResult emitConcat(const Part &part, tensor::ConcatOp concat, ArrayRef<Value> prefix);
  LogicalResult emitElement(const Part &part, Value unit);
  LogicalResult emitBlocks(const Part &part, Value unit);
  LogicalResult emitBlock(const Part &part, ArrayRef<Value> at);
  LogicalResult emitOutputs(const Part &part, ArrayRef<Index> at, int64_t width);
  // Slots of the launch.
  static int64_t slotOfUnits(unsigned p) { return ITX_PLAN_PRIVATE + 2 * p; }
  static int64_t slotOfTiles(unsigned p) { return ITX_PLAN_PRIVATE + 2 * p + 1; }

  RowEmitter rowEmitter{function, tensors};
  PanelEmitter weights{function};
  std::vector<Part> parts;
};
} // namespace

Emitter makeRowsKernel(rt::KernelOp kernel, Operation *, const TileConfig &config) {
  return std::make_unique<RowsKernel>(kernel, config);
}

LogicalResult RowsKernel::findParts() {
  int64_t lanes = code->instructions.lanes;
  kernel::WalkLimits limits{.lanes = lanes,
                            .fewRows = kFewRows,
                            .columns = kElementsPerTile,
                            .reducedColumns = kVectorsOfReduction * lanes,
                            .tileRows = config.rows,
                            .tileColumns = config.columnVectors * lanes,
                            .hasBlocks = true,
                            .findsPositions = true,
                            .hasHalves = true};
  for (kernel::RowPart &part : kernel::findRowParts(function, limits)) {
    parts.emplace_back();
    static_cast<kernel::RowPart &>(parts.back()) = std::move(part);
  }
  if (slotOfUnits(parts.size()) > ITX_PLAN_LENGTH)
    return function.refuse(kernel, "its results have more than " + Twine((ITX_PLAN_LENGTH - ITX_PLAN_PRIVATE) / 2) +
                                       " different shapes");
  return success();
}

//===-- Launch ------------------------------------------------------------------------------------------------===//

/// Returns what tiles consist of: rows, pieces of rows, elements, rows of blocks, tiles of registers.
Value RowsKernel::unitsOf(const Part &part) {
  Value rows = function.product(part.leading);
  switch (part.walk) {
  case Walk::Rows:
    return rows;
  case Walk::Columns:
    return part.columns ? mul(rows, ceilDiv(function.product(part.merged), constant(part.columns))) : rows;
  case Walk::Elements:
    return mul(rows, function.product(part.merged));
  case Walk::Blocks: {
    Sizes others(part.leading);
    AffineExpr across = others[part.across];
    others.erase(others.begin() + part.across);
    return mul(function.product(others), ceilDiv(function.size(across), constant(code->instructions.lanes)));
  }
  case Walk::Tiles:
    return function.product(tilesOf(part));
  }
  llvm_unreachable("all walks have units");
}

/// Returns how many tiles lie along each dimension, that of their rows last: tiles that share columns follow each
/// other.
Sizes RowsKernel::tilesOf(const Part &part) {
  Sizes tiles(part.leading);
  AffineExpr across = tiles[part.across];
  tiles.erase(tiles.begin() + part.across);
  tiles.push_back(function.productExpression(part.merged).ceilDiv(part.columns));
  tiles.push_back(across.ceilDiv(part.rows));
  return tiles;
}

void RowsKernel::launch() {
  Value tiles = constant(0);
  for (auto [p, part] : llvm::enumerate(parts)) {
    Value units = unitsOf(part);
    Value elements = mul(function.product(part.leading), function.product(part.merged));
    elements = mul(elements, function.size(part.reduced));
    Value wanted = min(mul(function.threads, constant(kTilesPerThread)), div(elements, constant(kElementsPerTile)));
    wanted = max(min(wanted, units), constant(1));
    Value unitsPerTile = max(ceilDiv(units, wanted), constant(1));
    Value partTiles = ceilDiv(units, unitsPerTile);
    function.setSlot(slotOfUnits(p), unitsPerTile);
    function.setSlot(slotOfTiles(p), partTiles);
    tiles = add(tiles, partTiles);
  }
  function.setSlot(ITX_PLAN_TILES, tiles);
}

//===-- Body --------------------------------------------------------------------------------------------------===//

LogicalResult RowsKernel::run() {
  for (auto [p, part] : llvm::enumerate(parts)) {
    part.unitsPerTile = function.slot(slotOfUnits(p));
    part.tiles = function.slot(slotOfTiles(p));
  }
  return forLoop(function.tileBegin, function.tileEnd, constant(1), [&](Value tile) { return emitPart(0, tile); });
}

/// Emits the part that a tile, counted from the first one of part `p`, belongs to.
LogicalResult RowsKernel::emitPart(unsigned p, Value tile) {
  if (p + 1 == parts.size())
    return emitUnitsOfPart(p, tile);
  return ifThen(
      less(tile, parts[p].tiles), [&] { return emitUnitsOfPart(p, tile); },
      [&] { return emitPart(p + 1, sub(tile, parts[p].tiles)); });
}

LogicalResult RowsKernel::emitUnitsOfPart(unsigned p, Value tile) {
  const Part &part = parts[p];
  if (part.merged.empty())
    return emitOutputs(part, {}, 1);
  Value begin = mul(tile, part.unitsPerTile);
  Value end = min(add(begin, part.unitsPerTile), unitsOf(part));
  return forLoop(begin, end, constant(1), [&](Value unit) -> LogicalResult {
    switch (part.walk) {
    case Walk::Rows:
      return rowEmitter.emitRow(tensors.makeRow(unit, part.leading), part.outputs);
    case Walk::Columns:
      return emitColumns(part, unit);
    case Walk::Elements:
      return emitElement(part, unit);
    case Walk::Blocks:
      return emitBlocks(part, unit);
    case Walk::Tiles:
      return emitTile(part, unit);
    }
    llvm_unreachable("all walks are emitted");
  });
}

LogicalResult RowsKernel::emitOutputs(const Part &part, ArrayRef<Index> at, int64_t width) {
  for (unsigned output : part.outputs) {
    Element element = tensors.evaluate(function.yielded(output), at, width);
    if (failed(element))
      return failure();
    tensors.store(*element, function.outputs[output], at, width);
  }
  return success();
}

/// Emits a piece of a row.
LogicalResult RowsKernel::emitColumns(const Part &part, Value unit) {
  Value length = function.product(part.merged), begin = constant(0), end = length, row = unit;
  if (part.columns != 0) {
    Value pieces = ceilDiv(length, constant(part.columns));
    row = div(unit, pieces);
    begin = mul(sub(unit, mul(row, pieces)), constant(part.columns));
    end = min(add(begin, constant(part.columns)), length);
  }
  SmallVector<Value> prefix = function.delinearize(row, part.leading);
  if (auto concat = function.yielded(part.outputs.front()).getDefiningOp<tensor::ConcatOp>();
      concat && concat.getDim() == prefix.size() && part.merged.size() == 1 && part.outputs.size() == 1)
    return emitConcat(part, concat, prefix);
  return emitNeighbours(part, {prefix}, begin, end);
}

/// Emits a piece of several rows.
LogicalResult RowsKernel::emitTile(const Part &part, Value unit) {
  SmallVector<Value> at = function.delinearize(unit, tilesOf(part));
  Value first = mul(at.pop_back_val(), constant(part.rows));
  Value begin = mul(at.pop_back_val(), constant(part.columns));
  Value end = min(add(begin, constant(part.columns)), function.product(part.merged));
  auto emitRows = [&](Value from, int64_t count) {
    SmallVector<SmallVector<Value>> rows(count, at);
    for (auto [row, prefix] : llvm::enumerate(rows))
      prefix.insert(prefix.begin() + part.across, add(from, constant(int64_t(row))));
    return emitNeighbours(part, rows, begin, end);
  };
  Value size = function.size(part.leading[part.across]), last = add(first, constant(part.rows));
  std::optional<int64_t> known = getConstantIntValue(size);
  if (known && *known % part.rows == 0)
    return emitRows(first, part.rows);
  Value isWhole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, last, size);
  return ifThen(
      isWhole, [&] { return emitRows(first, part.rows); },
      [&] {
        if (known)
          return emitRows(first, *known % part.rows);
        return forLoop(first, size, constant(1), [&](Value row) { return emitRows(row, 1); });
      });
}

/// Returns the widths of vectors that a row, or a piece of one, is cut into: those of an entry lie side by side as
/// often as there are so many elements left. Where it is known what is left in the end there are halves of vectors, and
/// halves of those.
SmallVector<SmallVector<int64_t>> RowsKernel::widthsOf(const Part &part, Value end) {
  int64_t lanes = code->instructions.lanes;
  auto halves = [&](int64_t length, auto add) {
    for (int64_t width = lanes / 2, left = length % lanes; width > 1; width /= 2)
      if (left & width)
        add(width);
  };
  SmallVector<SmallVector<int64_t>> widths;
  std::optional<int64_t> length = getConstantIntValue(function.product(part.merged));
  bool isReduced = part.columns == kVectorsOfReduction * lanes || part.walk == Walk::Tiles;
  if (!isReduced) {
    widths.push_back({lanes});
    if (part.columns == 0 && getConstantIntValue(end))
      halves(*length, [&](int64_t width) { widths.push_back({width}); });
    widths.push_back({1});
    return widths;
  }
  if (!length || *length >= part.columns)
    widths.push_back({part.columns});
  if (!length) {
    widths.append({{lanes}, {1}});
    return widths;
  }
  // What is left of a row is reduced in one loop.
  SmallVector<int64_t> rest((*length % part.columns) / lanes, lanes);
  halves(*length, [&](int64_t width) { rest.push_back(width); });
  if (!rest.empty())
    widths.push_back(rest);
  if (*length % 2 != 0)
    widths.push_back({1});
  return widths;
}

/// Emits the elements [begin, end) of rows.
LogicalResult RowsKernel::emitNeighbours(const Part &part, ArrayRef<SmallVector<Value>> rows, Value begin, Value end) {
  for (ArrayRef<int64_t> widths : widthsOf(part, end)) {
    int64_t step = std::accumulate(widths.begin(), widths.end(), int64_t(0));
    Value whole = step == 1 ? end : add(begin, mul(div(sub(end, begin), constant(step)), constant(step)));
    if (begin == whole)
      continue;
    LogicalResult emitted = forLoop(begin, whole, constant(step), [&](Value i) {
      SmallVector<Value> begins{i};
      for (int64_t width : widths.drop_back())
        begins.push_back(add(begins.back(), constant(width)));
      SmallVector<kernel::Place> places;
      for (ArrayRef<Value> prefix : rows)
        for (auto [first, width] : llvm::zip_equal(begins, widths)) {
          Indices at = kernel::indicesOf(prefix);
          at.append(part.merged.size() - 1, Index{constant(0)});
          at.push_back({first, true});
          places.push_back({at, width});
        }
      return emitPlaces(part, places);
    });
    if (failed(emitted))
      return failure();
    begin = whole;
  }
  return success();
}

LogicalResult RowsKernel::emitPlaces(const Part &part, ArrayRef<kernel::Place> places) {
  if (places.size() != 1)
    for (unsigned output : part.outputs)
      if (failed(tensors.reduceTogether(function.yielded(output), places)))
        return failure();
  for (const kernel::Place &place : places)
    if (failed(emitOutputs(part, place.at, place.width)))
      return failure();
  return success();
}

/// Emits a row that is put together from others, one after the other.
LogicalResult RowsKernel::emitConcat(const Part &part, tensor::ConcatOp concat, ArrayRef<Value> prefix) {
  Value offset = constant(0);
  for (Value input : concat.getInputs()) {
    Value length = function.size(function.sizes.of(input).back());
    LogicalResult emitted = vectorLoop(length, [&](Value i, int64_t width) -> LogicalResult {
      Indices at;
      for (Value index : prefix)
        at.push_back({index});
      at.push_back({i, true});
      Element element = tensors.evaluate(input, at, width);
      if (failed(element))
        return failure();
      at.back().base = add(offset, i);
      tensors.store(*element, function.outputs[part.outputs.front()], at, width);
      return success();
    });
    if (failed(emitted))
      return failure();
    offset = add(offset, length);
  }
  return success();
}

LogicalResult RowsKernel::emitElement(const Part &part, Value unit) {
  Sizes extents(part.leading);
  llvm::append_range(extents, part.merged);
  Indices at;
  for (Value index : function.delinearize(unit, extents))
    at.push_back({index});
  return emitOutputs(part, at, 1);
}

/// Emits a row of blocks: as many neighbours along the dimension of the inputs as a vector has lanes.
LogicalResult RowsKernel::emitBlocks(const Part &part, Value unit) {
  int64_t lanes = code->instructions.lanes;
  Sizes units(part.leading);
  AffineExpr across = units[part.across];
  units[part.across] = across.ceilDiv(lanes);
  SmallVector<Value> at = function.delinearize(unit, units);
  at[part.across] = mul(at[part.across], constant(lanes));
  Value length = function.product(part.merged), whole = mul(div(length, constant(lanes)), constant(lanes));
  Value end = min(add(at[part.across], constant(lanes)), function.size(across));
  auto elementByElement = [&](Value from) {
    return forLoop(at[part.across], end, constant(1), [&](Value row) {
      return forLoop(from, length, constant(1), [&](Value i) {
        Indices scalar;
        for (auto [d, index] : llvm::enumerate(at))
          scalar.push_back({d == part.across ? row : index});
        scalar.push_back({i});
        return emitOutputs(part, scalar, 1);
      });
    });
  };
  auto block = [&]() -> LogicalResult {
    LogicalResult emitted = forLoop(constant(0), whole, constant(lanes), [&](Value i) {
      SmallVector<Value> corner(at);
      corner.push_back(i);
      return emitBlock(part, corner);
    });
    return failed(emitted) ? emitted : elementByElement(whole);
  };
  Value isWhole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, sub(end, at[part.across]), constant(lanes));
  return ifThen(isWhole, block, [&] { return elementByElement(constant(0)); });
}

/// Swaps rows and columns of as many vectors as each has lanes.
static void swapRowsAndColumns(OpBuilder &b, Location loc, MutableArrayRef<Value> rows) {
  auto lanes = int64_t(rows.size());
  for (int64_t half = lanes / 2; half != 0; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane != lanes; ++lane) {
      low.push_back(lane & half ? lanes + lane - half : lane);
      high.push_back(lane & half ? lanes + lane : lane + half);
    }
    for (int64_t row = 0; row != lanes; ++row) {
      if (row & half)
        continue;
      Value first = rows[row], second = rows[row + half];
      rows[row] = vector::ShuffleOp::create(b, loc, first, second, low);
      rows[row + half] = vector::ShuffleOp::create(b, loc, first, second, high);
    }
  }
}

/// Emits a square of elements, from the index of its first one on.
LogicalResult RowsKernel::emitBlock(const Part &part, ArrayRef<Value> corner) {
  int64_t lanes = code->instructions.lanes;
  unsigned last = part.reads.rank - 1;
  SmallVector<Indices> rows;
  for (int64_t row = 0; row != lanes; ++row) {
    Indices at;
    for (auto [d, index] : llvm::enumerate(corner))
      at.push_back({d == part.across ? add(index, constant(row)) : index, d == last});
    rows.push_back(at);
  }
  // What lies in columns is read along them, and remembered as what the rows ask for.
  for (const kernel::Read &read : part.reads.reads) {
    bool isPermuted = !read.at.empty() && read.at.back() == getAffineDimExpr(part.across, b.getContext()) &&
                      llvm::all_of(read.at, [](AffineExpr at) { return isa<AffineDimExpr>(at); }) &&
                      llvm::is_contained(read.at, getAffineDimExpr(last, b.getContext()));
    if (!isPermuted || !isa<BlockArgument>(read.tensor) || weights.panelsOf(read.tensor))
      continue;
    SmallVector<Value> vectors;
    for (int64_t lane = 0; lane != lanes; ++lane) {
      Indices at;
      for (AffineExpr expression : read.at) {
        unsigned d = cast<AffineDimExpr>(expression).getPosition();
        at.push_back({d == last ? add(corner[d], constant(lane)) : corner[d], d == part.across});
      }
      Element element = tensors.evaluate(read.tensor, at, lanes);
      if (failed(element))
        return failure();
      vectors.push_back(*element);
    }
    swapRowsAndColumns(b, loc, vectors);
    for (auto [at, vector] : llvm::zip_equal(rows, vectors)) {
      Indices of;
      for (AffineExpr expression : read.at)
        of.push_back(at[cast<AffineDimExpr>(expression).getPosition()]);
      tensors.remember(read.tensor, of, lanes, vector);
    }
  }
  for (ArrayRef<Index> at : rows)
    if (failed(emitOutputs(part, at, lanes)))
      return failure();
  return success();
}

} // namespace intarsia::cpu
