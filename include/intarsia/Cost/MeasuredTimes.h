//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times of this compiler's own kernels on one device, measured by intarsia-plan --probe on models of random weights. A
// device of the catalogue that has them is priced by them, not by the fitted figures of a serving engine.
//
// Layers of decoders are measured whole (matrices, norms, launches), at several sizes of a layer; what attention adds
// with the length of a sequence is measured apart.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_MEASUREDTIMES_H
#define INTARSIA_COST_MEASUREDTIMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>
#include <vector>

namespace intarsia {

struct YamlNode;

struct MeasuredTimes {
  /// Times of decoder layers of one size.
  struct Layer {
    double weights = 0;     ///< of one layer
    std::vector<double> ns; ///< by `rows`: time of a layer for each 1000 of its weights
  };
  /// Picoseconds of a flop of attention scores, by the tokens of the sequence.
  struct Scores {
    std::vector<double> tokens, ps;
  };

  std::string source, date;
  std::vector<double> rows;                         ///< tokens computed together, rising
  std::map<std::string, std::vector<Layer>> layers; ///< by precision; sizes of layers rise
  std::map<std::string, std::vector<double>> head;  ///< by precision and `rows`: ns for each 1000 weights
  /// By precision and `rows`: ns for each 1000 weights that a token of an encoder is multiplied with.
  std::map<std::string, std::vector<double>> encoder;
  Scores prompts; ///< prefill
  Scores steps;   ///< decode
  /// Hand-over of a cache to another process of the same host; 0: not measured.
  double handOverGBps = 0, handOverUs = 0;

  /// Returns whether decoders, or encoders, were measured in this precision.
  bool hasDecoder(llvm::StringRef precision) const { return layers.count(precision.str()); }
  bool hasEncoder(llvm::StringRef precision) const { return encoder.count(precision.str()); }
  /// Returns the microseconds of one decoder layer of so many weights on so many tokens. Between measured sizes and
  /// rows it interpolates the logarithms. A layer that is smaller than the smallest takes as long as that one; beyond
  /// the largest, time grows as the weights or rows do.
  double layerUs(llvm::StringRef precision, double weights, double rows) const;
  double headUs(llvm::StringRef precision, double weights, double rows) const;
  double encoderUs(llvm::StringRef precision, double weights, double rows) const;
  /// Returns the microseconds of score flops in a prompt, or in a step of decoding, of sequences of so many tokens.
  double promptScoresUs(double flops, double tokens) const;
  double stepScoresUs(double flops, double tokens) const;

  /// Returns what is measured, for messages: "bf16, int4, int8".
  std::string decoderPrecisions() const;

  static llvm::Expected<MeasuredTimes> parse(const YamlNode &node, llvm::StringRef file);
  /// Returns the text that `parse` reads, as the entry `serving` of a device's file.
  std::string yaml() const;
};

} // namespace intarsia

#endif
