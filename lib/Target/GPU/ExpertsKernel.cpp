//===- ExpertsKernel.cpp - Layers of experts by matrix instructions ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/LinearResults.h"
#include "lib/Target/GPU/MatrixEmitter.h"
#include "lib/Target/GPU/MicrokernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {
constexpr int64_t threadsOfBlock = 256;
/// Rows of an expert, on average, up to which tiles have the fewest rows.
constexpr int64_t fewRowsOfExpert = 16;
/// The table has three numbers for each tile: its expert, its first row, and the row behind the expert's last one.
constexpr int64_t entriesOfTile = 3;

/// A pair is a token and one of its experts, token * top_k + k. Rows are pairs sorted by expert; tiles are some rows of
/// one expert. The first two functions count pairs, sort them and list the tiles, the next two multiply the rows of
/// each tile by the two matrices of its expert, the last one adds up the rows of each token. How many tiles there are
/// is not known when a function is launched: its blocks suffice for any, and those without a tile end at once. So few
/// tokens read no other matrices than those of their experts.
class ExpertsKernel final : public KernelEmitter {
public:
  ExpertsKernel(rt::KernelOp kernel, nn::ExpertsOp root, const Architecture &architecture,
                const MatrixInstruction &instruction)
      : KernelEmitter(kernel, architecture), root(root), instruction(instruction) {
    auto gateUp = cast<RankedTensorType>(root.getGateUp().getType());
    experts = gateUp.getDimSize(0);
    inner = gateUp.getDimSize(2);
    hidden = gateUp.getDimSize(3);
  }

private:
  /// The tile that a block computes.
  struct Tile {
    Value expert, firstRow, endRow, firstColumn;
  };

  void chooseShape(KernelShape &shape) override;
  LogicalResult run() override;
  void reserveScratch();
  /// Emits a function in which a warp does something for each expert.
  LogicalResult emitForExperts(function_ref<LogicalResult(Value expert)> body);
  LogicalResult emitCount();
  LogicalResult emitSort();
  void listTiles(Value expert, Value firstRow, Value count);
  LogicalResult placePairs(Value expert, Value firstRow);
  LogicalResult emitProduct(const MatrixTiles &tiles, AffineExpr isUsed, Value weight, int64_t columns,
                            function_ref<LogicalResult(const Tile &tile)> body);
  LogicalResult emitGateUp(const MatrixTiles &tiles, AffineExpr isUsed);
  LogicalResult storeActivations(const Tile &tile, Value row, Value column, int64_t width, const SumsFn &read);
  Value activate(Value gate, Value up, int64_t width);
  LogicalResult emitDown(const MatrixTiles &tiles, AffineExpr isUsed);
  LogicalResult storeRow(const Tile &tile, Value row, Value column, int64_t width, const SumsFn &read);
  LogicalResult emitCombine();

  /// Returns the rows of a weight as a factor; `rowOf` says which row of all matrices a row of the product is.
  Factor factorOf(Value weight, int64_t columns, int64_t depth, bool isRagged, function_ref<Value(Value row)> rowOf);
  /// Rows of memory that one matrix of a weight takes.
  int64_t storedRows(Value weight, int64_t rows) {
    return weights.panelsOf(weight) ? llvm::alignTo(rows, BlockPanels::rows) : rows;
  }
  Element expertOf(Value token, Value k) { return tensors.integerAt(root.getIndices(), {Index{token}, Index{k}}); }
  /// False for -1, which chooses none. What is outside otherwise makes its token NaN, wherever its row is.
  Value isExpert(Value index) { return make<arith::CmpIOp>(arith::CmpIPredicate::ne, index, constant(-1)); }
  Value loadInteger(AffineExpr table, Value index) {
    return memory.load(function.kernelScratch(table), index, b.getI64Type(), 1);
  }
  void storeInteger(Value value, AffineExpr table, Value index) {
    memory.store(value, function.kernelScratch(table), index, b.getI64Type(), 1);
  }
  // Numbers of rows fit 32 bits, which warps exchange at a time.
  Value exchanged(Value integer, int64_t distance);
  Value sumOfLanes(Value integer);

