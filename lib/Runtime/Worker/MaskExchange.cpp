//===- MaskExchange.cpp - The engine's questions for masks, answered by the front end
//------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Worker/MaskExchange.h"

#include <algorithm>
#include <chrono>

namespace intarsia::runtime {

int32_t MaskExchange::answerRows(void *exchange, itx_mask_row *rows, size_t count) {
  return static_cast<MaskExchange *>(exchange)->ask(rows, count);
}

void MaskExchange::connect(int64_t vocabulary) {
  std::lock_guard lock(mutex_);
  words_ = size_t((vocabulary + 31) / 32);
  isConnected_ = true;
  isOverdue_ = false;
  texts_.clear();
}

void MaskExchange::disconnect() {
  std::lock_guard lock(mutex_);
  isConnected_ = false;
  if (state_ == Question::Waits)
    state_ = Question::Failed;
  answered_.notify_all();
}

std::string MaskExchange::takeQuestion() {
  std::lock_guard lock(mutex_);
  return std::exchange(message_, {});
}

bool MaskExchange::isOverdue() {
  std::lock_guard lock(mutex_);
  return isOverdue_;
}

void MaskExchange::forget(uint64_t request, int32_t sample) {
  std::lock_guard lock(mutex_);
  texts_.erase({request, sample});
}

/// Returns the message that asks about rows. Only what has changed of a text is sent: texts grow by a token a step.
std::string MaskExchange::writeQuestion(const itx_mask_row *rows, size_t count) {
  AskMasks message;
  message.round = round_;
  message.rows.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const itx_mask_row &row = rows[i];
    std::vector<int64_t> &known = texts_[{row.request, row.sample}];
    const int64_t *end = row.tokens + row.token_count;
    size_t kept = size_t(std::mismatch(row.tokens, end, known.begin(), known.end()).first - row.tokens);
    known.resize(kept);
    known.insert(known.end(), row.tokens + kept, end);
    message.rows[i] = {row.request, row.sample, uint32_t(kept), {row.tokens + kept, end}};
  }
  return writeMessage(message);
}

int32_t MaskExchange::ask(itx_mask_row *rows, size_t count) {
  std::unique_lock lock(mutex_);
  if (!isConnected_)
    return 1;
  ++round_;
  message_ = writeQuestion(rows, count);
  state_ = Question::Waits;
  rows_ = rows;
  count_ = count;
  wake_();
  if (!answered_.wait_for(lock, std::chrono::duration<double>(seconds_), [&] { return state_ != Question::Waits; })) {
    isOverdue_ = true;
    isConnected_ = false;
    wake_();
  }
  message_.clear();
  return std::exchange(state_, Question::None) == Question::Answered ? 0 : 1;
}

Status MaskExchange::answer(const Masks &masks) {
  std::lock_guard lock(mutex_);
  if (state_ != Question::Waits || masks.round != round_)
    return error(ITX_CORRUPT, "masks of round %llu, which nobody waits for",
                 static_cast<unsigned long long>(masks.round));
  if (masks.complete.size() != count_ || masks.bits.size() != count_ * words_)
    return error(ITX_CORRUPT, "masks have %zu rows and %zu words of bits; %zu rows of %zu words each were asked for",
                 masks.complete.size(), masks.bits.size(), count_, words_);
  for (size_t i = 0; i < count_; ++i) {
    rows_[i].complete = masks.complete[i];
    std::copy_n(masks.bits.begin() + long(i * words_), words_, rows_[i].bits);
  }
  state_ = Question::Answered;
  answered_.notify_all();
  return Status::success();
}

} // namespace intarsia::runtime
