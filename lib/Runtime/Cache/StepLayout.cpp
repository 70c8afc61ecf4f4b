//===- StepLayout.cpp - Inputs and state of a step function -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/StepLayout.h"

#include "lib/Formats/Dtype.h"
#include "lib/Support/Json.h"

#include <algorithm>
#include <charconv>

namespace intarsia::runtime {

static constexpr const char *cacheElements[] = {"f32", "f16",           "bf16",          "f8E4M3FN",      "ui8",
                                                "ui4", "ui8 unrotated", "ui4 unrotated", "other elements"};

const char *nameOf(CacheElement element) { return cacheElements[size_t(element)]; }

namespace {
/// Reads one function and keeps the first error.
class LayoutReader {
public:
  LayoutReader(const FunctionInfo &function, const std::string &name) : function_(function), name_(name) {}

  Status read(StepLayout &layout) {
    ITX_RETURN_IF_ERROR(find("input_ids", 1, inputs_.inputIds));
    ITX_RETURN_IF_ERROR(find("positions", 1, inputs_.positions));
    ITX_RETURN_IF_ERROR(find("sequences", 1, inputs_.sequences));
    ITX_RETURN_IF_ERROR(find("page_table", 2, inputs_.pageTable));
    ITX_RETURN_IF_ERROR(find("output_tokens", 1, inputs_.outputTokens));
    inputs_.count = function_.givenInputs;
    layout.turns = {inputs_};
    const ValueInfo &ids = function_.inputs[inputs_.inputIds], &positions = function_.inputs[inputs_.positions];
    const ValueInfo &table = function_.inputs[inputs_.pageTable];
    layout.context = positions.rangeHigh;
    layout.vocabulary = ids.rangeHigh;
    layout.stages = function_.stages;
    bool isStateless = layout.stages > 1 && std::none_of(function_.inputs.begin(), function_.inputs.end(),
                                                         [](const ValueInfo &input) { return input.state; });
    if (!ids.hasRange || !positions.hasRange)
      return refuse("'input_ids' and 'positions' have no range of values");
    if (isStateless) {
      readMetadata(layout);
      return checkOutputs();
    }
    // Positions are less than pages * tokens of a page, or kernels would read beyond the page table.
    if (table.symbols[0] < 0 || table.symbols[1] < 0 || table.belowSize < 0 || positions.belowSize != table.symbols[1])
      return refuse("'positions' and 'page_table' do not say what limits them");
    if (function_.pageTokens == 0)
      return refuse("its manifest does not say how many tokens a page has; if an older compiler made the artifact, "
                    "compile the model again");
    if (positions.belowFactor > function_.pageTokens)
      return refuse(format("'positions' may be %lld times the pages of a sequence, a page has %lld tokens",
                           (long long)positions.belowFactor, (long long)function_.pageTokens));
    layout.pageTokens = function_.pageTokens;
    for (size_t i = 0; i < function_.givenInputs; ++i)
      ITX_RETURN_IF_ERROR(readInput(i, table, layout));
    if (layout.states.empty())
      return refuse("no input is state");
    readMetadata(layout);
    layout.hasSlots = layout.sequenceBytes != 0;
    return checkOutputs();
  }

private:
  Status checkOutputs() const {
    const std::vector<ValueInfo> &outputs = function_.outputs;
    if (function_.turn.number + 1 != function_.turn.count)
      return outputs.empty() ? Status::success() : refuse("it gives results in another turn than the last");
    if (outputs.size() != 1 || outputs[0].dtype != ITX_F32 || outputs[0].shape.size() != 2)
      return refuse("its outputs are not logits, one f32 [outputs, vocabulary]");
    return Status::success();
  }

  Status refuse(const std::string &why) const {
    return error(ITX_INVALID_ARGUMENT, "%s: function '%s' is no forward step of a language model: %s", name_.c_str(),
                 function_.name.c_str(), why.c_str());
  }

  Status find(const char *input, size_t rank, size_t &index) const {
    for (index = 0; index < function_.inputs.size(); ++index)
      if (const ValueInfo &value = function_.inputs[index]; value.name == input) {
        if (value.dtype == ITX_I64 && value.shape.size() == rank)
          return Status::success();
        return refuse(format("'%s' is not i64 of rank %zu", input, rank));
      }
    return refuse(format("it has no input '%s'", input));
  }

  /// Reads what a hand-over needs; a function that does not say it hands over to itself only.
  void readMetadata(StepLayout &layout) const {
    Json metadata;
    if (!parseJson(function_.metadata, "metadata", metadata).ok() || !metadata.is_object())
      return; // it was parsed when the module was loaded
    if (auto caches = metadata.find("caches"); caches != metadata.end() && caches->is_object())
      for (StateTensor &state : layout.states)
        if (auto cache = caches->find(state.name); cache != caches->end() && cache->is_object())
          readCache(*cache, state);
    if (auto heads = metadata.find("cache_heads"); heads != metadata.end() && heads->is_object())
      for (StateTensor &state : layout.states)
        if (auto its = heads->find(state.name); its != heads->end() && its->is_object())
          readHeads(*its, state);
    auto found = metadata.find("model_hash");
    if (found == metadata.end() || !found->is_string())
      return;
    const std::string &text = found->get_ref<const std::string &>();
    for (size_t i = 0; i < layout.model.size() && 2 * i + 2 <= text.size(); ++i)
      (void)std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, layout.model[i], 16);
  }

