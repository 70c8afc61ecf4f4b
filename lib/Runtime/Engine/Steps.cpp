//===- Steps.cpp - What a step computes, and what comes of it -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Call.h"
#include "lib/Runtime/Core/Copies.h"
#include "lib/Runtime/Engine/Engine.h"
#include "lib/Runtime/Engine/StepLogits.h"

#include <algorithm>

namespace intarsia::runtime {

/// Prompts get at least so many tokens of a step, however long the step takes: else they would never end.
static constexpr int64_t leastPromptTokens = 16;
/// Tokens of a prompt in a step that gives the probabilities of all of them: each has logits of the whole vocabulary.
static constexpr int64_t mostScored = 128;

// ---- Composing --------------------------------------------------------------------------------------------

bool Engine::startStep() {
  auto step = std::make_unique<Step>();
  compose(*step);
  if (step->rows.empty())
    return false;
  propose(*step);
  if (!fit(*step) || !findMasks(*step))
    return false;
  step->number = ++steps_;
  const Cache &cache = *model_.pool.cache();
  itx_cache_info info = cache.info();
  bool wantsLogits = false, wantsAll = false;
  for (const Row &row : step->rows) {
    wantsLogits |= row.outputs > 0;
    wantsAll |= row.outputs > 0 && needsAllLogits(row);
  }
  if (wantsLogits && info.stages > 1 && info.candidates == 0)
    step->wanted = LogitsWanted::Later;
  else if (wantsLogits && info.candidates > 0 && !wantsAll)
    step->wanted = LogitsWanted::OnDevice;

  std::vector<PoolChunk> chunks;
  std::vector<std::vector<int64_t>> joined(step->rows.size()); // tokens of texts and proposals
  for (size_t i = 0; i < step->rows.size(); ++i) {
    Row &row = step->rows[i];
    PrefixIndex::Tokens tokens(row.sample->tokens.data() + row.begin, size_t(row.count));
    if (!row.proposed.empty()) {
      joined[i].assign(tokens.begin(), tokens.end());
      joined[i].insert(joined[i].end(), row.proposed.begin(), row.proposed.end());
      tokens = joined[i];
    }
    chunks.push_back({row.sample->sequence, tokens, row.outputs});
    if (row.isPrompt)
      step->promptTokens += row.count;
    else
      ++step->singles;
  }
  Status status;
  if (ranks_) {
    RankMessage message;
    message.kind = RankMessage::Kind::Step;
    message.wanted = step->wanted;
    for (const PoolChunk &chunk : chunks)
      message.chunks.push_back({chunk.sequence, chunk.outputs, {chunk.tokens.begin(), chunk.tokens.end()}});
    message.events = news_;
    status = tellRanks(std::move(message));
    deliver(news_);
  }
  step->started = Clock::now();
  if (status.ok())
    status = model_.pool.step(chunks, step->wanted, step->results);
  step->seconds = std::chrono::duration<double>(Clock::now() - step->started).count();
  stepSeconds_ += step->seconds;
  if (!status.ok()) {
    failStep(*step, status);
    return true;
  }
  if (step->wanted == LogitsWanted::Later) {
    for (Row &row : step->rows) {
      row.sample->awaitsLogits |= row.outputs > 0;
      ++row.sample->steps;
    }
    inFlight_.push_back(std::move(step));
  } else {
    finishStep(*step);
  }
  return true;
}

bool Engine::needsAllLogits(const Row &row) const {
  const Request &request = *row.sample->request;
  return request.rules.needsAllLogits() || request.hasMask || request.logprobs > 1 || request.promptLogprobs > 0 ||
         row.outputs > 1 || row.sample->generated() < request.minTokens;
}

void Engine::compose(Step &step) {
  itx_cache_info info = model_.pool.cache()->info();
  int64_t rest = 0, singles = 0;
  std::vector<Sample *> prompts;
  for (Sample *sample : running_) {
    int64_t missing = int64_t(sample->tokens.size()) - model_.pool.length(sample->sequence);
    // A model with state of its own for each sequence may have gone back to the beginning of a page.
    bool isSingle = sample->generated() > 0 && missing <= info.page_tokens && missing >= 1;
    singles += isSingle;
    if (sample->awaitsLogits)
      continue;
    if (isSingle)
      step.rows.push_back({sample, int64_t(sample->tokens.size()) - missing, missing, 1, false});
    else if (missing > 0) {
      prompts.push_back(sample);
      rest += missing;
    }
  }
  // Stages of a pipeline compute steps of different samples at the same time.
  if (info.stages > 1) {
    auto most = size_t((singles + info.stages - 1) / info.stages);
    if (step.rows.size() > most)
      step.rows.resize(most);
  }
  if (rest == 0)
    return;
  int64_t most = options_.stepTokens;
  if (most == 0) {
    most = model_.pool.cache()->prefillTokens(rest);
    // A stream waits once for the prompts of a step: half as often for prompts that come together and go two by two,
    // which takes them no longer. The parts of a single prompt stay small, so that who comes next waits less.
    if (prompts.size() > 1 && info.stages < 2)
      most *= 2;
  }
  int64_t budget = times_.promptTokens(int64_t(step.rows.size()), options_.tokenSeconds, leastPromptTokens, most);
  for (Sample *sample : prompts) {
    if (budget <= 0)
      break;
    const Request &request = *sample->request;
    auto length = int64_t(sample->tokens.size()), begin = model_.pool.length(sample->sequence);
    int64_t count = std::min(budget, length - begin), outputs = 0;
    if (request.promptLogprobs > 0 && sample->scored < int64_t(request.prompt.size())) {
      count = std::min(count, mostScored);
      outputs = count;
    } else if (begin + count == length) {
      outputs = request.maxTokens > 0 ? 1 : 0;
    }
    step.rows.push_back({sample, begin, count, outputs, true});
    budget -= count;
  }
}

/// Makes room for the tokens of a step, at the cost of the samples that are served last.
bool Engine::fit(Step &step) {
  while (!step.rows.empty()) {
    int64_t pages = 0;
    for (const Row &row : step.rows)
      pages += model_.pool.pagesToAppend(row.sample->sequence, row.count + int64_t(row.proposed.size()));
    if (makeRoom(pages))
      return true;
    auto last =
        std::find_if(running_.rbegin(), running_.rend(), [](const Sample *sample) { return sample->steps == 0; });
    if (last == running_.rend())
      return false; // when the steps that are under way have ended
    Sample &sample = **last;
    std::erase_if(step.rows, [&](const Row &row) {
      if (row.sample == &sample && row.before)
        sample.random = *row.before;
      return row.sample == &sample;
    });
    if (running_.size() > 1)
      preempt(sample);
    else // what it needs is less than all pages: a user of the cache has the others
      fail(sample,
           error(ITX_CACHE_FULL,
                 "the cache is full: %lld more pages are needed, and sequences that are not the engine's have them",
                 (long long)(pages - model_.pool.cache()->freePages())));
  }
  return false;
}

static Status maskError() { return error(ITX_INVALID_ARGUMENT, "the tokens that may come next cannot be found"); }

/// Asks for masks of rows. Of those for which there is none, `complete` is below 0.
void Engine::callMask(std::vector<itx_mask_row> &rows) {
  if (options_.mask(options_.maskUser, rows.data(), rows.size()) != 0)
    for (itx_mask_row &row : rows)
      row.complete = -1;
}

/// Asks if a text is complete that has as many tokens as it may have.
Status Engine::asksIfComplete(Sample &sample, bool &isComplete) {
  isComplete = false;
  if (!sample.request->hasMask)
    return Status::success();
  sample.mask.assign(size_t(model_.layout().vocabulary + 31) / 32, 0);
  std::vector<itx_mask_row> rows = {{sample.request->number, sample.index, 0,
                                     sample.tokens.data() + sample.request->prompt.size(), size_t(sample.generated()),
                                     sample.mask.data()}};
  callMask(rows);
  isComplete = rows[0].complete > 0;
  return rows[0].complete < 0 ? maskError() : Status::success();
}

/// Asks which tokens may come next, and ends texts that are complete.
bool Engine::findMasks(Step &step) {
  std::vector<itx_mask_row> asked;
  std::vector<Sample *> samples;
  for (Row &row : step.rows) {
    Sample &sample = *row.sample;
    if (!sample.request->hasMask || row.outputs == 0 || !row.masks.empty())
      continue;
    sample.mask.assign(size_t(model_.layout().vocabulary + 31) / 32, 0);
    asked.push_back({sample.request->number, sample.index, 0, sample.tokens.data() + sample.request->prompt.size(),
                     size_t(sample.generated()), sample.mask.data()});
    samples.push_back(&sample);
  }
  if (asked.empty())
    return true;
  callMask(asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].complete == 0)
      continue;
    std::erase_if(step.rows, [&](const Row &row) { return row.sample == samples[i]; });
    if (asked[i].complete > 0)
      finish(*samples[i], ITX_FINISH_END);
    else
      fail(*samples[i], maskError());
  }
  return !step.rows.empty();
}

