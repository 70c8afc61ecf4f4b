//===- KernelCache.cpp - Code of kernels that were compiled before --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/KernelCache.h"

#include "lib/Support/File.h"
#include "lib/Support/Hash.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include <cstring>
#include <unistd.h>

namespace intarsia::target {
namespace {

/// Returns what tells this program from others that would make other code: where it lies, and when it was built.
std::string nameOfCompiler() {
  std::string path = llvm::sys::fs::getMainExecutable("intarsia", reinterpret_cast<void *>(&nameOfCompiler));
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status))
    return "";
  return path + " " + std::to_string(status.getSize()) + " " +
         std::to_string(status.getLastModificationTime().time_since_epoch().count());
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

} // namespace

KernelCache::KernelCache() {
  static const std::string compiler = nameOfCompiler();
  std::optional<std::string> named = llvm::sys::Process::GetEnv("INTARSIA_KERNEL_CACHE");
  if (compiler.empty() || !named || named->empty() || !isUsable(*named))
    return;
  pruneOnce(*named);
  made = compiler + ' ' + LLVM_VERSION_STRING + ' ';
  folder = std::move(*named);
}

std::string KernelCache::keyOf(llvm::StringRef source) const {
  std::string text = made + source.str();
  return hashTextOf(text.data(), text.size());
}

std::string KernelCache::pathOf(llvm::StringRef key) const {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "llvmcache-" + key); // the names that pruneCache() knows
  return path.str().str();
}

std::optional<std::vector<char>> KernelCache::find(llvm::StringRef key) const {
  std::unique_ptr<MappedFile> file;
  if (Status status = MappedFile::open(pathOf(key), file); !status.ok()) {
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

void KernelCache::keep(llvm::StringRef key, llvm::ArrayRef<char> code) const {
  std::string rest = key.str() + std::string(code.begin(), code.end());
  Hash128 hash = hashBytes(rest.data(), rest.size());
  std::unique_ptr<AtomicFile> file;
  Status status = AtomicFile::create(pathOf(key), file);
  if (status.ok())
    status = file->write(hash.data(), hash.size());
  if (status.ok())
    status = file->write(rest.data(), rest.size());
  if (status.ok())
    status = file->commit();
  if (!status.ok())
    warnOnce(folder, status.message());
}

llvm::Expected<std::vector<char>>
KernelCache::findOrMake(llvm::function_ref<std::string()> source,
                        llvm::function_ref<llvm::Expected<std::vector<char>>()> make) const {
  if (!*this)
    return make();
  std::string key = keyOf(source());
  if (std::optional<std::vector<char>> code = find(key))
    return std::move(*code);
  llvm::Expected<std::vector<char>> code = make();
  if (code)
    keep(key, *code);
  return code;
}

} // namespace intarsia::target
