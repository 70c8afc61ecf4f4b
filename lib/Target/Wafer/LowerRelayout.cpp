//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The way of a weight from the grid of products of vectors to that of products of matrices.
//
// Which axis comes first decides whether the memory of the cores suffices. Where rows lie along y, the columns that a
// core has in the end are those of its column of cores: along x first, each core keeps a part of each tile of its row.
// Where rows lie along x, all that one column of cores needs would come to a few cores that way. Along y first it is
// spread, as the skew of MeshGEMM puts different rows of one column of tiles into different rows of cores.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/ProgramBuilder.h"

using namespace mlir;

namespace intarsia::wafer {

LogicalResult lowerRelayout(ProgramBuilder &b, DistRelayoutOp op) {
  auto type = op.getSource().getType();
  int64_t from = int64_t(op.getFrom()), to = int64_t(op.getTo()), height = type.getDimSize(0),
          width = type.getDimSize(1);
  Axis along = op.getAlong();
  FailureOr<Value> source = b.load(op.getSource(), "w", b.tiles(along, across(along), false, Skew::None, from));
  if (failed(source))
    return failure();
  Type element = type.getElementType();
  Value now = b.buffer("passing", llvm::divideCeil(height, from), llvm::divideCeil(width, from), element);
  b.compute(Arithmetic::Copy, {now, *source});
  for (bool second : {false, true}) {
    auto shape = cast<MemRefType>(now.getType()).getShape();
    Value next = b.buffer("passing", shape[0], shape[1], element);
    Value kept = b.buffer("kept", llvm::divideCeil(height, second ? to : from), llvm::divideCeil(width, to), element);
    b.compute(Arithmetic::Zero, {kept});
    FlatSymbolRefAttr ring = ringRoute(b, second ? along : across(along), /*interleaved=*/true);
    auto relayout = RelayoutAttr::get(b.builder.getContext(), along, from, to, height, width, second);
    b.repeat(b.grid, {now, next}, [&](ValueRange tiles) -> SmallVector<Value> {
      b.send(tiles[0], ring);
      b.receive(tiles[1], ring);
      b.collect(kept, tiles[0], relayout);
      b.await();
      return {tiles[1], tiles[0]};
    });
    now = kept;
  }
  b.define(op.getResult(), now, b.tiles(Axis::Y, Axis::X, /*ring=*/true, Skew::Rows, to));
  return success();
}

} // namespace intarsia::wafer
