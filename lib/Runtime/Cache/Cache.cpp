//===- Cache.cpp - Sequences of a language model and their pages --------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/Cache.h"

#include "lib/Runtime/Cache/HandOver.h"
#include "lib/Runtime/Cache/SequenceFile.h"
#include "lib/Runtime/Core/Call.h"
#include "lib/Support/Json.h"
#include "lib/Support/MachineLimits.h"
#include "lib/Support/PromptParts.h"

#include <algorithm>
#include <cstring>

namespace intarsia::runtime {

// ---- Sizes ------------------------------------------------------------------------------------------------

/// Returns the bytes of a device's memory; UINT64_MAX if it does not say.
static uint64_t memoryBytesOf(const Device &device) {
  Json info;
  if (!parseJson(device.info(), device.name(), info).ok() || !info.is_object())
    return UINT64_MAX;
  auto found = info.find("memory_bytes");
  return found != info.end() && found->is_number_integer() ? found->get<uint64_t>() : UINT64_MAX;
}

/// Returns the bytes that are available for all state: those of the memory with the fewest among the memories that hold
/// some.
static uint64_t availableBytes(const Module &module, const StepLayout &layout) {
  uint64_t host = availableMemoryBytes(), available = UINT64_MAX;
  if (module.stream()) // the weights give way, and the limit of memory is kept
    host = module.stream()->spareBytes();
  for (const StateTensor &state : layout.states) {
    Device *device = module.memoryOf(state.device);
    available = std::min(available, device ? memoryBytesOf(*device) : host);
  }
  return available;
}

/// Chooses the number of pages if the options do not say it.
static Status choosePages(const StepLayout &layout, const Module &module, const Cache::Options &options, int64_t &pages,
                          uint64_t &bytes) {
  const std::string &name = module.name();
  if (options.sequences < 1 || options.sequences > INT32_MAX)
    return error(ITX_INVALID_ARGUMENT, "%s: a cache for %lld sequences is asked for, at least 1 is needed",
                 name.c_str(), (long long)options.sequences);
  if (options.pages < 0 || options.pages > INT32_MAX)
    return error(ITX_INVALID_ARGUMENT, "%s: a cache of %lld pages is asked for, 1 to %d are possible", name.c_str(),
                 (long long)options.pages, INT32_MAX);
  pages = options.pages;
  int64_t most = options.longSequences > 0 ? options.longSequences : options.sequences;
  if (pages == 0 && __builtin_mul_overflow(layout.pagesFor(layout.context), most, &pages))
    pages = INT32_MAX;
  // Takes half of the memory if there is no limit: the module's workspace and other programs need some too.
  uint64_t limit = options.bytes ? options.bytes : availableBytes(module, layout) / 2;
  if (options.pages == 0) {
    uint64_t slots = 0;
    ITX_RETURN_IF_ERROR(StateMemory::bytesOf(layout, 0, options.sequences, slots));
    uint64_t room = limit > slots ? limit - slots : 0;
    if (room < layout.pageBytes)
      return error(
          options.bytes ? ITX_INVALID_ARGUMENT : ITX_OUT_OF_MEMORY,
          "%s: a cache of %llu bytes%s has no page: a page of %lld tokens takes %llu bytes, %lld sequences %llu",
          name.c_str(), (unsigned long long)limit, options.bytes ? "" : " (half of what is available)",
          (long long)layout.pageTokens, (unsigned long long)layout.pageBytes, (long long)options.sequences,
          (unsigned long long)slots);
    if (layout.pageBytes != 0)
      pages = int64_t(std::min<uint64_t>(uint64_t(pages), room / layout.pageBytes));
  }
  pages = std::min<int64_t>(pages, INT32_MAX);
  ITX_RETURN_IF_ERROR(StateMemory::bytesOf(layout, pages, options.sequences, bytes));
  if (options.bytes != 0 && bytes > options.bytes)
    return error(ITX_INVALID_ARGUMENT,
                 "%s: a cache of %lld pages for %lld sequences takes %llu bytes, more than the %llu that it may take",
                 name.c_str(), (long long)pages, (long long)options.sequences, (unsigned long long)bytes,
                 (unsigned long long)options.bytes);
  return Status::success();
}

/// Finds the functions of all stages that a rank has of a step function, and reads its layout from them.
static Status readLayout(const Module &module, size_t function, std::vector<size_t> &functions, StepLayout &layout) {
  const FunctionInfo &last = *module.functions()[function].info;
  if (last.turn.number + 1 != last.turn.count)
    return error(ITX_INVALID_ARGUMENT,
                 "%s: function '%s' is stage %lld of the %lld of its rank: give the name of the last, without '.turn'",
                 module.name().c_str(), last.name.c_str(), (long long)last.turn.number + 1, (long long)last.turn.count);
  std::vector<const FunctionInfo *> infos;
  for (int64_t turn = 0; turn + 1 < last.turn.count; ++turn) {
    std::string name = TurnInfo::nameOf(last.name, turn);
    size_t index = 0;
    while (index < module.functions().size() && module.functions()[index].info->name != name)
      ++index;
    if (index == module.functions().size() || module.functions()[index].info->turn.number != turn ||
        module.functions()[index].info->turn.count != last.turn.count)
      return error(ITX_CORRUPT, "%s: function '%s' has %lld stages on each rank, and '%s' is none of them",
                   module.name().c_str(), last.name.c_str(), (long long)last.turn.count, name.c_str());
    functions.push_back(index);
  }
  functions.push_back(function);
  for (size_t index : functions)
    infos.push_back(module.functions()[index].info);
  return readStepLayout(module.manifest().functions, infos, module.name(), layout);
}

Status Cache::bytesNeeded(const Module &module, size_t function, const Options &options, uint64_t &bytes) {
  StepLayout layout;
  std::vector<size_t> functions;
  int64_t pages = 0;
  ITX_RETURN_IF_ERROR(readLayout(module, function, functions, layout));
  return choosePages(layout, module, options, pages, bytes);
}

Status Cache::hasSlots(const Module &module, size_t function, bool &result) {
  StepLayout layout;
  std::vector<size_t> functions;
  ITX_RETURN_IF_ERROR(readLayout(module, function, functions, layout));
  result = layout.hasSlots;
  return Status::success();
}

Status Cache::create(std::shared_ptr<Module> module, size_t function, const Options &options,
                     std::shared_ptr<Cache> &cache) {
  std::shared_ptr<Cache> result(new Cache(std::move(module), function));
  const Module &loaded = *result->module_;
  int64_t pages = 0;
  ITX_RETURN_IF_ERROR(readLayout(loaded, function, result->functions_, result->layout_));
  if (result->layout_.model == Hash128{}) // of IR that was written by hand: only itself is the same model
    result->layout_.model = loaded.hash();
  ITX_RETURN_IF_ERROR(findCandidates(loaded, function, result->candidates_));
  ITX_RETURN_IF_ERROR(choosePages(result->layout_, loaded, options, pages, result->bytes_));
  ITX_RETURN_IF_ERROR(StateMemory::create(result->layout_, pages, options.sequences, loaded, result->memory_));
  if (const SpillStore::Limits &limits = options.spill; !limits.folder.empty() || limits.memoryBytes != 0) {
    if (loaded.functions()[function].info->rank >= 0)
      return error(ITX_UNSUPPORTED,
                   "%s: the cache of a rank cannot spill sequences: with parts of other sizes, ranks would keep "
                   "different ones; leave out its folder and memory",
                   loaded.name().c_str());
    ITX_RETURN_IF_ERROR(SpillStore::create(limits, result->spill_));
  }
  if (options.spill.folder.empty() && options.spill.fileBytes != 0)
    return error(ITX_INVALID_ARGUMENT, "%s: files of %llu bytes for sequences that leave the cache need a folder",
                 loaded.name().c_str(), (unsigned long long)options.spill.fileBytes);
  result->sequences_.resize(options.sequences);
  cache = std::move(result);
  return Status::success();
}

Status Cache::createSimulated(StepLayout layout, const Options &options, Compute compute,
                              std::shared_ptr<Cache> &cache) {
  std::shared_ptr<Cache> result(new Cache(nullptr, 0));
  result->layout_ = std::move(layout);
  result->compute_ = std::move(compute);
  int64_t pages = options.pages;
  int64_t most = options.longSequences > 0 ? options.longSequences : options.sequences;
  if (pages == 0)
    pages = std::min<int64_t>(result->layout_.pagesFor(result->layout_.context) * most, INT32_MAX);
  if (pages < 1 || options.sequences < 1)
    return error(ITX_INVALID_ARGUMENT, "%s: a cache of %lld pages for %lld sequences, at least 1 is needed",
                 result->name(), (long long)pages, (long long)options.sequences);
  if (!options.spill.folder.empty() || options.spill.memoryBytes != 0)
    return error(ITX_UNSUPPORTED, "%s has no state that could be moved out of its cache", result->name());
  result->memory_ = StateMemory::createWithoutState(result->layout_, pages);
  result->sequences_.resize(options.sequences);
  cache = std::move(result);
  return Status::success();
}

Status Cache::requireModule() const {
  return module_ ? Status::success() : error(ITX_UNSUPPORTED, "%s has no state to write or to read", name());
}

itx_cache_info Cache::info() const {
  std::lock_guard lock(mutex_);
  itx_cache_info info = {};
  info.bytes = bytes_;
  info.pages = memory_->pages();
  info.free_pages = memory_->freePages();
  info.page_tokens = layout_.pageTokens;
  info.page_bytes = layout_.pageBytes;
  info.sequence_bytes = layout_.sequenceBytes;
  info.sequences = int64_t(sequences_.size());
  info.free_sequences = std::count(sequences_.begin(), sequences_.end(), nullptr);
  info.context = layout_.context;
  info.vocabulary = layout_.vocabulary;
  info.candidates = candidates_.count;
  for (const std::unique_ptr<Sequence> &sequence : sequences_)
    if (sequence && sequence->spilled) {
      ++info.spilled_sequences;
      info.spilled_bytes += sequence->spilled->bytes();
    }
  info.lost_sequences = lost_;
  info.stages = layout_.turns.size() > 1 ? 1 : layout_.stages; // a step is computed in parts itself
  return info;
}

int64_t Cache::prefillTokens(int64_t promptTokens) const {
  if (layout_.turns.size() > 1)
    return std::clamp<int64_t>(promptTokens, 1, mostTokensInTurns);
  return promptPart(promptTokens, layout_.stages);
}

// ---- Sequences --------------------------------------------------------------------------------------------

Status Cache::newSequence(Sequence *&sequence) {
  for (size_t slot = 0; slot < sequences_.size(); ++slot)
    if (!sequences_[slot]) {
      sequences_[slot] = std::make_unique<Sequence>();
      sequence = sequences_[slot].get();
      sequence->slot = int64_t(slot);
      sequence->lastUse = ++clock_;
      Status status = memory_->finish(memory_->clearSlot(sequence->slot));
      if (!status.ok())
        sequences_[slot].reset();
      return status;
    }
  return error(ITX_CACHE_FULL, "%s: the cache is for %zu sequences, and all are in use: free one, or make a larger one",
               name(), sequences_.size());
}

Status Cache::createSequence(Sequence *&sequence) {
  std::lock_guard lock(mutex_);
  return newSequence(sequence);
}

void Cache::dropPages(Sequence &sequence, size_t kept) {
  while (sequence.pages.size() > kept) {
    memory_->releasePage(sequence.pages.back());
    sequence.pages.pop_back();
  }
}

void Cache::discard(Sequence &sequence) {
  dropPages(sequence, 0);
  sequences_[sequence.slot].reset();
}

void Cache::freeSequence(Sequence &sequence) {
  std::lock_guard lock(mutex_);
  discard(sequence);
}

int64_t Cache::length(const Sequence &sequence) const {
  std::lock_guard lock(mutex_);
  return sequence.length();
}

bool Cache::isEvicted(const Sequence &sequence) const {
  std::lock_guard lock(mutex_);
  return sequence.isEvicted;
}

std::vector<int64_t> Cache::tokens(const Sequence &sequence) const {
  std::lock_guard lock(mutex_);
  return sequence.tokens;
}

void Cache::setEvictable(Sequence &sequence, bool evictable) {
  std::lock_guard lock(mutex_);
  sequence.isEvictable = evictable;
}

Status Cache::fork(Sequence &sequence, Sequence *&child) {
  std::lock_guard lock(mutex_);
  if (sequence.isEvicted)
    return error(ITX_EVICTED, "%s: the sequence was evicted, there is nothing to share: give its tokens again first",
                 name());
  ITX_RETURN_IF_ERROR(bringBack(sequence, {}));
  sequence.lastUse = ++clock_;
  // Copied before anything changes: this may throw.
  std::vector<int64_t> tokens = sequence.tokens;
  std::vector<int32_t> pages = sequence.pages;
  ITX_RETURN_IF_ERROR(newSequence(child));
  child->tokens = std::move(tokens);
  child->pages = std::move(pages);
  for (int32_t page : child->pages)
    memory_->retainPage(page);
  child->slotPage = sequence.slotPage;
  Status status = memory_->finish(memory_->copySlot(sequence.slot, child->slot));
  if (!status.ok())
    discard(*child);
  return status;
}

Status Cache::truncate(Sequence &sequence, int64_t length, int64_t *kept) {
  std::lock_guard lock(mutex_);
  int64_t before = int64_t(sequence.tokens.size());
  if (length < 0 || length > before)
    return error(ITX_INVALID_ARGUMENT, "%s: the sequence has %lld tokens, it cannot be cut to %lld", name(),
                 (long long)before, (long long)length);
  int64_t page = layout_.pageTokens, result = length;
  if (sequence.isEvicted)
    result = 0;
  else if (hasSlots() && length % page != 0 && length / page != sequence.slotPage)
    result = length / page * page;
  if (!kept && result != length)
    return error(
        sequence.isEvicted ? ITX_EVICTED : ITX_INVALID_ARGUMENT,
        "%s: of the sequence's %lld tokens %lld can be kept, not %lld: ask for how many are kept, and give the "
        "others again",
        name(), (long long)before, (long long)result, (long long)length);
  sequence.isEvicted = false;
  sequence.tokens.resize(result);
  if (result == 0)
    sequence.spilled.reset();
  dropPages(sequence, layout_.pagesFor(result));
  if (kept)
    *kept = result;
  return Status::success();
}

void Cache::evict(Sequence &sequence) {
  std::lock_guard lock(mutex_);
  if (sequence.tokens.empty())
    return;
  dropPages(sequence, 0);
  sequence.spilled.reset();
  sequence.isEvicted = true;
}

// ---- Files ------------------------------------------------------------------------------------------------

static std::vector<SequenceFileState> fileStates(const StepLayout &layout) {
  std::vector<SequenceFileState> states;
  for (const StateTensor &state : layout.states)
    states.push_back({uint32_t(state.dtype), state.paged, state.unitBytes});
  return states;
}

Status Cache::readUnits(const Sequence &sequence, bool paged, std::vector<std::vector<const uint8_t *>> &units,
                        std::vector<std::vector<uint8_t>> &copies) {
  units.resize(layout_.states.size());
  struct Copy {
    size_t state;
    int64_t index;
  };
  std::vector<Copy> all; // to `copies`
  auto give = [&](size_t state, int64_t index) {
    const uint8_t *unit = memory_->hostUnit(state, index);
    if (!unit) {
      copies.emplace_back(layout_.states[state].unitBytes);
      unit = copies.back().data();
      all.push_back({state, index});
    }
    units[state].push_back(unit);
  };
  for (size_t i = 0; i < units.size(); ++i) {
    if (layout_.states[i].paged)
      for (int32_t page : sequence.pages)
        give(i, page);
    else if (!paged)
      give(i, sequence.slot);
  }
  // Nothing may throw while copies are running.
  Status status;
  for (size_t i = 0; i < all.size() && status.ok(); ++i)
    status = memory_->read(all[i].state, all[i].index, copies[i].data());
  return memory_->finish(std::move(status));
}

Status Cache::save(Sequence &sequence, const std::string &path) {
  ITX_RETURN_IF_ERROR(requireModule());
  std::lock_guard lock(mutex_);
  if (sequence.isEvicted)
    return error(ITX_EVICTED, "%s: the sequence was evicted, there is nothing to save: give its tokens again first",
                 name());
  ITX_RETURN_IF_ERROR(bringBack(sequence, {}));
  SequenceFileContents contents;
  contents.module = module_->hash();
  contents.function = function_;
  contents.pageTokens = uint64_t(layout_.pageTokens);
  contents.tokens = sequence.tokens;
  contents.states = fileStates(layout_);
  std::vector<std::vector<const uint8_t *>> units;
  std::vector<std::vector<uint8_t>> copies;
  ITX_RETURN_IF_ERROR(readUnits(sequence, /*paged=*/false, units, copies));
  return writeSequenceFile(path, contents, units);
}

Status Cache::readState(Sequence &sequence, size_t pages, const uint8_t *file, const std::vector<uint64_t> &offsets) {
  while (sequence.pages.size() < pages) {
    sequence.pages.push_back(0);
    ITX_RETURN_IF_ERROR(memory_->takePage(sequence.pages.back()));
  }
  for (size_t i = 0; i < layout_.states.size(); ++i) {
    const uint8_t *from = file + offsets[i];
    uint64_t unit = layout_.states[i].unitBytes;
    if (layout_.states[i].paged)
      for (size_t page = 0; page < pages; ++page)
        ITX_RETURN_IF_ERROR(memory_->write(i, sequence.pages[page], from + page * unit));
    else
      ITX_RETURN_IF_ERROR(memory_->write(i, sequence.slot, from));
  }
  return Status::success();
}

Status Cache::restore(const std::string &path, Sequence *&sequence) {
  ITX_RETURN_IF_ERROR(requireModule());
  std::unique_ptr<MappedFile> file;
  ITX_RETURN_IF_ERROR(MappedFile::open(path, file));
  SequenceFileContents contents;
  ITX_RETURN_IF_ERROR(parseSequenceFile(file->data(), file->size(), path, contents));
  ITX_RETURN_IF_ERROR(checkSequenceHash(file->data(), file->size(), path));
  const char *where = path.c_str();
  if (contents.module != module_->hash() || contents.function != function_ ||
      contents.pageTokens != uint64_t(layout_.pageTokens) || contents.states != fileStates(layout_))
    return error(
        ITX_INVALID_ARGUMENT,
        "%s: was saved with the artifact %s, this is %s (%s): a sequence can be restored with the artifact that "
        "it was made with only",
        where, hashText(contents.module).c_str(), hashText(module_->hash()).c_str(), name());
  if (int64_t(contents.tokens.size()) > layout_.context)
    return error(ITX_CORRUPT, "%s: has %zu tokens, the model's context is %lld", where, contents.tokens.size(),
                 (long long)layout_.context);
  for (int64_t token : contents.tokens)
    if (token < 0 || token >= layout_.vocabulary)
      return error(ITX_CORRUPT, "%s: has the token %lld, tokens are in [0, %lld)", where, (long long)token,
                   (long long)layout_.vocabulary);

  std::lock_guard lock(mutex_);
  size_t pages = size_t(layout_.pagesFor(int64_t(contents.tokens.size())));
  return takeOver(std::move(contents.tokens), pages, file->data(), contents.stateOffsets, sequence);
}

Status Cache::takeOver(std::vector<int64_t> tokens, size_t pages, const uint8_t *units,
                       const std::vector<uint64_t> &offsets, Sequence *&sequence) {
  Sequence *made = nullptr;
  ITX_RETURN_IF_ERROR(newSequence(made));
  auto discardUnused = [&](Sequence *unused) { discard(*unused); };
  std::unique_ptr<Sequence, decltype(discardUnused)> guard(made, discardUnused);
  made->pages.reserve(pages);
  ITX_RETURN_IF_ERROR(makeRoom(int64_t(pages), {}));
  made->tokens = std::move(tokens);
  made->slotPage = made->length() / layout_.pageTokens;
  ITX_RETURN_IF_ERROR(memory_->finish(readState(*made, pages, units, offsets)));
  guard.release();
  sequence = made;
  return Status::success();
}

// ---- Hand-over --------------------------------------------------------------------------------------------

Status Cache::send(Sequence &sequence, int socket, double timeoutSeconds) {
  ITX_RETURN_IF_ERROR(requireModule());
  ITX_RETURN_IF_ERROR(checkTimeout(timeoutSeconds, module_->name()));
  // Every rank sends its part, and none may wait for another one meanwhile.
  ITX_RETURN_IF_ERROR(finishLateResults(*module_));
  HandOver handOver;
  {
    std::lock_guard lock(mutex_); // not while bytes are on their way: others decode meanwhile
    if (sequence.isEvicted)
      return error(ITX_EVICTED,
                   "%s: the sequence was evicted, there is nothing to hand over: give its tokens again first", name());
    ITX_RETURN_IF_ERROR(bringBack(sequence, {}));
    HandOverHeader &header = handOver.header;
    std::memcpy(header.magic, handOverMagic, sizeof(handOverMagic));
    header.version = handOverVersion;
    header.states = uint32_t(layout_.states.size());
    std::memcpy(header.model, layout_.model.data(), sizeof(header.model));
    header.tokens = sequence.tokens.size();
    header.pageTokens = uint64_t(layout_.pageTokens);
    handOver.tokens = sequence.tokens;
    for (const StateTensor &state : layout_.states) {
      ITX_RETURN_IF_ERROR(describeState(state, handOver.states.emplace_back()));
      header.payloadBytes += state.unitBytes * handOver.units(handOver.states.back());
    }
    handOver.payload.resize(header.payloadBytes);
    uint8_t *to = handOver.payload.data();
    Status status;
    for (size_t i = 0; i < layout_.states.size(); ++i)
      for (uint64_t unit = 0; unit < handOver.units(handOver.states[i]) && status.ok(); ++unit) {
        status = memory_->read(i, layout_.states[i].paged ? sequence.pages[unit] : sequence.slot, to);
        to += layout_.states[i].unitBytes;
      }
    ITX_RETURN_IF_ERROR(memory_->finish(std::move(status)));
  }
  return sendHandOver(socket, timeoutSeconds, module_->name(), handOver);
}

/// Checks what a part of a sequence says against the layout and the other parts.
static Status checkPart(const HandOver &part, const HandOver &first, const StepLayout &layout, const char *where) {
  if (std::memcmp(part.header.model, layout.model.data(), layout.model.size()) != 0)
    return error(
        ITX_INVALID_ARGUMENT,
        "%s: the other process sends a sequence of another model: compile both artifacts from the same weights", where);
  for (int64_t token : part.tokens)
    if (token < 0 || token >= layout.vocabulary)
      return error(ITX_CORRUPT, "%s: a sequence that was sent has the token %lld, tokens are in [0, %lld)", where,
                   (long long)token, (long long)layout.vocabulary);
  if (part.tokens != first.tokens)
    return error(ITX_INVALID_ARGUMENT,
                 "%s: two ranks send different sequences, of %zu and %zu tokens: let all of them send the same one",
                 where, first.tokens.size(), part.tokens.size());
  return Status::success();
}

Status Cache::receive(const std::vector<int> &sockets, double timeoutSeconds, Sequence *&sequence) {
  ITX_RETURN_IF_ERROR(requireModule());
  ITX_RETURN_IF_ERROR(checkTimeout(timeoutSeconds, module_->name()));
  ITX_RETURN_IF_ERROR(finishLateResults(*module_));
  const char *where = name();
  std::vector<HandOver> parts(sockets.size());
  // The other process may have elements of twice the bytes, and larger pages, and all heads where this rank has some.
  uint64_t most = 4 * bytes_ + (uint64_t(64) << 20);
  uint64_t share = 1;
  for (const StateTensor &state : layout_.states)
    if (state.allHeads > 0 && !state.shape.empty())
      share = std::max(share, uint64_t(state.allHeads / state.shape[0] + 1));
  if (__builtin_mul_overflow(most, share, &most))
    most = UINT64_MAX;
  for (size_t i = 0; i < parts.size(); ++i) {
    ITX_RETURN_IF_ERROR(
        receiveHandOver(sockets[i], timeoutSeconds, module_->name(), {uint64_t(layout_.context), most}, parts[i]));
    ITX_RETURN_IF_ERROR(checkPart(parts[i], parts[0], layout_, where));
  }
  // Converted before the lock is taken: others decode meanwhile.
  size_t pages = size_t(layout_.pagesFor(int64_t(parts[0].tokens.size())));
  std::vector<uint8_t> converted;
  std::vector<uint64_t> places;
  std::vector<HandOverState> own(layout_.states.size());
  for (size_t i = 0; i < own.size(); ++i)
    ITX_RETURN_IF_ERROR(describeState(layout_.states[i], own[i]));
  for (size_t i = 0; i < own.size(); ++i) {
    Conversion conversion;
    ITX_RETURN_IF_ERROR(planConversion(parts, own, i, uint64_t(layout_.pageTokens), where, conversion));
    places.push_back(converted.size());
    size_t units = own[i].paged ? pages : 1;
    converted.resize(converted.size() + units * own[i].unitBytes);
    for (size_t unit = 0; unit < units; ++unit)
      convertUnit(conversion, own[i], uint64_t(layout_.pageTokens), unit,
                  converted.data() + places[i] + unit * own[i].unitBytes);
  }
  {
    std::lock_guard lock(mutex_);
    ITX_RETURN_IF_ERROR(takeOver(std::move(parts[0].tokens), pages, converted.data(), places, sequence));
  }
  Status told;
  for (int socket : sockets)
    if (told.ok())
      told = acknowledgeHandOver(socket, timeoutSeconds, module_->name());
  if (!told.ok()) { // the sender takes it for lost
    freeSequence(*sequence);
    sequence = nullptr;
  }
  return told;
}

} // namespace intarsia::runtime
