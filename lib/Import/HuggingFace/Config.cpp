//===- Config.cpp - JSON settings of a model, read with names and limits -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/Config.h"

#include "lib/Support/FileVersions.h"
#include "lib/Support/Nesting.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace intarsia::importer {

bool hasFile(llvm::StringRef directory, llvm::StringRef file, Errors &errors) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, file);
  std::error_code code = llvm::sys::fs::access(path, llvm::sys::fs::AccessMode::Exist);
  if (!code)
    return true;
  if (code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory)
    errors.report(path + ": cannot be read: " + code.message());
  else if (llvm::sys::fs::is_symlink_file(path))
    errors.report(path + ": is a link to a file that is not there; is the download complete?");
  return false;
}

std::optional<Config> Config::read(llvm::StringRef directory, llvm::StringRef file, Errors &errors) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, file);
  // Reading a pipe among the files of a model could wait for ever.
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path)) {
    errors.report(path + ": is not a regular file");
    return std::nullopt;
  }
  FileVersions::note(path.str().str());
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer) {
    errors.report(path + ": cannot be read: " + buffer.getError().message());
    return std::nullopt;
  }
  llvm::StringRef text = (*buffer)->getBuffer();
  if (deeperJson(text)) {
    errors.report(file + ": is not a settings file: nested deeper than " + llvm::Twine(deepestJson) + " levels");
    return std::nullopt;
  }
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed) {
    errors.report(file + ": is not valid JSON: " + llvm::toString(parsed.takeError()));
    return std::nullopt;
  }
  return Config(std::move(*parsed), file, errors);
}

const llvm::json::Value *Config::find(llvm::StringRef setting) const {
  const llvm::json::Object *object = root.getAsObject();
  if (!object)
    return nullptr;
  const llvm::json::Value *value = object->get(setting);
  return value && value->kind() != llvm::json::Value::Null ? value : nullptr;
}

bool Config::mentions(llvm::StringRef setting) const {
  const llvm::json::Object *object = root.getAsObject();
  return object && object->get(setting);
}

std::optional<Config> Config::section(llvm::StringRef setting) const {
  const llvm::json::Value *value = find(setting);
  if (!value)
    return std::nullopt;
  if (!value->getAsObject()) {
    report(setting + " is not an object");
    return std::nullopt;
  }
  return Config(*value, file + ": " + setting.str(), *errors);
}

static std::string text(const llvm::json::Value &value) {
  std::string result;
  llvm::raw_string_ostream(result) << value;
  constexpr size_t longest = 60;
  if (result.size() > longest)
    result = result.substr(0, longest) + "…";
  return result;
}

int64_t Config::integer(llvm::StringRef setting, int64_t byDefault, int64_t minimum, int64_t maximum) const {
  const llvm::json::Value *value = find(setting);
  if (!value)
    return byDefault;
  std::optional<int64_t> integer = value->getAsInteger();
  if (!integer || *integer < minimum || *integer > maximum) {
    report(setting + " is " + text(*value) + ", expected an integer from " + llvm::Twine(minimum) + " to " +
           llvm::Twine(maximum));
    return byDefault;
  }
  return *integer;
}

std::vector<int64_t> Config::integers(llvm::StringRef setting, llvm::ArrayRef<int64_t> byDefault, int64_t minimum,
                                      int64_t maximum) const {
  const llvm::json::Value *value = find(setting);
  if (!value)
    return byDefault;
  std::vector<int64_t> result;
  const llvm::json::Array *array = value->getAsArray();
  if (array)
    for (const llvm::json::Value &item : *array)
      if (std::optional<int64_t> integer = item.getAsInteger(); integer && *integer >= minimum && *integer <= maximum)
        result.push_back(*integer);
  if (array && !array->empty() && result.size() == array->size())
    return result;
  report(setting + " is " + text(*value) + ", expected a list of integers from " + llvm::Twine(minimum) + " to " +
         llvm::Twine(maximum));
  return byDefault;
}

std::pair<int64_t, int64_t> Config::integerPair(llvm::StringRef setting, int64_t byDefault) const {
  const llvm::json::Value *value = find(setting);
  const llvm::json::Array *array = value ? value->getAsArray() : nullptr;
  if (!array) {
    int64_t both = integer(setting, byDefault, 1, 1 << 16);
    return {both, both};
  }
  if (array->size() == 2) {
    std::optional<int64_t> first = (*array)[0].getAsInteger(), second = (*array)[1].getAsInteger();
    if (first && second && *first > 0 && *second > 0 && *first <= 1 << 16 && *second <= 1 << 16)
      return {*first, *second};
  }
  report(setting + " is " + text(*value) + ", expected an integer or a list of two integers from 1 to 65536");
  return {byDefault, byDefault};
}