// ---- Results ----------------------------------------------------------------------------------------------

void Engine::failStep(Step &step, const Status &status) {
  if (status.code() == ITX_RANK_LOST) {
    {
      std::lock_guard lock(mutex_);
      failure_ = status;
    }
    endAll(ITX_FINISH_FAILED, status);
    return;
  }
  for (Row &row : step.rows)
    fail(*row.sample, status);
}

void Engine::finishStep(Step &step) {
  Status status;
  if (step.wanted == LogitsWanted::Later) {
    if (ranks_) {
      RankMessage message;
      message.kind = RankMessage::Kind::Wait;
      message.events = news_;
      status = tellRanks(std::move(message));
      deliver(news_);
    }
    if (status.ok())
      status = finishLateResults(*model_.pool.cache()->module(), step.results.call);
    step.seconds = std::chrono::duration<double>(Clock::now() - step.started).count();
  }
  times_.observe(step.singles, step.promptTokens, step.seconds);
  for (Row &row : step.rows) {
    if (step.wanted == LogitsWanted::Later) {
      if (--row.sample->steps == 0)
        if (auto end = ends_.extract(row.sample))
          news_.push_back(std::move(end.mapped()));
      if (row.outputs > 0)
        row.sample->awaitsLogits = false;
    }
    waiting_.serve(row.sample->request->key, row.isPrompt ? row.count : 0, 0);
  }
  StepLogits logits(model_.pool.cache(), step.results.logits);
  if (status.ok() && step.wanted == LogitsWanted::OnDevice) {
    std::vector<float> temperatures;
    for (const Row &row : step.rows)
      temperatures.insert(temperatures.end(), size_t(row.outputs), float(row.sample->request->rules.divisor()));
    status = logits.findCandidates(temperatures);
  }
  if (!status.ok()) {
    failStep(step, status);
    return;
  }
  int64_t first = 0;
  for (Row &row : step.rows) {
    Sample &sample = *row.sample;
    if (!sample.isFinished) {
      status = takeRow(row, logits, first);
      if (!status.ok())
        fail(sample, status);
    }
    first += row.outputs;
  }
}

