//===- MaskExchange.h - The engine's questions for masks, answered by the front end
//--------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_WORKER_MASKEXCHANGE_H
#define INTARSIA_RUNTIME_WORKER_MASKEXCHANGE_H

#include "lib/Runtime/Worker/Messages.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

namespace intarsia::runtime {

/// Hands questions from the engine's thread to the thread that holds the connection, and answers back.
class MaskExchange {
public:
  /// `seconds`: how long the engine waits for an answer before the front end counts as gone.
  explicit MaskExchange(double seconds) : seconds_(seconds) {}

  /// The engine's mask callback (itx_mask_function); `exchange` is a MaskExchange.
  static int32_t answerRows(void *exchange, itx_mask_row *rows, size_t count);

  /// Sets what is called on the engine's thread when there is something to take.
  void onQuestion(std::function<void()> wake) { wake_ = std::move(wake); }
  /// A front end is there, for a vocabulary of so many tokens.
  void connect(int64_t vocabulary);
  /// It is gone: questions fail until the next one comes.
  void disconnect();
  /// Returns the message that asks, once; empty if there is none.
  std::string takeQuestion();
  /// Returns whether the front end did not answer in time.
  bool isOverdue();
  /// Gives an answer to the engine. ITX_CORRUPT if it does not fit the question.
  Status answer(const Masks &masks);
  /// Forgets the text of a sample that has ended.
  void forget(uint64_t request, int32_t sample);

private:
  enum class Question { None, Waits, Answered, Failed };

  int32_t ask(itx_mask_row *rows, size_t count);
  std::string writeQuestion(const itx_mask_row *rows, size_t count);

  double seconds_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable answered_;
  bool isConnected_ = false;
  bool isOverdue_ = false;
  size_t words_ = 0; ///< of a row of bits
  uint64_t round_ = 0;
  Question state_ = Question::None;
  itx_mask_row *rows_ = nullptr; ///< of a question that waits
  size_t count_ = 0;
  std::string message_; ///< that asks it, unless it was taken
  /// Text of each sample as the front end knows it.
  std::map<std::pair<uint64_t, int32_t>, std::vector<int64_t>> texts_;
};

} // namespace intarsia::runtime

#endif
