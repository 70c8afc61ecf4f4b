//===- GuardedDeviceTest.cpp - Kernels that touch what is not theirs are found ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds with INTARSIA_GUARD have this test alone.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Manifest.h"
#include "lib/Runtime/CPU/CpuDevice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace intarsia;
using namespace intarsia::runtime;
using ::testing::HasSubstr;

namespace {

constexpr int count = 100;

void planOneTile(const int64_t *, int64_t, int64_t *plan) {
  plan[ITX_PLAN_TILES] = 1;
  plan[ITX_PLAN_WORKSPACE_BYTES] = 72;
  plan[ITX_PLAN_SHARED_BYTES] = 8;
}

/// y = x + 1 for vectors of sizes[0] floats; and what makes it wrong.
template <typename Wrong> Status run(Wrong, bool inPlace = false) {
  itx_kernel_entry kernel = {planOneTile, [](const itx_kernel_arguments *arguments, int64_t, int64_t, void *workspace) {
                               auto x = static_cast<float *>(arguments->buffers[0]);
                               auto y = static_cast<float *>(arguments->buffers[1]);
                               for (int64_t i = 0; i < arguments->sizes[0]; ++i)
                                 y[i] = x[i] + 1;
                               Wrong()(x, y, static_cast<char *>(workspace), static_cast<char *>(arguments->shared));
                             }};
  std::vector<OperandInfo> operands = {{4, {0}}, {4, {0}, /*isOutput=*/true}};
  std::vector<float> x(count, 1), y(count, 7);
  void *buffers[] = {x.data(), inPlace ? x.data() : y.data()};
  int64_t sizes[] = {count};
  ScratchBuffer shared;
  Launch launch;
  launch.entry = &kernel;
  launch.name = "add_one";
  launch.label = "layer.7";
  launch.buffers = buffers;
  launch.bufferCount = 2;
  launch.sizes = sizes;
  launch.sizeCount = 1;
  launch.operands = &operands;
  launch.shared = &shared;
  itx_event event = 0;
  Status status = cpuDevice().dispatch(0, launch, nullptr, 0, event);
  if (status.ok())
    EXPECT_EQ(inPlace ? x : y, std::vector<float>(count, 2));
  return status;
}

TEST(Guarded, RightKernels) {
  EXPECT_TRUE(run([](float *, float *, char *, char *) {}).ok());
  EXPECT_TRUE(run([](float *, float *, char *, char *) {}, /*inPlace=*/true).ok());
  EXPECT_TRUE(run([](float *, float *, char *workspace, char *shared) { workspace[71] = shared[7] = 1; }).ok());
}

TEST(Guarded, WritesBesideOperands) {
  EXPECT_THAT(run([](float *, float *y, char *, char *) { y[count] = 0; }).message(),
              HasSubstr("'add_one' (layer.7) wrote beside an operand of 400 bytes"));
  EXPECT_DEATH((void)run([](float *, float *y, char *, char *) { y[-1] = 0; }), "touched byte -4 of an operand of 400");
  EXPECT_DEATH((void)run([](float *, float *y, char *, char *) { y[1024] = 0; }), "touched byte 4096 of an operand");
}

TEST(Guarded, WritesWhatIsOnlyRead) {
  EXPECT_DEATH((void)run([](float *x, float *, char *, char *) { x[3] = 0; }), "touched byte 12 of an operand");
}

TEST(Guarded, ReadsBesideOperands) {
  EXPECT_DEATH((void)run([](float *x, float *y, char *, char *) { y[0] = x[-1]; }), "touched byte -4");
  EXPECT_DEATH((void)run([](float *x, float *y, char *, char *) { y[0] = x[112]; }), "touched byte 448");
  // No page begins before byte 448; what lies there is another number in each run.
  EXPECT_NE(run([](float *x, float *y, char *, char *) { y[0] += x[count] != x[count]; }).message(), "");
}

TEST(Guarded, LeavesOrReadsWhatNothingHasWritten) {
  static int runs;
  EXPECT_THAT(run([](float *, float *y, char *, char *) { y[9] = float(runs++); }).message(),
              HasSubstr("another byte 38 of a result of 400 bytes"));
}

TEST(Guarded, ScratchMemory) {
  EXPECT_DEATH((void)run([](float *, float *, char *workspace, char *) { workspace[128] = 0; }),
               "none of its operands");
  EXPECT_DEATH((void)run([](float *, float *, char *, char *shared) { shared[64] = 0; }), "none of its operands");
}

} // namespace
