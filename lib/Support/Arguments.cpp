//===- Arguments.cpp - What all command lines refuse -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/Arguments.h"

#include <string_view>

namespace intarsia {

std::string flagWithoutValue(int argc, const char *const *argv) {
  for (int number = 1; number < argc; ++number) {
    std::string_view argument = argv[number];
    if (argument == "--")
      break; // no flags follow
    if (argument.size() > 2 && argument[0] == '-' && argument.find('=') == argument.size() - 1)
      return "'" + std::string(argument) +
             "' has no value behind '=' (an empty variable of the shell?): give one, or leave the flag out";
  }
  return "";
}

} // namespace intarsia
