//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The table of architectures against the catalogue's devices, and the models of costs that are made of both.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Architecture.h"
#include "intarsia/Cost/Catalogue.h"
#include "lib/Target/GPU/GpuTarget.h"
#include <gtest/gtest.h>

using namespace intarsia;

namespace {

TEST(Architecture, DevicesAreInTheCatalogue) {
  for (gpu::Vendor vendor : {gpu::Vendor::Nvidia, gpu::Vendor::Amd})
    for (const gpu::Architecture &architecture : gpu::architectures(vendor)) {
      llvm::Expected<const CatalogueDevice *> device = findDevice(architecture.device);
      ASSERT_TRUE(bool(device)) << architecture.name.str();
      ASSERT_TRUE((*device)->multiprocessors) << architecture.name.str();
      EXPECT_EQ((*device)->multiprocessors->value, double(architecture.multiprocessors)) << architecture.name.str();
      EXPECT_TRUE((*device)->clockGHz) << architecture.name.str();
    }
}

TEST(Architecture, CostsSayWhatTheyAreFrom) {
  auto modelOf = [](const target::Target &target, const char *variant) {
    llvm::Expected<target::FittedModel> model = target.model(variant);
    EXPECT_TRUE(bool(model)) << variant;
    return *model;
  };
  target::FittedModel measured = modelOf(gpu::cudaTarget(), "sm_90a"), estimated = modelOf(gpu::hipTarget(), "gfx942");
  EXPECT_EQ(measured.figures->machine, "kernels of serving engines measured on nvidia/h100-sxm");
  EXPECT_EQ(estimated.figures->machine.find("an estimate: the datasheet of amd/mi300x"), 0u);
  ASSERT_TRUE(measured.figures->gpu && estimated.figures->gpu);
  // The emulated device costs what the GPU does that it stands for.
  GpuKernelShape shape;
  shape.rows = 4096;
  shape.columns = shape.depth = 4096;
  EXPECT_EQ(modelOf(gpu::emulatedTarget(), "sm_90a").figures->gpu->microseconds(shape, "bf16"),
            measured.figures->gpu->microseconds(shape, "bf16"));
  // cuBLAS takes some 170 us for this on an H100 and no GPU is faster than its peak.
  EXPECT_NEAR(measured.figures->gpu->microseconds(shape, "f16"), 170, 20);
  EXPECT_GT(estimated.figures->gpu->microseconds(shape, "f16"), 2 * 4096.0 * 4096 * 4096 / 1307e6);
  // A type that the device has no peak of is computed in 16 bits.
  EXPECT_EQ(modelOf(gpu::cudaTarget(), "sm_80").figures->gpu->microseconds(shape, "fp4"),
            modelOf(gpu::cudaTarget(), "sm_80").figures->gpu->microseconds(shape, "bf16"));
  EXPECT_GT(measured.figures->gpu->microseconds(shape, "f32"), 2000) << "67 TFLOP/s";
}

} // namespace
