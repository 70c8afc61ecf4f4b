//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// intarsia-opt with passes that exist for tests alone. It is not installed.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration/OptMain.h"
#include "test/passes/TestPasses.h"

int main(int argc, char **argv) {
  return intarsia::optMain(argc, argv, "intarsia-test-opt", [] {
    intarsia::testing::registerSymbolicSizes();
    intarsia::testing::registerAgentGraph();
    intarsia::testing::registerPlacementModel();
    intarsia::testing::registerReference();
    intarsia::testing::registerCompositions();
  });
}
