//===- Step.cpp - One forward step of several sequences ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/Cache.h"
#include "lib/Runtime/Core/StageCalls.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace intarsia::runtime {

/// The pages that a forward step writes to. Unless it is committed, the sequences are restored.
class Cache::Transaction {
public:
  Transaction(Cache &cache, const std::vector<Chunk> &chunks) : cache_(cache), chunks_(chunks) {}

  Status begin() {
    std::vector<const Sequence *> busy;
    int64_t needed = 0;
    changes_.resize(chunks_.size());
    for (size_t i = 0; i < chunks_.size(); ++i) {
      prepare(i);
      needed += changes_[i].copies + changes_[i].grows;
      busy.push_back(chunks_[i].sequence);
    }
    ITX_RETURN_IF_ERROR(cache_.makeRoom(needed, busy));
    Status status;
    for (size_t i = 0; i < chunks_.size() && status.ok(); ++i)
      status = apply(i);
    ITX_RETURN_IF_ERROR(memory().finish(std::move(status)));
    mayHaveWritten_ = true;
    return Status::success();
  }

  void commit() {
    for (Change &change : changes_)
      if (change.copies)
        memory().releasePage(change.original);
    for (const Chunk &chunk : chunks_) {
      // Room was reserved: nothing here can fail.
      chunk.sequence->tokens.insert(chunk.sequence->tokens.end(), chunk.tokens, chunk.tokens + chunk.count);
      chunk.sequence->slotPage = (chunk.sequence->length() - 1) / cache_.layout_.pageTokens;
      chunk.sequence->lastUse = ++cache_.clock_;
    }
    changes_.clear();
  }

  ~Transaction() {
    if (changes_.empty())
      return;
    // After an exception earlier contents of slots may still be on their way into the changes.
    Status status = memory().finish();
    for (size_t i = 0; i < changes_.size(); ++i) {
      Change &change = changes_[i];
      Sequence &sequence = *chunks_[i].sequence;
      if (!change.applied)
        continue;
      cache_.dropPages(sequence, change.pagesBefore);
      if (change.copies) {
        memory().releasePage(sequence.pages.back());
        sequence.pages.back() = change.original;
      }
      if (mayHaveWritten_ && status.ok())
        status = restoreSlot(change, sequence);
    }
    if (!memory().finish(std::move(status)).ok())
      giveUpSlots();
  }

private:
  /// The changes that a forward step makes to one sequence.
  struct Change {
    bool applied = false;
    bool copies = false; // true if it copies its last page, which it shares
    int32_t original = 0;
    size_t pagesBefore = 0;
    int64_t grows = 0;
    std::vector<uint8_t> slot; // earlier contents, if the step overwrites them; empty if not
  };
  /// Sequences that leave a page in this step for a copy: their number, and the length of the longest.
  struct Leaving {
    int32_t count = 0;
    int64_t length = 0;
  };

  StateMemory &memory() { return *cache_.memory_; }

  void prepare(size_t index) {
    const Chunk &chunk = chunks_[index];
    const Sequence &sequence = *chunk.sequence;
    const StepLayout &layout = cache_.layout_;
    Change &change = changes_[index];
    int64_t length = sequence.length();
    change.pagesBefore = sequence.pages.size();
    change.grows = layout.pagesFor(length + chunk.count) - int64_t(change.pagesBefore);
    if (length % layout.pageTokens == 0)
      return;
    change.original = sequence.pages.back();
    // The last sequence of a page may keep it if all others leave it in this step and it writes only behind the tokens
    // that they use: if the step fails, the page still holds their tokens.
    Leaving &leaving = leaving_[change.original];
    change.copies = memory().references(change.original) - leaving.count > 1 || length < leaving.length;
    if (change.copies)
      leaving = {leaving.count + 1, std::max(leaving.length, length)};
  }

