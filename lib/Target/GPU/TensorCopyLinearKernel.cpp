//===- TensorCopyLinearKernel.cpp - Linears whose operands come by tensor copies --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block has three groups of four warps. One thread of the last group, the producer, copies tiles of both operands to
// a ring of stages; the other groups, the consumers, multiply 64 rows each. Two mbarriers guard a stage: `full` ends a
// phase when the bytes of both tiles have come, `empty` when all warps of the consumers have read them. Blocks are as
// many as multiprocessors and take tiles in turn, so that while consumers store one tile the next one comes. Tiles that
// fill no whole number of waves may be shared (StreamedLinear.h).
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/KernelRoots.h"
#include "lib/Target/GPU/StreamedLinear.h"
#include "lib/Target/GPU/TensorCopies.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace intarsia::gpu {

namespace {

/// Warps of a group: those of a matrix instruction, and those that set their registers together.
constexpr int64_t warpsOfGroup = 4, warpsOfConsumers = 2 * warpsOfGroup;
/// Registers of a thread of the producer and of two groups of consumers, and those of each thread when a block begins:
/// what a multiprocessor of 65536 has for 384 threads. Consumers wait for ever for more than the producer gives back
/// (PTX ISA, "setmaxnreg": multiples of 8 from 24 to 256).
constexpr int32_t producerRegisters = 40, consumerRegisters = 232, firstRegisters = 168;
static_assert(producerRegisters + 2 * consumerRegisters <= 3 * firstRegisters && 384 * firstRegisters <= 65536);
/// Bytes of a tile's row: the widest swizzle of tensor copies and matrix descriptors.
constexpr int64_t rowBytes = 128;
/// Columns of sums that a warp has in shared memory at a time on their way to memory: 128 bytes of results of 16 bits.
constexpr int64_t columnsOfSums = 64;
/// Room for two mbarriers of each stage, of whatever number.
constexpr int64_t bytesOfBarriers = 1024;
/// Rows of tiles that follow each other column by column, so that tiles which blocks compute at the same time read few
/// rows of both operands: 132 blocks have 8 x 17 tiles.
constexpr int64_t rowsOfTilesTogether = 8;

int64_t stageBytes(const MatrixTiles &tiles) { return (tiles.rows + tiles.columns) * rowBytes; }

class TensorCopyLinearKernel final : public TiledLinear {
public:
  TensorCopyLinearKernel(rt::KernelOp kernel, nn::LinearOp root, const Architecture &architecture,
                         const MatrixInstruction &instruction, RowRange rows, unsigned input, unsigned weight)
      : TiledLinear(kernel, root, "tensor copy linear", architecture, instruction, rows), inputBuffer(input),
        weightBuffer(weight) {
    // Sums on their way to memory, and mbarriers.
    bytesBeside = warpsOfConsumers * matrices.windowBytes(fragmentRows, columnsOfSums) + bytesOfBarriers;
  }

  /// Returns the buffer that a factor of a linear is, row by row, in a type; nothing if it is none.
  static std::optional<unsigned> bufferOf(rt::KernelOp kernel, Value matrix, Type element);

private:
  /// A place in the ring: which stage (i64), and the parity of the phase that is waited for next (i32).
  struct Place {
    Value stage, parity;
  };

  MatrixTiles tilesFor(TileSize size) const override;
  std::optional<Stream> streamOf(const Product &product, RowRange rows) override {
    return streamed.streamOf(product, rows);
  }
  LogicalResult emitProduct(const Product &product) override;
  Factor weightFactor(const MatrixTiles &, Value, Value, Value) override {
    llvm_unreachable("emitProduct() emits all");
  }
  void emitProducer(const Product &product, const TileOfProduct &tile, Place &place);
  LogicalResult emitConsumer(const Product &product, const TileOfProduct &tile, Place &place);
  /// Emits a loop over the tiles of this block, with a place that each of them moves on.
  LogicalResult forEachTile(const Product &product, int32_t parity,
                            function_ref<LogicalResult(const TileOfProduct &tile, Place &place)> body);
  TileOfProduct tileAt(const Product &product, Value number);
  /// Returns the tiles of all parts for the numbers of rows that the product is for: what a function that runs can
  /// count on, without long expressions that say for which numbers of rows it does.
  AffineExpr tilesOf(const Product &product) {
    Product used = product;
    used.isUsed = number(1);
    return used.tileCount();
  }
  /// Returns for these as many blocks as multiprocessors, or as tiles if those are fewer and not shared.
  AffineExpr blocksOf(const Product &product) {
    if (product.stream)
      return number(architecture.multiprocessors);
    AffineExpr tiles = tilesOf(product), areFew = isAtMost(tiles, architecture.multiprocessors);
    return tiles * areFew + (number(1) - areFew) * architecture.multiprocessors;
  }
  Place placeBehind(const MatrixTiles &tiles, Place place);
  Value barrierOf(Value barriers, Value stage) {
    return memory.at(barriers, mul(stage, constant(mbarrierBytes)), b.getI8Type());
  }
  Value stagePointer(const MatrixTiles &tiles, Value stage) {
    return memory.at(stages, mul(stage, constant(stageBytes(tiles))), b.getI8Type());
  }
  /// Keeps LLVM from unrolling the loop of these results.
  void keepRolled(ArrayRef<Value> results) {
    results.front().getDefiningOp()->setAttr(
        "loop_annotation", parseAttribute("#llvm.loop_annotation<unroll = <disable = true>>", b.getContext()));
  }
  Value asI32(Value value) { return make<arith::TruncIOp>(b.getI32Type(), value); }

