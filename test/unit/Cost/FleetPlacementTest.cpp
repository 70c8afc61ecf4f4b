//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Layers on unlike devices: against all placements of small random fleets, and times worked out by hand.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/FleetPlacement.h"
#include "intarsia/Cost/Catalogue.h"
#include <functional>
#include <gtest/gtest.h>
#include <random>

using namespace intarsia;

namespace {

FleetFigures plain() { return {1, 1, 1, 1, 5000}; }

/// Calls `visit` with all ways to give `layers` layers to the devices from `first` on.
void forEachPlacement(std::vector<int> &given, size_t first, int layers, const std::function<void()> &visit) {
  if (first + 1 == given.size()) {
    given[first] = layers;
    return visit();
  }
  for (given[first] = 0; given[first] <= layers; ++given[first]) {
    int own = given[first];
    forEachPlacement(given, first + 1, layers - own, visit);
    given[first] = own;
  }
}

} // namespace

TEST(FleetPlacement, timesByHand) {
  FleetDevice device{"d", 500, 8e9, 50, 10e9, 2};
  FleetModel model{20, 1e9, 4096, 4};
  EXPECT_NEAR(deviceUs(device, model, 8, plain()), 8e9 / 500e9 * 1e6, 1e-6);
  EXPECT_NEAR(deviceUs(device, model, 18, plain()), 16e3 + 10e9 / 50e9 * 1e6, 1e-6);
  // One layer more than the memory holds: all eleven are read from the disk.
  EXPECT_NEAR(deviceUs(device, model, 19, plain()), 16e3 + 11 / 50e0 * 1e6 + 11 / 2e0 * 1e6, 1e-6);
  device.diskGBps = 0;
  EXPECT_TRUE(std::isinf(deviceUs(device, model, 19, plain())));
  EXPECT_TRUE(placeLayers(device, model, FleetObjective::Latency, plain()).empty());
}

TEST(FleetPlacement, aTokenReadsTheExpertsThatItChooses) {
  // mistralai/Mixtral-8x7B: 46.7 billion parameters, 12.9 of which a token passes (its model card).
  const ModelShape &shape = *llvm::cantFail(findShape("mixtral-8x7b"));
  FleetModel model = FleetModel::of(shape, 8);
  EXPECT_NEAR(model.layers * model.layerBytes / 1e9, 46.7, 0.1);
  EXPECT_NEAR(model.layers * model.readBytes() / 1e9, 12.9, 0.1);
  FleetDevice device{"d", 0, 0, 100, 100e9, 2};
  EXPECT_NEAR(deviceUs(device, model, 32, plain()), 12.9 / 100 * 1e6, 1e3);
  // A dense model reads all that it has.
  FleetModel dense = FleetModel::of(*llvm::cantFail(findShape("llama-3.1-8b")), 8);
  EXPECT_EQ(dense.readBytes(), dense.layerBytes);
}

TEST(FleetPlacement, expertsThatDoNotFitAreReadWhereTheyAreChosen) {
  // Ten layers of 3 GB, one of which all tokens read, and of 2 GB of experts each token 0.5.
  FleetModel model{10, 3e9, 4096, 4, 2e9, 0.5e9, 0};
  FleetDevice device{"d", 0, 0, 50, 20e9, 2};
  double reading = 15 / 50.0 * 1e6;
  // 10 of 20 GB of experts are held beside the 10 GB that every token reads: half of the chosen 5 come from the disk.
  EXPECT_NEAR(deviceUs(device, model, 10, plain()), reading + 2.5 / 2 * 1e6, 1e-3);
  // With no room for what a token reads, all of that comes from the disk, but not what it does not read.
  device.hostBytes = 14e9;
  EXPECT_NEAR(deviceUs(device, model, 10, plain()), reading + 15 / 2.0 * 1e6, 1e-3);
  device.hostBytes = 30e9;
  EXPECT_NEAR(deviceUs(device, model, 10, plain()), reading, 1e-3);
}