  nn::ExpertsOp root;
  const MatrixInstruction &instruction;
  MatrixEmitter matrices{function, tensors, instruction};
  PanelEmitter weights{function};
  RowEmitter rowEmitter{function, tensors};
  int64_t experts, inner, hidden;
  Value topK;
  MatrixTiles few, many;
  AffineExpr pairs, isFew, mostTiles;
  // Where tables of integers begin in scratch: pairs of each expert, the number of tiles, the tiles, the pair of each
  // row, and the row of its results. Those lie by token, in the order of its experts; -1 is none of them.
  AffineExpr counts, tileCount, tileTable, pairOfRow, placeOfRow;
  AffineExpr activations; ///< [row, inner], of the type that is multiplied
  AffineExpr results;     ///< [token, top_k, hidden] f32
};
} // namespace

Emitter makeExpertsKernel(rt::KernelOp kernel, Operation *op, const Architecture &architecture) {
  auto root = cast<nn::ExpertsOp>(op);
  auto isReadable = [](Value tensor) { return MicrokernelEmitter::isReadable(tensor); };
  Block *body = &kernel.getBody().front();
  auto isArgument = [&](Value weight) {
    auto argument = dyn_cast<BlockArgument>(weight);
    return argument && argument.getOwner() == body;
  };
  bool isTaken = !root.getIntermediateFormat() && isArgument(root.getGateUp()) && isArgument(root.getDown()) &&
                 isReadable(root.getInput()) && isReadable(root.getIndices()) && isReadable(root.getWeights()) &&
                 MicrokernelEmitter::yieldsOnly(kernel, root);
  if (!isTaken)
    return nullptr;
  Type precision = root.getPrecision().value_or(Float32Type::get(kernel.getContext()));
  return std::make_unique<ExpertsKernel>(kernel, root, architecture, matrixInstruction(architecture, precision));
}

LogicalResult ExpertsKernel::run() {
  reserveScratch();
  AffineExpr isMany = number(1) - isFew;
  return success(succeeded(emitCount()) && succeeded(emitSort()) && succeeded(emitGateUp(few, isFew)) &&
                 succeeded(emitGateUp(many, isMany)) && succeeded(emitDown(few, isFew)) &&
                 succeeded(emitDown(many, isMany)) && succeeded(emitCombine()));
}

void ExpertsKernel::chooseShape(KernelShape &shape) {
  // As for linears, of four warps. Tiles of few rows have the rows of a fragment.
  int64_t stages = architecture.asyncCopy == AsyncCopy::None || architecture.vendor == Vendor::Amd ? 2 : 4;
  few = {16, 64, 16, 16, /*chunks=*/4, stages};
  many = {64, 128, 32, 64, /*chunks=*/4, stages};
  // Lanes that multiply and add hold more of the factors, as do RDNA's, which keep some elements twice: with larger
  // tiles they spill registers.
  bool isRdna = architecture.vendor == Vendor::Amd && architecture.warpSize == 32;
  if (instruction.family == MatrixFamily::MultiplyAdds || isRdna)
    many = {64, 64, 32, 32, /*chunks=*/4, stages};
  if (matrices.isWarpgroup()) {
    few = {64, 64, 16, 64, /*chunks=*/4, /*stages=*/6};
    many = {64, 128, 16, 128, /*chunks=*/4, /*stages=*/6};
  }
  pairs = function.productExpression(function.sizes.of(root.getIndices()));
  isFew = isAtMost(pairs, fewRowsOfExpert * experts);
  shape.state("kernel", "experts");
  shape.state("instruction", nameOf(instruction));
  shape.state("few_rows", fewRowsOfExpert);
  shape.part("few", [&](KernelShape &part) { matrices.chooseTiles(part, few); });
  shape.part("many", [&](KernelShape &part) { matrices.chooseTiles(part, many); });
}

void ExpertsKernel::reserveScratch() {
  // Each expert has at most one tile that is not full, and each pair at most one tile.
  AffineExpr full = isFew * pairs.floorDiv(few.rows) + (number(1) - isFew) * pairs.floorDiv(many.rows);
  AffineExpr areFewer = isAtMost(pairs, experts);
  mostTiles = areFewer * pairs + (number(1) - areFewer) * (full + experts);
  counts = function.reserve(number(experts * 8));
  tileCount = function.reserve(number(8));
  tileTable = function.reserve(mostTiles * (entriesOfTile * 8));
  pairOfRow = function.reserve(pairs * 8);
  placeOfRow = function.reserve(pairs * 8);
  activations = function.reserve(pairs * (inner * matrices.elementType().getIntOrFloatBitWidth() / 8));
  results = function.reserve(pairs * (hidden * 4));
}

