//===- FileNames.cpp - Which files models and IR may name --------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/FileNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

bool intarsia::nn::isBelowDirectory(StringRef name) {
  // A backslash separates folders on other systems.
  return !sys::path::is_absolute(name) && !name.contains('\\') &&
         !is_contained(make_range(sys::path::begin(name), sys::path::end(name)), "..");
}
