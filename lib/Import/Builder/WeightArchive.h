//===- WeightArchive.h - The weights of a model, by the names that its graph asks for -----------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_BUILDER_WEIGHTARCHIVE_H
#define INTARSIA_IMPORT_BUILDER_WEIGHTARCHIVE_H

#include "lib/Formats/GgufFile.h"
#include "lib/Formats/Safetensors.h"
#include "lib/Support/Hash.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace intarsia::importer {

/// All weights of a folder or of a file and its parts. Only headers are read.
class WeightArchive {
public:
  struct File {
    std::string name;   // relative to the model's directory: "model.safetensors", "2_Dense/model.safetensors"
    std::string symbol; // of the nn.archive op
  };
  struct Tensor {
    const File *file;
    const ArchiveTensor *entry;         // the entry that nn.weight reads, with its name in the file
    const gguf::Tensor *gguf = nullptr; // the tensor of a GGUF file, whose entry may be blocks

    llvm::ArrayRef<int64_t> shape() const { return gguf ? gguf->shape : entry->shape; }
  };

  std::optional<Tensor> find(llvm::StringRef key) const {
    auto found = tensors.find(key);
    return found == tensors.end() ? std::nullopt : std::optional(found->second);
  }
  /// Returns all keys that begin with `prefix`, sorted.
  std::vector<llvm::StringRef> keys(llvm::StringRef prefix) const {
    std::vector<llvm::StringRef> result;
    for (llvm::StringRef key : tensors.keys())
      if (key.starts_with(prefix))
        result.push_back(key);
    llvm::sort(result);
    return result;
  }
  /// Returns a hash of names, types and shapes of all weights, and of up to 256 bytes at both ends of each. Models that
  /// differ in other bytes alone have the same one.
  std::string sampledHash() const {
    constexpr uint64_t sampled = 256;
    Hasher hasher;
    for (llvm::StringRef key : keys("")) {
      const ArchiveTensor &entry = *find(key)->entry;
      hasher.update(key.data(), key.size());
      hasher.update(entry.dtype.data(), entry.dtype.size());
      hasher.update(entry.shape.data(), entry.shape.size() * sizeof(int64_t));
      const auto *bytes = static_cast<const uint8_t *>(entry.data);
      uint64_t count = std::min(sampled, entry.bytes());
      hasher.update(bytes, count);
      hasher.update(bytes + entry.bytes() - count, count);
    }
    return hashText(hasher.finish());
  }
  /// Returns the archive's name for messages.
  llvm::StringRef name() const { return displayName; }
  /// Begins a message about a tensor that is not there: "model.safetensors: has no tensor 'x'".
  std::string missing(llvm::StringRef key) const {
    auto named = lacking.find(key);
    std::string tensor = ": has no tensor '" + key.str() + "'";
    return named == lacking.end()
               ? displayName + tensor
               : named->second + tensor + ", but " + displayName + " says so (is the download complete?)";
  }

protected:
  WeightArchive() = default;
  ~WeightArchive() = default;

  llvm::StringMap<Tensor> tensors;
  llvm::StringMap<std::string> lacking; ///< tensors that no file has, and the file that an index names for them
  std::string displayName;
};

} // namespace intarsia::importer

#endif
