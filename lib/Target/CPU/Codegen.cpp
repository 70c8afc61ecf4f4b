//===- Codegen.cpp - From kernels to objects --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/Codegen.h"

#include "lib/Target/CPU/Pipeline.h"
#include "lib/Target/MakeCode.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ObjectFile.h"

using namespace mlir;

namespace intarsia::cpu {

/// Lowers the kernels for a variant to the LLVM dialect, each in a module of its own within the result: the pass
/// manager runs those in parallel.
static FailureOr<OwningOpRef<ModuleOp>> lowerKernels(ArrayRef<target::NumberedKernel> kernels,
                                                     const CpuVariant &variant, Location location) {
  OwningOpRef<ModuleOp> all = ModuleOp::create(location);
  for (auto [index, kernel] : kernels) {
    auto part = ModuleOp::create(kernel.getLoc());
    part.push_back(kernel->clone());
    all->push_back(part);
  }
  PassManager manager(location.getContext());
  buildKernelPipeline(manager.nest<ModuleOp>(), variant);
  if (failed(manager.run(*all)))
    return failure();
  return std::move(all);
}

/// LLVM IR → object. Loops are vectorised already: LLVM's own vectorisers and unroller would add code for shapes that
/// do not occur.
static llvm::Expected<std::vector<char>> compileToObject(llvm::Module &module, const CpuVariant &variant) {
  std::unique_ptr<llvm::TargetMachine> machine = variant.machine();
  module.setTargetTriple(llvm::Triple(variant.triple));
  module.setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    function.setDSOLocal(true);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("tune-cpu", variant.tune);
    function.addFnAttr("prefer-vector-width", std::to_string(variant.tiles.lanes * 32));
    function.addFnAttr("min-legal-vector-width", std::to_string(variant.tiles.lanes * 32));
  }
  return target::makeCode(module, *machine, target::Loops::Keep, llvm::CodeGenFileType::ObjectFile);
}

/// The functions of a kernel's object.
static constexpr StringRef functions[] = {"plan", "run"};

/// Gives the functions of an object names that no other object has: those of all kernels and variants are linked
/// together.
static llvm::Expected<std::vector<char>> withPrefix(ArrayRef<char> object, const std::string &prefix) {
  auto file = llvm::object::ObjectFile::createObjectFile({{object.data(), object.size()}, "kernel"});
  if (!file)
    return file.takeError();
  std::vector<std::string> names;
  for (StringRef function : functions)
    names.push_back(prefix + function.str());
  llvm::objcopy::ConfigManager config;
  for (auto [function, name] : llvm::zip_equal(functions, names))
    config.Common.SymbolsToRename[function] = name;
  llvm::SmallVector<char, 0> renamed;
  llvm::raw_svector_ostream stream(renamed);
  if (llvm::Error error = llvm::objcopy::executeObjcopyOnBinary(config, **file, stream))
    return error;
  return std::vector<char>(renamed.begin(), renamed.end());
}

void addKernelDialects(DialectRegistry &registry) {
  OpPassManager manager(ModuleOp::getOperationName());
  CpuVariant variant;
  variant.fusedMultiplyAdd = false; // with the pass that splits them
  buildKernelPipeline(manager, variant);
  manager.getDependentDialects(registry);
  registry.insert<func::FuncDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

llvm::Error compileKernels(ModuleOp module, ArrayRef<target::NumberedKernel> kernels, ArrayRef<CpuVariant> variants,
                           std::vector<target::CompiledObject> &objects) {
  MLIRContext *context = module.getContext();
  struct Job {
    target::NumberedKernel numbered;
    unsigned variantIndex;
    ModuleOp lowered;
    target::CompiledObject result;
  };
  std::vector<Job> jobs;
  SmallVector<OwningOpRef<ModuleOp>> lowered;
  for (auto [v, variant] : llvm::enumerate(variants)) {
    FailureOr<OwningOpRef<ModuleOp>> all = lowerKernels(kernels, variant, module.getLoc());
    if (failed(all))
      return llvm::createStringError("kernels could not be lowered to LLVM");
    for (auto [numbered, part] : llvm::zip_equal(kernels, (*all)->getOps<ModuleOp>()))
      jobs.push_back({numbered, static_cast<unsigned>(v), part, {}});
    lowered.push_back(std::move(*all));
  }

  if (failed(failableParallelForEach(context, jobs, [&](Job &job) {
        llvm::LLVMContext llvmContext;
        std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(job.lowered, llvmContext);
        if (!llvmModule)
          return failure();
        const CpuVariant &variant = variants[job.variantIndex];
        std::string name = job.numbered.kernel.getSymName().str();
        // The same kernel of two models is the same module, which is compiled once (MakeCode.h).
        for (StringRef function : functions)
          llvmModule->getFunction((name + "_" + function).str())->setName(function);
        job.result.name = name + "." + variant.name;
        auto fail = [&](llvm::Error error) {
          return LogicalResult(job.numbered.kernel->emitError() << llvm::toString(std::move(error)));
        };
        llvm::Expected<std::vector<char>> object = compileToObject(*llvmModule, variant);
        if (!object)
          return fail(object.takeError());
        object = withPrefix(*object, llvm::formatv("itx_k{0}_v{1}_", job.numbered.index, job.variantIndex).str());
        if (!object)
          return fail(object.takeError());
        job.result.object = std::move(*object);
        return success();
      })))
    return llvm::createStringError("kernels could not be compiled");
  for (Job &job : jobs)
    objects.push_back(std::move(job.result));
  return llvm::Error::success();
}

} // namespace intarsia::cpu