double Config::number(llvm::StringRef setting, double byDefault, double minimum, double maximum) const {
  const llvm::json::Value *value = find(setting);
  if (!value)
    return byDefault;
  if (std::optional<double> number = value->getAsNumber(); number && *number >= minimum && *number <= maximum)
    return *number;
  std::string range;
  llvm::raw_string_ostream(range) << llvm::format("%g to %g", minimum, maximum);
  report(setting + " is " + text(*value) + ", expected a number from " + range);
  return byDefault;
}

std::vector<double> Config::numbers(llvm::StringRef setting, double minimum, double maximum) const {
  const llvm::json::Value *value = find(setting);
  const llvm::json::Array *array = value ? value->getAsArray() : nullptr;
  std::vector<double> result;
  if (array)
    for (const llvm::json::Value &item : *array)
      if (std::optional<double> number = item.getAsNumber(); number && *number >= minimum && *number <= maximum)
        result.push_back(*number);
  if (array && result.size() == array->size())
    return result;
  std::string range;
  llvm::raw_string_ostream(range) << llvm::format("%g to %g", minimum, maximum);
  report(setting + (value ? " is " + text(*value) : " is not there") + ", expected a list of numbers from " + range);
  return {};
}

bool Config::flag(llvm::StringRef setting, bool byDefault) const {
  const llvm::json::Value *value = find(setting);
  if (!value)
    return byDefault;
  if (std::optional<bool> flag = value->getAsBoolean())
    return *flag;
  report(setting + " is " + text(*value) + ", expected true or false");
  return byDefault;
}

std::string Config::string(llvm::StringRef setting, llvm::StringRef byDefault) const {
  const llvm::json::Value *value = find(setting);
  if (!value)
    return byDefault.str();
  if (std::optional<llvm::StringRef> string = value->getAsString())
    return string->str();
  report(setting + " is " + text(*value) + ", expected a string");
  return byDefault.str();
}

llvm::SmallVector<std::string> Config::strings(llvm::StringRef setting) const {
  llvm::SmallVector<std::string> result;
  const llvm::json::Value *value = find(setting);
  if (!value)
    return result;
  if (std::optional<llvm::StringRef> one = value->getAsString()) {
    result.push_back(one->str());
    return result;
  }
  if (const llvm::json::Array *array = value->getAsArray()) {
    for (const llvm::json::Value &item : *array) {
      std::optional<llvm::StringRef> string = item.getAsString();
      if (!string)
        break;
      result.push_back(string->str());
    }
    if (result.size() == array->size())
      return result;
  }
  report(setting + " is " + text(*value) + ", expected a list of strings");
  return {};
}

void Config::refuse(llvm::StringRef setting, llvm::StringRef value, llvm::ArrayRef<llvm::StringRef> supported) const {
  report(setting + " '" + value + "' is not supported; supported: " + llvm::join(supported, ", "));
}

void Config::refuseIfSet(llvm::StringRef setting, llvm::StringRef reason) const {
  const llvm::json::Value *value = find(setting);
  if (!value)
    return;
  if (std::optional<bool> flag = value->getAsBoolean(); flag && !*flag)
    return;
  if (const llvm::json::Object *object = value->getAsObject(); object && object->empty())
    return;
  if (const llvm::json::Array *array = value->getAsArray(); array && array->empty())
    return;
  report(setting + " " + text(*value) + " is not supported: " + reason);
}

void Config::refuseIfDifferent(llvm::StringRef setting, const Config &other, llvm::StringRef otherSetting) const {
  const llvm::json::Value *first = find(setting), *second = other.find(otherSetting);
  if (first && second && *first != *second)
    report(setting + " is " + text(*first) + ", but " + other.name() + ": " + otherSetting + " is " + text(*second) +
           ": these are two spellings of one setting; remove the one that is wrong");
}

llvm::StringRef Config::spelling(llvm::StringRef usual, llvm::StringRef other) const {
  refuseIfDifferent(usual, *this, other);
  return has(usual) || !has(other) ? usual : other;
}

} // namespace intarsia::importer