  Status apply(size_t index) {
    const Chunk &chunk = chunks_[index];
    Sequence &sequence = *chunk.sequence;
    Change &change = changes_[index];
    int64_t length = sequence.length(), page = cache_.layout_.pageTokens;
    sequence.tokens.reserve(length + chunk.count);
    sequence.pages.reserve(change.pagesBefore + change.grows);
    // A step that ends in the slot's page writes behind the slot's contents; any other step overwrites them.
    if (cache_.hasSlots() && sequence.slotPage >= 0 && sequence.slotPage != (length + chunk.count - 1) / page)
      ITX_RETURN_IF_ERROR(saveSlot(change, sequence));
    change.applied = true; // nothing throws after this
    if (change.copies) {
      ITX_RETURN_IF_ERROR(memory().takePage(sequence.pages.back()));
      ITX_RETURN_IF_ERROR(memory().copyPage(change.original, sequence.pages.back()));
    }
    for (int64_t i = 0; i < change.grows; ++i) {
      sequence.pages.push_back(0);
      ITX_RETURN_IF_ERROR(memory().takePage(sequence.pages.back()));
    }
    return Status::success();
  }

  Status saveSlot(Change &change, const Sequence &sequence) {
    change.slot.resize(cache_.layout_.sequenceBytes);
    uint8_t *to = change.slot.data();
    for (size_t s = 0; s < cache_.layout_.states.size(); ++s)
      if (const StateTensor &state = cache_.layout_.states[s]; !state.paged) {
        ITX_RETURN_IF_ERROR(memory().read(s, sequence.slot, to));
        to += state.unitBytes;
      }
    return Status::success();
  }

  Status restoreSlot(const Change &change, const Sequence &sequence) {
    const uint8_t *saved = change.slot.data();
    for (size_t s = 0; !change.slot.empty() && s < cache_.layout_.states.size(); ++s)
      if (const StateTensor &state = cache_.layout_.states[s]; !state.paged) {
        ITX_RETURN_IF_ERROR(memory().write(s, sequence.slot, saved));
        saved += state.unitBytes;
      }
    return Status::success();
  }

  /// Evicts the sequences whose slot a device did not take back.
  void giveUpSlots() {
    for (size_t i = 0; mayHaveWritten_ && i < changes_.size(); ++i)
      if (Sequence &sequence = *chunks_[i].sequence; !changes_[i].slot.empty() && !sequence.tokens.empty()) {
        cache_.dropPages(sequence, 0);
        sequence.isEvicted = true;
      }
  }

  Cache &cache_;
  const std::vector<Chunk> &chunks_;
  std::vector<Change> changes_;
  std::map<int32_t, Leaving> leaving_;
  bool mayHaveWritten_ = false; // true once the step function may have run
};

Status Cache::checkChunks(const std::vector<Chunk> &chunks) const {
  if (chunks.empty())
    return error(ITX_INVALID_ARGUMENT, "%s: a forward step has no chunks of tokens", name());
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk &chunk = chunks[i];
    const Sequence &sequence = *chunk.sequence;
    int64_t length = sequence.length();
    for (size_t other = 0; other < i; ++other)
      if (chunks[other].sequence == chunk.sequence)
        return error(ITX_INVALID_ARGUMENT,
                     "%s: chunks %zu and %zu of a forward step are of the same sequence: make them one", name(), other,
                     i);
    if (sequence.isEvicted)
      return error(ITX_EVICTED,
                   "%s: the sequence of chunk %zu was evicted: truncate it to 0, and give its %zu tokens again", name(),
                   i, sequence.tokens.size());
    if (chunk.count < 1)
      return error(ITX_INVALID_ARGUMENT, "%s: chunk %zu of a forward step has no tokens", name(), i);
    if (chunk.outputs < 0 || chunk.outputs > chunk.count)
      return error(ITX_INVALID_ARGUMENT,
                   "%s: chunk %zu of a forward step has %lld tokens, logits of the last %lld are wanted", name(), i,
                   (long long)chunk.count, (long long)chunk.outputs);
    if (chunk.count > layout_.context - length)
      return error(
          ITX_INVALID_ARGUMENT,
          "%s: chunk %zu of a forward step adds %lld tokens to the %lld of its sequence, the model's context is %lld",
          name(), i, (long long)chunk.count, (long long)length, (long long)layout_.context);
    for (int64_t token = 0; token < chunk.count; ++token)
      if (chunk.tokens[token] < 0 || chunk.tokens[token] >= layout_.vocabulary)
        return error(ITX_INVALID_ARGUMENT,
                     "%s: 'input_ids' is %lld at [%lld] of chunk %zu: values must be in [0, %lld)", name(),
                     (long long)chunk.tokens[token], (long long)token, i, (long long)layout_.vocabulary);
  }
  return Status::success();
}

