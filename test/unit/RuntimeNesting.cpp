//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Nesting.h"
#include <gtest/gtest.h>
#include <string>

using namespace intarsia;

namespace {

std::string repeat(std::string_view text, size_t times) {
  std::string repeated;
  for (size_t i = 0; i < times; ++i)
    repeated += text;
  return repeated;
}

/// "line:column" of what is too deep, or nothing.
std::string placeOf(std::optional<TextPlace> place) {
  return place ? std::to_string(place->line) + ":" + std::to_string(place->column) : "";
}

TEST(Nesting, countsJsonUpToTheLimit) {
  EXPECT_EQ(placeOf(deeperJson(repeat("[", 64) + repeat("]", 64))), "");
  EXPECT_EQ(placeOf(deeperJson(repeat("{\"a\":", 64) + "1" + repeat("}", 64))), "");
  EXPECT_EQ(placeOf(deeperJson("{\"a\":\n" + repeat("[", 64))), "2:64");
  EXPECT_EQ(placeOf(deeperJson(repeat("[{},", 100), 100)), "1:398"); // the {} of the last
}

TEST(Nesting, countsNoBracketsInJsonStrings) {
  EXPECT_EQ(placeOf(deeperJson("\"" + repeat("[", 100) + "\"")), "");
  EXPECT_EQ(placeOf(deeperJson("{\"" + repeat("]", 100) + "\":" + repeat("[", 64))), "1:168");
  // An escaped quote ends no string, an escaped backslash escapes nothing.
  EXPECT_EQ(placeOf(deeperJson(R"("\")" + repeat("[", 100) + R"(")")), "");
  EXPECT_EQ(placeOf(deeperJson(R"(["\\",)" + repeat("[", 64))), "1:70");
  EXPECT_EQ(placeOf(deeperJson("\"\\")), "");
  EXPECT_EQ(placeOf(deeperJson("\"")), "");
}

TEST(Nesting, closesNoMoreThanWasOpened) {
  EXPECT_EQ(placeOf(deeperJson(repeat("]", 1000) + repeat("[", 65))), "1:1065");
  EXPECT_EQ(placeOf(deeperJson(repeat("[]", 1000))), "");
}

} // namespace
