//===- TemporaryFiles.h - Files that go away unless they are kept ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_TEMPORARYFILES_H
#define INTARSIA_LIB_WEIGHTS_TEMPORARYFILES_H

#include "lib/Support/File.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Signals.h"
#include <map>
#include <memory>
#include <string>

namespace intarsia::weights {

/// Files on the file system of the outputs, which disappear with the process unless they are kept. They have no name
/// until then; on file systems without nameless files they have a temporary name, and a signal that can be handled
/// removes them.
class TemporaryFiles {
public:
  /// Makes an empty file that can become `finalPath`, and returns a path that opens it.
  llvm::Expected<std::string> make(const std::string &finalPath) {
    std::unique_ptr<AtomicFile> file;
    if (Status status = AtomicFile::create(finalPath, file); !status.ok())
      return llvm::createStringError(status.message());
    std::string path = file->openPath();
    names[path] = finalPath;
    if (!file->isNameless())
      llvm::sys::RemoveFileOnSignal(path);
    files[path] = std::move(file);
    return path;
  }

  /// Gives the file that make() returned a name in the folder of its `finalPath`.
  llvm::Error keep(const std::string &path, const std::string &name) {
    Status status = files.at(path)->commitAs(name);
    llvm::sys::DontRemoveFileOnSignal(path);
    files.erase(path);
    return status.ok() ? llvm::Error::success() : llvm::createStringError(status.message());
  }

  /// Returns the error with the final names of files instead of the paths that open them.
  llvm::Error named(llvm::Error error) const {
    if (!error)
      return error;
    std::string message = llvm::toString(std::move(error));
    for (const auto &[path, name] : names)
      for (size_t at = 0; (at = message.find(path + ":", at)) != std::string::npos; at += name.size())
        message.replace(at, path.size(), name);
    return llvm::createStringError(message);
  }

private:
  std::map<std::string, std::string> names; ///< final names by the path that opens the file, kept files included
  std::map<std::string, std::unique_ptr<AtomicFile>> files; ///< by the path that opens the file
};

} // namespace intarsia::weights

#endif
