//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ProgramBuilder.h"

using namespace mlir;

namespace intarsia::wafer {

Value ProgramBuilder::buffer(StringRef name, int64_t rows, int64_t columns, Type element) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&program.getBody().front());
  for (Operation &op : program.getBody().front()) // after the buffers and routes so far
    if (isa<BufferOp, RouteOp>(op))
      builder.setInsertionPointAfter(&op);
  int number = names[name]++;
  std::string unique = number == 0 ? name.str() : (name + Twine(number)).str();
  return BufferOp::create(builder, loc, MemRefType::get({rows, columns}, element), unique, IntegerAttr());
}

FailureOr<Value> ProgramBuilder::load(Value value, StringRef name, TilesAttr tiles) {
  auto type = cast<RankedTensorType>(value.getType());
  if (auto decode = value.getDefiningOp<DistDecodeOp>()) { // where it is read
    FailureOr<Value> codes = load(decode.getCodes(), (name + "_codes").str(), tiles),
                     scales = load(decode.getScales(), (name + "_scales").str(), tiles);
    if (failed(codes) || failed(scales))
      return failure();
    auto tile = cast<MemRefType>(codes->getType());
    Value core = buffer(name, tile.getDimSize(0), tile.getDimSize(1), type.getElementType());
    compute(Arithmetic::Decode, {core, *codes, *scales});
    return core;
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument) {
    value.getDefiningOp()->emitOpError()
        << "gives a matrix that another op multiplies: its tiles would have to be "
           "aligned first, which is not supported; make it an argument of the function";
    return failure();
  }
  int64_t extent = tiles.getExtent() == 0 ? grid : tiles.getExtent();
  auto sizeAlong = [&](int64_t size, Axis axis) {
    return axis == Axis::None ? size : int64_t(llvm::divideCeil(size, extent));
  };
  Value core = buffer(name, sizeAlong(type.getDimSize(0), tiles.getRows()),
                      sizeAlong(type.getDimSize(1), tiles.getColumns()), type.getElementType());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(core);
  LoadOp::create(builder, loc, core, argument.getArgNumber(), tiles, type);
  return core;
}

FailureOr<ProgramBuilder::Vector> ProgramBuilder::vector(Value value, Axis wanted) {
  if (auto known = vectors.find(value); known != vectors.end())
    return known->second;
  FailureOr<Value> core = load(value, "x", tiles(Axis::None, wanted));
  if (failed(core))
    return failure();
  return vectors[value] = Vector{*core, wanted};
}

FailureOr<ProgramBuilder::Elements> ProgramBuilder::elements(Value value, TilesAttr wanted) {
  if (auto known = matrices.find(value); known != matrices.end())
    return known->second;
  if (wanted.getRows() == Axis::None) {
    FailureOr<Vector> known = vector(value, wanted.getColumns());
    if (failed(known))
      return failure();
    return Elements{known->buffer, tiles(Axis::None, known->axis), known->hasZeros};
  }
  FailureOr<Value> core = load(value, "m", wanted);
  if (failed(core))
    return failure();
  return matrices[value] = Elements{*core, wanted};
}

void ProgramBuilder::define(Value value, const Elements &elements) {
  if (elements.tiles.getRows() == Axis::None)
    define(value, Vector{elements.buffer, elements.tiles.getColumns(), elements.hasZeros});
  else
    matrices[value] = elements;
}

LogicalResult ProgramBuilder::store(Value value, int64_t result) {
  Elements placed;
  if (auto vector = vectors.find(value); vector != vectors.end())
    placed = {vector->second.buffer, tiles(Axis::None, vector->second.axis)};
  else if (auto matrix = matrices.find(value); matrix != matrices.end())
    placed = matrix->second;
  else
    return function.emitOpError() << "returns what no wafer op of it gives";
  StoreOp::create(builder, loc, placed.buffer, result, placed.tiles, value.getType());
  return success();
}

FlatSymbolRefAttr ProgramBuilder::route(StringRef name, Axis axis, llvm::function_ref<SmallVector<PathSpec>()> make) {
  std::string full = (name + "_" + stringifyAxis(axis)).str();
  FlatSymbolRefAttr &known = routes[full];
  if (known)
    return known;
  SmallVector<Attribute> paths;
  int64_t last = nextColor;
  for (const PathSpec &path : make()) {
    paths.push_back(PathAttr::get(builder.getContext(), path.start, path.by, nextColor + path.color, path.alternate,
                                  path.multicast));
    last = std::max(last, nextColor + path.color + (path.alternate ? 2 : 1));
  }
  nextColor = last;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&program.getBody().front());
  for (Operation &op : program.getBody().front())
    if (isa<BufferOp, RouteOp>(op))
      builder.setInsertionPointAfter(&op);
  RouteOp::create(builder, loc, full, axis, builder.getArrayAttr(paths));
  return known = FlatSymbolRefAttr::get(builder.getContext(), full);
}

void ProgramBuilder::repeat(int64_t count, ValueRange buffers, llvm::function_ref<SmallVector<Value>(ValueRange)> body,
                            bool launches) {
  if (count < 1)
    return;
  auto op = RepeatOp::create(builder, loc, count, buffers, launches);
  Block &block = op.getBody().emplaceBlock();
  block.addArguments(buffers.getTypes(), SmallVector<Location>(buffers.size(), loc));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&block);
  SmallVector<Value> next = body(block.getArguments());
  YieldOp::create(builder, loc, next);
}

} // namespace intarsia::wafer
