//===- PrecisionFile.h - Formats of a model's tensors and caches, in a file beside its weights -------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// `intarsia quantize --quantize=auto` chooses a format for every tensor and cache. What compressed-tensors has no
// layout for stands in a file of its own:
//
//   {"intarsia_precision": 1, "model": "<hash of the weights>",
//    "tensors": {"model.embed_tokens.weight": "int6"}, "caches": {"cache.0.keys": "int8"}}
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_PRECISIONFILE_H
#define INTARSIA_QUANTIZE_PRECISIONFILE_H

#include "intarsia/Quantize/MixedInputs.h"
#include "intarsia/Quantize/StaticInputs.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <string>
#include <utility>
#include <vector>

namespace intarsia {

/// Name of the file in a model directory, which the compiler reads.
constexpr llvm::StringLiteral precisionFileName = "intarsia-precision.json";

struct PrecisionFile {
  std::string model;                                        ///< hashModel() of the weights that it is about
  std::vector<std::pair<std::string, std::string>> tensors; ///< keys of archives → formats of --quantize, or none
  std::vector<std::pair<std::string, std::string>> caches;  ///< names of states, or globs → formats of --kv
  std::vector<MixedInput> inputs;                           ///< in blocks of 8 and of 4 bits
  std::vector<StaticInput> staticInputs;                    ///< in 8 bits, with scales of a text

  /// Reads a file. Errors name the file and what in it is wrong.
  static llvm::Expected<PrecisionFile> read(const std::string &path);
  /// Returns the text of the file.
  std::string text() const;
  /// Returns "key=format" for each entry, as options of the quantize phase have them.
  std::vector<std::string> tensorOptions() const;
  std::vector<std::string> cacheOptions() const;
  std::vector<std::string> inputOptions() const;
  std::vector<std::string> staticInputOptions() const;
};

/// Returns a hash of a module's archives: names, types and shapes of all tensors, and the first, middle and last bytes
/// of each (kHashedBytes), so that a model of a hundred gigabytes takes milliseconds. It tells models apart; it is no
/// signature.
llvm::Expected<std::string> hashModel(mlir::ModuleOp module, llvm::StringRef archiveDirectory);

/// Returns an error unless a file is about the weights of a module and each of its tensors is in their archives, as a
/// matrix or as the quantized values of one.
llvm::Error checkPrecisionFile(const PrecisionFile &file, llvm::StringRef name, mlir::ModuleOp module,
                               llvm::StringRef archiveDirectory);

/// Writes a file of formats into the directory of the weights that it is about, whose hash it gets.
llvm::Error writePrecisionFile(PrecisionFile file, mlir::ModuleOp module, llvm::StringRef directory);

} // namespace intarsia

#endif
