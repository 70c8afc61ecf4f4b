//===- QuantizedModel.h - A model directory with quantized weights -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_QUANTIZEDMODEL_H
#define INTARSIA_QUANTIZE_QUANTIZEDMODEL_H

#include "intarsia/Quantize/PrecisionFile.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace intarsia {

struct QuantizedModelOptions {
  std::string model;         ///< the Hugging Face directory that was imported
  std::string output;        ///< the directory to write, which may exist
  std::string secondMoments; ///< a file that `intarsia quantize` made of calibration text; empty: round to nearest
  bool searchScales = false; ///< without second moments: try scales of blocks for the least squared error
  /// A glob over the names of linears: those whose weights are written, alone, to `output`, a file of safetensors, and
  /// to `decoded` in F32. Empty: a model directory with all of them.
  std::string linears;
  std::string decoded;
  /// With `linears`: formats. Instead of weights, `output` gets the errors of outputs that the linears would have in
  /// each of them, as JSON: {"model.layers.0.mlp.down_proj": {"int4": 0.019, …}, …}, relative root mean squares over
  /// every eighth group of 64 rows. Formats that the layout has nothing for are left out.
  std::vector<std::string> errorFormats;
  std::vector<std::string> parts; ///< files that were written so: their weights are taken as they are
  /// Formats that tensors get by name, and what of them the directory's file of formats names, because the layout does
  /// not hold it (splitPrecision).
  std::optional<PrecisionFile> precision;
  unsigned threads = 1;
};

/// Describes one matrix that was quantized: its format, its size, and the error of its outputs.
struct QuantizedMatrix {
  std::string name;      ///< "model.layers.0.mlp.down_proj"
  std::string format;    ///< "i4, f16 for 32"
  uint64_t elements = 0; ///< weights of the matrix
  uint64_t bytes = 0;    ///< that it takes now
  double error = 0;      ///< relative root mean square error of its outputs on the calibration text, 0 without one
  double nearest = 0;    ///< that of rounding to nearest
  double reference = 0;  ///< sum of the squares of the outputs that both were measured with
};

/// Returns an error, before any work is done, if a directory cannot be written or is that of the model.
llvm::Error checkQuantizedModel(const QuantizedModelOptions &options);

/// Returns the entries of a file of formats whose matrices compressed-tensors has a layout for, of its linears: the
/// quantize phase gets these. The other entries are for the compiler, which reads them beside the weights.
std::vector<std::string> compressedEntries(mlir::ModuleOp module, const PrecisionFile &file);

/// Returns keys and formats of the matrices of linears that the quantize phase gave formats whose values lie in more
/// bits in the directory: ternary ones, and integers of 5 and 6 bits. The compiler is to read them beside the weights.
std::vector<std::pair<std::string, std::string>> widenedEntries(mlir::ModuleOp module);

/// Writes a model directory, or a part of it, whose linears have the weights that the quantize phase asks for
/// (`nn.quantize` of an `nn.weight`), with second moments by error feedback (lib/Quantize/ErrorFeedback.h). It is laid
/// out as compressed-tensors has it (`quantization_config` in config.json; formats `pack-quantized`,
/// `mxfp4-pack-quantized`, `nvfp4-pack-quantized` and `float-quantized`), so that the importer and others' tools read
/// it. All other tensors and files are copied. The file of second moments may hold `target.<linear>`, what is rounded
/// instead of the weight. Files appear under their names when all is done. Errors name what cannot be written so: a
/// format, a table, weights that are stored transposed, second moments that are missing or of another model.
llvm::Expected<std::vector<QuantizedMatrix>> writeQuantizedModel(mlir::ModuleOp module,
                                                                 const QuantizedModelOptions &options,
                                                                 llvm::function_ref<void(llvm::StringRef)> step);

} // namespace intarsia

#endif
