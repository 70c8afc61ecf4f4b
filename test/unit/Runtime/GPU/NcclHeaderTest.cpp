//===- NcclHeaderTest.cpp - Our prototypes of NCCL are those of nccl.h --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
// The compiler compares; a difference is an error at the line that names the function or the number.
#include "lib/Runtime/GPU/NcclApi.h"
#include "test/unit/Runtime/GPU/ComparePrototypes.h"
#include "test/unit/Testing.h"

#ifdef INTARSIA_NCCL_HEADER
#include INTARSIA_NCCL_HEADER
#endif

using namespace intarsia::runtime::nccl;
using ::testing::HasSubstr;

#ifdef INTARSIA_NCCL_HEADER

#define INTARSIA_NCCL_FUNCTION(name, symbol, arguments)                                                                \
  static_assert(intarsia::testing::Prototypes<decltype(Api::name), decltype(&*::symbol)>::isSame(), #symbol);
#include "lib/Runtime/GPU/NcclFunctions.def"

static_assert(int(inProgress) == int(ncclInProgress));
static_assert(int(elementInt8) == int(ncclInt8));
static_assert(int(elementUint8) == int(ncclUint8));
static_assert(int(elementInt32) == int(ncclInt32));
static_assert(int(elementUint32) == int(ncclUint32));
static_assert(int(elementInt64) == int(ncclInt64));
static_assert(int(elementUint64) == int(ncclUint64));
static_assert(int(elementFloat16) == int(ncclFloat16));
static_assert(int(elementFloat32) == int(ncclFloat32));
static_assert(int(elementFloat64) == int(ncclFloat64));
static_assert(int(elementBfloat16) == int(ncclBfloat16));
static_assert(int(operationSum) == int(ncclSum));
static_assert(int(operationMaximum) == int(ncclMax));
static_assert(sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);

#endif

TEST(NcclLibrary, Missing) {
  Api api;
  intarsia::Status status = Api::find({"libnoccl.so.2", "libnoccl.so"}, "NCCL", api);
  EXPECT_EQ(status.code(), ITX_NOT_FOUND);
  EXPECT_THAT(status.message(), HasSubstr("there is no NCCL: looked for libnoccl.so.2"));
  EXPECT_THAT(status.message(), HasSubstr("and the linker's cache"));
}

TEST(NcclLibrary, LacksFunctions) {
  Api api;
  intarsia::Status status = Api::find({"libm.so.6"}, "NCCL", api);
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(), HasSubstr("the NCCL libm.so.6 lacks ncclGetVersion"));
}

TEST(NcclLibrary, Installed) {
#ifdef INTARSIA_NCCL_LIBRARY
  Api api;
  intarsia::Status status = Api::find({INTARSIA_NCCL_LIBRARY}, "NCCL", api);
  ASSERT_TRUE(status.ok()) << status.message();
  int version = 0;
  EXPECT_EQ(api.version(&version), 0);
  EXPECT_GE(version, 2700); // NCCL 2.7
  EXPECT_THAT(api.text, ::testing::MatchesRegex("NCCL 2\\.[0-9]+\\.[0-9]+"));
  EXPECT_STRNE(api.errorText(5), api.errorText(0));
#else
  GTEST_SKIP() << "the library of NCCL was not found when this was configured";
#endif
}