  StreamedLinear streamed{*this};
  unsigned inputBuffer, weightBuffer;
  // Values of the function that is being emitted.
  Value stages, full, empty;
  std::optional<SumsWindow> sums; ///< of this warp
};

} // namespace

std::optional<unsigned> TensorCopyLinearKernel::bufferOf(rt::KernelOp kernel, Value matrix, Type element) {
  // A matrix that is widened only for its type is read as it is stored. Reshapes leave rows of all dimensions but the
  // last where they are.
  matrix = kernel::KernelBody::stripReshapes(matrix);
  if (auto extend = matrix.getDefiningOp<arith::ExtFOp>())
    matrix = kernel::KernelBody::stripReshapes(extend.getIn());
  auto argument = dyn_cast<BlockArgument>(matrix);
  if (!argument || argument.getOwner() != &kernel.getBody().front() || getElementTypeOrSelf(argument) != element)
    return std::nullopt;
  auto layout = kernel.getArgAttr(argument.getArgNumber(), "rt.layout");
  if (layout && !isa<rt::RowMajorAttr>(layout))
    return std::nullopt;
  return argument.getArgNumber();
}

TensorCopies tensorCopiesOf(rt::KernelOp kernel, nn::LinearOp linear, const Architecture &architecture) {
  Type precision = linear.getPrecision().value_or(Float32Type::get(kernel.getContext()));
  bool hasInstructions = matrixInstruction(architecture, precision).family == MatrixFamily::Wgmma;
  TensorCopies copies;
  if (architecture.asyncCopy != AsyncCopy::Tma || !hasInstructions)
    return copies;
  std::optional<unsigned> input = TensorCopyLinearKernel::bufferOf(kernel, linear.getInput(), precision);
  std::optional<unsigned> weight = TensorCopyLinearKernel::bufferOf(kernel, linear.getWeight(), precision);
  if (!input || !weight)
    return copies;
  // CUDA driver API, cuTensorMapEncodeTiled(): bytes from one row to the next.
  constexpr int64_t pitchUnit = 16;
  int64_t depth = cast<RankedTensorType>(linear.getWeight().getType()).getDimSize(1);
  copies.pitchBytes = depth * precision.getIntOrFloatBitWidth() / 8;
  copies.arePossible = copies.pitchBytes % pitchUnit == 0;
  copies.input = *input;
  copies.weight = *weight;
  return copies;
}

Emitter makeTensorCopyLinearKernel(rt::KernelOp kernel, Operation *root, const Architecture &architecture,
                                   const MatrixInstruction &instruction, const TensorCopies &copies, RowRange rows) {
  return std::make_unique<TensorCopyLinearKernel>(kernel, cast<nn::LinearOp>(root), architecture, instruction, rows,
                                                  copies.input, copies.weight);
}

MatrixTiles TensorCopyLinearKernel::tilesFor(TileSize size) const {
  // As many stages as leave shared memory for sums. A tile of few rows takes no longer than its weight, which is read
  // from memory, and rows that are outside are not read.
  constexpr int64_t chunks = rowBytes / 16;
  if (size == TileSize::Large)
    return {128, 256, fragmentRows, 256, chunks, /*stages=*/4};
  return {128, 128, fragmentRows, 128, chunks, /*stages=*/6};
}

