//===- GgufArchive.h - The weights of a GGUF file by the names of its Hugging Face model --------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_GGUF_GGUFARCHIVE_H
#define INTARSIA_IMPORT_GGUF_GGUFARCHIVE_H

#include "lib/Import/Builder/WeightArchive.h"
#include "lib/Import/HuggingFace/Config.h"
#include <memory>

namespace intarsia::importer {

/// A supported architecture of GGUF files.
struct GgufArchitecture {
  llvm::StringRef name;                     ///< general.architecture
  llvm::StringRef modelType;                ///< model type of the registered architecture that builds it
  bool interleavedRope;                     ///< rows of query and key are in the order that pairs neighbours
  llvm::StringRef layers = "model.layers."; ///< the builder's prefix before the number of a layer
};

/// Returns all supported architectures, sorted by name.
llvm::ArrayRef<GgufArchitecture> ggufArchitectures();

/// The tensors of a GGUF file and its parts, by the names that the builder of the architecture asks for:
/// "model.layers.0.self_attn.q_proj.weight" is "blk.0.attn_q.weight".
class GgufArchive : public WeightArchive {
public:
  /// Opens the file at `path` and its parts. Reports and returns null on failure.
  static std::unique_ptr<GgufArchive> open(llvm::StringRef path, Errors &errors);

  /// Gives the tensors the names of an architecture. Tensors without one stay unknown to find().
  void nameTensors(const GgufArchitecture &architecture);

  /// The file that was given: it holds the metadata.
  const gguf::File &first() const { return *parts.front(); }
  /// Returns a tensor by its name in the files.
  const gguf::Tensor *findStored(llvm::StringRef name) const;
  /// Returns the names in the files, in their order.
  std::vector<llvm::StringRef> storedNames() const;

private:
  std::vector<std::unique_ptr<gguf::File>> parts;
  std::vector<std::unique_ptr<File>> files; // as the graph names them
};

/// Returns the name in the files: "blk.0.attn_q.weight" for "model.layers.0.self_attn.q_proj.weight"; empty if the
/// architecture has no such weight.
std::string storedNameOf(llvm::StringRef name, const GgufArchitecture &architecture);

} // namespace intarsia::importer

#endif
