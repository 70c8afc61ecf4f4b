//===- Microkernels.cpp - Functions in C++ that kernels of GPUs call ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sources are in Microkernels/; the build compiles them to bitcode, which is part of the compiler.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Microkernels.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace llvm;

namespace intarsia::gpu {

namespace {
/// Bitcode of a source file for an architecture.
struct Bitcode {
  StringLiteral architecture;
  StringLiteral bytes;
};
constexpr Bitcode embedded[] = {
#include "lib/Target/GPU/Microkernels.inc"
};

/// Names of microkernels begin with it.
constexpr StringLiteral prefix = "itx_";

/// Returns the architecture whose bitcode an architecture uses. That of NVIDIA's oldest is for all of theirs: target
/// features come with code generation.
StringRef architectureOfBitcode(const Architecture &architecture) {
  return architecture.vendor == Vendor::Nvidia ? architectures(Vendor::Nvidia).front().name : architecture.name;
}

std::vector<std::string> missingFunctions(const Module &module) {
  std::vector<std::string> names;
  for (const Function &function : module)
    if (function.isDeclaration() && !function.use_empty() && function.getName().starts_with(prefix))
      names.push_back(function.getName().str());
  return names;
}

/// Makes functions of a module ready to be inlined into kernels of any architecture that reads its bitcode.
void prepare(Module &source) {
  if (NamedMDNode *flags = source.getModuleFlagsMetadata())
    flags->eraseFromParent();
  for (Function &function : source) {
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    if (function.isDeclaration())
      continue;
    function.removeFnAttr(Attribute::NoInline);
    function.addFnAttr(Attribute::AlwaysInline);
    function.setComdat(nullptr);
    if (!function.getName().starts_with(prefix))
      function.setLinkage(GlobalValue::InternalLinkage);
  }
}

/// Links the bitcode that has one of the functions.
Error link(Module &module, const Architecture &architecture, ArrayRef<std::string> missing) {
  for (const Bitcode &bitcode : embedded) {
    if (bitcode.architecture != architectureOfBitcode(architecture))
      continue;
    auto source = getLazyBitcodeModule(MemoryBufferRef(bitcode.bytes, "microkernels"), module.getContext());
    if (!source)
      return source.takeError();
    auto has = [&](StringRef name) {
      const Function *function = (*source)->getFunction(name);
      return function && !function->isDeclaration();
    };
    if (none_of(missing, has))
      continue;
    if (Error error = (*source)->materializeAll())
      return error;
    prepare(**source);
    (*source)->setTargetTriple(module.getTargetTriple());
    (*source)->setDataLayout(module.getDataLayout());
    if (Linker::linkModules(module, std::move(*source), Linker::Flags::LinkOnlyNeeded))
      return createStringError("microkernels for " + architecture.name + " could not be linked");
  }
  return Error::success();
}

/// Inlines all functions that are to be. Bitcode has every variable in memory: functions are cleaned before each call
/// has a copy of them, and kernels after that. For a device, constants of arguments then unroll loops and make
/// registers of arrays.
void inlineAndSimplify(Module &module, CodeFor codeFor) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder builder(nullptr, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  auto clean = [] {
    FunctionPassManager passes;
    passes.addPass(SROAPass(SROAOptions::ModifyCFG));
    passes.addPass(EarlyCSEPass());
    passes.addPass(SimplifyCFGPass());
    return createModuleToFunctionPassAdaptor(std::move(passes));
  };
  ModulePassManager passes;
  passes.addPass(GlobalDCEPass());
  passes.addPass(clean());
  passes.addPass(AlwaysInlinerPass(/*InsertLifetimeIntrinsics=*/false));
  passes.addPass(GlobalDCEPass());
  if (codeFor == CodeFor::Emulator)
    passes.addPass(clean());
  else
    passes.addPass(createModuleToFunctionPassAdaptor(
        builder.buildFunctionSimplificationPipeline(OptimizationLevel::O2, ThinOrFullLTOPhase::None)));
  passes.run(module, modules);
}
} // namespace

Error inlineMicrokernels(Module &module, const Architecture &architecture, CodeFor codeFor) {
  std::vector<std::string> missing = missingFunctions(module);
  if (missing.empty())
    return Error::success();
  // Microkernels call each other.
  std::vector<std::string> linked;
  while (!missing.empty()) {
    if (Error error = link(module, architecture, missing))
      return error;
    for (const std::string &name : missing)
      if (module.getFunction(name)->isDeclaration())
        return createStringError("there is no microkernel '" + name + "' for " + architecture.name);
    append_range(linked, missing);
    missing = missingFunctions(module);
  }
  for (const std::string &name : linked)
    module.getFunction(name)->setLinkage(GlobalValue::InternalLinkage);
  inlineAndSimplify(module, codeFor);
  return Error::success();
}

} // namespace intarsia::gpu
