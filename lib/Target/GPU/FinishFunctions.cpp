//===- FinishFunctions.cpp - What conversions leave open on functions of GPUs ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/module_abi.h"
#include "lib/Target/GPU/Architecture.h"
#include "lib/Target/GPU/FunctionEmitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace intarsia::target {

#define GEN_PASS_DECL_TARGETGPUFINISHFUNCTIONS
#define GEN_PASS_DEF_TARGETGPUFINISHFUNCTIONS
#include "lib/Target/Passes.h.inc"

namespace {
struct FinishFunctions : impl::TargetGpuFinishFunctionsBase<FinishFunctions> {
  using TargetGpuFinishFunctionsBase::TargetGpuFinishFunctionsBase;

  void runOnOperation() override {
    const gpu::Architecture *found = gpu::findArchitecture(gpu::Vendor::Nvidia, architecture);
    if (!found)
      found = gpu::findArchitecture(gpu::Vendor::Amd, architecture);
    if (!found) {
      getOperation().emitError() << "unknown GPU architecture '" << architecture << "'";
      return signalPassFailure();
    }
    joinSharedMemory();
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      if (function.isExternal())
        continue;
      setTarget(function, *found);
      if (!function->hasAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName()))
        continue;
      alignBuffers(function);
      passTensorMaps(function);
      if (failed(found->vendor == gpu::Vendor::Nvidia ? finishNvidia(function) : finishAmd(function)))
        return signalPassFailure();
    }
  }

private:
  /// Makes one global of all that have no size, which the launch decides: all of them begin at the same address.
  void joinSharedMemory() {
    SmallVector<LLVM::GlobalOp> globals;
    for (auto global : getOperation().getOps<LLVM::GlobalOp>())
      if (auto array = dyn_cast<LLVM::LLVMArrayType>(global.getType());
          array && array.getNumElements() == 0 && global.getAddrSpace() == gpu::sharedSpace)
        globals.push_back(global);
    if (globals.empty())
      return;
    SymbolTable symbols(getOperation());
    uint64_t alignment = ITX_BUFFER_ALIGNMENT;
    for (LLVM::GlobalOp global : globals)
      alignment = std::max(alignment, global.getAlignment().value_or(0));
    for (LLVM::GlobalOp global : llvm::drop_begin(globals)) {
      // Uses refer to globals by name only.
      (void)SymbolTable::replaceAllSymbolUses(global, globals.front().getSymNameAttr(), getOperation());
      symbols.erase(global);
    }
    LLVM::GlobalOp shared = globals.front();
    if (shared.getSymName() != gpu::sharedMemoryName)
      (void)symbols.rename(shared, gpu::sharedMemoryName);
    shared.setLinkage(LLVM::Linkage::External);
    shared.setAlignment(alignment);
    shared.removeValueAttr();
    shared.getInitializerRegion().getBlocks().clear();
  }

  /// Functions of equal targets can be inlined into each other, those that are linked in too.
  static void setTarget(LLVM::LLVMFuncOp function, const gpu::Architecture &architecture) {
    Builder builder(function.getContext());
    function.setTargetCpuAttr(builder.getStringAttr(architecture.name));
    if (!architecture.features.empty())
      function.setTargetFeaturesAttr(LLVM::TargetFeaturesAttr::get(builder.getContext(), architecture.features));
  }

  /// Says that buffers are aligned as the runtime aligns them, so that several elements are loaded at a time.
  static void alignBuffers(LLVM::LLVMFuncOp function) {
    Builder builder(function.getContext());
    for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
      if (auto pointer = dyn_cast<LLVM::LLVMPointerType>(type);
          pointer && pointer.getAddressSpace() == gpu::globalSpace)
        function.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(),
                            builder.getI64IntegerAttr(ITX_BUFFER_ALIGNMENT));
  }

  /// Says that tensor maps, the last arguments, are passed by value: conversions to the LLVM dialect drop that. Without
  /// it a function would take pointers, and with a copy in each thread's memory copies would not find them.
  static void passTensorMaps(LLVM::LLVMFuncOp function) {
    auto maps = function->getAttrOfType<ArrayAttr>(gpu::tensorMapsAttribute);
    Builder builder(function.getContext());
    // CUDA driver API, CUtensorMap: 16 words, at a multiple of 64 bytes.
    auto words = LLVM::LLVMArrayType::get(builder.getI64Type(), 16);
    for (unsigned number = 0; maps && number != maps.size(); ++number) {
      unsigned index = function.getNumArguments() - maps.size() + number;
      function.setArgAttr(index, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(words));
      function.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(64));
    }
  }

  /// Returns the threads of a block in each dimension; null after an error.
  static DenseI32ArrayAttr blockOf(LLVM::LLVMFuncOp function) {
    auto block = function->getAttrOfType<DenseI32ArrayAttr>("gpu.known_block_size");
    if (!block || block.size() != 3)
      function.emitOpError() << "does not say how many threads a block has (gpu.known_block_size)";
    return block && block.size() == 3 ? block : nullptr;
  }

  static LogicalResult finishNvidia(LLVM::LLVMFuncOp function) {
    DenseI32ArrayAttr block = blockOf(function);
    if (!block)
      return failure();
    function->removeAttr(NVVM::NVVMDialect::getMaxntidAttrName());
    function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), block);
    Builder builder(function.getContext());
    for (unsigned index = 0; index != function.getNumArguments(); ++index)
      if (function.getArgAttr(index, LLVM::LLVMDialect::getByValAttrName()))
        function.setArgAttr(index, NVVM::NVVMDialect::getGridConstantAttrName(), builder.getUnitAttr());
    return success();
  }

  static LogicalResult finishAmd(LLVM::LLVMFuncOp function) {
    DenseI32ArrayAttr block = blockOf(function);
    if (!block)
      return failure();
    Builder builder(function.getContext());
    int64_t threads = 1;
    for (int32_t extent : block.asArrayRef())
      threads *= extent;
    function->setAttr("rocdl.flat_work_group_size", builder.getStringAttr(Twine(threads) + "," + Twine(threads)));
    function->setAttr("rocdl.reqd_work_group_size", block);
    return success();
  }
};
} // namespace
} // namespace intarsia::target
