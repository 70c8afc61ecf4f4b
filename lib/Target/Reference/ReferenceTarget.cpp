//===- ReferenceTarget.cpp - The slow, exact device of every machine ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Reference/ReferenceTarget.h"

#include "dialects/Rt/BlockPanels.h"
#include "intarsia/Reference/Reference.h"
#include "lib/Target/Host.h"
#include "lib/Target/KernelCache.h"
#include "lib/Target/Linker.h"
#include "lib/Target/Reference/ReferenceCodegen.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

using namespace llvm;

namespace intarsia::reference {
namespace {

/// Rows of a panel. It differs from that of processors, so that nothing can take a weight of theirs for one of ours.
constexpr int64_t panelWidth = 16;

/// Tokens of a page that it prefers, another number than that of processors for the same reason.
constexpr int64_t pageTokens = 16;

class ReferenceCompiler : public target::KernelCompiler {
public:
  std::string triple() const override { return ""; }
  /// The one variant runs on every host; the artifact names it by the triple of its own.
  std::vector<target::Variant> variants() const override { return {{"", "", {}}}; }

  Error compileKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels, StringRef hostTriple,
                       std::vector<target::CompiledObject> &objects) override {
    mlir::OwningOpRef<mlir::ModuleOp> functions = buildFunctions(module, kernels);
    if (!functions)
      return createStringError("kernels could not be lowered for the reference device");
    Expected<std::vector<char>> code = makeCodeOnce(*functions, hostTriple);
    if (!code)
      return code.takeError();
    auto linked = target::link({{"reference", std::move(*code)}}, target::elfEmulation(hostTriple),
                               /*relocatable=*/false);
    if (!linked)
      return linked.takeError();
    objects.push_back({hostTriple.str(), std::move(*linked)});
    return Error::success();
  }

  mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module, ArrayRef<target::NumberedKernel> kernels,
                                                target::EmitStep step) override {
    mlir::OwningOpRef<mlir::ModuleOp> functions = buildFunctions(module, kernels);
    bool isLowered = step == target::EmitStep::Llvm;
    if (!functions || failed(isLowered ? lower(*functions) : run(*functions, buildReferenceLoops)))
      return nullptr;
    return functions;
  }

private:
  static mlir::OwningOpRef<mlir::ModuleOp> buildFunctions(mlir::ModuleOp module,
                                                          ArrayRef<target::NumberedKernel> kernels) {
    mlir::OwningOpRef<mlir::ModuleOp> functions(mlir::ModuleOp::create(module.getLoc()));
    for (auto [index, kernel] : kernels)
      if (failed(buildReferenceFunction(kernel, index, *functions)))
        return nullptr;
    return functions;
  }

  /// Compiles functions unless the same ones were compiled before.
  static Expected<std::vector<char>> makeCodeOnce(mlir::ModuleOp functions, StringRef hostTriple) {
    auto source = [&] {
      std::string text = "reference " + hostTriple.str() + ' ';
      raw_string_ostream stream(text);
      functions.print(stream);
      return text;
    };
    return target::KernelCache().findOrMake(source, [&]() -> Expected<std::vector<char>> {
      if (failed(lower(functions)))
        return createStringError("kernels could not be lowered for the reference device");
      return compileFunctions(functions, hostTriple);
    });
  }

  /// Verifies the loops. What they are lowered to is verified as LLVM IR, not after each of MLIR's conversions.
  static mlir::LogicalResult lower(mlir::ModuleOp functions) {
    mlir::PassManager lowering(functions.getContext());
    buildReferenceLowering(lowering);
    lowering.enableVerifier(false);
    return mlir::success(succeeded(run(functions, buildReferenceLoops)) && succeeded(lowering.run(functions)));
  }

  static mlir::LogicalResult run(mlir::ModuleOp functions, function_ref<void(mlir::OpPassManager &)> build) {
    mlir::PassManager manager(functions.getContext());
    build(manager);
    return manager.run(functions);
  }
};

class ReferenceTarget : public target::Target {
public:
  StringRef kind() const override { return "reference"; }
  std::vector<target::NamedVariant> listVariants() const override {
    return {{"", "every machine's own reference device: slow, exact, with a memory of its own"}};
  }
  bool usesHostMemory() const override { return false; }
  bool runsHostCode() const override { return false; }
  bool verifiesKernels() const override { return true; }
  bool hasKernel(mlir::Operation *) const override { return true; }
  void addDialects(mlir::DialectRegistry &registry) const override {
    mlir::OpPassManager manager(mlir::ModuleOp::getOperationName());
    buildReferenceLoops(manager);
    buildReferenceLowering(manager);
    manager.getDependentDialects(registry);
    registry.insert<mlir::func::FuncDialect, mlir::LLVM::LLVMDialect>();
    registerReferenceModels(registry);
    mlir::registerBuiltinDialectTranslation(registry);
    mlir::registerLLVMDialectTranslation(registry);
  }

  Expected<std::vector<std::unique_ptr<target::KernelCompiler>>>
  compilers(ArrayRef<StringRef> variants) const override {
    for (StringRef variant : variants)
      if (Error error = checkVariant(variant))
        return std::move(error);
    std::vector<std::unique_ptr<target::KernelCompiler>> result;
    result.push_back(std::make_unique<ReferenceCompiler>());
    return result;
  }
  Expected<target::FittedModel> model(StringRef variant) const override {
    if (Error error = checkVariant(variant))
      return std::move(error);
    if (const DeviceModel *model = DeviceModel::find(kind(), variant))
      return target::FittedModel{model, ""};
    return createStringError("the catalogue has no figures for 'reference'; they are in "
                             "catalogue/efficiency/reference.yaml, from which the compiler is built");
  }

  bool holdsNorm(const target::KernelCandidate &, std::string &) const override { return true; }
  unsigned largestResultCount() const override { return std::numeric_limits<uint16_t>::max(); }
  bool splitsAt(int64_t) const override { return true; }
  bool storesQuantized(BlockFormatAttrInterface format, int64_t elements) const override {
    return BlockPanels::of(format, elements, panelWidth).has_value();
  }
  rt::LayoutAttrInterface layout(mlir::MLIRContext *context, StoredOperand use, BlockFormatAttrInterface format,
                                 int64_t) const override {
    // Slices need no order of their own: a kernel decodes the whole weight before it reads any.
    if (use == StoredOperand::Matrix || (use == StoredOperand::Table && format))
      return rt::PanelsAttr::get(context, panelWidth, /*slices=*/1, format);
    return rt::RowMajorAttr::get(context);
  }

  /// Pages may have any size, and lie as they are written.
  Expected<target::CacheLayout> cacheLayout(nn::CacheFormatAttr, int64_t page) const override {
    return target::CacheLayout{page == 0 ? pageTokens : page, /*transposed=*/false};
  }

private:
  static Error checkVariant(StringRef variant) {
    if (variant.empty())
      return Error::success();
    return createStringError("target 'reference' has no variant '" + variant +
                             "': it is the same on every machine; leave out what is behind the colon");
  }
};
} // namespace

const target::Target &referenceTarget() {
  static const ReferenceTarget target;
  return target;
}

} // namespace intarsia::reference
