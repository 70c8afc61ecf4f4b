//===- Json.cpp - JSON from outside, without exceptions -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Json.h"

#include <set>

namespace intarsia::runtime {

Status parseJson(std::string_view text, const std::string &name, Json &value) {
  constexpr int maximumDepth = 64;
  std::string problem;
  try {
    std::vector<std::set<std::string>> keys;
    auto watch = [&](int depth, Json::parse_event_t event, Json &parsed) {
      if (!problem.empty())
        return false;
      if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
        if (depth >= maximumDepth)
          problem = "is nested too deeply";
        keys.emplace_back();
      } else if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) {
        if (!keys.empty())
          keys.pop_back();
      } else if (event == Json::parse_event_t::key && !keys.empty()) {
        const std::string &key = parsed.get_ref<const std::string &>();
        if (!keys.back().insert(key).second)
          problem = "has the key '" + key + "' twice in one object";
      }
      return problem.empty();
    };
    value = Json::parse(text.begin(), text.end(), watch);
  } catch (const std::exception &exception) {
    if (problem.empty())
      return {ITX_CORRUPT, name + ": not valid JSON: " + exception.what()};
  }
  if (!problem.empty())
    return {ITX_CORRUPT, name + ": JSON " + problem};
  return Status::success();
}

std::string jsonText(const Json &value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

} // namespace intarsia::runtime
