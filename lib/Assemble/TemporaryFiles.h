//===- TemporaryFiles.h - Files that go away unless they are kept ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_TEMPORARYFILES_H
#define INTARSIA_LIB_ASSEMBLE_TEMPORARYFILES_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include <string>
#include <vector>

namespace intarsia::assemble {

/// Files beside the outputs, where a rename is atomic. What was not kept is removed at the end, also by signals.
class TemporaryFiles {
public:
  TemporaryFiles() = default;
  TemporaryFiles(const TemporaryFiles &) = delete;
  TemporaryFiles &operator=(const TemporaryFiles &) = delete;
  ~TemporaryFiles() {
    for (const std::string &path : paths) {
      llvm::sys::fs::remove(path);
      llvm::sys::DontRemoveFileOnSignal(path);
    }
  }

  /// Makes an empty file that will stand in for `finalPath`.
  llvm::Expected<std::string> make(llvm::StringRef finalPath) {
    llvm::SmallString<128> path;
    int descriptor = -1;
    if (std::error_code code = llvm::sys::fs::createUniqueFile(finalPath + ".%%%%%%.tmp", descriptor, path))
      return llvm::createStringError(finalPath + ": cannot be written: " + code.message());
    llvm::sys::Process::SafelyCloseFileDescriptor(descriptor);
    llvm::sys::RemoveFileOnSignal(path);
    paths.push_back(path.str().str());
    return paths.back();
  }

  /// Gives the file that make() returned its name.
  llvm::Error keep(const std::string &path, const std::string &finalPath) {
    if (std::error_code code = llvm::sys::fs::rename(path, finalPath))
      return llvm::createStringError(finalPath + ": cannot be written: " + code.message());
    llvm::sys::DontRemoveFileOnSignal(path);
    llvm::erase(paths, path);
    return llvm::Error::success();
  }

private:
  std::vector<std::string> paths;
};

} // namespace intarsia::assemble

#endif
