//===- CompileKernels.cpp - Kernels become objects --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/KernelBodies.h"
#include "intarsia/Target/Target.h"
#include "lib/Support/Hash.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace intarsia::target {
#define GEN_PASS_DEF_TARGETCOMPILEKERNELS
#include "lib/Target/Passes.h.inc"

namespace {
struct CompileKernels : impl::TargetCompileKernelsBase<CompileKernels> {
  void getDependentDialects(DialectRegistry &registry) const override {
    TargetCompileKernelsBase::getDependentDialects(registry);
    for (const Target *target : Target::all())
      target->addDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto artifacts = createCompilers(module);
    if (!artifacts)
      return fail(artifacts.takeError());
    if (failed(checkKernels(module)))
      return signalPassFailure();
    // Behind the kernels, before the functions that start them.
    auto functions = module.getOps<func::FuncOp>();
    before = functions.empty() ? module.getBody()->end() : Block::iterator(*functions.begin());
    symbols = SymbolTable(module);
    for (const ArtifactCompilers &artifact : *artifacts)
      for (const DeviceCompiler &device : artifact.devices)
        if (llvm::Error error = compile(device, artifact.hostTriple))
          return fail(std::move(error));
    for (auto kernel : module.getOps<rt::KernelOp>())
      kernel.eraseBody();
  }

private:
  void fail(llvm::Error error) {
    getOperation().emitError() << llvm::toString(std::move(error));
    signalPassFailure();
  }

  static LogicalResult checkKernels(ModuleOp module) {
    if (failed(rt::checkBodies(module)))
      return failure();
    for (auto object : module.getOps<rt::ObjectOp>())
      return object.emitOpError() << "is compiled already; the target phase makes objects from the kernels of a module "
                                     "that has none";
    return success();
  }

  /// Adds an object for each variant of a device.
  llvm::Error compile(const DeviceCompiler &device, const std::string &host) {
    std::vector<NumberedKernel> kernels = kernelsIn(getOperation(), *device.target, device.device);
    std::vector<CompiledObject> pieces;
    if (llvm::Error error = device.compiler->compileKernels(getOperation(), kernels, host, pieces))
      return error;
    std::vector<Variant> variants = device.compiler->variants();
    size_t piecesOfVariant = pieces.size() / variants.size();
    for (auto [number, variant] : llvm::enumerate(variants))
      addObject(device.device, host, number, variant, kernels,
                ArrayRef(pieces).slice(number * piecesOfVariant, piecesOfVariant));
    return llvm::Error::success();
  }

  void addObject(StringRef device, StringRef host, int64_t number, const Variant &variant,
                 ArrayRef<NumberedKernel> kernels, ArrayRef<CompiledObject> pieces) {
    Builder builder(&getContext());
    SmallVector<Attribute> names, code;
    SmallVector<int64_t> numbers;
    for (auto [index, kernel] : kernels) {
      names.push_back(FlatSymbolRefAttr::get(kernel.getSymNameAttr()));
      numbers.push_back(index);
    }
    Hasher hasher;
    for (const CompiledObject &piece : pieces) {
      auto type = RankedTensorType::get({static_cast<int64_t>(piece.object.size())}, builder.getI8Type());
      code.push_back(DenseResourceElementsAttr::get(
          type, piece.name, HeapAsmResourceBlob::allocateAndCopyInferAlign(ArrayRef<char>(piece.object))));
      hasher.update(piece.object.data(), piece.object.size());
    }
    SmallVector<StringAttr> features;
    for (const std::string &feature : variant.features)
      features.push_back(builder.getStringAttr(feature));
    // The code of a device that has one variant for every host is the variant of its host.
    StringRef variantName = variant.name.empty() ? host : StringRef(variant.name);
    OpBuilder ops(&getContext());
    auto object = rt::ObjectOp::create(ops, getOperation().getLoc(), (device + "." + variantName).str(), device, host,
                                       number, rt::VariantAttr::get(&getContext(), variantName, variant.cpu, features),
                                       builder.getArrayAttr(names), builder.getDenseI64ArrayAttr(numbers),
                                       hashText(hasher.finish()), builder.getArrayAttr(code));
    symbols->insert(object, before);
  }

  std::optional<SymbolTable> symbols;
  Block::iterator before;
};
} // namespace

} // namespace intarsia::target
