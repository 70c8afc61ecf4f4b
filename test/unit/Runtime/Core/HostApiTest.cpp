//===- HostApiTest.cpp - The functions that a module calls -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/HostApi.h"

#include "lib/Runtime/Core/Call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <vector>

using namespace intarsia;
using namespace intarsia::runtime;
using testing::HasSubstr;

namespace {

/// A call of a function with one check of computed indices and one of sizes.
struct Checks : testing::Test {
  Checks() {
    function.name = "decode";
    function.checks = {{CheckRelation::Below, "positions", "entries * 32", "'append' needs it"},
                       {CheckRelation::AtMost, "n", "4", "'slice' needs it"},
                       {CheckRelation::Below, "sequences", "2", "'append' needs it"}};
    call.function = &function;
  }

  /// Checks integers, and returns the message of the error; empty if there is none.
  template <typename T> std::string check(uint32_t number, std::vector<T> indices, int64_t limit) {
    call.status = Status::success();
    int32_t failed = hostApi.check_indices(&call, number, indices.data(), sizeof(T), int64_t(indices.size()), limit);
    EXPECT_EQ(failed != 0, !call.status.ok());
    code = call.status.code();
    return call.status.message();
  }

  FunctionInfo function;
  itx_call call;
  itx_status code = ITX_OK;
};

TEST_F(Checks, IndicesOfEachWidth) {
  EXPECT_EQ(check<int64_t>(0, {0, 95, 3}, 96), "");
  EXPECT_EQ(check<int32_t>(0, {0, 95, 3}, 96), "");
  EXPECT_EQ(check<int16_t>(0, {0, 95, 3}, 96), "");
  EXPECT_EQ(check<int8_t>(0, {0, 95, 3}, 96), "");
  EXPECT_EQ(check<int64_t>(0, {}, 0), "");
  EXPECT_EQ(check<int64_t>(0, {0, 7, 96}, 96),
            "function 'decode': element 2 of the computed positions is 96, must be in [0, 96), below entries * 32: "
            "'append' needs it");
  EXPECT_EQ(code, ITX_INVALID_ARGUMENT);
  EXPECT_THAT(check<int32_t>(0, {0, -1}, 96), HasSubstr("element 1 of the computed positions is -1"));
  EXPECT_THAT(check<int16_t>(0, {-300}, 96), HasSubstr("is -300"));
  EXPECT_THAT(check<int8_t>(0, {1, 2, -128}, 96), HasSubstr("element 2 of the computed positions is -128"));
  EXPECT_THAT(check<int64_t>(0, {INT64_MIN}, 96), HasSubstr("is -9223372036854775808"));
  EXPECT_EQ(check<int64_t>(2, {2}, 2),
            "function 'decode': element 0 of the computed sequences is 2, must be in [0, 2): 'append' needs it");
}

TEST_F(Checks, ModulesThatDoNotFitTheirManifest) {
  EXPECT_THAT(check<int64_t>(1, {0}, 4), HasSubstr("checks 1 indices of 8 bytes by check 1 of 3"));
  EXPECT_EQ(code, ITX_CORRUPT);
  EXPECT_THAT(check<int64_t>(3, {0}, 4), HasSubstr("by check 3 of 3"));
  EXPECT_NE(hostApi.check(&call, 0, 1, 2), 0); // the call has failed
  call.status = Status::success();
  EXPECT_NE(hostApi.check(&call, 0, 1, 2), 0);
  EXPECT_THAT(call.status.message(), HasSubstr("compares two sizes by check 0, which is of indices"));
  call.status = Status::success();
  int64_t index = 0;
  EXPECT_NE(hostApi.check_indices(&call, 0, &index, 3, 1, 4), 0);
  EXPECT_THAT(call.status.message(), HasSubstr("indices of 3 bytes"));
}

} // namespace