Status Engine::takeRow(Row &row, StepLogits &logits, int64_t first) {
  Sample &sample = *row.sample;
  const Request &request = *sample.request;
  auto prompt = int64_t(request.prompt.size());
  if (row.isPrompt && request.promptLogprobs > 0 && sample.scored < prompt)
    ITX_RETURN_IF_ERROR(takePrompt(row, logits, first));
  if (row.begin + row.count < int64_t(sample.tokens.size()))
    return Status::success(); // more of the prompt is to come
  if (request.maxTokens == 0) {
    finish(sample, ITX_FINISH_LENGTH);
    return Status::success();
  }
  if (!row.proposed.empty() || !row.masks.empty())
    return judge(row, logits, first);
  bool goesOn = false;
  return take(sample, logits, first + row.outputs - 1, sample.request->hasMask ? &sample.mask : nullptr, goesOn);
}

/// Fills the probabilities of a token, and of the likeliest ones, into an event.
static Status addLogprobs(StepLogits &logits, int64_t row, int64_t token, int32_t wanted, StoredEvent &stored) {
  if (wanted <= 0)
    return Status::success();
  std::optional<double> known = wanted == 1 ? logits.logprobOf(row, token) : std::nullopt;
  if (known) {
    stored.event.logprob = float(*known);
    return Status::success();
  }
  const float *values = nullptr;
  ITX_RETURN_IF_ERROR(logits.row(row, values));
  LogProbabilities all(values, logits.vocabulary());
  stored.event.logprob = float(all.of(token));
  if (wanted > 1)
    for (const Scored &scored : all.likeliest(wanted - 1))
      stored.top.push_back({scored.token, float(scored.score)});
  return Status::success();
}

