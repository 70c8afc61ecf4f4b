//===- KernelEmitter.cpp - The two functions of a kernel --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelEmitter.h"

#include "intarsia/module_abi.h"

using namespace mlir;

namespace intarsia::cpu {

FailureOr<DictionaryAttr> KernelEmitter::decideShape(StringRef variant) {
  FailureOr<Attribute> stated = kernel::statedShape(kernel, variant);
  if (failed(stated) || failed(function.checkSizes()) || failed(analyze()))
    return failure();
  KernelShape shape(kernel, variant, *stated);
  shape.state("lanes", config.lanes);
  chooseShape(shape);
  return shape.finish();
}

/// The most rows of a register tile: code grows with their square, and no processor has registers for more.
static constexpr int64_t kMostTileRows = 16;

void chooseRegisterTile(KernelShape &shape, TileConfig &config) {
  shape.choose("tile_rows", config.rows, {1, kMostTileRows});
  shape.choose("tile_vectors", config.columnVectors, {1, kPanelWidth / config.lanes});
}

void chooseByteTile(KernelShape &shape, const TileConfig &config, int64_t &rows) {
  shape.state("instruction", nameOf(config.byteDot));
  shape.choose("tile_rows", rows, {1, kMostTileRows});
  // They divide the columns of a panel.
  shape.state("tile_vectors", config.quantizedVectors);
}

LogicalResult KernelEmitter::emit(ModuleOp module, StringRef launchName, StringRef runName) {
  // The body is emitted first: it says how much scratch the launch has to ask for.
  function.beginRun(module, runName);
  if (failed(run()))
    return failure();
  function.beginLaunch(module, launchName);
  function.setSlot(ITX_PLAN_WORKSPACE_BYTES, function.size(function.workspaceBytes));
  function.setSlot(ITX_PLAN_SHARED_BYTES, constant(0));
  function.setSlot(ITX_PLAN_ZEROED_BYTES, constant(0));
  function.setSlot(ITX_PLAN_FINISH_TILES, constant(0));
  launch();
  function.refuseOverflow();
  b.clearInsertionPoint();
  return success();
}

} // namespace intarsia::cpu
