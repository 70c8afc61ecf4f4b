//===- ArgumentsTest.cpp - What all command lines refuse ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Arguments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <vector>

using namespace intarsia;

static std::string problemOf(std::vector<const char *> arguments) {
  arguments.insert(arguments.begin(), "program");
  return flagWithoutValue(int(arguments.size()), arguments.data());
}

TEST(Arguments, RefusesFlagsWithoutAValue) {
  for (const char *flag : {"--profile=", "-profile=", "-o="})
    EXPECT_THAT(problemOf({"m.itx", flag, "--max-tokens=3"}), ::testing::StartsWith("'" + std::string(flag) + "' has"));
}

TEST(Arguments, TakesTheRest) {
  // A value may end in '=', and so may a file, of which some begin with a dash.
  EXPECT_EQ(problemOf({"a=", "=", "--profile=a=", "--input=x=@y=", "--list", "-o", "b=", "--", "--c="}), "");
  EXPECT_EQ(problemOf({}), "");
}