TensorCopyLinearKernel::TileOfProduct TensorCopyLinearKernel::tileAt(const Product &product, Value number) {
  Value parts = product.split ? function.size(product.split->parts) : constant(1), tile = div(number, parts);
  Value ofGroup = constant(rowsOfTilesTogether * product.columnTiles);
  Value firstRow = mul(div(tile, ofGroup), constant(rowsOfTilesTogether)), inGroup = rem(tile, ofGroup);
  Value rows = min(constant(rowsOfTilesTogether), sub(function.size(product.rowTiles), firstRow));
  TileOfProduct found = tileOf(product, add(firstRow, rem(inGroup, rows)), div(inGroup, rows), rem(number, parts));
  if (!product.split)
    found.range = {constant(0), constant(depthTiles(product.tiles))};
  return found;
}

TensorCopyLinearKernel::Place TensorCopyLinearKernel::placeBehind(const MatrixTiles &tiles, Place place) {
  Value isLast = equal(place.stage, constant(tiles.stages - 1));
  Value turn = make<arith::ExtUIOp>(b.getI32Type(), isLast);
  return {select(isLast, constant(0), add(place.stage, constant(1))), make<arith::XOrIOp>(place.parity, turn)};
}

LogicalResult
TensorCopyLinearKernel::forEachTile(const Product &product, int32_t parity,
                                    function_ref<LogicalResult(const TileOfProduct &tile, Place &place)> body) {
  Value first = word(parity);
  using Next = FailureOr<SmallVector<Value>>;
  auto loop = [&](Value begin, Value end, Value step, function_ref<TileOfProduct(Value number)> tileOf) {
    return forLoop(begin, end, step, {constant(0), first}, [&](Value number, ValueRange running) -> Next {
      Place place = {running[0], running[1]};
      if (failed(body(tileOf(number), place)))
        return failure();
      return SmallVector<Value>{place.stage, place.parity};
    });
  };
  auto numbered = [&](Value number) { return tileAt(product, number); };
  Next places;
  if (product.stream) {
    StreamedLinear::ShareOfBlock share = streamed.shareOfBlock(product);
    places = loop(constant(0), add(share.waves, share.parts), constant(1),
                  [&](Value item) { return streamed.tileOfShare(product, share, item, numbered); });
  } else {
    places = loop(function.block, function.size(tilesOf(product)), function.size(blocksOf(product)), numbered);
  }
  if (failed(places))
    return failure();
  keepRolled(*places);
  return success();
}

void TensorCopyLinearKernel::emitProducer(const Product &product, const TileOfProduct &tile, Place &place) {
  const MatrixTiles &tiles = product.tiles;
  Value firstRow = asI32(tile.firstRow), firstColumn = asI32(tile.firstColumn);
  SmallVector<Value> last = forLoop(
      tile.range.begin, tile.range.end, constant(1), {place.stage, place.parity}, [&](Value k, ValueRange running) {
        Place at = {running[0], running[1]};
        Value barrier = barrierOf(full, at.stage), pointer = stagePointer(tiles, at.stage);
        waitForPhase(b, loc, barrierOf(empty, at.stage), at.parity);
        arriveExpecting(b, loc, barrier, int32_t(stageBytes(tiles)));
        Value depth = asI32(mul(k, constant(tiles.chunks * matrices.chunkElements())));
        copyBox(b, loc, pointer, function.tensorMap(0), depth, firstRow, barrier);
        Value right = memory.at(pointer, constant(tiles.rows * rowBytes), b.getI8Type());
        copyBox(b, loc, right, function.tensorMap(1), depth, firstColumn, barrier);
        Place following = placeBehind(tiles, at);
        return SmallVector<Value>{following.stage, following.parity};
      });
  keepRolled(last);
  place = {last[0], last[1]};
}

