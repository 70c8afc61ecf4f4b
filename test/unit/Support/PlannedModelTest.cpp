//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Support/PlannedModel.h"
#include <gtest/gtest.h>

using namespace intarsia;

namespace {

TEST(PlannedModel, whatIsNotCompiledIsNamed) {
  PlannedModel model{"big", "nvidia/h100-sxm", "gpu:sm_90", "bf16"};
  EXPECT_EQ(whyNotCompiled(model), "");
  model.tensor = 4;
  EXPECT_EQ(whyNotCompiled(model),
            "is split over several devices of @big (nvidia/h100-sxm): ranks of one model exchange "
            "data in memory of the host, so that only CPUs can share one");
  model.target = "cpu:znver4";
  EXPECT_EQ(whyNotCompiled(model), "");
  model.precision = "fp6";
  EXPECT_NE(whyNotCompiled(model).find("has the precision 'fp6', which nothing is compiled to; known are f32, f16"),
            std::string::npos);
  model.precision = "int4", model.expert = 2;
  EXPECT_NE(whyNotCompiled(model).find("divides experts"), std::string::npos);
  model.target.clear();
  EXPECT_NE(whyNotCompiled(model).find("is on @big, whose device nvidia/h100-sxm nothing can be compiled for"),
            std::string::npos);
}

} // namespace
