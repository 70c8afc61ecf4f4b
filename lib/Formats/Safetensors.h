//===- Safetensors.h - Read safetensors archives ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Format: https://github.com/huggingface/safetensors#format: u64 header length, JSON header, data. The file is mapped:
// tensor data costs no anonymous memory. The compiler reads models through this class, the runtime packed weights.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_SAFETENSORS_H
#define INTARSIA_LIB_FORMATS_SAFETENSORS_H

#include "lib/Formats/Archive.h"
#include "lib/Support/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace intarsia {

class MappedFile;

/// A checked archive: entries have as many bytes as shape and dtype imply, and cover the data of the file exactly: they
/// neither overlap nor leave a gap, as the format requires.
class SafetensorsFile {
public:
  /// Maps the file. Errors name the file, the tensor and the numbers that disagree.
  static Status open(const std::string &path, std::unique_ptr<SafetensorsFile> &file);
  /// Parses memory that outlives the result; `name` is for messages.
  static Status parse(const void *data, uint64_t bytes, const std::string &name,
                      std::unique_ptr<SafetensorsFile> &file);
  /// Maps a part of a file (offset a multiple of the page size): embedded weights.
  static Status openPart(const std::string &path, uint64_t offset, uint64_t bytes, const std::string &name,
                         std::unique_ptr<SafetensorsFile> &file);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile &) = delete;
  SafetensorsFile &operator=(const SafetensorsFile &) = delete;

  const std::string &name() const { return name_; }
  /// Tensors in the order of their data in the file.
  const std::vector<ArchiveTensor> &tensors() const { return tensors_; }
  /// Returns the tensor of a name, null if there is none.
  const ArchiveTensor *find(std::string_view name) const;
  /// The text of a key in the header's "__metadata__".
  std::optional<std::string> metadata(std::string_view key) const;

  const uint8_t *data() const { return data_; }
  uint64_t size() const { return size_; }
  /// The mapping that the data lie in; null if they were given in memory.
  const MappedFile *mapping() const { return mapping_.get(); }
  /// Refuses a mapped file that has changed its size since it was opened; call it before its memory is read.
  Status checkSize() const;
  /// Bytes before the first tensor's data: the length field (8) and the JSON header.
  uint64_t headerBytes() const { return headerBytes_; }
  /// XXH3-128 over headerBytes() bytes from the start of the file: the manifest's "weights"."header_hash".
  std::string headerHash() const;

private:
  SafetensorsFile() = default;
  Status parse();
  std::string_view headerText() const;
  /// Fills byName_; refuses a name that two tensors have.
  Status indexNames();
  /// Refuses overlaps, holes and bytes after the last tensor.
  Status checkCoverage() const;

  std::string name_;
  std::unique_ptr<MappedFile> mapping_;
  const uint8_t *data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t headerBytes_ = 0;
  std::vector<ArchiveTensor> tensors_;
  std::vector<uint32_t> byName_; // indices of tensors, sorted by name
};

/// Opens a file of safetensors as an archive of weights.
Status openSafetensorsArchive(const std::string &path, std::unique_ptr<Archive> &archive);

/// Bits of one element of a safetensors dtype ("F32" → 32, "F4" → 4); 0 for a name that the format does not know.
unsigned safetensorsBits(std::string_view dtype);

} // namespace intarsia

#endif
