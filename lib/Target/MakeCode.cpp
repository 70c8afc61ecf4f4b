//===- MakeCode.cpp - LLVM IR becomes objects or assembly ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/MakeCode.h"

#include "lib/Target/KernelCache.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include <optional>

namespace intarsia::target {
namespace {

void optimize(llvm::Module &module, llvm::TargetMachine &machine, Loops loops) {
  if (machine.getOptLevel() == llvm::CodeGenOptLevel::None)
    return;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  tuning.LoopUnrolling = loops == Loops::Unroll;
  llvm::LoopAnalysisManager loopAnalyses;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loopAnalyses);
  builder.crossRegisterProxies(loopAnalyses, functions, components, modules);
  auto level = loops == Loops::Unroll ? llvm::OptimizationLevel::O3 : llvm::OptimizationLevel::O2;
  builder.buildPerModuleDefaultPipeline(level).run(module, modules);
}

llvm::Error emit(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                 llvm::raw_pwrite_stream &stream) {
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, stream, nullptr, type))
    return llvm::createStringError("no code can be made for '" + machine.getTargetTriple().str() + "' (" +
                                   machine.getTargetCPU() + ")");
  codegen.run(module);
  return llvm::Error::success();
}

} // namespace

std::string settingsOf(const llvm::TargetMachine &machine, Loops loops, llvm::CodeGenFileType type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << machine.getTargetTriple().str() << ' ' << machine.getTargetCPU() << ' ' << machine.getTargetFeatureString()
         << ' ' << int(machine.Options.AllowFPOpFusion) << ' ' << int(machine.getRelocationModel()) << ' '
         << int(machine.getCodeModel()) << ' ' << int(machine.getOptLevel()) << ' ' << int(loops) << ' ' << int(type);
  return text;
}

llvm::Expected<std::vector<char>> makeCode(llvm::Module &module, llvm::TargetMachine &machine, Loops loops,
                                           llvm::CodeGenFileType type) {
  optimize(module, machine, loops);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error error = emit(module, machine, type, stream))
    return error;
  return std::vector<char>(bytes.begin(), bytes.end());
}

llvm::Expected<std::vector<char>> makeCodeOnce(llvm::Module &module, llvm::TargetMachine &machine, Loops loops,
                                               llvm::CodeGenFileType type) {
  auto source = [&] {
    std::string text = settingsOf(machine, loops, type);
    llvm::raw_string_ostream stream(text);
    llvm::WriteBitcodeToFile(module, stream);
    return text;
  };
  return KernelCache().findOrMake(source, [&] { return makeCode(module, machine, loops, type); });
}

} // namespace intarsia::target
