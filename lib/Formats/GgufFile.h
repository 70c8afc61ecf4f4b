//===- GgufFile.h - Read GGUF files -------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian: header, metadata,
// descriptions of tensors, padding, data. The file is mapped. Knows nothing of LLVM: the fuzzer builds it alone.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_GGUFFILE_H
#define INTARSIA_LIB_FORMATS_GGUFFILE_H

#include "lib/Formats/Archive.h"
#include "lib/Formats/GgmlTypes.h"
#include "lib/Support/Status.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace intarsia {
class MappedFile;
}

namespace intarsia::gguf {

enum class ValueType : uint32_t {
  U8 = 0,
  I8 = 1,
  U16 = 2,
  I16 = 3,
  U32 = 4,
  I32 = 5,
  F32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  U64 = 10,
  I64 = 11,
  F64 = 12
};

/// The value of a metadata key. Its bytes stay in the file.
struct Value {
  ValueType type = ValueType::U8; ///< for an array the type of the elements
  bool isArray = false;
  uint64_t count = 1;
  const uint8_t *data = nullptr;

  /// These return the value as the given kind; nullopt if it is of another kind or does not fit.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;
  std::optional<bool> boolean() const;
  std::optional<std::string_view> string() const;
  /// Returns the elements of an array of up to 2^20 booleans.
  std::optional<std::vector<bool>> booleans() const;
  /// Returns the elements of an array of up to 2^20 integers, or one integer as an array of one.
  std::optional<std::vector<int64_t>> integers() const;
  /// Calls `visit` with each element of an array of any length.
  void forEach(const std::function<void(const Value &)> &visit) const;
};

/// One tensor. `raw` is what nn.weight reads: F32, F16 and BF16 in the tensor's shape, other types as I8 rows of
/// blocks [..., bytes of a row]; its name is the tensor's.
struct Tensor {
  const GgmlType *type = nullptr;
  std::vector<int64_t> shape; ///< row-major: the file's dimensions in reverse
  ArchiveTensor raw;

  bool isPlain() const { return type->elements == 1; }
};

/// A checked file: tensors do not overlap and lie inside the file, names are unique.
class File {
public:
  /// Maps the file. Errors name the file, the tensor or key, the numbers that disagree, and what to try.
  static Status open(const std::string &path, const std::string &name, std::unique_ptr<File> &file);
  /// Parses memory that outlives the result.
  static Status parse(const void *data, uint64_t bytes, const std::string &name, std::unique_ptr<File> &file);
  ~File();
  File(const File &) = delete;
  File &operator=(const File &) = delete;

  const std::string &name() const { return name_; }
  /// Tensors in the order of their data in the file.
  const std::vector<Tensor> &tensors() const { return tensors_; }
  const Tensor *find(std::string_view name) const;
  const Value *metadata(std::string_view key) const;
  const std::map<std::string_view, Value> &metadata() const { return metadata_; }

  const uint8_t *data() const { return data_; }
  uint64_t size() const { return size_; }

private:
  File() = default;
  Status parse();

  std::string name_;
  std::unique_ptr<MappedFile> mapping_;
  const uint8_t *data_ = nullptr;
  uint64_t size_ = 0;
  std::map<std::string_view, Value> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, size_t> index_;
};

/// Opens the file at `path` and, if it is the first of several ("m-00001-of-00003.gguf"), the others beside it. Names
/// of files in messages are relative to its folder. Tensor names are unique across all files.
Status openParts(const std::string &path, std::vector<std::unique_ptr<File>> &parts);

/// Opens one file as an archive of weights, with blocks as bytes.
Status openArchive(const std::string &path, std::unique_ptr<Archive> &archive);

} // namespace intarsia::gguf

#endif
