//===- OnnxFile.h - Read ONNX files -------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ONNX_ONNXFILE_H
#define INTARSIA_LIB_FORMATS_ONNX_ONNXFILE_H

#include "lib/Formats/Archive.h"
#include "lib/Formats/Onnx/ExternalFiles.h"
#include "lib/Formats/Onnx/OnnxModel.h"
#include "lib/Support/Status.h"

#include <map>
#include <memory>
#include <string>

namespace intarsia::onnx {

/// A model that was read: the messages are well formed, nested and numerous within limits, and each tensor has as many
/// bytes as its dimensions need. What graphs mean is not checked here.
class File {
public:
  /// Maps the file. Data outside of it is read from files below its directory. `name` begins messages.
  static Status open(const std::string &path, const std::string &name, std::unique_ptr<File> &file);
  /// Parses memory that outlives the result; tensors with data in other files are refused.
  static Status parse(const void *data, uint64_t bytes, const std::string &name, std::unique_ptr<File> &file);
  ~File();
  File(const File &) = delete;
  File &operator=(const File &) = delete;

  const std::string &name() const { return name_; }
  const Model &model() const { return model_; }
  /// The tensors that an archive of weights has, by their keys: all of the file, those in attributes, nested graphs and
  /// functions included, of the types that archives have.
  const std::map<std::string, ArchiveTensor, std::less<>> &archived() const { return archived_; }
  /// Returns the memory that tensors lie in: the file, and those with external data.
  std::vector<std::span<const uint8_t>> mappings() const;

private:
  File() = default;
  Status parse();

  std::string name_;
  std::unique_ptr<MappedFile> mapping_;
  std::unique_ptr<ExternalFiles> external_; ///< null if there is no directory
  const uint8_t *data_ = nullptr;
  uint64_t size_ = 0;
  Model model_;
  std::map<std::string, ArchiveTensor, std::less<>> archived_;
};

/// Opens a file as an archive of weights.
Status openArchive(const std::string &path, std::unique_ptr<Archive> &archive);

} // namespace intarsia::onnx

#endif
