//===- EmitKernels.cpp - Kernels become loops over vectors ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/KernelBodies.h"
#include "intarsia/Target/Target.h"
#include "lib/Target/CPU/Codegen.h"
#include "lib/Target/CPU/KernelRoots.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::cpu {

LogicalResult emitKernels(ArrayRef<target::NumberedKernel> kernels, const CpuVariant &variant, ModuleOp result) {
  for (auto [index, kernel] : kernels) {
    std::string name = kernel.getSymName().str();
    Emitter emitter = emitterOf(kernel, variant.tiles);
    if (!emitter || failed(emitter->decideShape(variant.name)) ||
        failed(emitter->emit(result, name + "_plan", name + "_run")))
      return failure();
  }
  return success();
}

LogicalResult chooseShapes(ArrayRef<target::NumberedKernel> kernels, const CpuVariant &variant) {
  for (auto [index, kernel] : kernels) {
    Emitter emitter = emitterOf(kernel, variant.tiles);
    FailureOr<DictionaryAttr> shape = failure();
    if (emitter)
      shape = emitter->decideShape(variant.name);
    if (failed(shape))
      return failure();
    kernel::setShape(kernel, variant.name, *shape);
  }
  return success();
}

} // namespace intarsia::cpu

namespace intarsia::target {

#define GEN_PASS_DECL_TARGETCPUEMITKERNELS
#define GEN_PASS_DEF_TARGETCPUEMITKERNELS
#include "lib/Target/Passes.h.inc"

namespace {
struct TargetCpuEmitKernels : impl::TargetCpuEmitKernelsBase<TargetCpuEmitKernels> {
  using TargetCpuEmitKernelsBase::TargetCpuEmitKernelsBase;

  void runOnOperation() override {
    llvm::Expected<cpu::CpuVariant> variant = cpu::parseVariant(spec);
    if (!variant) {
      getOperation().emitError() << llvm::toString(variant.takeError());
      return signalPassFailure();
    }
    if (failed(rt::checkBodies(getOperation())))
      return signalPassFailure();
    std::vector<target::NumberedKernel> kernels = target::numberKernels(getOperation());
    if (failed(cpu::emitKernels(kernels, *variant, getOperation())))
      return signalPassFailure();
    for (auto [index, kernel] : kernels)
      kernel.erase();
  }
};
} // namespace

} // namespace intarsia::target
