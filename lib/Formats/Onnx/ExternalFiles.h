//===- ExternalFiles.h - Open the files that a model names --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ONNX_EXTERNALFILES_H
#define INTARSIA_LIB_FORMATS_ONNX_EXTERNALFILES_H

#include "lib/Support/File.h"
#include "lib/Support/Status.h"
#include "lib/Support/WeightsDirectory.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace intarsia::onnx {

/// Maps files below one directory, whose names come from a model that is not trusted. All external data of a model is
/// opened here. Refused are paths that lead out of the directory (CVE-2024-27318), symbolic links (CVE-2026-34447) and
/// hard links (CVE-2026-34446), which may lead to files outside of it, pipes and devices. Files that lie below the
/// WeightsDirectory after all links are followed are opened too, because caches of downloads consist of links.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string directory)
      : directory_(std::move(directory)), weightsDirectory_(WeightsDirectory::current()) {}

  /// Returns the mapped file of a name; it stays mapped as long as this object lives. The error says what is wrong with
  /// the name.
  Status open(std::string_view location, const MappedFile *&file);
  const std::map<std::string, std::unique_ptr<MappedFile>, std::less<>> &opened() const { return files_; }

private:
  std::string directory_, weightsDirectory_;
  std::map<std::string, std::unique_ptr<MappedFile>, std::less<>> files_;
};

} // namespace intarsia::onnx

#endif
