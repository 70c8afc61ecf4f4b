//===- KernelRoots.cpp - Which class emits a kernel -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/KernelRoots.h"

using namespace mlir;

namespace intarsia::cpu {

namespace {
/// One row for each op that a kernel is built around.
struct Root {
  TypeID op;
  Emitter (*make)(rt::KernelOp kernel, Operation *root, const TileConfig &config);
};
} // namespace

static ArrayRef<Root> roots() {
  static const Root table[] = {
      {TypeID::get<nn::LinearOp>(), makeLinearKernel},
      {TypeID::get<nn::MatmulOp>(), makeMatmulKernel},
      {TypeID::get<nn::AttentionOp>(), makeAttentionKernel},
      {TypeID::get<nn::CacheAppendOp>(), makeCacheAppendKernel},
      {TypeID::get<nn::CachedAttentionOp>(), makeCachedAttentionKernel},
      {TypeID::get<nn::RouteOp>(), makeRouteKernel},
      {TypeID::get<nn::ExpertsOp>(), makeExpertsKernel},
  };
  return table;
}

LogicalResult emitKernel(rt::KernelOp kernel, const TileConfig &config, ModuleOp module, StringRef planName,
                         StringRef runName) {
  Operation *root = nullptr, *second = nullptr;
  kernel.getBody().walk([&](KernelRootOpInterface op) {
    if (op.getKernelRoot() == KernelRoot::Rows)
      return;
    if (root && !second)
      second = op;
    root = op;
  });
  if (second)
    return refuse(kernel, second, "a kernel holds one product, attention, cache, routing or layer of experts");
  const Root *found =
      llvm::find_if(roots(), [&](const Root &entry) { return root && root->getName().getTypeID() == entry.op; });
  Emitter emitter = found == roots().end() ? makeRowsKernel(kernel, root, config) : found->make(kernel, root, config);
  return emitter->emit(module, planName, runName);
}

} // namespace intarsia::cpu
