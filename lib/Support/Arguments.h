//===- Arguments.h - What all command lines refuse ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_ARGUMENTS_H
#define INTARSIA_LIB_SUPPORT_ARGUMENTS_H

#include <string>

namespace intarsia {

/// Returns what is wrong with the first flag without a value behind its '=', as an empty variable of a shell makes it
/// ("--profile="); empty if there is none. Parsers take the next argument as the value, or none at all.
std::string flagWithoutValue(int argc, const char *const *argv);

} // namespace intarsia

#endif
