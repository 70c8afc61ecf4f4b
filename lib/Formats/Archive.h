//===- Archive.h - Files of weights of any kind -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ARCHIVE_H
#define INTARSIA_LIB_FORMATS_ARCHIVE_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace intarsia {

/// One tensor of an archive: what nn.weight reads by its key.
struct ArchiveTensor {
  std::string name;
  std::string dtype; // as safetensors names them: "F32", "BF16", "I64", …
  std::vector<int64_t> shape;
  uint64_t begin = 0; // bytes from the start of the file; for ONNX, the address in memory
  uint64_t end = 0;
  const void *data = nullptr; // end - begin bytes; aligned as the file aligns it

  uint64_t bytes() const { return end - begin; }
};

struct ArchiveKind;

/// A file of weights, mapped into memory. Each kind of file has a class.
class Archive {
public:
  /// Opens a file of one of archiveKinds(). The error of another file lists these.
  static Status open(const std::string &path, std::unique_ptr<Archive> &archive);
  virtual ~Archive() = default;
  Archive(const Archive &) = delete;
  Archive &operator=(const Archive &) = delete;

  /// The name for messages.
  virtual const std::string &name() const = 0;
  /// Returns the tensors in the order of their data.
  virtual std::vector<const ArchiveTensor *> tensors() const = 0;
  /// Returns the tensor of a name, null if there is none.
  virtual const ArchiveTensor *find(std::string_view key) const = 0;
  /// Returns the memory that the tensors lie in.
  virtual std::vector<std::span<const uint8_t>> mappings() const = 0;

protected:
  Archive() = default;
};

/// A kind of file that holds weights.
struct ArchiveKind {
  std::string_view name;      ///< "GGUF file"
  std::string_view extension; ///< ".gguf"
  Status (*open)(const std::string &path, std::unique_ptr<Archive> &archive);
};

/// All kinds.
std::span<const ArchiveKind> archiveKinds();
/// Returns the kind of a file by its name; null if it is none.
const ArchiveKind *findArchiveKind(std::string_view path);

} // namespace intarsia

#endif
