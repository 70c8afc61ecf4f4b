//===- Step.cpp - One forward step of several sequences ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/Cache.h"
#include "lib/Runtime/Core/Call.h"

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

Status Cache::run(const std::vector<Chunk> &chunks, LogitsWanted wanted, StepResults &results) {
  int64_t tokens = 0, outputs = 0, rows = int64_t(chunks.size());
  size_t columns = 1;
  for (const Chunk &chunk : chunks) {
    tokens += chunk.count;
    outputs += chunk.outputs;
    columns = std::max(columns, chunk.sequence->pages.size());
    // A sequence with a slot uses the row of the page table with the slot's index.
    if (hasSlots())
      rows = std::max(rows, chunk.sequence->slot + 1);
  }
  Tensor ids, positions, sequences, table, outputTokens;
  int64_t *id = nullptr, *position = nullptr, *sequence = nullptr, *page = nullptr, *output = nullptr;
  ITX_RETURN_IF_ERROR(makeIntegers({tokens}, ids, id));
  ITX_RETURN_IF_ERROR(makeIntegers({tokens}, positions, position));
  ITX_RETURN_IF_ERROR(makeIntegers({tokens}, sequences, sequence));
  ITX_RETURN_IF_ERROR(makeIntegers({rows, int64_t(columns)}, table, page));
  // The function computes at least one row.
  ITX_RETURN_IF_ERROR(makeIntegers({std::max<int64_t>(outputs, 1)}, outputTokens, output));
  *output = 0;
  std::memset(page, 0, table.bytes);
  int64_t token = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk &chunk = chunks[i];
    int64_t row = hasSlots() ? chunk.sequence->slot : int64_t(i);
    std::copy(chunk.sequence->pages.begin(), chunk.sequence->pages.end(), page + row * int64_t(columns));
    for (int64_t t = 0; t < chunk.count; ++t, ++token) {
      id[token] = chunk.tokens[t];
      position[token] = chunk.sequence->length() + t;
      sequence[token] = row;
      if (t >= chunk.count - chunk.outputs)
        *output++ = token;
    }
  }
  std::vector<const Tensor *> inputs(layout_.inputs, nullptr);
  inputs[layout_.inputIds] = &ids;
  inputs[layout_.positions] = &positions;
  inputs[layout_.sequences] = &sequences;
  inputs[layout_.pageTable] = &table;
  inputs[layout_.outputTokens] = &outputTokens;
  std::vector<Tensor> states = memory_->tensors();
  for (size_t i = 0; i < states.size(); ++i) {
    if (!layout_.states[i].paged) { // one slot for each row of the page table
      states[i].shape[0] = rows;
      states[i].bytes = layout_.states[i].unitBytes * uint64_t(rows);
    }
    inputs[layout_.states[i].input] = &states[i];
  }

  std::unique_ptr<itx_call> call = module_->takeCall();
  Status status = prepareCall(*module_, function_, inputs.data(), inputs.size(), *call);
  if (wanted == LogitsWanted::OnDevice)
    call->outputMemories = {module_->memoryOf(call->function->outputs[0].device)};
  call->results = outputs == 0 ? Results::None : wanted == LogitsWanted::Later ? Results::Later : Results::WithCall;
  if (status.ok())
    status = runCall(*call);
  results.call = call->number;
  if (status.ok() && outputs != 0)
    results.logits = std::move(call->outputs[0]);
  call->outputs.clear();
  module_->giveCall(std::move(call));
  return status;
}

Status Cache::step(const std::vector<Chunk> &chunks, LogitsWanted wanted, StepResults &results) {
  std::lock_guard lock(mutex_);
  ITX_RETURN_IF_ERROR(checkChunks(chunks));
  Status status = runChecked(chunks, wanted, results);
  bool wantsNone = std::all_of(chunks.begin(), chunks.end(), [](const Chunk &chunk) { return chunk.outputs == 0; });
  // Other stages of the pipeline may have done this step, and later ones: no rank can take it back.
  if (!status.ok() && (wantsNone || wanted == LogitsWanted::Later) && layout_.stages > 1)
    return endWorld(*module_, status);
  return status;
}

Status Cache::runChecked(const std::vector<Chunk> &chunks, LogitsWanted wanted, StepResults &results) {
  if (wanted == LogitsWanted::Later && layout_.stages > 1 &&
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
  ITX_RETURN_IF_ERROR(run(chunks, wanted, results));
  transaction.commit();
  return Status::success();
}

Status Cache::candidates(const Tensor &logits, const float *temperatures, Candidates &candidates) {
  if (candidates_.count == 0)
    return error(
        ITX_UNSUPPORTED,
        "%s: no function finds the likeliest tokens of '%s' on a device: its logits are in memory of the host, "
        "or an older compiler made the artifact; sample from the logits instead",
        name(), module_->functions()[function_].info->name.c_str());
  return computeCandidates(*module_, candidates_, logits, temperatures, candidates);
}

} // namespace intarsia::runtime
