//===- Json.cpp - JSON from outside, without exceptions -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Json.h"

#include "lib/Support/Nesting.h"

#include <set>

namespace intarsia {

namespace {

class Counter : public JsonEvents {
public:
  uint64_t values = 0, keys = 0;

  bool scalar() override { return ++values != 0; }
  bool start_object(std::size_t) override { return ++values != 0; }
  bool start_array(std::size_t) override { return ++values != 0; }
  bool key(string_t &) override { return ++keys != 0; }
};

/// Finds a key that an object has twice. This takes memory for each key, so it runs only if there is such a key.
class DuplicateKey : public JsonEvents {
public:
  std::string found;

  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t &key) override {
    bool isNew = open_.back().insert(key).second;
    if (!isNew)
      found = key;
    return isNew;
  }

private:
  std::vector<std::set<std::string>> open_;
};

/// Returns the number of keys of all objects in a value; its depth is limited.
uint64_t keysOf(const Json &value) {
  uint64_t keys = value.is_object() ? value.size() : 0;
  if (value.is_structured())
    for (const Json &part : value)
      keys += keysOf(part);
  return keys;
}

} // namespace

Status parseJson(std::string_view text, const std::string &name, JsonEvents &events) {
  if (text.size() > largestJson)
    return error(ITX_CORRUPT, "%s: has %zu bytes of JSON, at most %llu are read", name.c_str(), text.size(),
                 (unsigned long long)largestJson);
  if (deeperJson(text))
    return error(ITX_CORRUPT, "%s: JSON is nested too deeply: more than %zu levels", name.c_str(), deepestJson);
  Json::sax_parse(text.begin(), text.end(), &events);
  if (!events.problem().empty())
    return {ITX_CORRUPT, name + ": not valid JSON: " + events.problem()};
  return Status::success();
}

Status parseJson(std::string_view text, const std::string &name, Json &value) {
  Counter counter;
  ITX_RETURN_IF_ERROR(parseJson(text, name, counter));
  // A value takes up to 80 bytes of memory, including its entry in the array or object.
  constexpr uint64_t smallText = 1 << 20, bytesOfValue = 8;
  if (text.size() > smallText && counter.values > text.size() / bytesOfValue)
    return error(ITX_CORRUPT, "%s: JSON has %llu values in %zu bytes, at most one in %llu bytes is read", name.c_str(),
                 (unsigned long long)counter.values, text.size(), (unsigned long long)bytesOfValue);
  try {
    value = Json::parse(text.begin(), text.end());
  } catch (const Json::exception &exception) {
    return {ITX_CORRUPT, name + ": not valid JSON: " + exception.what()};
  }
  // An object keeps only one of two equal keys.
  if (keysOf(value) == counter.keys)
    return Status::success();
  DuplicateKey duplicate;
  Json::sax_parse(text.begin(), text.end(), &duplicate);
  return {ITX_CORRUPT, name + ": JSON has the key '" + duplicate.found + "' twice in one object"};
}

std::string jsonText(const Json &value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

} // namespace intarsia