//===-- Rows by expert ------------------------------------------------------------------------------------------===//

Value ExpertsKernel::exchanged(Value integer, int64_t distance) {
  Value narrow = make<arith::TruncIOp>(b.getI32Type(), integer);
  return make<arith::ExtSIOp>(b.getI64Type(), function.exchanged(narrow, distance));
}

Value ExpertsKernel::sumOfLanes(Value integer) {
  Value narrow = make<arith::TruncIOp>(b.getI32Type(), integer);
  return make<arith::ExtSIOp>(b.getI64Type(), function.combineLanes(narrow, kernel::Combination::ADD));
}

LogicalResult ExpertsKernel::emitForExperts(function_ref<LogicalResult(Value expert)> body) {
  AffineExpr warps = number(experts);
  function.beginLaunch(threadsOfBlock, warps.ceilDiv(threadsOfBlock / architecture.warpSize));
  topK = function.sizeOf(root.getIndices(), 1);
  Value expert = add(mul(function.block, constant(function.warpsOfBlock)), function.warp);
  LogicalResult emitted =
      ifThen(less(expert, constant(experts)), [&] { return function.alone([&] { return body(expert); }); });
  function.endLaunch();
  return emitted;
}

/// Emits a function that counts the pairs of each expert.
LogicalResult ExpertsKernel::emitCount() {
  return emitForExperts([&](Value expert) -> LogicalResult {
    using Next = FailureOr<SmallVector<Value>>;
    Next count = forLoop(function.lane, function.size(pairs), constant(architecture.warpSize), constant(0),
                         [&](Value pair, ValueRange running) -> Next {
                           Element its = expertOf(div(pair, topK), rem(pair, topK));
                           if (failed(its))
                             return failure();
                           Value one = make<arith::ExtUIOp>(b.getI64Type(), equal(*its, expert));
                           return SmallVector<Value>{add(running[0], one)};
                         });
    if (failed(count))
      return failure();
    Value sum = sumOfLanes((*count)[0]);
    ifThen(equal(function.lane, constant(0)), [&] { storeInteger(sum, counts, expert); });
    return success();
  });
}

/// Emits a function that lists the tiles of each expert and its rows.
LogicalResult ExpertsKernel::emitSort() {
  return emitForExperts([&](Value expert) {
    auto before = forLoop(function.lane, expert, constant(architecture.warpSize), {constant(0)},
                          [&](Value other, ValueRange running) {
                            return SmallVector<Value>{add(running[0], loadInteger(counts, other))};
                          });
    Value firstRow = sumOfLanes(before[0]);
    listTiles(expert, firstRow, loadInteger(counts, expert));
    return placePairs(expert, firstRow);
  });
}

void ExpertsKernel::listTiles(Value expert, Value firstRow, Value count) {
  AffineExpr one = number(1);
  Value rows = function.size(isFew * few.rows + (one - isFew) * many.rows);
  auto before = forLoop(function.lane, expert, constant(architecture.warpSize), {constant(0)},
                        [&](Value other, ValueRange running) {
                          return SmallVector<Value>{add(running[0], ceilDiv(loadInteger(counts, other), rows))};
                        });
  Value firstTile = sumOfLanes(before[0]), tiles = ceilDiv(count, rows);
  forLoop(function.lane, tiles, constant(architecture.warpSize), [&](Value tile) {
    Value entry = mul(add(firstTile, tile), constant(entriesOfTile));
    storeInteger(expert, tileTable, entry);
    storeInteger(add(firstRow, mul(tile, rows)), tileTable, add(entry, constant(1)));
    storeInteger(add(firstRow, count), tileTable, add(entry, constant(2)));
  });
  Value isLast = equal(expert, constant(experts - 1));
  ifThen(make<arith::AndIOp>(isLast, equal(function.lane, constant(0))),
         [&] { storeInteger(add(firstTile, tiles), tileCount, constant(0)); });
}

