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

/// Returns "line:column" of the first bracket that is too deep, or "".
std::string positionOf(std::optional<TextPosition> position) {
  return position ? std::to_string(position->line) + ":" + std::to_string(position->column) : "";
}

TEST(Nesting, countsJsonUpToTheLimit) {
  EXPECT_EQ(positionOf(deeperJson(repeat("[", 64) + repeat("]", 64))), "");
  EXPECT_EQ(positionOf(deeperJson(repeat("{\"a\":", 64) + "1" + repeat("}", 64))), "");
  EXPECT_EQ(positionOf(deeperJson("{\"a\":\n" + repeat("[", 64))), "2:64");
  EXPECT_EQ(positionOf(deeperJson(repeat("[{},", 100), 100)), "1:398"); // the {} of the last
}

TEST(Nesting, countsNoBracketsInJsonStrings) {
  EXPECT_EQ(positionOf(deeperJson("\"" + repeat("[", 100) + "\"")), "");
  EXPECT_EQ(positionOf(deeperJson("{\"" + repeat("]", 100) + "\":" + repeat("[", 64))), "1:168");
  // An escaped quote ends no string, an escaped backslash escapes nothing.
  EXPECT_EQ(positionOf(deeperJson(R"("\")" + repeat("[", 100) + R"(")")), "");
  EXPECT_EQ(positionOf(deeperJson(R"(["\\",)" + repeat("[", 64))), "1:70");
  EXPECT_EQ(positionOf(deeperJson("\"\\")), "");
  EXPECT_EQ(positionOf(deeperJson("\"")), "");
}

TEST(Nesting, closesNoMoreThanWasOpened) {
  EXPECT_EQ(positionOf(deeperJson(repeat("]", 1000) + repeat("[", 65))), "1:1065");
  EXPECT_EQ(positionOf(deeperJson(repeat("[]", 1000))), "");
}

TEST(Nesting, countsEveryBracketOfMlir) {
  for (auto [opening, closing] : {std::pair("[", "]"), {"{a = ", "}"}, {"tuple<", ">"}, {"(", ") -> ()"}})
    EXPECT_EQ(positionOf(deeperMlir("x\n" + repeat(opening, 50) + "1" + repeat(closing, 50), 50)), "") << opening;
  EXPECT_EQ(positionOf(deeperMlir("x\n" + repeat("[", 51), 50)), "2:51");
  EXPECT_EQ(positionOf(deeperMlir(repeat("tuple<", 51), 50)), "1:306");
  EXPECT_EQ(positionOf(deeperMlir(repeat("\"x.y\"() ({\n", 26), 50)), "26:6");
  EXPECT_EQ(positionOf(deeperMlir("module {\n" + repeat("module {}\n", 1000) + "}", 2)), "");
}

TEST(Nesting, countsNoBracketsInMlirStringsAndComments) {
  EXPECT_EQ(positionOf(deeperMlir("x \"" + repeat("[", 100) + "\\\"[\"", 50)), "");
  EXPECT_EQ(positionOf(deeperMlir("// " + repeat("[", 100) + "\n(", 50)), "");
  EXPECT_EQ(positionOf(deeperMlir("// \"\n" + repeat("[", 51) + "\"", 50)), "2:51");
  EXPECT_EQ(positionOf(deeperMlir("\"" + repeat("]", 100) + "\"" + repeat("[", 51), 50)), "1:153");
}

TEST(Nesting, opensWhereTheParserMayReadOn) {
  // The body of an unknown dialect's attribute ends at the first >, comment or not.
  EXPECT_EQ(positionOf(deeperMlir("#x.y<// >, " + repeat("[", 50), 50)), "1:61");
  EXPECT_EQ(positionOf(deeperMlir(repeat("tuple<!x.y<=>, ", 51), 50)), "1:746");
  EXPECT_EQ(positionOf(deeperMlir(repeat("[ ] >", 100) + repeat("(<", 20) + repeat(")", 20) + repeat("[", 50), 50)),
            "");
}

TEST(Nesting, takesNoArrowOrComparisonForABracket) {
  EXPECT_EQ(positionOf(deeperMlir("<" + repeat("() -> ", 100) + repeat("[", 49), 50)), "");
  EXPECT_EQ(positionOf(deeperMlir("<" + repeat("() -> ", 100) + repeat("[", 50), 50)), "1:651");
  EXPECT_EQ(positionOf(deeperMlir(repeat("affine_set<(d0) : (d0 >= 0, -d0 + 9 >= 0)>\n", 100), 10)), "");
  EXPECT_EQ(positionOf(deeperMlir("#s = " + repeat("affine_set<(d0) : (d0 <= 0, d0 <= 9)>\n", 100), 10)), "");
}

TEST(Nesting, countsOperatorsUpToAComma) {
  EXPECT_EQ(positionOf(deeperMlir("(" + repeat("-", 49) + "d0)", 50)), "");
  EXPECT_EQ(positionOf(deeperMlir("(" + repeat("-", 50) + "d0)", 50)), "1:51");
  EXPECT_EQ(positionOf(deeperMlir("(d0" + repeat(" + d0 mod 2", 25) + ")", 50)), "1:274");
  EXPECT_EQ(positionOf(deeperMlir("(d0" + repeat(" + (d0 mod 2)", 50) + ")", 50)), "1:622");
  EXPECT_EQ(positionOf(deeperMlir("[" + repeat("-1, ", 100) + "]", 50)), "");
  EXPECT_EQ(positionOf(deeperMlir("{" + repeat("arith.constant -1 : i32\n", 100) + "}", 50)), "");
}

TEST(Nesting, countsWhatAliasesStandFor) {
  std::string chain = "!a0 = tuple<i1>\n";
  for (int i = 1; i < 50; ++i)
    chain += "!a" + std::to_string(i) + " = tuple<!a" + std::to_string(i - 1) + ">\n";
  EXPECT_EQ(positionOf(deeperMlir(chain, 50)), "");
  EXPECT_EQ(positionOf(deeperMlir(chain + "!b =\n tuple\n<!a49>", 50)), "53:2");
  EXPECT_EQ(positionOf(deeperMlir(chain + "func.func private @f(!a49)", 50)), "51:22");
  EXPECT_EQ(positionOf(deeperMlir(chain + "#a49 = [1]\nmodule {#a49}", 50)), "");
  // Ops are not part of the definition before them, and a use does not make a definition deeper.
  std::string uses = "#m = [1]\n";
  for (int i = 0; i < 100; ++i)
    uses += "func.func @f() {\n %0 = x.y [#m] : i32\n}\n";
  EXPECT_EQ(positionOf(deeperMlir(uses, 5)), "");
  EXPECT_EQ(positionOf(deeperMlir("#l = loc(\"x\")\nmodule {\n" + uses + "}\n#k = loc(fused[#l])", 5)), "");
}

} // namespace
