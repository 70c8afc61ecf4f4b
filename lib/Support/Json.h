//===- Json.h - JSON from outside, without exceptions -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_JSON_H
#define INTARSIA_LIB_SUPPORT_JSON_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace intarsia {

using Json = nlohmann::json;

/// Receives the parts of a JSON text; events that are not overridden do nothing. An event that returns false ends the
/// parsing.
class JsonEvents : public nlohmann::json_sax<Json> {
public:
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t &) override { return scalar(); }
  bool string(string_t &) override { return scalar(); }
  bool binary(binary_t &) override { return scalar(); }
  bool key(string_t &) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_object() override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string &, const Json::exception &exception) final {
    problem_ = exception.what();
    return false;
  }
  /// The error of text that is not JSON; empty if there was none.
  const std::string &problem() const { return problem_; }

protected:
  /// A value that is neither object nor array.
  virtual bool scalar() { return true; }

private:
  std::string problem_;
};

/// Bytes of the largest JSON text that is read: the limit of the safetensors library for headers (MAX_HEADER_SIZE).
inline constexpr uint64_t largestJson = 100'000'000;

/// Parses JSON in linear time and at most ten times the memory of its text (texts of less than a megabyte aside).
/// Refuses duplicate keys in one object, nesting deeper than 64 and texts over `largestJson`. `name` starts each
/// message.
Status parseJson(std::string_view text, const std::string &name, Json &value);

/// Reports the parts of a JSON text to `events` in their order, in linear time and without memory of its own. Refuses
/// the same texts as the other parseJson, but for duplicate keys and many values, which are left to `events`.
Status parseJson(std::string_view text, const std::string &name, JsonEvents &events);

/// Returns the text of a value. Bytes that are not UTF-8 are replaced and cause no exception.
std::string jsonText(const Json &value, int indent = -1);

} // namespace intarsia

#endif
