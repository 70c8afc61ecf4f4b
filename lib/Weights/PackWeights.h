//===- PackWeights.h - Weights as kernels read them --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_WEIGHTS_PACKWEIGHTS_H
#define INTARSIA_LIB_WEIGHTS_PACKWEIGHTS_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace intarsia::weights {

/// A file that the packed archive holds as a tensor of bytes.
struct PackedFile {
  std::string name, tensor;
  std::string hash; ///< XXH3-128
};

/// The manifest's data about the packed archive.
struct PackedWeights {
  std::vector<std::string> tensors;  ///< in the order of the module's rt.constants
  std::vector<uint64_t> tensorBytes; ///< bytes of each tensor
  std::vector<PackedFile> files;
  uint64_t bytes = 0;
  std::string headerHash, hash; ///< XXH3-128 of the header, which contains `hash`, and of the data after it
  std::vector<std::string> warnings;
};

/// Returns the name of the artifact that WeightPacker wrote the file at `path` for; nullopt if another program wrote
/// it.
std::optional<std::string> ownerOfPackedArchive(const std::string &path);

/// Streams the rt.constants of a module into one safetensors file: tensors in kernel layout, each at a multiple of 64
/// bytes. Sources are mapped and dropped after they are read, so that any model takes only a few megabytes of memory a
/// thread. Parts that are all zero become holes of the file.
class WeightPacker {
public:
  /// Reads the module, opens the archives and compares types. The module is not needed afterwards.
  static llvm::Expected<WeightPacker> create(mlir::ModuleOp module, llvm::StringRef archiveDirectory);
  WeightPacker(WeightPacker &&);
  ~WeightPacker();

  bool empty() const;
  /// Writes the file, which exists and is empty, on `threads` threads. `owner` is the name of the artifact beside it,
  /// empty if the file is embedded in the artifact.
  llvm::Expected<PackedWeights> write(const std::string &path, llvm::StringRef owner, unsigned threads);

private:
  WeightPacker();
  struct State;
  std::unique_ptr<State> state;
};

} // namespace intarsia::weights

#endif
