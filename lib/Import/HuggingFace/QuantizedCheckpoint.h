//===- QuantizedCheckpoint.h - Weights that other tools quantized ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The setting "quantization_config" says how the tensors of a model's archive mean weights. Each tool ("quant_method")
// is a class derived from QuantizedCheckpoint, which finds the tensors of one matrix and says what they are, as
// #nn.archive_format describes it. Values are kept at their bits where a block format that kernels read holds them.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_QUANTIZEDCHECKPOINT_H
#define INTARSIA_IMPORT_HUGGINGFACE_QUANTIZEDCHECKPOINT_H

#include "dialects/Nn/Nn.h"
#include "lib/Import/Builder/WeightArchive.h"
#include "lib/Import/HuggingFace/Config.h"
#include <map>
#include <memory>

namespace intarsia::importer {

/// A matrix that an archive holds quantized: operands of nn.dequantize.
struct QuantizedMatrix {
  struct Part {
    WeightArchive::Tensor tensor;
    mlir::RankedTensorType type; ///< has as many elements as the tensor
  };
  Part values, scales; ///< scales have no tensor if values are floats that the packer rounds
  std::optional<Part> zeroPoints = {}, tensorScale = {}, groupIndices = {}, codebook = {};
  std::shared_ptr<QuantizedMatrix> nestedScales = nullptr; ///< what scales are dequantized from, [1, scales]
  nn::ArchiveFormatAttr format;
};

/// The weights of a model that one tool quantized.
class QuantizedCheckpoint {
public:
  /// Reads "quantization_config" of a model's settings. Reports tools and settings that are not supported, and returns
  /// null. `archive` outlives the result.
  static std::unique_ptr<QuantizedCheckpoint> open(const Config &settings, const WeightArchive &archive,
                                                   mlir::MLIRContext *context);
  QuantizedCheckpoint(Config settings, const WeightArchive &archive, mlir::MLIRContext *context)
      : settings(std::move(settings)), archive(archive), context(context) {}
  virtual ~QuantizedCheckpoint() = default;

  /// Returns the matrix [outputs, inputs] of a module, "model.layers.0.mlp.up_proj"; nullopt if the archive does not
  /// hold it quantized, and after an error, which is reported.
  std::optional<QuantizedMatrix> find(llvm::StringRef module, const Extent &outputs, const Extent &inputs);
  /// Returns what the user should know: how many matrices are kept at their bits, and why others are not.
  std::vector<std::string> remarks() const;

protected:
  /// A matrix that is asked for.
  struct Request {
    llvm::StringRef module;
    Extent outputs, inputs;

    std::string key(llvm::StringRef suffix) const { return (module + "." + suffix).str(); }
  };
  /// Properties of a format that are the same in all tools.
  struct Scheme {
    nn::ArchiveOrder order;
    nn::BlockElement element;
    int64_t group = 0; ///< input features that share a scale, 0: all
    int64_t rows = 1;  ///< output features that do, 0: all
    int64_t zero = 0;
    bool inverse = false; ///< values are divided by scales
    float scaleDivisor = 1, scaleOffset = 0;
    std::string whyDecoded = ""; ///< why no block format holds the values; empty if one may
  };

  /// Returns the matrix; the archive holds it as this tool writes it, or is damaged.
  virtual std::optional<QuantizedMatrix> read(const Request &request) = 0;
  /// Returns true if the archive has a tensor from which the tool's weight of a module is known.
  virtual bool holds(llvm::StringRef module) const = 0;
  /// Returns the ends of the names of tensors of scales.
  virtual llvm::StringRef scaleSuffix() const = 0;

  /// Returns a tensor of one of some types (of the safetensors format). Reports one that is missing, and one of another
  /// type, or of another shape unless `shape` is nullopt.
  std::optional<QuantizedMatrix::Part> part(const std::string &key, llvm::ArrayRef<llvm::StringRef> types,
                                            std::optional<llvm::ArrayRef<int64_t>> shape);
  /// Gives the matrix its format, with the block format that keeps its values, if there is one.
  void setFormat(QuantizedMatrix &matrix, const Scheme &scheme);
  /// Reads group indices [inputs] and drops them if they say nothing. Reports indices out of range, and if
  /// `areEqual` groups that are not all of the same size. Returns false after an error.
  bool readGroupIndices(QuantizedMatrix &matrix, const std::string &key, const Request &request, Scheme &scheme,
                        bool areEqual);
  /// Returns true if all bytes of a tensor are 0.
  static bool isZero(const WeightArchive::Tensor &tensor);
  /// Returns true if all integers of some bits in the words of a tensor are `value`.
  static bool areAll(const WeightArchive::Tensor &tensor, unsigned bits, unsigned value);
  /// Refuses a number of features that is no multiple of a number.
  bool checkMultiple(const Request &request, const Extent &extent, int64_t of, llvm::StringRef what);
  void report(const llvm::Twine &message) const { settings.report(message); }
  /// Adds a remark once.
  void remark(const llvm::Twine &text);
  /// Adds remarks on settings that this compiler does not know.
  void remarkUnknown(const Config &section, llvm::ArrayRef<llvm::StringRef> known);

  Config settings;
  const WeightArchive &archive;
  mlir::MLIRContext *context;

private:
  /// Reports a checkpoint that has no quantized matrix.
  void checkQuantized();
  /// Returns the block format that keeps the values; null if there is none, with the reason.
  nn::BlockFormatAttr keptFormatOf(const QuantizedMatrix &matrix, const Scheme &scheme, std::string &whyNot);
  /// Returns the type that scales are stored in: f16 if all scales of the model are numbers of f16, which kernels read
  /// fastest, and else the one they have.
  nn::BlockScale keptScaleOf(llvm::StringRef dtype, const Scheme &scheme);

  std::optional<bool> scalesFitF16;
  std::map<std::string, int64_t> kept, decoded; // numbers of matrices by format, or by the reason
  std::vector<std::string> remarkTexts;
};

/// These make the checkpoints of each tool.
std::unique_ptr<QuantizedCheckpoint> openBitNet(const Config &settings, const WeightArchive &archive,
                                                mlir::MLIRContext *context);
std::unique_ptr<QuantizedCheckpoint> openCompressedTensors(const Config &settings, const WeightArchive &archive,
                                                           mlir::MLIRContext *context);
std::unique_ptr<QuantizedCheckpoint> openGptq(const Config &settings, const WeightArchive &archive,
                                              mlir::MLIRContext *context);
std::unique_ptr<QuantizedCheckpoint> openAwq(const Config &settings, const WeightArchive &archive,
                                             mlir::MLIRContext *context);
std::unique_ptr<QuantizedCheckpoint> openBitsandbytes(const Config &settings, const WeightArchive &archive,
                                                      mlir::MLIRContext *context);
std::unique_ptr<QuantizedCheckpoint> openTorchAo(const Config &settings, const WeightArchive &archive,
                                                 mlir::MLIRContext *context);
std::unique_ptr<QuantizedCheckpoint> openFp8(const Config &settings, const WeightArchive &archive,
                                             mlir::MLIRContext *context);

} // namespace intarsia::importer

#endif
