//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_UNIT_CHECKED_H
#define INTARSIA_TEST_UNIT_CHECKED_H

#include "llvm/Support/Error.h"
#include <gtest/gtest.h>

/// Returns the value; an error fails the test with its text.
template <typename T> T checked(llvm::Expected<T> value) {
  if (!value) {
    ADD_FAILURE() << toString(value.takeError());
    return T();
  }
  return std::move(*value);
}

#endif
