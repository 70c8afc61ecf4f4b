//===- Pipeline.cpp - Passes from functions of GPU threads to the LLVM dialect ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Codegen.h"

#include "intarsia/Reference/Reference.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/AMDGPU/IR/AMDGPUDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace intarsia::target {
#define GEN_PASS_DECL
#include "lib/Target/Passes.h.inc"
} // namespace intarsia::target

namespace intarsia::gpu {

void buildGpuLowering(OpPassManager &manager, const Architecture &architecture) {
  manager.addPass(target::createTargetExpandDivisions());
  OpPassManager &module = manager.nest<mlir::gpu::GPUModuleOp>();
  module.addPass(memref::createExpandStridedMetadataPass());
  module.addPass(createLowerAffinePass());
  module.addPass(createCSEPass());
  module.addPass(createSCFToControlFlowPass());
  // Before the vendors' conversions, which would call their libraries of elementary functions.
  module.addPass(target::createTargetGpuMathToIntrinsics());
  module.addPass(createConvertVectorToLLVMPass());
  if (architecture.vendor == Vendor::Nvidia) {
    ConvertGpuOpsToNVVMOpsOptions options;
    options.indexBitwidth = 64;
    module.addPass(createConvertGpuOpsToNVVMOps(options));
  } else {
    ConvertGpuOpsToROCDLOpsOptions options;
    options.chipset = architecture.name.str();
    options.indexBitwidth = 64;
    options.runtime = mlir::gpu::amd::Runtime::HIP;
    module.addPass(createConvertGpuOpsToROCDLOps(options));
  }
  module.addPass(createReconcileUnrealizedCastsPass());
  module.addPass(target::createTargetGpuFinishFunctions({architecture.name.str()}));
}

void addGpuDialects(DialectRegistry &registry) {
  OpPassManager general(ModuleOp::getOperationName());
  reference::buildReferenceBuffers(general);
  general.addPass(memref::createResolveShapedTypeResultDimsPass());
  general.getDependentDialects(registry);
  registry.insert<func::FuncDialect>();
  reference::registerReferenceModels(registry);
  for (Vendor vendor : {Vendor::Nvidia, Vendor::Amd}) {
    OpPassManager manager(ModuleOp::getOperationName());
    buildGpuLowering(manager, architectures(vendor).front());
    manager.getDependentDialects(registry);
  }
  // What convert-gpu-to-nvvm and convert-gpu-to-rocdl find patterns by.
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  registry.insert<mlir::gpu::GPUDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect,
                  LLVM::LLVMDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  registerROCDLDialectTranslation(registry);
}

} // namespace intarsia::gpu