/// Each lane looks for pairs of the expert in a part of all pairs, first to count them, then to write them down.
LogicalResult ExpertsKernel::placePairs(Value expert, Value firstRow) {
  using Next = FailureOr<SmallVector<Value>>;
  Value ofLane = ceilDiv(function.size(pairs), constant(architecture.warpSize)), begin = mul(function.lane, ofLane);
  Value end = min(add(begin, ofLane), function.size(pairs));
  auto forPairs = [&](Value init, function_ref<LogicalResult(Value pair, Value token, Value k, Value next)> body) {
    return forLoop(begin, end, constant(1), init, [&](Value pair, ValueRange running) -> Next {
      Value token = div(pair, topK), k = rem(pair, topK);
      Element its = expertOf(token, k);
      if (failed(its))
        return failure();
      Value isMine = equal(*its, expert);
      if (body && failed(ifThen(isMine, [&] { return body(pair, token, k, running[0]); })))
        return failure();
      return SmallVector<Value>{add(running[0], make<arith::ExtUIOp>(b.getI64Type(), isMine))};
    });
  };
  Next counted = forPairs(constant(0), nullptr);
  if (failed(counted))
    return failure();
  // Lanes whose bit of the distance is set come after those that they exchange sums with.
  Value all = (*counted)[0], before = constant(0);
  for (int64_t distance = 1; distance != architecture.warpSize; distance *= 2) {
    Value other = exchanged(all, distance);
    Value isLater = equal(rem(div(function.lane, constant(distance)), constant(2)), constant(1));
    before = add(before, select(isLater, other, constant(0)));
    all = add(all, other);
  }
  return forPairs(add(firstRow, before), [&](Value pair, Value token, Value k, Value row) -> LogicalResult {
    Next place = forLoop(constant(0), topK, constant(1), mul(token, topK), [&](Value j, ValueRange running) -> Next {
      Element other = expertOf(token, j);
      if (failed(other))
        return failure();
      Value isBefore = make<arith::OrIOp>(less(*other, expert), make<arith::AndIOp>(equal(*other, expert), less(j, k)));
      isBefore = make<arith::AndIOp>(isBefore, isExpert(*other));
      return SmallVector<Value>{add(running[0], make<arith::ExtUIOp>(b.getI64Type(), isBefore))};
    });
    if (failed(place))
      return failure();
    storeInteger(pair, pairOfRow, row);
    storeInteger((*place)[0], placeOfRow, row);
    return success();
  });
}

//===-- Products ------------------------------------------------------------------------------------------------===//

Factor ExpertsKernel::factorOf(Value weight, int64_t columns, int64_t depth, bool isRagged,
                               function_ref<Value(Value row)> rowOf) {
  Factor factor;
  factor.rows = constant(columns);
  factor.isRagged = isRagged;
  factor.pick = rowOf;
  if (weights.panelsOf(weight)) {
    factor.elements = [this, weight](Value row, Value k, int64_t width) -> Element {
      return weights.dequantize(weight, row, k, width);
    };
    return factor;
  }
  Storage stored = *tensors.view(weight);
  factor.elements = [this, stored, depth](Value row, Value k, int64_t width) -> Element {
    return memory.load(stored.pointer, add(mul(row, constant(depth)), k), stored.elementType, width);
  };
  if (stored.elementType == matrices.elementType())
    factor.address = matrices.addressOfRows(stored.pointer, depth);
  return factor;
}

/// Emits a function whose blocks compute `body` for a tile of rows and some columns each.
LogicalResult ExpertsKernel::emitProduct(const MatrixTiles &tiles, AffineExpr isUsed, Value weight, int64_t columns,
                                         function_ref<LogicalResult(const Tile &tile)> body) {
  int64_t columnTiles = llvm::divideCeil(columns, tiles.columns);
  function.beginLaunch(tiles.warps() * architecture.warpSize, mostTiles * columnTiles * isUsed);
  topK = function.sizeOf(root.getIndices(), 1);
  Value number = div(function.block, constant(columnTiles));
  LogicalResult emitted = ifThen(less(number, loadInteger(tileCount, constant(0))), [&] {
    Value entry = mul(number, constant(entriesOfTile));
    Tile tile{loadInteger(tileTable, entry), loadInteger(tileTable, add(entry, constant(1))),
              loadInteger(tileTable, add(entry, constant(2))),
              mul(rem(function.block, constant(columnTiles)), constant(tiles.columns))};
    return function.alone([&] { return body(tile); });
  });
  function.endLaunch();
  return emitted;
}

