//===- EmitKernels.cpp - Kernels become functions of GPU threads ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Target/Target.h"
#include "lib/Target/GPU/Codegen.h"
#include "lib/Target/GPU/FunctionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::gpu {

/// Returns true if every element of the kernel can be computed by itself but for the sums of its root: nothing is
/// quantized, and no row is normalized.
static bool isElementwiseAroundRoot(rt::KernelOp kernel) {
  WalkResult walked = kernel.getBody().walk([](Operation *op) {
    return isa<RowwiseOpInterface, nn::QuantizeOp, nn::DequantizeOp>(op) ? WalkResult::interrupt()
                                                                         : WalkResult::advance();
  });
  return !walked.wasInterrupted();
}

LogicalResult emitKernel(rt::KernelOp kernel, const Architecture &architecture, mlir::gpu::GPUModuleOp module,
                         StringRef name) {
  Operation *root = nullptr;
  kernel.getBody().walk([&](KernelRootOpInterface op) {
    if (op.getKernelRoot() != KernelRoot::Rows)
      root = op;
  });
  if (!root)
    return makeRowsKernel(kernel, architecture)->emit(module, name);
  if (isa<nn::LinearOp>(root) && isElementwiseAroundRoot(kernel))
    return makeLinearKernel(kernel, root, architecture)->emit(module, name);
  return emitGeneralKernel(kernel, architecture, module, name);
}

FailureOr<mlir::gpu::GPUModuleOp> emitKernels(ArrayRef<target::NumberedKernel> kernels,
                                              const Architecture &architecture, ModuleOp into) {
  OpBuilder builder = OpBuilder::atBlockEnd(into.getBody());
  auto module = mlir::gpu::GPUModuleOp::create(builder, into.getLoc(), architecture.name);
  for (auto [index, kernel] : kernels)
    if (failed(emitKernel(kernel, architecture, module, "itx_k" + std::to_string(index))))
      return failure();
  return module;
}

} // namespace intarsia::gpu

namespace intarsia::target {

#define GEN_PASS_DECL_TARGETGPUEMITKERNELS
#define GEN_PASS_DEF_TARGETGPUEMITKERNELS
#include "lib/Target/Passes.h.inc"

namespace {
struct TargetGpuEmitKernels : impl::TargetGpuEmitKernelsBase<TargetGpuEmitKernels> {
  using TargetGpuEmitKernelsBase::TargetGpuEmitKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override { gpu::addGpuDialects(registry); }

  void runOnOperation() override {
    const gpu::Architecture *found = gpu::findArchitecture(gpu::Vendor::Nvidia, architecture);
    if (!found)
      found = gpu::findArchitecture(gpu::Vendor::Amd, architecture);
    if (!found) {
      getOperation().emitError() << "unknown GPU architecture '" << architecture << "'";
      return signalPassFailure();
    }
    std::vector<NumberedKernel> kernels = numberKernels(getOperation());
    if (failed(gpu::emitKernels(kernels, *found, getOperation())))
      return signalPassFailure();
    for (auto [index, kernel] : kernels)
      kernel.erase();
  }
};
} // namespace

} // namespace intarsia::target
