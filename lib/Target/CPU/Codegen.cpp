//===- Codegen.cpp - From kernels to objects --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/CPU/Codegen.h"

#include "lib/Target/CPU/Pipeline.h"
#include "lib/Target/KernelCache.h"
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

namespace {
/// A kernel for a variant.
struct Job {
  target::NumberedKernel numbered;
  unsigned variantIndex;
  std::string key;              ///< of the kernel cache; empty without one
  std::vector<char> object;     ///< empty until it is found or made
  OwningOpRef<ModuleOp> module; ///< what is lowered

  std::string name() { return numbered.kernel.getSymName().str(); }
};
} // namespace

/// Returns all that the object of a kernel depends on: its body and sizes, not its name, nor where it is in the model.
static std::string sourceOf(rt::KernelOp kernel, const CpuVariant &variant) {
  std::string text = target::settingsOf(*variant.machine(), target::Loops::Keep, llvm::CodeGenFileType::ObjectFile);
  llvm::raw_string_ostream stream(text);
  stream << ' ' << variant.spec << ' ' << variant.cpu << ' ' << variant.tune << ' ' << variant.fusedMultiplyAdd << ' ';
  llvm::interleaveComma(variant.features, stream);
  OwningOpRef<rt::KernelOp> nameless = kernel.clone();
  nameless->setSymName("kernel");
  nameless->print(stream);
  return text;
}

/// Lowers the kernels of jobs to the LLVM dialect, each in a module of its own: the pass manager runs those in
/// parallel. Kernels are verified when they are emitted, and again as LLVM IR. To verify them after each of MLIR's
/// conversions took a third of the time of lowering.
static LogicalResult lowerKernels(ArrayRef<Job *> jobs, const CpuVariant &variant, Location location) {
  OwningOpRef<ModuleOp> all = ModuleOp::create(location);
  for (Job *job : jobs) {
    auto part = ModuleOp::create(job->numbered.kernel.getLoc());
    part.push_back(job->numbered.kernel->clone());
    all->push_back(part);
  }
  PassManager emission(location.getContext()), lowering(location.getContext());
  buildEmission(emission.nest<ModuleOp>(), variant);
  buildLowerToLlvm(lowering.nest<ModuleOp>());
  lowering.enableVerifier(false);
  if (failed(emission.run(*all)) || failed(lowering.run(*all)))
    return failure();
  auto parts = llvm::to_vector(all->getOps<ModuleOp>());
  for (auto [job, part] : llvm::zip_equal(jobs, parts)) {
    part->remove();
    job->module = part;
  }
  return success();
}

LogicalResult lowerToLlvm(ModuleOp functions, const CpuVariant &variant) {
  PassManager manager(functions.getContext());
  buildPreparation(manager, variant);
  buildLowerToLlvm(manager);
  return manager.run(functions);
}

/// The functions of a kernel's object.
static constexpr StringRef functions[] = {"plan", "run"};

/// LLVM dialect → object. Loops are vectorised already: LLVM's own vectorisers and unroller would add code for shapes
/// that do not occur.
static llvm::Expected<std::vector<char>> compileToObject(Job &job, const CpuVariant &variant) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(*job.module, context);
  if (!module)
    return llvm::createStringError("the kernel could not be translated to LLVM IR");
  for (StringRef function : functions)
    module->getFunction((job.name() + "_" + function).str())->setName(function);
  std::unique_ptr<llvm::TargetMachine> machine = variant.machine();
  module->setTargetTriple(llvm::Triple(variant.triple));
  module->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *module) {
    if (function.isDeclaration())
      continue;
    function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    function.setDSOLocal(true);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("tune-cpu", variant.tune);
    function.addFnAttr("prefer-vector-width", std::to_string(variant.tiles.lanes * 32));
    function.addFnAttr("min-legal-vector-width", std::to_string(variant.tiles.lanes * 32));
  }
  return target::makeCode(*module, *machine, target::Loops::Keep, llvm::CodeGenFileType::ObjectFile);
}

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
  buildEmission(manager, variant);
  buildLowerToLlvm(manager);
  manager.getDependentDialects(registry);
  registry.insert<func::FuncDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

llvm::Error compileKernels(ModuleOp module, ArrayRef<target::NumberedKernel> kernels, ArrayRef<CpuVariant> variants,
                           std::vector<target::CompiledObject> &objects) {
  MLIRContext *context = module.getContext();
  std::vector<Job> jobs;
  for (unsigned v = 0; v < variants.size(); ++v)
    for (target::NumberedKernel numbered : kernels)
      jobs.push_back({numbered, v, {}, {}, {}});

  // The same kernel of two models, or of two layers that have other names, is compiled once.
  target::KernelCache cache;
  if (cache)
    mlir::parallelForEach(context, jobs, [&](Job &job) {
      job.key = cache.keyOf(sourceOf(job.numbered.kernel, variants[job.variantIndex]));
      if (std::optional<std::vector<char>> object = cache.find(job.key))
        job.object = std::move(*object);
    });
  for (auto [v, variant] : llvm::enumerate(variants)) {
    SmallVector<Job *> left;
    for (Job &job : jobs)
      if (job.variantIndex == v && job.object.empty())
        left.push_back(&job);
    if (!left.empty() && failed(lowerKernels(left, variant, module.getLoc())))
      return llvm::createStringError("kernels could not be lowered to LLVM");
  }

  if (failed(failableParallelForEach(context, jobs, [&](Job &job) {
        auto fail = [&](llvm::Error error) {
          return LogicalResult(job.numbered.kernel->emitError() << llvm::toString(std::move(error)));
        };
        if (job.module) {
          llvm::Expected<std::vector<char>> object = compileToObject(job, variants[job.variantIndex]);
          if (!object)
            return fail(object.takeError());
          job.object = std::move(*object);
          if (cache)
            cache.keep(job.key, job.object);
        }
        std::string prefix = llvm::formatv("itx_k{0}_v{1}_", job.numbered.index, job.variantIndex).str();
        llvm::Expected<std::vector<char>> renamed = withPrefix(job.object, prefix);
        if (!renamed)
          return fail(renamed.takeError());
        job.object = std::move(*renamed);
        return success();
      })))
    return llvm::createStringError("kernels could not be compiled");
  for (Job &job : jobs)
    objects.push_back({job.name() + "." + variants[job.variantIndex].name, std::move(job.object)});
  return llvm::Error::success();
}

} // namespace intarsia::cpu
