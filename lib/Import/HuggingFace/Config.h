//===- Config.h - JSON settings of a model, read with names and limits -------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_HUGGINGFACE_CONFIG_H
#define INTARSIA_IMPORT_HUGGINGFACE_CONFIG_H

#include "lib/Import/Builder/Errors.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace intarsia::importer {

/// Returns true if a directory has a file. Reports a file of which that cannot be told, and a link that leads nowhere.
bool hasFile(llvm::StringRef directory, llvm::StringRef file, Errors &errors);

/// A dimension of a weight as the settings imply it, with the setting it comes from ("" for a fixed one).
struct Extent {
  Extent(int64_t size, llvm::StringRef setting = "") : size(size), setting(setting) {}
  int64_t size;
  llvm::StringRef setting;
};

/// The settings of one JSON file. A null setting counts as absent. Wrong kinds and values are reported.
class Config {
public:
  /// Reads `directory`/`file`; `file` is the name in messages. Reports and returns nothing if it cannot be read.
  static std::optional<Config> read(llvm::StringRef directory, llvm::StringRef file, Errors &errors);
  /// Makes a Config of settings that are not from a JSON file; `file` is the name in messages.
  static Config of(llvm::json::Object settings, llvm::StringRef file, Errors &errors) {
    return Config(std::move(settings), file, errors);
  }

  bool has(llvm::StringRef setting) const { return find(setting) != nullptr; }
  /// Returns true if the setting is present, even as null: null can mean something other than the default.
  bool mentions(llvm::StringRef setting) const;
  /// Returns an integer in [minimum, maximum]; on an error the default.
  int64_t integer(llvm::StringRef setting, int64_t byDefault, int64_t minimum = 1, int64_t maximum = 1 << 28) const;
  /// Returns the one of two spellings of a setting that is present, `usual` if none is. Reports values that differ.
  llvm::StringRef spelling(llvm::StringRef usual, llvm::StringRef other) const;
  /// Returns an integer that is a dimension of weights. `setting` must be a literal.
  Extent extent(llvm::StringRef setting, int64_t byDefault, int64_t minimum = 1) const {
    return Extent(integer(setting, byDefault, minimum), setting);
  }
  /// Returns a list of integers in [minimum, maximum] with at least one; on an error the default.
  std::vector<int64_t> integers(llvm::StringRef setting, llvm::ArrayRef<int64_t> byDefault, int64_t minimum = 1,
                                int64_t maximum = 1 << 28) const;
  /// Returns one integer, or a list of two: [height, width].
  std::pair<int64_t, int64_t> integerPair(llvm::StringRef setting, int64_t byDefault) const;
  /// Returns a number in [minimum, maximum]; on an error the default.
  double number(llvm::StringRef setting, double byDefault, double minimum, double maximum) const;
  /// Returns a list of numbers in [minimum, maximum]; on an error an empty one.
  std::vector<double> numbers(llvm::StringRef setting, double minimum, double maximum) const;
  bool flag(llvm::StringRef setting, bool byDefault) const;
  std::string string(llvm::StringRef setting, llvm::StringRef byDefault) const;
  /// Returns a list of strings, or one string as a list of one.
  llvm::SmallVector<std::string> strings(llvm::StringRef setting) const;
  /// Returns the settings of an object inside this one, if it exists. Messages name it "config.json: rope_scaling".
  std::optional<Config> section(llvm::StringRef setting) const;
  /// Returns the top value, for files that are lists.
  const llvm::json::Value &value() const { return root; }
  const llvm::json::Value *find(llvm::StringRef setting) const;

  /// Reports that the value of a setting is not supported, and lists the supported values.
  void refuse(llvm::StringRef setting, llvm::StringRef value, llvm::ArrayRef<llvm::StringRef> supported) const;
  /// Reports a setting that is true, or present and not empty: a setting that changes results and is not implemented.
  void refuseIfSet(llvm::StringRef setting, llvm::StringRef reason) const;
  /// Reports a setting that stands in two spellings with different values. Null counts as absent.
  void refuseIfDifferent(llvm::StringRef setting, const Config &other, llvm::StringRef otherSetting) const;
  void report(const llvm::Twine &message) const { errors->report(file + ": " + message); }

  Errors &sink() const { return *errors; }
  const std::string &name() const { return file; }

private:
  Config(llvm::json::Value root, llvm::StringRef file, Errors &errors)
      : root(std::move(root)), file(file), errors(&errors) {}

  llvm::json::Value root;
  std::string file;
  Errors *errors;
};

} // namespace intarsia::importer

#endif