static Status makeIntegers(std::vector<int64_t> shape, Tensor &tensor, int64_t *&values) {
  ITX_RETURN_IF_ERROR(makeTensor(ITX_I64, shape.data(), shape.size(), tensor));
  values = static_cast<int64_t *>(tensor.data.get());
  return Status::success();
}

/// Calls the step function, or those of all stages that this rank has.
class Cache::StepRunner {
public:
  StepRunner(Cache &cache, LogitsWanted wanted) : cache_(cache), module_(*cache.module_), wanted_(wanted) {}

  Status run(const std::vector<Chunk> &chunks, StepResults &results) {
    return cache_.functions_.size() > 1 ? runInTurns(chunks, results) : runAtOnce(chunks, results);
  }

private:
  /// Some chunks as inputs of the functions.
  struct Inputs {
    Tensor ids, positions, sequences, table, outputTokens;
    int64_t rows = 0;    // of the page table
    int64_t outputs = 0; // whose logits are wanted
  };

  Status make(const std::vector<Chunk> &chunks, Inputs &inputs) const {
    int64_t tokens = 0;
    size_t columns = 1;
    inputs.rows = int64_t(chunks.size());
    for (const Chunk &chunk : chunks) {
      tokens += chunk.count;
      inputs.outputs += chunk.outputs;
      columns = std::max(columns, chunk.sequence->pages.size());
      // A sequence with a slot uses the row of the page table with the slot's index.
      if (cache_.hasSlots())
        inputs.rows = std::max(inputs.rows, chunk.sequence->slot + 1);
    }
    int64_t *id = nullptr, *position = nullptr, *sequence = nullptr, *page = nullptr, *output = nullptr;
    ITX_RETURN_IF_ERROR(makeIntegers({tokens}, inputs.ids, id));
    ITX_RETURN_IF_ERROR(makeIntegers({tokens}, inputs.positions, position));
    ITX_RETURN_IF_ERROR(makeIntegers({tokens}, inputs.sequences, sequence));
    ITX_RETURN_IF_ERROR(makeIntegers({inputs.rows, int64_t(columns)}, inputs.table, page));
    // The function computes at least one row.
    ITX_RETURN_IF_ERROR(makeIntegers({std::max<int64_t>(inputs.outputs, 1)}, inputs.outputTokens, output));
    *output = 0;
    std::memset(page, 0, inputs.table.bytes);
    int64_t token = 0;
    for (size_t i = 0; i < chunks.size(); ++i) {
      const Chunk &chunk = chunks[i];
      int64_t row = cache_.hasSlots() ? chunk.sequence->slot : int64_t(i);
      std::copy(chunk.sequence->pages.begin(), chunk.sequence->pages.end(), page + row * int64_t(columns));
      for (int64_t t = 0; t < chunk.count; ++t, ++token) {
        id[token] = chunk.tokens[t];
        position[token] = chunk.sequence->length() + chunk.first + t;
        sequence[token] = row;
        if (t >= chunk.count - chunk.outputs)
          *output++ = token;
      }
    }
    return Status::success();
  }

