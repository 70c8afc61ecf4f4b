//===- EmitKernels.cpp - The pass that shows what is emitted ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
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

LogicalResult emitKernels(ModuleOp module, const CpuVariant &variant, ModuleOp result) {
  SmallVector<rt::KernelOp> kernels(module.getOps<rt::KernelOp>());
  for (rt::KernelOp kernel : kernels) {
    std::string name = kernel.getSymName().str();
    if (failed(emitKernel(kernel, variant.tiles, result, name + "_plan", name + "_run")))
      return failure();
  }
  return success();
}

} // namespace intarsia::cpu

namespace intarsia::target {

#define GEN_PASS_DECL
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
    if (failed(cpu::emitKernels(getOperation(), *variant, getOperation())))
      return signalPassFailure();
    for (rt::KernelOp kernel : llvm::make_early_inc_range(getOperation().getOps<rt::KernelOp>()))
      kernel.erase();
  }
};
} // namespace

#define GEN_PASS_REGISTRATION
#include "lib/Target/Passes.h.inc"

} // namespace intarsia::target

void intarsia::registerTargetPasses() { target::registerTargetPasses(); }
