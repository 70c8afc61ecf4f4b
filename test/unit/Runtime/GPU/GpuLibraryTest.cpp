//===- GpuLibraryTest.cpp - Libraries that are found while the program runs ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuLibrary.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace intarsia;
using namespace intarsia::runtime;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuLibrary, FindsFunctions) {
  GpuLibrary library;
  Status status = GpuLibrary::open({"libnone.so.1", "libm.so.6"}, "library", library);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(library.name(), "libm.so.6");
  double (*cosine)(double) = nullptr;
  int (*optional)() = nullptr;
  library.bind("cos", cosine, true);
  library.bind("notInAnyLibrary", optional, false);
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(optional, nullptr);
  EXPECT_TRUE(library.check().ok());
}

TEST(GpuLibrary, NamesAllMissingFunctions) {
  GpuLibrary library;
  ASSERT_TRUE(GpuLibrary::open({"libm.so.6"}, "FAKE driver", library).ok());
  int (*first)() = nullptr, (*second)() = nullptr;
  library.bind("fakeFirst", first, true);
  library.bind("fakeSecond", second, true);
  Status status = library.check();
  EXPECT_EQ(status.code(), ITX_UNSUPPORTED);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("the FAKE driver libm.so.6 lacks fakeFirst, fakeSecond"), HasSubstr("update")));
}

TEST(GpuLibrary, SaysWhereItLooked) {
  GpuLibrary library;
  Status status = GpuLibrary::open({"libnone.so.2", "libnone.so.1"}, "FAKE driver", library);
  EXPECT_EQ(status.code(), ITX_NOT_FOUND);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("there is no FAKE driver: looked for libnone.so.2, libnone.so.1 in /"),
                                      HasSubstr("/lib"), Not(HasSubstr("No such file"))));
  // A file that is there, but is no library, has a reason of its own.
  status = GpuLibrary::open({"/proc/self/status"}, "FAKE driver", library);
  EXPECT_EQ(status.code(), ITX_NOT_FOUND);
  EXPECT_THAT(status.message(), HasSubstr("; /proc/self/status: "));
}
