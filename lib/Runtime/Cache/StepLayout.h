//===- StepLayout.h - Inputs and state of a step function ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_STEPLAYOUT_H
#define INTARSIA_RUNTIME_CACHE_STEPLAYOUT_H

#include "lib/Formats/Manifest.h"
#include "lib/Support/Hash.h"

namespace intarsia::runtime {

/// The elements of a cache of a language model. Scales of a quantized cache, and states that are no cache, are `Other`.
enum class CacheElement : uint8_t { F32, F16, BF16, F8, U8, U4, UnrotatedU8, UnrotatedU4, Other };
/// Returns "f32", "ui4", …, as #nn.cache_format spells them, "ui4 unrotated" for keys as before their rotation.
const char *nameOf(CacheElement element);

/// An input that the function updates in place.
struct StateTensor {
  size_t turn = 0;  // of the function that updates it
  size_t input = 0; // index
  std::string name;
  bool paged = false; // true: one unit a page; false: one a sequence
  itx_dtype dtype = ITX_F32;
  std::vector<int64_t> shape; // of one unit
  uint64_t unitBytes = 0;
  CacheElement element = CacheElement::Other;
  bool transposed = false; // pages are [heads, features, tokens], not [heads, tokens, features]
  int64_t firstHead = 0;   // of the model's heads, where a rank has some of them
  int64_t allHeads = 0;    // of the model; 0: the unit has all
  int32_t device = -1;     // index of the module's device in whose own memory it lies; -1: the host's
};

/// The indices of a function's inputs.
struct StepInputs {
  size_t inputIds = 0, positions = 0, sequences = 0, pageTable = 0, outputTokens = 0;
  size_t count = 0;
};

/// The properties of a step function that the runtime needs to serve sequences with it.
struct StepLayout {
  std::vector<StepInputs> turns; // of the function of each stage of the rank; the last one gives the logits
  bool isBreadthFirst = false;   // the order of parts, if there are several turns
  int64_t pageTokens = 0;
  int64_t stages = 1;  // of the pipeline that the ranks of a world are: ranks that a part goes through in each turn
  int64_t context = 0; // maximal tokens of a sequence
  Hash128 model = {};  // hash of the model that the artifact was made from; zero if it does not say it
  int64_t vocabulary = 0;
  std::vector<StateTensor> states;
  uint64_t pageBytes = 0;     // of all states together
  uint64_t sequenceBytes = 0; // likewise
  bool hasSlots = false;      // there is state with one unit a sequence, here or on another rank
  int64_t pagesFor(int64_t tokens) const { return tokens / pageTokens + (tokens % pageTokens != 0); }
};

/// Reads the layout from the signatures of the functions of this rank: one, or that of each of its stages, the last one
/// last. `functions` are those of all ranks: all have the same number of tokens in a page, and a stage of a pipeline
/// may have no state. An error says what a function lacks to be a step function. `name` starts each message.
Status readStepLayout(const std::vector<FunctionInfo> &functions, const std::vector<const FunctionInfo *> &turns,
                      const std::string &name, StepLayout &layout);

} // namespace intarsia::runtime

#endif