  static void readCache(const Json &cache, StateTensor &state) {
    auto element = cache.find("element"), transposed = cache.find("transposed");
    if (element == cache.end() || !element->is_string() || transposed == cache.end() || !transposed->is_boolean())
      return;
    for (size_t i = 0; i < size_t(CacheElement::Other); ++i)
      if (*element == cacheElements[i])
        state.element = CacheElement(i);
    state.transposed = transposed->get<bool>();
  }

  /// Reads which of the model's heads a rank has.
  static void readHeads(const Json &heads, StateTensor &state) {
    auto first = heads.find("first"), all = heads.find("all");
    if (first == heads.end() || all == heads.end() || !first->is_number_integer() || !all->is_number_integer())
      return;
    constexpr int64_t mostHeads = int64_t(1) << 32; // products with it do not overflow
    int64_t own = state.shape.empty() ? 0 : state.shape[0], begin = first->get<int64_t>(), count = all->get<int64_t>();
    if (begin < 0 || count < own || count > mostHeads || begin > count - own)
      return; // a damaged file: the state is handed over as that of a whole model
    state.firstHead = begin;
    state.allHeads = count;
  }

  Status readInput(size_t index, const ValueInfo &table, StepLayout &layout) const {
    const ValueInfo &value = function_.inputs[index];
    if (!value.state) {
      bool known = index == inputs_.inputIds || index == inputs_.positions || index == inputs_.sequences ||
                   index == inputs_.pageTable || index == inputs_.outputTokens;
      return known || value.optional ? Status::success() : refuse("nothing is known of its input '" + value.name + "'");
    }
    bool paged = !value.symbols.empty() && value.symbols[0] == table.belowSize;
    if (!paged && (value.symbols.empty() || value.symbols[0] != table.symbols[0]))
      return refuse("the first size of the state '" + value.name + "' is neither the number of pages nor of sequences");
    StateTensor state;
    state.turn = size_t(function_.turn.number);
    state.input = index;
    state.name = value.name;
    state.paged = paged;
    state.dtype = value.dtype;
    state.shape = {value.shape.begin() + 1, value.shape.end()};
    state.device = value.device;
    for (int64_t size : state.shape)
      if (size < 1)
        return refuse("the state '" + value.name + "' has a second size that the call decides");
    ITX_RETURN_IF_ERROR(tensorBytes(state.dtype, state.shape.data(), state.shape.size(), state.unitBytes));
    uint64_t &total = paged ? layout.pageBytes : layout.sequenceBytes;
    if (__builtin_add_overflow(total, state.unitBytes, &total))
      return refuse("its state is larger than memory can be");
    layout.states.push_back(std::move(state));
    return Status::success();
  }

  const FunctionInfo &function_;
  const std::string &name_;
  StepInputs inputs_;
};

/// Adds what the next stage of a rank has.
Status addTurn(const StepLayout &stage, const std::string &name, StepLayout &layout) {
  layout.turns.insert(layout.turns.end(), stage.turns.begin(), stage.turns.end());
  layout.states.insert(layout.states.end(), stage.states.begin(), stage.states.end());
  layout.pageTokens = std::max(layout.pageTokens, stage.pageTokens);
  layout.hasSlots |= stage.hasSlots;
  if (stage.model != Hash128{})
    layout.model = stage.model;
  if (__builtin_add_overflow(layout.pageBytes, stage.pageBytes, &layout.pageBytes) ||
      __builtin_add_overflow(layout.sequenceBytes, stage.sequenceBytes, &layout.sequenceBytes))
    return error(ITX_INVALID_ARGUMENT, "%s: its state is larger than memory can be", name.c_str());
  return Status::success();
}
} // namespace

Status readStepLayout(const std::vector<FunctionInfo> &functions, const std::vector<const FunctionInfo *> &turns,
                      const std::string &name, StepLayout &layout) {
  const FunctionInfo &last = *turns.back();
  StepLayout result;
  for (const FunctionInfo *function : turns) {
    StepLayout stage;
    ITX_RETURN_IF_ERROR(LayoutReader(*function, name).read(stage));
    if (function == turns.front())
      result = std::move(stage);
    else
      ITX_RETURN_IF_ERROR(addTurn(stage, name, result));
  }
  result.isBreadthFirst = last.turn.isBreadthFirst;
  auto isOfTurn = [&](const FunctionInfo &other) {
    return std::any_of(turns.begin(), turns.end(), [&](const FunctionInfo *own) { return own->name == other.name; });
  };
  for (const FunctionInfo &other : functions) {
    StepLayout ofOther;
    if (last.rank < 0 || !isOfTurn(other) || !LayoutReader(other, name).read(ofOther).ok())
      continue;
    result.hasSlots |= ofOther.hasSlots;
    if (result.pageTokens == 0)
      result.pageTokens = ofOther.pageTokens;
  }
  if (result.pageTokens == 0)
    return error(ITX_INVALID_ARGUMENT, "%s: function '%s' is no forward step of a language model: no input is state",
                 name.c_str(), last.name.c_str());
  layout = std::move(result);
  return Status::success();
}

} // namespace intarsia::runtime
