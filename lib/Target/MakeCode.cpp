//===- MakeCode.cpp - LLVM IR becomes objects or assembly ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/MakeCode.h"

#include "lib/Support/Hash.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Caching.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include <cstring>

namespace intarsia::target {
namespace {

void optimize(llvm::Module &module, llvm::TargetMachine &machine, Loops loops) {
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

/// Returns what tells this program from others that would make other code: where it lies, and when it was built.
std::string nameOfCompiler() {
  std::string path = llvm::sys::fs::getMainExecutable("intarsia", reinterpret_cast<void *>(&nameOfCompiler));
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status))
    return "";
  return path + " " + std::to_string(status.getSize()) + " " +
         std::to_string(status.getLastModificationTime().time_since_epoch().count());
}

/// Returns the name of what is made of the module; empty if this program is not known.
std::string keyOf(const llvm::Module &module, const llvm::TargetMachine &machine, Loops loops,
                  llvm::CodeGenFileType type) {
  static const std::string compiler = nameOfCompiler();
  if (compiler.empty())
    return "";
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << compiler << ' ' << LLVM_VERSION_STRING << ' ' << machine.getTargetTriple().str() << ' '
         << machine.getTargetCPU() << ' ' << machine.getTargetFeatureString() << ' '
         << int(machine.Options.AllowFPOpFusion) << ' ' << int(machine.getRelocationModel()) << ' '
         << int(machine.getCodeModel()) << ' ' << int(machine.getOptLevel()) << ' ' << int(loops) << ' ' << int(type);
  llvm::WriteBitcodeToFile(module, stream);
  return hashTextOf(text.data(), text.size());
}

/// Keeps the folder small; once in a run of the compiler, and at most once in 20 minutes of all runs (LLVM's default).
void pruneOnce(llvm::StringRef folder) {
  static const bool done = [&] {
    llvm::CachePruningPolicy policy;
    policy.MaxSizeBytes = uint64_t(1) << 30;
    llvm::pruneCache(folder, policy);
    return true;
  }();
  (void)done;
}

} // namespace

/// Says which folder an error is about.
static llvm::Error inCache(llvm::StringRef folder, llvm::Error error) {
  return llvm::createStringError("INTARSIA_KERNEL_CACHE=" + folder + ": " + llvm::toString(std::move(error)) +
                                 ": name a folder that can be written to, or leave the variable unset");
}

/// Returns the code in a file of the cache, which begins with its hash.
static llvm::Expected<std::vector<char>> codeIn(llvm::StringRef folder, const llvm::MemoryBuffer &file) {
  llvm::StringRef bytes = file.getBuffer();
  llvm::StringRef code = bytes.drop_front(std::min(bytes.size(), sizeof(Hash128)));
  Hash128 hash = hashBytes(code.data(), code.size());
  if (bytes.size() < sizeof(Hash128) || std::memcmp(bytes.data(), hash.data(), sizeof(Hash128)) != 0)
    return llvm::createStringError("INTARSIA_KERNEL_CACHE=" + folder + ": " + file.getBufferIdentifier() +
                                   " is damaged: delete the folder's files, or leave the variable unset");
  return std::vector<char>(code.begin(), code.end());
}

llvm::Expected<std::vector<char>> makeCode(llvm::Module &module, llvm::TargetMachine &machine, Loops loops,
                                           llvm::CodeGenFileType type) {
  std::optional<std::string> folder = llvm::sys::Process::GetEnv("INTARSIA_KERNEL_CACHE");
  std::string key = folder && !folder->empty() ? keyOf(module, machine, loops, type) : "";
  std::unique_ptr<llvm::MemoryBuffer> found;
  llvm::AddStreamFn addStream;
  if (!key.empty()) {
    pruneOnce(*folder);
    auto take = [&](unsigned, const llvm::Twine &, std::unique_ptr<llvm::MemoryBuffer> file) {
      found = std::move(file);
    };
    llvm::Expected<llvm::FileCache> cache = llvm::localCache("kernel cache", "kernel", *folder, take);
    if (!cache)
      return inCache(*folder, cache.takeError());
    llvm::Expected<llvm::AddStreamFn> missing = (*cache)(0, key, module.getModuleIdentifier());
    if (!missing)
      return inCache(*folder, missing.takeError());
    addStream = std::move(*missing);
    if (found)
      return codeIn(*folder, *found);
  }
  optimize(module, machine, loops);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error error = emit(module, machine, type, stream))
    return error;
  if (addStream) {
    llvm::Expected<std::unique_ptr<llvm::CachedFileStream>> file = addStream(0, module.getModuleIdentifier());
    if (!file)
      return inCache(*folder, file.takeError());
    Hash128 hash = hashBytes(bytes.data(), bytes.size());
    (*file)->OS->write(reinterpret_cast<const char *>(hash.data()), hash.size());
    (*file)->OS->write(bytes.data(), bytes.size());
    if (llvm::Error error = (*file)->commit())
      return inCache(*folder, std::move(error));
  }
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace intarsia::target
