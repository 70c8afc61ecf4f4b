//===- MakeCode.cpp - LLVM IR becomes objects or assembly ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/MakeCode.h"

#include "lib/Support/File.h"
#include "lib/Support/Hash.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include <cstring>
#include <optional>
#include <unistd.h>

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

/// Says once what is wrong with the folder. Kernels are made without it then.
void warnOnce(llvm::StringRef folder, const llvm::Twine &problem) {
  static const bool done = [&] {
    llvm::errs() << "warning: INTARSIA_KERNEL_CACHE=" << folder << ": " << problem
                 << ": kernels are compiled without it; name a folder of your own, or leave the variable unset\n";
    return true;
  }();
  (void)done;
}

/// Returns true for a folder that keeps code. Others than this user and root must not put code there that gets into
/// artifacts. Members of its group may: where each user has a group, folders are made so.
bool isUsable(const std::string &folder) {
  std::error_code code = llvm::sys::fs::create_directories(folder);
  llvm::sys::fs::file_status status;
  if (!code)
    code = llvm::sys::fs::status(folder, status);
  std::string problem;
  if (code)
    problem = code.message();
  else if (status.type() != llvm::sys::fs::file_type::directory_file)
    problem = "is no folder";
  else if (status.getUser() != geteuid() && status.getUser() != 0)
    problem = "is a folder of another user, who could put any code there";
  else if (status.permissions() & llvm::sys::fs::others_write)
    problem = "every user may write there, and put any code there";
  if (!problem.empty())
    warnOnce(folder, problem);
  return problem.empty();
}

/// One file of the cache: the hash of all that follows, the key, and the code.
struct CachedCode {
  std::string folder, key;

  std::string path() const {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "llvmcache-" + key); // the names that pruneCache() knows
    return path.str().str();
  }

  /// Returns the code. None if there is no such file, or if it is not one that keep() has written for this key: it is
  /// made anew then.
  std::optional<std::vector<char>> find() const {
    std::unique_ptr<MappedFile> file;
    if (Status status = MappedFile::open(path(), file); !status.ok()) {
      if (status.code() != ITX_NOT_FOUND)
        warnOnce(folder, status.message());
      return std::nullopt;
    }
    llvm::StringRef bytes(reinterpret_cast<const char *>(file->data()), file->size());
    llvm::StringRef hash = bytes.take_front(sizeof(Hash128)), rest = bytes.drop_front(hash.size());
    Hash128 expected = hashBytes(rest.data(), rest.size());
    if (hash.size() != expected.size() || std::memcmp(hash.data(), expected.data(), hash.size()) != 0 ||
        !rest.consume_front(key))
      return std::nullopt;
    return std::vector<char>(rest.begin(), rest.end());
  }

  void keep(llvm::StringRef code) const {
    std::string rest = key + code.str();
    Hash128 hash = hashBytes(rest.data(), rest.size());
    std::unique_ptr<AtomicFile> file;
    Status status = AtomicFile::create(path(), file);
    if (status.ok())
      status = file->write(hash.data(), hash.size());
    if (status.ok())
      status = file->write(rest.data(), rest.size());
    if (status.ok())
      status = file->commit();
    if (!status.ok())
      warnOnce(folder, status.message());
  }
};

/// Returns the place for what is made of the module; none without a folder that can be used.
std::optional<CachedCode> cachedCode(const llvm::Module &module, const llvm::TargetMachine &machine, Loops loops,
                                     llvm::CodeGenFileType type) {
  std::optional<std::string> folder = llvm::sys::Process::GetEnv("INTARSIA_KERNEL_CACHE");
  if (!folder || folder->empty() || !isUsable(*folder))
    return std::nullopt;
  std::string key = keyOf(module, machine, loops, type);
  if (key.empty())
    return std::nullopt;
  pruneOnce(*folder);
  return CachedCode{std::move(*folder), std::move(key)};
}

} // namespace

llvm::Expected<std::vector<char>> makeCode(llvm::Module &module, llvm::TargetMachine &machine, Loops loops,
                                           llvm::CodeGenFileType type) {
  std::optional<CachedCode> cached = cachedCode(module, machine, loops, type);
  if (cached)
    if (std::optional<std::vector<char>> code = cached->find())
      return std::move(*code);
  optimize(module, machine, loops);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error error = emit(module, machine, type, stream))
    return error;
  if (cached)
    cached->keep(stream.str());
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace intarsia::target