  /// Prepares a call of the function for a turn.
  Status prepare(const Inputs &given, size_t turn, ::itx_call &call) const {
    const StepInputs &places = cache_.layout_.turns[turn];
    std::vector<const Tensor *> inputs(places.count, nullptr);
    inputs[places.inputIds] = &given.ids;
    inputs[places.positions] = &given.positions;
    inputs[places.sequences] = &given.sequences;
    inputs[places.pageTable] = &given.table;
    inputs[places.outputTokens] = &given.outputTokens;
    std::vector<Tensor> states = cache_.memory_->tensors();
    for (size_t i = 0; i < states.size(); ++i) {
      const StateTensor &state = cache_.layout_.states[i];
      if (state.turn != turn)
        continue;
      if (!state.paged) { // one slot for each row of the page table
        states[i].shape[0] = given.rows;
        states[i].bytes = state.unitBytes * uint64_t(given.rows);
      }
      inputs[state.input] = &states[i];
    }
    return prepareCall(module_, cache_.functions_[turn], inputs.data(), inputs.size(), call);
  }

  Status runAtOnce(const std::vector<Chunk> &chunks, StepResults &results) {
    Inputs inputs;
    ITX_RETURN_IF_ERROR(make(chunks, inputs));
    std::unique_ptr<itx_call> call = module_.takeCall();
    Status status = prepare(inputs, 0, *call);
    if (wanted_ == LogitsWanted::OnDevice)
      call->outputMemories = {module_.memoryOf(call->function->outputs[0].device)};
    call->results = inputs.outputs == 0              ? Results::None
                    : wanted_ == LogitsWanted::Later ? Results::Later
                                                     : Results::WithCall;
    if (status.ok())
      status = runCall(*call);
    results.call = call->number;
    if (status.ok() && inputs.outputs != 0)
      results.logits = std::move(call->outputs[0]);
    call->outputs.clear();
    module_.giveCall(std::move(call));
    return status;
  }

  /// Returns the chunks of each part of a step.
  std::vector<std::vector<Chunk>> partsOf(const std::vector<Chunk> &chunks) const {
    int64_t tokens = 0;
    for (const Chunk &chunk : chunks)
      tokens += chunk.count;
    int64_t part =
        partInTurns(tokens, int64_t(chunks.size()), cache_.layout_.stages, int64_t(cache_.functions_.size()));
    std::vector<std::vector<Chunk>> parts;
    int64_t room = 0;
    for (const Chunk &chunk : chunks)
      for (int64_t first = 0, count = 0; first < chunk.count; first += count) {
        if (room == 0) {
          parts.emplace_back();
          room = part;
        }
        count = std::min(room, chunk.count - first);
        int64_t outputs = std::max<int64_t>(0, first + count - std::max(first, chunk.count - chunk.outputs));
        parts.back().push_back({chunk.sequence, chunk.tokens + first, count, outputs, first});
        room -= count;
      }
    return parts;
  }