LogicalResult ExpertsKernel::emitGateUp(const MatrixTiles &tiles, AffineExpr isUsed) {
  // Columns are those of the gate and of up in turn: a thread stores both of a feature.
  int64_t columns = 2 * inner, rowsOfMatrix = storedRows(root.getGateUp(), inner);
  return emitProduct(tiles, isUsed, root.getGateUp(), columns, [&](const Tile &tile) -> LogicalResult {
    Factor input;
    input.rows = tile.endRow;
    input.isRagged = true;
    input.pick = [&](Value row) { return div(loadInteger(pairOfRow, row), topK); };
    input.elements = [&](Value token, Value k, int64_t width) {
      return tensors.evaluate(root.getInput(), {Index{token}, Index{k, true}}, width);
    };
    std::optional<Storage> stored = tensors.view(root.getInput());
    if (stored && stored->dense && stored->elementType == matrices.elementType())
      input.address = matrices.addressOfRows(stored->pointer, hidden);
    auto rowOfWeight = [&](Value column) {
      Value matrix = add(mul(tile.expert, constant(2)), rem(column, constant(2)));
      return add(mul(matrix, constant(rowsOfMatrix)), div(column, constant(2)));
    };
    Factor weight = factorOf(root.getGateUp(), columns, hidden, columns % tiles.columns != 0, rowOfWeight);
    FailureOr<SmallVector<Value>> sums =
        matrices.multiply(tiles, input, weight, tile.firstRow, tile.firstColumn, constant(hidden));
    if (failed(sums))
      return failure();
    return matrices.storeSums(tiles, *sums, tile.firstRow, tile.firstColumn, tile.endRow, constant(columns),
                              [&](Value row, Value column, int64_t width, const SumsFn &read) {
                                return storeActivations(tile, row, column, width, read);
                              });
  });
}

/// Stores what follows from sums of the gate and of up, which are in turn.
LogicalResult ExpertsKernel::storeActivations(const Tile &tile, Value row, Value column, int64_t width,
                                              const SumsFn &read) {
  int64_t features = width / 2;
  Value both = read(column, width), feature = div(column, constant(2)), parts[2];
  for (int64_t part : {0, 1}) {
    SmallVector<Value> each;
    for (int64_t i = 0; i != features; ++i)
      each.push_back(make<vector::ExtractOp>(both, 2 * i + part));
    parts[part] = each.front();
    if (features > 1)
      parts[part] = make<vector::FromElementsOp>(VectorType::get({features}, b.getF32Type()), each);
    if (!root.getGateUpBias())
      continue;
    Element bias = tensors.evaluate(
        root.getGateUpBias(), {Index{tile.expert}, Index{constant(part)}, Index{feature, features > 1}}, features);
    if (failed(bias))
      return failure();
    parts[part] = make<arith::AddFOp>(parts[part], *bias);
  }
  memory.store(activate(parts[0], parts[1], features), function.kernelScratch(activations),
               add(mul(row, constant(inner)), feature), matrices.elementType(), features);
  return success();
}

Value ExpertsKernel::activate(Value gate, Value up, int64_t width) {
  if (root.getActivation() == nn::GatedActivation::Silu)
    return make<arith::MulFOp>(kernel::emitSilu(b, loc, gate), up);
  auto floats = [&](double value) { return floatConstant(value, b.getF32Type(), width); };
  double limit = root.getLimit().convertToDouble();
  gate = make<arith::MinimumFOp>(gate, floats(limit));
  up = make<arith::MinimumFOp>(up, floats(limit));
  up = make<arith::MaximumFOp>(up, floats(-limit));
  Value scaled = make<arith::MulFOp>(gate, floats(root.getAlpha().convertToDouble()));
  gate = make<arith::MulFOp>(gate, kernel::emitSigmoid(b, loc, scaled));
  return make<arith::MulFOp>(make<arith::AddFOp>(up, floats(1.0)), gate);
}