LogicalResult TensorCopyLinearKernel::emitConsumer(const Product &product, const TileOfProduct &tile, Place &place) {
  const MatrixTiles &tiles = product.tiles;
  MatrixTiles ofGroup = tiles;
  ofGroup.rows = instruction.m;
  // A warp has read a stage when its matrix instructions have ended; those of the stage before have, once one more
  // stage is begun.
  auto release = [&](Value stage, Value condition) {
    Value isFirst = less(function.lane, constant(1));
    if (condition)
      isFirst = make<arith::AndIOp>(isFirst, condition);
    ifThen(isFirst, [&] { arrive(b, loc, barrierOf(empty, stage)); });
  };
  auto waitForProducts = [&](int64_t pending) {
    matrices.callIntrinsic("llvm.nvvm.wgmma.wait_group.sync.aligned", nullptr, constant(pending));
  };
  int64_t sumCount = tiles.columns / fragmentRows * matrices.valuesOfTile();
  SmallVector<Value> inits(sumCount, matrices.zeroSums());
  inits.append({place.stage, place.parity, place.stage});
  Value rowsOfGroups = mul(div(function.warp, constant(warpsOfGroup)), constant(instruction.m * rowBytes));
  SmallVector<Value> results =
      forLoop(tile.range.begin, tile.range.end, constant(1), inits, [&](Value k, ValueRange running) {
        Place at = {running[sumCount], running[sumCount + 1]};
        Value before = running.back(), pointer = stagePointer(tiles, at.stage);
        SmallVector<Value> next(running.take_front(sumCount));
        waitForPhase(b, loc, barrierOf(full, at.stage), at.parity);
        matrices.beginWarpgroupStage(ofGroup, memory.at(pointer, rowsOfGroups, b.getI8Type()),
                                     memory.at(pointer, constant(tiles.rows * rowBytes), b.getI8Type()), next);
        waitForProducts(1);
        release(before, less(tile.range.begin, k));
        Place following = placeBehind(tiles, at);
        next.append({following.stage, following.parity, at.stage});
        return next;
      });
  keepRolled(results);
  waitForProducts(0);
  release(results.back(), nullptr);
  place = {results[sumCount], results[sumCount + 1]};
  return storeTile(product, tile, ArrayRef(results).take_front(sumCount), sums);
}

LogicalResult TensorCopyLinearKernel::emitProduct(const Product &product) {
  const MatrixTiles &tiles = product.tiles;
  int64_t consumerWarps = tiles.warps(), elementBytes = rowBytes / (tiles.chunks * matrices.chunkElements());
  auto mapOf = [&](unsigned buffer, AffineExpr rows, int64_t boxRows) -> TensorMapShape {
    return {buffer,  elementBytes, rows, number(linear.depth()), boxRows, tiles.chunks * matrices.chunkElements(),
            rowBytes};
  };
  beginProduct(product, (consumerWarps + warpsOfGroup) * architecture.warpSize, blocksOf(product) * product.isUsed,
               {mapOf(inputBuffer, linear.rowsOfLinear(), tiles.rows),
                mapOf(weightBuffer, number(linear.features()), tiles.columns)});
  if (product.stream)
    streamed.reserveParts(product);
  function.planRegistersFor(1);
  // Stages come first: tiles begin where swizzles do.
  stages = function.sharedMemory(number(tiles.stages * stageBytes(tiles)));
  int64_t bytesOfSums = matrices.windowBytes(fragmentRows, columnsOfSums);
  Value windows = function.sharedMemory(number(consumerWarps * bytesOfSums));
  full = function.sharedMemory(number(tiles.stages * mbarrierBytes));
  empty = function.sharedMemory(number(tiles.stages * mbarrierBytes));
  sums = {memory.at(windows, mul(function.warp, constant(bytesOfSums)), b.getI8Type()), fragmentRows, columnsOfSums};
  ifThen(less(function.thread, constant(1)), [&] {
    for (int64_t stage = 0; stage != tiles.stages; ++stage) {
      initMbarrier(b, loc, barrierOf(full, constant(stage)), 1);
      initMbarrier(b, loc, barrierOf(empty, constant(stage)), int32_t(consumerWarps));
    }
    fenceProxy(b, loc);
  });
  function.emitBlockBarrier();
  auto consume = [&]() -> LogicalResult {
    setRegisters(b, loc, /*areFewer=*/false, consumerRegisters);
    return forEachTile(product, /*parity=*/0,
                       [&](const TileOfProduct &tile, Place &place) { return emitConsumer(product, tile, place); });
  };
  auto produce = [&]() -> LogicalResult {
    setRegisters(b, loc, /*areFewer=*/true, producerRegisters);
    Value isFirst = equal(function.warp, constant(consumerWarps));
    return ifThen(isFirst, [&] {
      return ifThen(electThread(b, loc), [&] {
        // All stages are empty at first: the phase before the first one counts as ended.
        return forEachTile(product, /*parity=*/1, [&](const TileOfProduct &tile, Place &place) {
          emitProducer(product, tile, place);
          return success();
        });
      });
    });
  };
  if (failed(function.alone([&] { return ifThen(less(function.warp, constant(consumerWarps)), consume, produce); })))
    return failure();
  function.endLaunch();
  if (!product.stream)
    return success();
  return streamed.emitSumOfStream(product, [&](Value number) { return tileAt(product, number); });
}

} // namespace intarsia::gpu