  /// Computes parts of the step at the same time as other ranks compute others.
  Status runInTurns(const std::vector<Chunk> &chunks, StepResults &results) {
    const FunctionInfo &last = *module_.functions()[cache_.function_].info;
    if (module_.memoryOf(last.outputs[0].device))
      return error(ITX_UNSUPPORTED,
                   "%s: its logits are in the memory of a device, where those of several parts cannot be put together: "
                   "compile it with one stage for each rank",
                   cache_.name());
    std::vector<Inputs> parts;
    int64_t outputs = 0;
    for (const std::vector<Chunk> &part : partsOf(chunks)) {
      ITX_RETURN_IF_ERROR(make(part, parts.emplace_back()));
      outputs += parts.back().outputs;
    }
    const int64_t shape[] = {outputs, cache_.layout_.vocabulary};
    if (outputs != 0)
      ITX_RETURN_IF_ERROR(makeTensor(ITX_F32, shape, 2, results.logits));
    StageCalls calls(module_, last);
    ITX_RETURN_IF_ERROR(calls.begin());
    auto *row = static_cast<float *>(results.logits.data.get());
    for (const StageTurn &item : stageOrder(int64_t(parts.size()), cache_.layout_.stages,
                                            int64_t(cache_.functions_.size()), cache_.layout_.isBreadthFirst)) {
      const Inputs &part = parts[size_t(item.part)];
      std::unique_ptr<itx_call> call = module_.takeCall();
      Status status = prepare(part, size_t(item.turn), *call);
      if (status.ok())
        status = calls.run(*call, item);
      if (status.ok() && item.due < 0 && part.outputs != 0) {
        uint64_t elements = uint64_t(part.outputs * cache_.layout_.vocabulary);
        if (calls.isLast())
          std::memcpy(row, call->outputs[0].data.get(), elements * sizeof(float));
        row += elements;
      }
      call->outputs.clear();
      module_.giveCall(std::move(call));
      ITX_RETURN_IF_ERROR(std::move(status));
    }
    ITX_RETURN_IF_ERROR(calls.finish());
    return outputs == 0
               ? Status::success()
               : calls.broadcastResult(results.logits.data.get(), uint64_t(outputs * cache_.layout_.vocabulary));
  }

  Cache &cache_;
  Module &module_;
  LogitsWanted wanted_;
};

Status Cache::step(const std::vector<Chunk> &chunks, LogitsWanted wanted, StepResults &results) {
  std::lock_guard lock(mutex_);
  ITX_RETURN_IF_ERROR(checkChunks(chunks));
  bool hasBegun = false;
  Status status = runChecked(chunks, wanted, results, hasBegun);
  bool wantsNone = std::all_of(chunks.begin(), chunks.end(), [](const Chunk &chunk) { return chunk.outputs == 0; });
  // Other stages of the pipeline may have done this step, or parts of it, and later ones: no rank can take it back.
  bool isAhead = wantsNone || wanted == LogitsWanted::Later || (hasBegun && functions_.size() > 1);
  if (!status.ok() && isAhead && layout_.stages > 1)
    return endWorld(*module_, status);
  return status;
}

Status Cache::runChecked(const std::vector<Chunk> &chunks, LogitsWanted wanted, StepResults &results, bool &hasBegun) {
  if (wanted == LogitsWanted::Later && layout_.stages > 1 && functions_.size() == 1 &&
      module_->memoryOf(module_->functions()[function_].info->outputs[0].device))
    return error(ITX_UNSUPPORTED,
                 "%s: its logits are in the memory of a device, from where they cannot be taken after the step: use "
                 "itx_cache_step",
                 name());
  std::vector<const Sequence *> busy;
  for (const Chunk &chunk : chunks)
    busy.push_back(chunk.sequence);
  for (const Chunk &chunk : chunks)
    ITX_RETURN_IF_ERROR(bringBack(*chunk.sequence, busy));
  Transaction transaction(*this, chunks);
  ITX_RETURN_IF_ERROR(transaction.begin());
  hasBegun = true;
  if (compute_)
    ITX_RETURN_IF_ERROR(compute_(chunks, results.logits));
  else
    ITX_RETURN_IF_ERROR(StepRunner(*this, wanted).run(chunks, results));
  transaction.commit();
  return Status::success();
}

Status Cache::candidates(const Tensor &logits, const float *temperatures, Candidates &candidates) {
  ITX_RETURN_IF_ERROR(requireModule());
  if (candidates_.count == 0)
    return error(
        ITX_UNSUPPORTED,
        "%s: no function finds the likeliest tokens of '%s' on a device: its logits are in memory of the host, "
        "or an older compiler made the artifact; sample from the logits instead",
        name(), module_->functions()[function_].info->name.c_str());
  return computeCandidates(*module_, candidates_, logits, temperatures, candidates);
}

} // namespace intarsia::runtime
