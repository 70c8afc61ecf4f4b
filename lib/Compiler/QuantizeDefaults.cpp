//===- QuantizeDefaults.cpp - What the user leaves open of precision ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/QuantizeDefaults.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Target/Target.h"

using namespace mlir;
using llvm::createStringError;

namespace intarsia::compiler {

/// Returns true if a model generates text: a few rows at a time then pass through its linears, whose time is that of
/// reading weights, and inputs with fewer scales would gain nothing for what they lose.
static bool hasCaches(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return isa<nn::CacheAppendOp, nn::CachedAttentionOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Returns true if some attention may round to integers of 8 bits.
static bool hasAttentionInBytes(ModuleOp module) {
  return module
      .walk([](nn::AttentionOp attention) {
        std::optional<Type> precision = attention.getPrecision();
        return precision && precision->isInteger(8) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

llvm::Expected<QuantizeOptions> withDefaults(QuantizeOptions options, ArrayRef<std::string> targetNames,
                                             ModuleOp module) {
  unsigned bits = 0;
  for (const std::string &name : targetNames) {
    unsigned own = target::Target::find(StringRef(name).split(':').first)->activationBits();
    if (haveFewScales(options.activations) && own != 8)
      return createStringError("--quantize-activations=" + options.activations + ": kernels of '" + name +
                               "' scale integers by blocks of 32, those of processors more rarely too: give "
                               "--quantize-activations=8, or leave it out");
    if (options.attention == "8" && own != 8)
      return createStringError("--quantize-attention=8: kernels of '" + name +
                               "' multiply floats in attention without caches, those of processors integers too: "
                               "give --quantize-attention=16, or leave it out");
    bits = std::max(bits, own);
  }
  if (options.activations.empty())
    options.activations = bits == 8 && !hasCaches(module) ? wideScales.str() : std::to_string(bits);
  if (options.attention.empty()) {
    bool isFree = options.matmulPrecision == QuantizeOptions().matmulPrecision;
    options.attention = haveFewScales(options.activations) && isFree ? "8" : "16";
  }
  return options;
}

llvm::Error checkAttention(const QuantizeOptions &options, ModuleOp module) {
  if (options.attention != "8" || hasAttentionInBytes(module))
    return llvm::Error::success();
  return createStringError(
      "--quantize-attention=8: no attention without caches stands between linears whose inputs have "
      "integers of 8 bits: give --quantize=int8, or leave it out");
}

} // namespace intarsia::compiler
