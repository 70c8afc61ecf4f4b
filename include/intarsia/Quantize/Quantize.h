//===- Quantize.h - Precision of weights and activations ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_QUANTIZE_QUANTIZE_H
#define INTARSIA_QUANTIZE_QUANTIZE_H

#include "dialects/Nn/Nn.h"
#include "intarsia/Quantize/StaticInputs.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace intarsia {

/// Names of inputs of 8 bits that have, beside weights with one scale for each output feature, one scale for each row
/// (token), or one for each 256 features.
inline constexpr llvm::StringLiteral tokenScales = "8-token", wideScales = "8-wide";

/// Returns true if activations multiply weights of `int8` with one scale for each output feature.
inline bool haveFewScales(llvm::StringRef activations) {
  return activations == tokenScales || activations == wideScales || activations == staticScales;
}

/// The user's options for precision.
struct QuantizeOptions {
  std::string format = "none"; ///< format of weights, see parseWeightFormat; none leaves them as they are
  /// Inputs of linears with quantized weights: "8": integers of 8 bits, where weights have values that are integers;
  /// "8-token", "8-wide": the same, with one scale for each row or for each 256 features where the weight has one for
  /// each output feature; "8-static": the same with scales that `staticInputs` names, else as "8-wide";
  /// "fmpq": blocks of 8 and of 4 bits where `inputs` says so, else as "8";
  /// "fp8", "mxfp4", "nvfp4": that format, where weights have it too; "16": as they are; empty: what the devices of the
  /// artifact are fastest with.
  std::string activations;
  /// The type that matrices may be multiplied in: f32, tf32, bf16, f16, or "stored": the weight's own if it has 16
  /// bits, f16 where it is quantized, that of the linears around products of computed tensors.
  std::string matmulPrecision = "stored";
  /// What attention without caches may round to where it stands between linears whose inputs have 8 bits: "8": integers
  /// of 8 bits; "16": what matmulPrecision says; empty: 8 where inputs of linears have few scales and matmulPrecision
  /// is "stored".
  std::string attention;
  /// Parts that are quantized: linears, experts, lm_head, embedding; empty: all. Each may name its own format,
  /// `lm_head=int4`.
  std::vector<std::string> parts;
  /// Formats of key/value caches: f32, f16, bf16, fp8, int8 or int4 for all, or for those whose names a glob matches,
  /// `cache.[2-3]=int4` or `cache.0.keys=f16`; the last that matches holds. Caches that nothing is said of get the
  /// default of quantize-kv-cache.
  std::vector<std::string> caches;
  /// The segment of the model that is left (quantize-segment); all of it without one.
  std::optional<unsigned> segment;
  std::string segmentWeights;    ///< an archive with other matrices for the segment's linears, in f32; empty: none
  bool segmentArguments = false; ///< weights of a segment are arguments, results of the model its results too
  /// Formats of single tensors, `KEY=FORMAT`, by the keys of their archives; none leaves a tensor as it is. They hold
  /// against `format` and `parts`.
  std::vector<std::string> tensors;
  /// Inputs in blocks of 8 and of 4 bits, as MixedInput::option() gives them; for activations in "fmpq".
  std::vector<std::string> inputs;
  /// Inputs in 8 bits with known scales, as StaticInput::option() gives them; for activations in "8-static".
  std::vector<std::string> staticInputs;
};

/// Returns the names of the formats of weights, for people: "int4, … and none".
std::string weightFormatNames();

/// Returns the format of a matrix's rows by its name. Integers have groups of 32 (the default), 64 or 128 weights, or a
/// scale for each row: int4, int4-g64, int8-channel. An error lists the names.
llvm::Expected<nn::BlockFormatAttr> parseWeightFormat(llvm::StringRef name, mlir::MLIRContext *context);

/// Returns the name of a format that parseWeightFormat() gives: the shortest one.
std::string weightFormatName(nn::BlockFormatAttr format);

/// The format that the matrices of a part are quantized to.
struct PartFormat {
  nn::BlockFormatAttr format;
  std::string name;     ///< name of the format
  bool isNamed = false; ///< true if the user named it for this part
};

/// Returns the formats of the parts that are quantized, by the part's name. A part without its own format has that of
/// all weights; if this has 4 bits, the head and the embedding have int6: they affect every prediction and hold few
/// weights of a large model. An error names an unknown part or format, or a part that is named twice.
llvm::Expected<llvm::StringMap<PartFormat>> parsePartFormats(const QuantizeOptions &options,
                                                             mlir::MLIRContext *context);

/// Returns the formats of single tensors by the keys of their archives; null stands for none. An error names an entry
/// that is not `KEY=FORMAT`, a format that is unknown, or a key that is named twice.
llvm::Expected<llvm::StringMap<nn::BlockFormatAttr>> parseTensorFormats(llvm::ArrayRef<std::string> tensors,
                                                                        mlir::MLIRContext *context);

/// Returns an error unless a text says what inputs of linears become.
llvm::Error checkActivations(llvm::StringRef activations);

/// Returns true if activations name the format that weights have, which the inputs of their linears get too.
bool quantizesInputsTo(llvm::StringRef activations, nn::BlockFormatAttr weights);

/// Returns an error that names an option with an invalid value, or two that exclude each other.
llvm::Error checkQuantizeOptions(const QuantizeOptions &options);

/// Fails if a text does not say what attention may round to.
llvm::Error checkAttention(llvm::StringRef attention);

/// Fails if a text names no precision of products.
llvm::Error checkMatmulPrecision(llvm::StringRef precision);

/// Returns an error that names an invalid format of caches.
llvm::Error checkCacheFormats(llvm::ArrayRef<std::string> caches);

/// Adds the phase: weights, activations and caches get their formats.
void buildQuantizePipeline(mlir::OpPassManager &pipeline, const QuantizeOptions &options);

/// Registers the phase's passes and the pipeline `intarsia-quantize` with tools that take passes by name.
void registerQuantizePasses();

} // namespace intarsia

#endif
