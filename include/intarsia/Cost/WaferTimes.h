//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times of decoders on wafers. A wafer has no efficiencies of a serving engine: the compiler makes the programs of a
// model of this shape and times them by the model of its cores. lib/Target/Wafer implements this; the planner knows no
// more.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_WAFERTIMES_H
#define INTARSIA_COST_WAFERTIMES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace intarsia {

struct ModelShape;

/// A decoder on wafers, which hold all its layers and the cache of one sequence.
class WaferDecoder {
public:
  virtual ~WaferDecoder() = default;
  int64_t grid = 0;                  ///< cores along each side
  int64_t rowsGrid = 0;              ///< the same of products for prompts
  int64_t regions = 1;               ///< grids that share the layers
  int64_t context = 0;               ///< tokens that the cache has memory for
  int64_t bytes = 0, bytesOfAll = 0; ///< used in a core, and what it has
  double stepMs = 0;                 ///< of a token
  /// Returns the milliseconds of a prompt, and of its attention.
  virtual double promptMs(double tokens) const = 0;
  virtual double promptAttentionMs(double tokens) const = 0;
};

/// The model, the formats and the context for which programs of a wafer are made.
struct WaferDecoderRequest {
  llvm::StringRef wafer; ///< a name of catalogue/wafers, or a file of the same form
  const ModelShape *shape = nullptr;
  int weightBits = 16; ///< 16, or integers of 8 or 4 in groups of 32 with a scale in f16
  int cacheBits = 16;  ///< 16 or 32
  int wafers = 1;      ///< that share the layers
  double context = 0;  ///< tokens of a sequence; programs are made for the next multiple of `contextStep`
};
constexpr int64_t contextStepOfWafers = 1024;

/// Makes the programs of decoders and times them.
class WaferTimes {
public:
  virtual ~WaferTimes() = default;
  /// Returns the decoder on the grid that the compiler would choose; it lives as long as this. Errors: what a wafer
  /// does not compute, and a model that fits on no grid, with the bytes that a core would need.
  virtual llvm::Expected<const WaferDecoder *> decoder(const WaferDecoderRequest &request) = 0;
};

} // namespace intarsia

#endif