LogicalResult ExpertsKernel::emitDown(const MatrixTiles &tiles, AffineExpr isUsed) {
  int64_t rowsOfMatrix = storedRows(root.getDown(), hidden);
  return emitProduct(tiles, isUsed, root.getDown(), hidden, [&](const Tile &tile) -> LogicalResult {
    Value pointer = function.kernelScratch(activations);
    Factor input;
    input.rows = tile.endRow;
    input.isRagged = true;
    input.elements = [&](Value row, Value k, int64_t width) -> Element {
      return memory.load(pointer, add(mul(row, constant(inner)), k), matrices.elementType(), width);
    };
    input.address = matrices.addressOfRows(pointer, inner);
    auto rowOfWeight = [&](Value column) { return add(mul(tile.expert, constant(rowsOfMatrix)), column); };
    Factor weight = factorOf(root.getDown(), hidden, inner, hidden % tiles.columns != 0, rowOfWeight);
    FailureOr<SmallVector<Value>> sums =
        matrices.multiply(tiles, input, weight, tile.firstRow, tile.firstColumn, constant(inner));
    if (failed(sums))
      return failure();
    return matrices.storeSums(tiles, *sums, tile.firstRow, tile.firstColumn, tile.endRow, constant(hidden),
                              [&](Value row, Value column, int64_t width, const SumsFn &read) {
                                return storeRow(tile, row, column, width, read);
                              });
  });
}

/// Stores a part of a pair's summand of its token.
LogicalResult ExpertsKernel::storeRow(const Tile &tile, Value row, Value column, int64_t width, const SumsFn &read) {
  Value sum = read(column, width), pair = loadInteger(pairOfRow, row);
  if (root.getDownBias()) {
    Element bias = tensors.evaluate(root.getDownBias(), {Index{tile.expert}, Index{column, true}}, width);
    if (failed(bias))
      return failure();
    sum = make<arith::AddFOp>(sum, *bias);
  }
  Element weight = tensors.evaluate(root.getWeights(), {Index{div(pair, topK)}, Index{rem(pair, topK)}}, 1);
  if (failed(weight))
    return failure();
  sum = make<arith::MulFOp>(sum, splat(*weight, width));
  memory.store(sum, function.kernelScratch(results), add(mul(loadInteger(placeOfRow, row), constant(hidden)), column),
               b.getF32Type(), width);
  return success();
}

/// Emits a function in which a warp adds up the rows of a token.
LogicalResult ExpertsKernel::emitCombine() {
  using Next = FailureOr<SmallVector<Value>>;
  Type f32 = b.getF32Type();
  ArrayRef<AffineExpr> leading = ArrayRef<AffineExpr>(function.sizes.of(root.getResult())).drop_back();
  AffineExpr tokens = function.productExpression(leading);
  function.beginLaunch(threadsOfBlock, tokens.ceilDiv(threadsOfBlock / architecture.warpSize));
  topK = function.sizeOf(root.getIndices(), 1);
  Value token = add(mul(function.block, constant(function.warpsOfBlock)), function.warp);
  LogicalResult emitted = ifThen(less(token, function.size(tokens)), [&]() -> LogicalResult {
    // An index outside of the experts makes all sums NaN, unless it is -1.
    Value nan = floatConstant(std::numeric_limits<double>::quiet_NaN(), f32, 1);
    Next begin = forLoop(constant(0), topK, constant(1), {floatConstant(0.0, f32, 1), constant(0)},
                         [&](Value k, ValueRange running) -> Next {
                           Element expert = expertOf(token, k);
                           if (failed(expert))
                             return failure();
                           Value isInside = make<arith::CmpIOp>(arith::CmpIPredicate::ult, *expert, constant(experts));
                           Value isNone = equal(*expert, constant(-1));
                           Value isValid = make<arith::OrIOp>(isInside, isNone);
                           Value one = make<arith::ExtUIOp>(b.getI64Type(), isExpert(*expert));
                           return SmallVector<Value>{select(isValid, running[0], nan), add(running[1], one)};
                         });
    if (failed(begin))
      return failure();
    Value first = mul(token, topK);
    tensors.bound[root.getResult()] = [&](ArrayRef<Index> at, int64_t width) -> Element {
      auto sum = forLoop(constant(0), (*begin)[1], constant(1), splat((*begin)[0], width),
                         [&](Value k, ValueRange running) -> SmallVector<Value> {
                           Value from = add(mul(add(first, k), constant(hidden)), at.back().base);
                           Value summand = memory.load(function.kernelScratch(results), from, f32, width);
                           return {make<arith::AddFOp>(running[0], summand)};
                         });
      return sum[0];
    };
    RowScope row = tensors.makeRow(token, ArrayRef<AffineExpr>(function.sizes.of(function.yielded(0))).drop_back());
    LogicalResult stored = rowEmitter.emitRow(row, {0u});
    tensors.bound.erase(root.getResult());
    return stored;
  });
  function.endLaunch();
  return emitted;
}

} // namespace intarsia::gpu
