//===- Json.h - JSON from outside, without exceptions -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_JSON_H
#define INTARSIA_RUNTIME_CORE_JSON_H

#include "lib/Runtime/Core/Status.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace intarsia::runtime {

using Json = nlohmann::json;

/// Parses JSON; refuses duplicate keys in one object and nesting deeper than 64. `name` starts each message.
Status parseJson(std::string_view text, const std::string &name, Json &value);

/// Text of a value; bytes that are not UTF-8 are replaced instead of thrown about.
std::string jsonText(const Json &value, int indent = -1);

} // namespace intarsia::runtime

#endif
