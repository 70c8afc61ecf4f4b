//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Devices with times of our own kernels: what is interpolated, what a decoder takes by them, and what is refused.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/ServingCost.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace intarsia;

namespace {
/// Layers of 1 and 4 million weights: 10 and 5 ns for each 1000 of them on one row, the tenfold on 100.
constexpr const char *text = R"(
name: here/cpu
set: measured
generation: x86_64
peak_tflops:
  f32: {value: 0.2, source: "a test", date: "2026"}
memory_gb: {value: 16, source: "a test", date: "2026"}
memory_gbps: {value: 20, source: "a test", date: "2026"}
serving:
  source: "a test"
  date: "2026"
  rows: [1, 100]
  layers:
    int8:
      - {weights: 1000000, ns: [10, 100]}
      - {weights: 4000000, ns: [5, 50]}
  head:
    int8: [4, 40]
  encoder:
    f32: [8, 80]
  prompts: {tokens: [100, 1000], ps: [2, 4]}
  steps: {tokens: [100], ps: [20]}
)";

CatalogueDevice device() {
  llvm::Expected<CatalogueDevice> read = CatalogueDevice::parse(text, "here.yaml");
  if (!read)
    ADD_FAILURE() << llvm::toString(read.takeError());
  return std::move(*read);
}

llvm::Expected<ServingCost> costOf(const CatalogueDevice &here, const char *shape, NumberFormat format,
                                   ParallelDegrees degrees = {}) {
  Deployment deployment;
  deployment.shape = llvm::cantFail(findShape(shape));
  deployment.device = &here;
  deployment.precision = usualPrecision(*deployment.shape, here, format, NumberFormat::BF16);
  deployment.degrees = degrees;
  return ServingCost::create(deployment);
}

std::string refusal(llvm::Expected<ServingCost> cost) {
  return cost ? std::string() : llvm::toString(cost.takeError());
}
} // namespace

TEST(MeasuredTimes, interpolatesLogarithms) {
  CatalogueDevice here = device();
  const MeasuredTimes &times = *here.serving;
  EXPECT_NEAR(times.layerUs("int8", 1e6, 1), 10, 1e-9);
  EXPECT_NEAR(times.layerUs("int8", 1e6, 10), 10 * std::sqrt(10), 1e-9);
  EXPECT_NEAR(times.layerUs("int8", 1e6, 300), 300, 1e-9); // as the rows beyond the last one
  EXPECT_NEAR(times.layerUs("int8", 2e6, 1), std::sqrt(10 * 20), 1e-9);
  EXPECT_NEAR(times.layerUs("int8", 8e6, 1), 40, 1e-9);  // as the weights beyond the largest
  EXPECT_NEAR(times.layerUs("int8", 1000, 1), 10, 1e-9); // launches stay
  EXPECT_NEAR(times.encoderUs("f32", 2e6, 1), 16, 1e-9);
  EXPECT_NEAR(times.promptScoresUs(1e6, 100), 2, 1e-9);
  EXPECT_NEAR(times.promptScoresUs(1e6, 5000), 4, 1e-9);
}

TEST(MeasuredTimes, timesOfADecoder) {
  CatalogueDevice here = device();
  // 30 layers of 3.54 million weights and a head of 49152 x 576.
  ServingCost cost = llvm::cantFail(costOf(here, "smollm2-135m", NumberFormat::INT8));
  double weights = 2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536, head = 49152.0 * 576;
  double layer = here.serving->layerUs("int8", weights, 1);
  // A token at 500: scores of 9 heads of 64, 4 flops each; 3 heads are read twice in 16 bits at 20 GB/s.
  double scores = 30 * 9 * 64 * 4.0 * 500 * 20e-6, cache = 30 * 3 * 64 * 2 * 2.0 * 500 / 20e3;
  EXPECT_NEAR(cost.decodeStep(1, 500).totalMs, (30 * layer + head * 4e-6 + std::max(scores, cache)) * 1e-3, 1e-6);
  double rows = here.serving->layerUs("int8", weights, 200);
  // On average a token of a prompt sees half of it.
  double prompt = 30 * 9 * 64 * 4.0 * 200 * 100;
  EXPECT_NEAR(cost.firstToken(200).totalMs,
              (30 * rows + head * 4e-6 + here.serving->promptScoresUs(prompt, 200)) * 1e-3, 0.002 * 30 * rows * 1e-3);
  EXPECT_NEAR(cost.prefillBusyMs(200), cost.firstToken(200).totalMs, 1e-9);
  EXPECT_EQ(cost.interference(), 1);
}

TEST(MeasuredTimes, refusesWhatWasNotMeasured) {
  CatalogueDevice here = device();
  auto contains = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
  EXPECT_PRED2(contains, refusal(costOf(here, "smollm2-135m", NumberFormat::BF16)),
               "decoders in bf16 were not measured on it, only in int8");
  EXPECT_PRED2(contains, refusal(costOf(here, "smollm2-135m", NumberFormat::INT8, {1, 1, 1, 2})),
               "a split over 2 devices");
  EXPECT_PRED2(contains, refusal(costOf(here, "mixtral-8x7b", NumberFormat::INT8)), "the model has experts");
}

TEST(MeasuredTimes, writesWhatItReads) {
  CatalogueDevice here = device();
  here.serving->handOverGBps = 2;
  here.serving->handOverUs = 100;
  std::string file = text;
  file.resize(file.find("serving:"));
  llvm::Expected<CatalogueDevice> again = CatalogueDevice::parse(file + here.serving->yaml(), "again.yaml");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(again->serving->yaml(), here.serving->yaml());
  EXPECT_EQ(again->serving->handOverGBps, 2);
}
