//===- WeightsDirectory.h - A directory that models may keep data in ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_WEIGHTSDIRECTORY_H
#define INTARSIA_LIB_SUPPORT_WEIGHTSDIRECTORY_H

#include <string>
#include <utility>

namespace intarsia {

/// A directory that the user names, whose files models may keep data in too (`--weights-dir`): links that they name are
/// followed to files below it. While an object lives, it holds for the models that its thread opens, in whichever phase
/// that is; of several the last one.
class WeightsDirectory {
public:
  explicit WeightsDirectory(std::string path) : path_(std::move(path)), outer_(std::exchange(current_, this)) {}
  ~WeightsDirectory() { current_ = outer_; }
  WeightsDirectory(const WeightsDirectory &) = delete;
  WeightsDirectory &operator=(const WeightsDirectory &) = delete;

  /// Returns the directory of this thread; empty if there is none.
  static std::string current() { return current_ ? current_->path_ : std::string(); }

private:
  std::string path_;
  WeightsDirectory *outer_;
  static inline thread_local WeightsDirectory *current_ = nullptr;
};

} // namespace intarsia

#endif