Status Engine::takePrompt(Row &row, StepLogits &logits, int64_t first) {
  Sample &sample = *row.sample;
  const std::vector<int64_t> &prompt = sample.request->prompt;
  for (int64_t i = 0; i < row.outputs; ++i) {
    int64_t next = row.begin + i + 1;
    if (next != sample.scored || next >= int64_t(prompt.size()))
      continue;
    StoredEvent stored = eventOf(sample, ITX_EVENT_PROMPT_TOKEN, prompt[next]);
    ITX_RETURN_IF_ERROR(addLogprobs(logits, first + i, prompt[next], sample.request->promptLogprobs, stored));
    ++sample.scored;
    news_.push_back(std::move(stored));
  }
  return Status::success();
}

const uint32_t *Engine::allowed(const Sample &sample, const std::vector<uint32_t> *mask,
                                std::vector<uint32_t> &memory) const {
  if (sample.generated() >= sample.request->minTokens || sample.request->stopTokens.empty())
    return mask ? mask->data() : nullptr;
  if (mask)
    memory = *mask;
  else
    memory.assign(size_t(model_.layout().vocabulary + 31) / 32, ~uint32_t(0));
  for (int64_t token : sample.request->stopTokens)
    memory[size_t(token / 32)] &= ~(uint32_t(1) << (token % 32));
  // Where only such a token may come, the text ends earlier.
  bool isEmpty = std::all_of(memory.begin(), memory.end(), [](uint32_t word) { return word == 0; });
  return mask && isEmpty ? mask->data() : memory.data();
}

Status Engine::take(Sample &sample, StepLogits &logits, int64_t row, const std::vector<uint32_t> *mask, bool &goesOn) {
  const SamplingRules &rules = sample.request->rules;
  double number = rules.temperature != 0 ? sample.random.next() : 0;
  std::vector<uint32_t> memory;
  const uint32_t *bits = allowed(sample, mask, memory);
  std::optional<int64_t> token;
  if (const Likeliest *likeliest = logits.likeliest(row); likeliest && !rules.needsAllLogits() && !bits)
    token = rules.chooseCandidate(*likeliest, number);
  if (!token) {
    const float *values = nullptr;
    ITX_RETURN_IF_ERROR(logits.row(row, values));
    token = 0;
    ITX_RETURN_IF_ERROR(rules.choose(values, logits.vocabulary(), sample.seen, bits, number, *token));
  }
  return append(sample, *token, logits, row, goesOn);
}

Status Engine::append(Sample &sample, int64_t token, StepLogits &logits, int64_t row, bool &goesOn) {
  const Request &request = *sample.request;
  goesOn = false;
  if (sample.first == Clock::time_point())
    sample.first = Clock::now();
  if (std::find(request.stopTokens.begin(), request.stopTokens.end(), token) != request.stopTokens.end()) {
    finish(sample, ITX_FINISH_END, token);
    return Status::success();
  }
  sample.tokens.push_back(token);
  if (request.rules.penalises())
    ++sample.seen.counts[token];
  ++counters_.generatedTokens;
  waiting_.serve(request.key, 0, 1);
  StoredEvent stored = eventOf(sample, ITX_EVENT_TOKEN, token);
  ITX_RETURN_IF_ERROR(addLogprobs(logits, row, token, request.logprobs, stored));
  news_.push_back(std::move(stored));
  // The last token that the context has room for is read, and one more is chosen after it.
  goesOn = sample.generated() < request.maxTokens;
  if (goesOn)
    return Status::success();
  bool isComplete = false;
  ITX_RETURN_IF_ERROR(asksIfComplete(sample, isComplete));
  finish(sample, isComplete ? ITX_FINISH_END : ITX_FINISH_LENGTH);
  return Status::success();
}

} // namespace intarsia::runtime
