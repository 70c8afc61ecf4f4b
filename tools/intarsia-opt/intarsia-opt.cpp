//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration/OptMain.h"
#include "tools/Limits.h"

int main(int argc, char **argv) { return intarsia::optMain(argc, argv, "intarsia-opt", intarsia::explainLimits); }
