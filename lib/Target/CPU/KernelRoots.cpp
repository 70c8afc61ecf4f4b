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
/// One row for each kind of op that a kernel is built around.
struct Root {
  KernelRoot kind;
  Emitter (*make)(rt::KernelOp kernel, Operation *root, const TileConfig &config);
};
} // namespace

static ArrayRef<Root> roots() {
  static const Root table[] = {
      {KernelRoot::Linear, makeLinearKernel},
      {KernelRoot::Matmul, makeMatmulKernel},
      {KernelRoot::Attention, makeAttentionKernel},
      {KernelRoot::CacheAppend, makeCacheAppendKernel},
      {KernelRoot::CachedAttention, makeCachedAttentionKernel},
      {KernelRoot::Route, makeRouteKernel},
      {KernelRoot::Experts, makeExpertsKernel},
      {KernelRoot::Candidates, makeCandidatesKernel},
      {KernelRoot::Conv, makeConvKernel},
      {KernelRoot::Recurrent, makeRecurrentKernel},
  };
  return table;
}

/// Refuses layouts of other devices: quantized values in panels of another width, and what is neither panels nor rows.
static LogicalResult checkLayouts(rt::KernelOp kernel) {
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument) {
    Attribute layout = kernel.getArgAttr(argument, "rt.layout");
    auto panels = dyn_cast_if_present<rt::PanelsAttr>(layout);
    bool isKnown =
        panels ? !panels.getFormat() || panels.getWidth() == kPanelWidth : !layout || isa<rt::RowMajorAttr>(layout);
    if (!isKnown)
      return kernel.emitOpError()
             << "argument " << argument << " is laid out as " << layout
             << ", which the cpu target does not read; let lower-groups-to-kernels choose its layout";
  }
  return success();
}

Emitter emitterOf(rt::KernelOp kernel, const TileConfig &config) {
  if (failed(checkLayouts(kernel)))
    return nullptr;
  KernelRootOpInterface root;
  Operation *second = nullptr;
  kernel.getBody().walk([&](KernelRootOpInterface op) {
    if (op.getKernelRoot() == KernelRoot::Rows)
      return;
    if (root && !second)
      second = op;
    root = op;
  });
  if (second) {
    (void)refuse(kernel, second,
                 "a kernel holds one matmul, convolution, recurrent layer, attention, cache, routing, layer of experts "
                 "or search for candidates");
    return nullptr;
  }
  const Root *found =
      llvm::find_if(roots(), [&](const Root &entry) { return root && root.getKernelRoot() == entry.kind; });
  return found == roots().end() ? makeRowsKernel(kernel, root, config) : found->make(kernel, root, config);
}

} // namespace intarsia::cpu
