//===- Pipeline.cpp - The quantize phase --------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize/MixedInputs.h"
#include "intarsia/Quantize/Quantize.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"

namespace intarsia::quantize {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Quantize/Passes.h.inc"
} // namespace intarsia::quantize

using namespace mlir;
using namespace intarsia;

void intarsia::buildQuantizePipeline(OpPassManager &pipeline, const QuantizeOptions &options) {
  if (options.segment) {
    quantize::QuantizeSegmentOptions part;
    part.segment = *options.segment;
    part.weights = options.segmentWeights;
    part.arguments = options.segmentArguments;
    // What is multiplied by bytes with known scales is packed, so that the segment computes what the model would.
    for (StringRef input : options.staticInputs)
      for (StringRef key : llvm::split(input.split('/').second, '+'))
        part.kept.push_back(key.str());
    pipeline.addPass(quantize::createQuantizeSegment(part));
  }
  quantize::QuantizeKvCacheOptions caches;
  caches.formats.assign(options.caches.begin(), options.caches.end());
  pipeline.addPass(quantize::createQuantizeKvCache(caches));
  if (!options.tensors.empty()) {
    quantize::QuantizeNarrowStoredOptions narrow;
    narrow.formats.assign(options.tensors.begin(), options.tensors.end());
    pipeline.addPass(quantize::createQuantizeNarrowStored(narrow));
  }
  // What is not in blocks of 8 and of 4 bits has 8.
  bool isMixed = options.activations == mixedActivations;
  // Where no scales are known they are found at the call.
  bool isStatic = options.activations == staticScales;
  std::string activations = isMixed ? "8" : isStatic ? wideScales.str() : options.activations;
  OpPassManager &functions = pipeline.nest<func::FuncOp>();
  if (options.format != "none" || !options.tensors.empty()) {
    quantize::QuantizeRoundToNearestOptions rounding;
    rounding.format = options.format;
    rounding.activations = activations;
    rounding.parts.assign(options.parts.begin(), options.parts.end());
    rounding.tensors.assign(options.tensors.begin(), options.tensors.end());
    functions.addPass(quantize::createQuantizeRoundToNearest(rounding));
  }
  // Handles weights that are GGUF blocks; the pass above has quantized the inputs of the others.
  if (activations == "8" || haveFewScales(activations)) {
    quantize::QuantizeInputsOfBlocksOptions inputs;
    inputs.activations = activations;
    functions.addPass(quantize::createQuantizeInputsOfBlocks(inputs));
  }
  if (isMixed) {
    quantize::QuantizeMixedInputsOptions mixed;
    mixed.inputs.assign(options.inputs.begin(), options.inputs.end());
    functions.addPass(quantize::createQuantizeMixedInputs(mixed));
  }
  if (isStatic) {
    quantize::QuantizeStaticInputsOptions known;
    known.inputs.assign(options.staticInputs.begin(), options.staticInputs.end());
    functions.addPass(quantize::createQuantizeStaticInputs(known));
  }
  quantize::QuantizeMatmulPrecisionOptions precision;
  precision.precision = options.matmulPrecision;
  precision.attention = options.attention.empty() ? "16" : options.attention;
  functions.addPass(quantize::createQuantizeMatmulPrecision(precision));
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> format{*this, "format", llvm::cl::init("int4"), llvm::cl::desc("Format of the weights")};
  Option<std::string> activations{*this, "activations", llvm::cl::init("8"), llvm::cl::desc("Inputs of linears")};
  Option<std::string> matmulPrecision{*this, "matmul-precision", llvm::cl::init("stored"),
                                      llvm::cl::desc("What matrices may be multiplied in")};
  Option<std::string> attention{*this, "attention", llvm::cl::init("16"), llvm::cl::desc("Bits of attention: 8, 16")};
  ListOption<std::string> parts{*this, "parts", llvm::cl::desc("linears, experts, lm_head, embedding; lm_head=int8")};
  Option<int> segment{*this, "segment", llvm::cl::init(-1), llvm::cl::desc("The segment that is left; -1: all")};
  ListOption<std::string> caches{*this, "caches", llvm::cl::desc("Formats of caches: int8, cache.0=f16")};
  Option<bool> segmentArguments{
      *this, "segment-arguments", llvm::cl::init(false),
      llvm::cl::desc("Weights of a segment are arguments, results of the model its results too")};
  ListOption<std::string> tensors{*this, "tensors", llvm::cl::desc("Formats of single tensors: KEY=FORMAT")};
  ListOption<std::string> inputs{*this, "inputs", llvm::cl::desc("Inputs in 8 and 4 bits: WIDE/CHANNELS/KEYS")};
  ListOption<std::string> staticInputs{*this, "static-inputs", llvm::cl::desc("Known scales: BITS/KEYS")};
};
} // namespace

void intarsia::registerQuantizePasses() {
  quantize::registerQuantizePasses();
  PassPipelineRegistration<PipelineOptions>(
      "intarsia-quantize", "The quantize phase: weights, activations and caches get their formats",
      [](OpPassManager &pipeline, const PipelineOptions &given) {
        buildQuantizePipeline(pipeline, {given.format,
                                         given.activations,
                                         given.matmulPrecision,
                                         given.attention,
                                         {given.parts.begin(), given.parts.end()},
                                         {given.caches.begin(), given.caches.end()},
                                         given.segment < 0 ? std::nullopt : std::optional<unsigned>(given.segment),
                                         /*segmentWeights=*/"",
                                         given.segmentArguments,
                                         {given.tensors.begin(), given.tensors.end()},
                                         {given.inputs.begin(), given.inputs.end()},
                                         {given.staticInputs.begin(), given.staticInputs.end()}});
      });
}
