//===- Drafts.cpp - A small model proposes tokens -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Leviathan, Kalman and Matias 2023, "Fast Inference from Transformers via Speculative Decoding" (arXiv 2211.17192):
// the model checks several proposed tokens in one step, and the text has exactly the distribution that it has without
// the small model.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Engine/Engine.h"
#include "lib/Runtime/Engine/StepLogits.h"

#include <algorithm>
#include <limits>

namespace intarsia::runtime {

/// A text with its proposals so far.
struct Engine::Proposal {
  Row *row;
  int64_t limit;   // of proposed tokens
  SeenTokens seen; // with the proposals
  std::vector<int64_t> text;
};

/// Asks which tokens may come after texts and their proposals; those that are complete get no more proposals. Those for
/// which this cannot be found get none, and end where they are asked for again.
void Engine::maskProposals(std::vector<Proposal *> &proposals) {
  std::vector<itx_mask_row> asked;
  std::vector<Proposal *> texts;
  for (Proposal *proposal : proposals) {
    const Sample &sample = *proposal->row->sample;
    if (!sample.request->hasMask)
      continue;
    std::vector<uint32_t> &mask = proposal->row->masks.emplace_back(size_t(model_.layout().vocabulary + 31) / 32, 0);
    size_t prompt = sample.request->prompt.size();
    asked.push_back({sample.request->number, sample.index, 0, proposal->text.data() + prompt,
                     proposal->text.size() - prompt, mask.data()});
    texts.push_back(proposal);
  }
  if (asked.empty())
    return;
  callMask(asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    Row &row = *texts[i]->row;
    if (asked[i].complete < 0) {
      forget(row);
      texts[i]->limit = 0;
    } else if (asked[i].complete > 0) {
      texts[i]->limit = int64_t(row.proposed.size());
      std::fill(row.masks.back().begin(), row.masks.back().end(), 0); // nothing may come
    }
  }
}

/// Takes the proposals of a text back.
void Engine::forget(Row &row) {
  row.sample->random = *row.before;
  row.proposed.clear();
  row.drawnFrom.clear();
  row.masks.clear();
}

/// Appends the tokens of texts that the draft model has not read, and gives the logits after the last ones.
Status Engine::readByDraft(const std::vector<Proposal *> &proposals, Tensor &logits) {
  SequencePool &pool = draft_->pool;
  std::vector<PoolChunk> chunks;
  for (Proposal *proposal : proposals) {
    SequenceNumber number = proposal->row->sample->draft;
    PrefixIndex::Tokens rest = PrefixIndex::Tokens(proposal->text).subspan(size_t(pool.length(number)));
    int64_t part = pool.cache()->prefillTokens(int64_t(rest.size()));
    for (; int64_t(rest.size()) > part; rest = rest.subspan(size_t(part))) {
      StepResults ignored;
      ITX_RETURN_IF_ERROR(stepDraft({{number, rest.first(size_t(part)), 0}}, ignored));
    }
    chunks.push_back({number, rest, 1});
  }
  StepResults results;
  ITX_RETURN_IF_ERROR(stepDraft(chunks, results));
  logits = std::move(results.logits);
  return Status::success();
}

Status Engine::stepDraft(const std::vector<PoolChunk> &chunks, StepResults &results) {
  SequencePool &pool = draft_->pool;
  int64_t pages = 0;
  for (const PoolChunk &chunk : chunks)
    pages += pool.pagesToAppend(chunk.sequence, int64_t(chunk.tokens.size()));
  if (!draft_->prefixes.makeRoom(pages, -1, [](int64_t) { return 0.0; }))
    return error(ITX_CACHE_FULL, "the draft's cache is full");
  if (ranks_ && draftIsOfWorld()) {
    RankMessage message;
    message.kind = RankMessage::Kind::Step;
    message.model = 1;
    for (const PoolChunk &chunk : chunks)
      message.chunks.push_back({chunk.sequence, chunk.outputs, {chunk.tokens.begin(), chunk.tokens.end()}});
    ITX_RETURN_IF_ERROR(tellRanks(std::move(message)));
  }
  return pool.step(chunks, LogitsWanted::OnHost, results);
}

bool Engine::draftIsOfWorld() const {
  const std::shared_ptr<Module> &module = draft_->pool.cache()->module();
  return module && module->world();
}

/// Gives a sample a sequence of the draft's cache; false if there is none.
bool Engine::beginDraft(Sample &sample) {
  if (sample.draft >= 0)
    return true;
  SequencePool &pool = draft_->pool;
  PrefixIndex::Tokens prompt(sample.tokens.data(), sample.tokens.size() - 1);
  PrefixCache::Found found = draft_->prefixes.find(sample.request->salt, prompt);
  SequenceNumber number = -1;
  if (found.from >= 0 && pool.fork(found.from, number).ok() && !pool.truncate(number, found.length).ok())
    pool.release(number);
  if (number < 0 && !pool.create(number).ok() && (!draft_->prefixes.dropOldest(-1) || !pool.create(number).ok()))
    return false;
  sample.draft = number;
  draft_->prefixes.addRunning(number, sample.request->salt, sample.tokens);
  return true;
}

void Engine::propose(Step &step) {
  std::vector<Proposal> all;
  if (!draft_)
    return;
  for (Row &row : step.rows) {
    Sample &sample = *row.sample;
    const Request &request = *sample.request;
    if (row.isPrompt || request.draftTokens == 0 || !beginDraft(sample))
      continue;
    auto length = int64_t(sample.tokens.size());
    const StepLayout &draft = draft_->layout();
    // A draft whose vocabulary is padded to fewer tokens cannot read those that it lacks.
    if (std::any_of(sample.tokens.begin() + draft_->pool.length(sample.draft), sample.tokens.end(),
                    [&](int64_t token) { return token >= draft.vocabulary; }))
      continue;
    int64_t limit = std::min({request.draftTokens, request.maxTokens - sample.generated() - 1,
                              model_.layout().context - length, draft.context - length + 1});
    row.before = sample.random;
    if (limit > 0)
      all.push_back({&row, limit, sample.seen, sample.tokens});
  }
  std::vector<Proposal *> going;
  for (Proposal &proposal : all)
    going.push_back(&proposal);
  maskProposals(going);
  Status status;
  auto erase = [&] {
    std::erase_if(going, [](Proposal *proposal) { return int64_t(proposal->row->proposed.size()) >= proposal->limit; });
  };
  erase();
  while (status.ok() && !going.empty()) {
    Tensor logits;
    status = readByDraft(going, logits);
    for (size_t i = 0; i < going.size() && status.ok(); ++i)
      status = addProposal(*going[i],
                           static_cast<const float *>(logits.data.get()) + int64_t(i) * draft_->layout().vocabulary);
    if (status.ok())
      maskProposals(going);
    erase();
  }
  // Without a draft texts go on more slowly.
  for (Proposal &proposal : all) {
    Row &row = *proposal.row;
    if (!status.ok())
      forget(row);
    row.outputs += int64_t(row.proposed.size());
    counters_.draftTokens += int64_t(row.proposed.size());
  }
}

Status Engine::addProposal(Proposal &proposal, const float *logits) {
  Row &row = *proposal.row;
  Sample &sample = *row.sample;
  const Request &request = *sample.request;
  // The draft's vocabulary may be padded to another size than the model's.
  int64_t vocabulary = model_.layout().vocabulary, own = draft_->layout().vocabulary;
  std::vector<float> padded;
  if (own < vocabulary) {
    padded.assign(logits, logits + own);
    padded.resize(size_t(vocabulary), -std::numeric_limits<float>::infinity());
    logits = padded.data();
  }
  std::vector<uint32_t> memory;
  const uint32_t *bits = allowed(sample, request.hasMask ? &row.masks.back() : nullptr, memory);
  std::vector<double> &probabilities = row.drawnFrom.emplace_back();
  ITX_RETURN_IF_ERROR(request.rules.probabilities(logits, vocabulary, proposal.seen, bits, probabilities));
  int64_t token = drawToken(probabilities, sample.random.next());
  row.proposed.push_back(token);
  proposal.text.push_back(token);
  if (request.rules.penalises())
    ++proposal.seen.counts[token];
  if (std::find(request.stopTokens.begin(), request.stopTokens.end(), token) != request.stopTokens.end())
    proposal.limit = int64_t(row.proposed.size());
  return Status::success();
}

/// Appends the proposed tokens that stay, and one of the model's own: algorithm 1 of the paper. A proposed token stays
/// with the probability min(1, model / draft); else another one is drawn from max(0, model - draft).
Status Engine::judge(Row &row, StepLogits &logits, int64_t first) {
  Sample &sample = *row.sample;
  const Request &request = *sample.request;
  bool goesOn = true, agrees = true;
  for (size_t i = 0; i < row.proposed.size() && goesOn && agrees; ++i) {
    const float *values = nullptr;
    ITX_RETURN_IF_ERROR(logits.row(first + int64_t(i), values));
    std::vector<uint32_t> memory;
    const uint32_t *bits = allowed(sample, request.hasMask ? &row.masks[i] : nullptr, memory);
    std::vector<double> model;
    ITX_RETURN_IF_ERROR(request.rules.probabilities(values, logits.vocabulary(), sample.seen, bits, model));
    const std::vector<double> &draft = row.drawnFrom[i];
    int64_t token = row.proposed[i];
    agrees = sample.random.next() * draft[size_t(token)] < model[size_t(token)];
    if (agrees) {
      ++counters_.acceptedTokens;
    } else {
      std::vector<double> rest(model.size());
      bool hasRest = false;
      for (size_t k = 0; k < rest.size(); ++k) {
        rest[k] = std::max(model[k] - draft[k], 0.0);
        hasRest |= rest[k] > 0;
      }
      // If both are equal except for rounding, nothing may be left.
      token = drawToken(hasRest ? rest : model, sample.random.next());
    }
    ITX_RETURN_IF_ERROR(append(sample, token, logits, first + int64_t(i), goesOn));
  }
  if (goesOn && agrees) {
    const std::vector<uint32_t> *mask = request.hasMask ? &row.masks.back() : nullptr;
    // The text may be complete after the last proposal.
    if (mask && std::all_of(mask->begin(), mask->end(), [](uint32_t word) { return word == 0; })) {
      finish(sample, ITX_FINISH_END);
      return Status::success();
    }
    ITX_RETURN_IF_ERROR(take(sample, logits, first + row.outputs - 1, mask, goesOn));
  }
  if (sample.isFinished)
    return Status::success();
  // Tokens that were refused are no part of the text: the last one is not read yet.
  int64_t known = int64_t(sample.tokens.size()) - 1;
  ITX_RETURN_IF_ERROR(model_.pool.truncate(sample.sequence, known));
  return draft_->pool.truncate(sample.draft, known);
}

} // namespace intarsia::runtime
