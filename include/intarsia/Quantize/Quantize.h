//===- Quantize.h - Precision of weights and activations ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_QUANTIZE_H
#define INTARSIA_QUANTIZE_QUANTIZE_H

#include "dialects/Nn/Nn.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace intarsia {

/// What the user may choose about precision.
struct QuantizeOptions {
  std::string format = "none"; ///< of weights: see parseWeightFormat; none leaves them as they are
  unsigned activations = 8;    ///< bits of the inputs of linears with quantized weights: 8 or 16
  /// What is rounded: linears, experts, lm_head, embedding; empty: all. Each may name a format of its own,
  /// `lm_head=int4`.
  std::vector<std::string> parts;
};

/// The format of a matrix's rows that a name means: int4, int6, int8, mxfp4 or nvfp4, for the first three with a group
/// of 32 (the default), 64 or 128 weights or a scale for each row: int4-g64, int8-channel. An error lists the names.
llvm::Expected<nn::BlockFormatAttr> parseWeightFormat(llvm::StringRef name, mlir::MLIRContext *context);

/// How the matrices of a part are rounded.
struct PartFormat {
  nn::BlockFormatAttr format;
  std::string name;     ///< of the format
  bool isNamed = false; ///< by the user, for this part
};

/// The parts that are rounded, by name. A part that names no format has that of all weights; the head and the embedding
/// have int6 where that has 4 bits: they take part in every prediction, and few weights of a large model are theirs.
/// An error names what is wrong: an unknown part or format, a part named twice.
llvm::Expected<llvm::StringMap<PartFormat>> parsePartFormats(const QuantizeOptions &options,
                                                             mlir::MLIRContext *context);

/// An error that names the option which is none of its values.
llvm::Error checkQuantizeOptions(const QuantizeOptions &options);

/// Adds the phase: weights and activations get their formats.
void buildQuantizePipeline(mlir::OpPassManager &pipeline, const QuantizeOptions &options);

/// Registers the phase's passes and the pipeline `intarsia-quantize` with tools that take passes by name.
void registerQuantizePasses();

} // namespace intarsia

#endif