TEST(FleetPlacement, smallProcessorsAreBoundByArithmetic) {
  // 2 flops for each of 8 billion weights of half a byte: 16 GFLOP at 0.1 TFLOP/s are 160 ms, 4 GB at 50 GB/s are 80.
  FleetModel model{10, 0.4e9, 4096, 4, 0, 0, 1.6e9};
  FleetDevice device{"d", 500, 2e9, 50, 10e9, 0, 10, 0.1};
  device.acceleratorBytes = 0;
  EXPECT_NEAR(deviceUs(device, model, 10, plain()), 160e3, 1e-3);
  device.hostTflops = 1;
  EXPECT_NEAR(deviceUs(device, model, 10, plain()), 80e3, 1e-3);
  // Five layers on the accelerator, each side by its own bound.
  device.acceleratorBytes = 2e9;
  device.acceleratorTflops = 0.5;
  device.hostTflops = 0;
  EXPECT_NEAR(deviceUs(device, model, 10, plain()), 16e3 + 40e3, 1e-3);
}

TEST(FleetPlacement, starsAreThoseOfTpi) {
  // arXiv 2410.00531, table 1: 8 devices, 1 ms a link, four of which are between a device and the one in the middle,
  // 300 Mb/s: 2 x 32 all-reduces of Llama 2 7B, 8 ms of latency each.
  std::vector<FleetDevice> devices(8, {"d", 0, 0, 1e12, 1e12, 0});
  FleetModel model{32, 1, 4096, 4};
  EXPECT_NEAR(tensorTokenUs(devices, model, {4000, 1e9}, plain()), 64 * 8000, 1e-3);
  EXPECT_NEAR(tensorTokenUs(devices, model, {0, 0.0375}, plain()), 64 * 14 * 4096 * 4 / 37.5, 1);
}

TEST(FleetPlacement, findsWhatExhaustiveSearchFinds) {
  std::mt19937 random(20261125);
  auto pick = [&](double least, double most) { return least + (most - least) * double(random() % 10000) / 1e4; };
  int spread = 0, none = 0;
  for (int number = 0; number < 200; ++number) {
    std::vector<FleetDevice> devices(1 + random() % 4);
    for (FleetDevice &device : devices)
      device = {"d",
                random() % 2 ? pick(100, 600) : 0,
                pick(1e9, 8e9),
                pick(5, 60),
                pick(1e9, 8e9),
                random() % 2 ? pick(0.5, 4) : 0};
    FleetModel model{int(1 + random() % 12), pick(1e8, 2e9), 4096, 4};
    for (FleetObjective objective : {FleetObjective::Latency, FleetObjective::SlowestStage}) {
      double best = std::numeric_limits<double>::infinity();
      std::vector<int> given(devices.size(), 0);
      auto cost = [&](const std::vector<int> &layers) {
        if (objective == FleetObjective::Latency)
          return tokenUs(devices, model, layers, plain());
        double slowest = 0;
        bool isAlone = std::count(layers.begin(), layers.end(), 0) + 1 == long(layers.size());
        for (size_t i = 0; i < layers.size(); ++i)
          if (layers[i] > 0)
            slowest =
                std::max(slowest, deviceUs(devices[i], model, layers[i], plain()) + (isAlone ? 0 : plain().messageUs));
        return slowest;
      };
      forEachPlacement(given, 0, model.layers, [&] { best = std::min(best, cost(given)); });
      std::vector<int> placed = placeLayers(devices, model, objective, plain());
      ASSERT_EQ(placed.empty(), std::isinf(best)) << number;
      none += placed.empty();
      if (placed.empty())
        continue;
      EXPECT_NEAR(cost(placed), best, 1e-9 * best) << number;
      spread += std::count_if(placed.begin(), placed.end(), [](int layers) { return layers > 0; }) > 1;
    }
  }
  EXPECT_GT(spread, 50);
  EXPECT_GT(none, 5);
}
