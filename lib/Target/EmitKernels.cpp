//===- EmitKernels.cpp - Kernels as targets hand them to their code generators ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/KernelBodies.h"
#include "intarsia/Target/Target.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::target {
#define GEN_PASS_DECL_TARGETEMITKERNELS
#define GEN_PASS_DEF_TARGETEMITKERNELS
#include "lib/Target/Passes.h.inc"

namespace {
struct EmitKernels : impl::TargetEmitKernelsBase<EmitKernels> {
  using TargetEmitKernelsBase::TargetEmitKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    TargetEmitKernelsBase::getDependentDialects(registry);
    for (const Target *target : Target::all())
      target->addDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool isShape = step == "shape", isLlvm = step == "llvm";
    if (!isShape && !isLlvm && step != "loops") {
      module.emitError() << "unknown step '" << step << "'; kernels are printed after the steps shape, loops, llvm";
      return signalPassFailure();
    }
    if (failed(rt::checkBodies(module)))
      return signalPassFailure();
    auto artifacts = createCompilers(module);
    if (!artifacts) {
      module.emitError() << llvm::toString(artifacts.takeError());
      return signalPassFailure();
    }
    if (isShape) {
      for (const ArtifactCompilers &artifact : *artifacts)
        for (const DeviceCompiler &device : artifact.devices)
          if (failed(device.compiler->chooseShapes(numberKernels(module, device.device))))
            return signalPassFailure();
      return;
    }
    SmallVector<OwningOpRef<ModuleOp>> emitted;
    for (const DeviceCompiler &device : artifacts->front().devices) {
      std::vector<NumberedKernel> kernels = numberKernels(module, device.device);
      if (kernels.empty())
        continue;
      emitted.push_back(device.compiler->emitKernels(module, kernels, isLlvm ? EmitStep::Llvm : EmitStep::Loops));
      if (!emitted.back())
        return signalPassFailure();
    }
    module.getBody()->clear();
    for (OwningOpRef<ModuleOp> &part : emitted)
      module.getBody()->getOperations().splice(module.getBody()->end(), part->getBody()->getOperations());
  }
};
} // namespace

} // namespace intarsia::target
