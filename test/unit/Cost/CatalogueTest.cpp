//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The device catalogue against the paper's printed table, and against files that are wrong in one entry.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Catalogue.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace intarsia;
using llvm::StringRef;

namespace {

const CatalogueDevice &device(StringRef name) {
  llvm::Expected<const CatalogueDevice *> found = findDevice(name);
  if (!found) {
    ADD_FAILURE() << llvm::toString(found.takeError());
    static const CatalogueDevice none;
    return none;
  }
  return **found;
}

constexpr const char *good = R"(name: test/chip
set: datasheet
generation: hopper
efficiency_of: hopper
peak_tflops:
  bf16: {value: 100, source: "a", date: "2026-01"}
memory_gb: {value: 80, source: "a", date: "2026-01", unsure: true}
memory_gbps: {value: 2000, source: "a", date: "2026-01"}
link:
  direction: both
  gbps: {value: 600, source: "a", date: "2026-01"}
node:
  devices: {value: 8, source: "a", date: "2026-01"}
watts: {value: 500, source: "a", date: "2026-01"}
price:
  purchase_dollars: {value: 35040, source: "a", date: "2026-01"}
)";

/// Returns the error message for the file with `from` replaced.
std::string messageWith(StringRef from, StringRef to) {
  std::string text = good;
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  text.replace(at, from.size(), to.str());
  llvm::Expected<CatalogueDevice> parsed = CatalogueDevice::parse(text, "chip.yaml");
  return parsed ? "" : llvm::toString(parsed.takeError());
}

} // namespace

TEST(Catalogue, readsEveryFigure) {
  llvm::Expected<CatalogueDevice> parsed = CatalogueDevice::parse(good, "chip.yaml");
  ASSERT_TRUE(bool(parsed)) << llvm::toString(parsed.takeError());
  EXPECT_EQ(parsed->name, "test/chip");
  EXPECT_EQ(llvm::cantFail(parsed->peak("bf16")), 100);
  EXPECT_EQ(parsed->memoryGB->value, 80);
  EXPECT_EQ(parsed->memoryGB->date, "2026-01");
  EXPECT_EQ(llvm::cantFail(parsed->linkOneWayGBps()), 300);
  EXPECT_EQ(parsed->devicesOnLink(), 8);
  EXPECT_EQ(parsed->unsureFigures(), std::vector<std::string>{"memory_gb"});
}

TEST(Catalogue, refusesWhatIsWrongByLineAndFigure) {
  EXPECT_EQ(messageWith("{value: 80, ", "{value: 80000, "), "chip.yaml:7: memory_gb 80000: did you give MB?");
  EXPECT_EQ(messageWith("{value: 80, ", "{value: -80, "), "chip.yaml:7: memory_gb -80: a figure is not negative");
  EXPECT_EQ(messageWith("{value: 80, ", "{value: .nan, "), "chip.yaml:7: memory_gb: '.nan' is not a number");
  EXPECT_EQ(messageWith("{value: 80, ", "{value: nan, "), "chip.yaml:7: memory_gb: 'nan' is not finite");
  EXPECT_EQ(messageWith("{value: 80, ", "{value: inf, "), "chip.yaml:7: memory_gb: 'inf' is not finite");
  EXPECT_EQ(messageWith("{value: 80, ", "{value: many, "), "chip.yaml:7: memory_gb: 'many' is not a number");
  EXPECT_EQ(messageWith("{value: 2000, ", "{value: 2, "), "chip.yaml:8: memory_gbps 2: did you give TB/s?");
  EXPECT_EQ(messageWith("{value: 2000, ", "{value: 3.35, "), "chip.yaml:8: memory_gbps 3.35: did you give TB/s?");
  EXPECT_EQ(messageWith("{value: 500, ", "{value: 0.5, "), "chip.yaml:14: watts 0.5: did you give kW?");
  EXPECT_EQ(messageWith("{value: 100, ", "{value: 100000000, "),
            "chip.yaml:6: peak_tflops bf16 100000000: did you give GFLOP/s?");
  EXPECT_EQ(messageWith("unsure: true", "unsure: perhaps"),
            "chip.yaml:7: memory_gb: unsure is true or false, not 'perhaps'");
  EXPECT_EQ(messageWith("80, source: \"a\", ", "80, "),
            "chip.yaml:7: memory_gb: 'source' is missing: every figure says where it is from and when");
  EXPECT_EQ(messageWith("  bf16:", "  bf61:"),
            "chip.yaml:6: peak_tflops: unknown element type 'bf61'; they are f32, f16, bf16, fp8, int8, fp4, int4");
  EXPECT_EQ(messageWith("direction: both", "direction: up"),
            "chip.yaml:10: link: direction is both (what the source adds up) or one_way, not 'up'");
  EXPECT_EQ(messageWith("watts:", "wats:"),
            "chip.yaml:14: device: unknown key 'wats'; it has name, set, generation, target, efficiency_of, wafer, "
            "peak_tflops, memory_gb, memory_gbps, multiprocessors, clock_ghz, cache_mb, link, node, watts, clients, "
            "price, serving");
  EXPECT_EQ(messageWith("set: datasheet", "set: guess"),
            "chip.yaml:2: set is datasheet, paper or measured, not 'guess'");
  EXPECT_EQ(messageWith("devices: {value: 8, ", "devices: {value: 7.5, "), "chip.yaml:13: devices is a whole number");
  EXPECT_EQ(messageWith("watts: {", "watts: [{"), "chip.yaml:15: end of sequence flow not found");
  EXPECT_EQ(messageWith("watts: {value: 500", "memory_gb: {value: 500"), "chip.yaml:14: 'memory_gb' is given twice");
  EXPECT_EQ(messageWith("set: datasheet", "set: *name"), "chip.yaml:2: the referenced anchor is not defined");
}

TEST(Catalogue, refusesTextThatIsNoDevice) {
  for (const char *text : {"", "[]", "word", "{}", "name: x"}) {
    llvm::Expected<CatalogueDevice> parsed = CatalogueDevice::parse(text, "x.yaml");
    EXPECT_FALSE(bool(parsed)) << text;
    llvm::consumeError(parsed.takeError());
  }
  std::string deep, large(140000, ' ');
  for (int i = 0; i < 40; ++i)
    deep += "- ";
  deep += "x";
  EXPECT_EQ(llvm::toString(CatalogueDevice::parse(deep, "x.yaml").takeError()),
            "x.yaml:1: nested deeper than 32 levels");
  EXPECT_EQ(llvm::toString(CatalogueDevice::parse(large, "x.yaml").takeError()),
            "x.yaml:1: is longer than 131072 bytes");
}

TEST(Catalogue, holdsTheDevicesOfItsSources) {
  for (const char *name :
       {"nvidia/a100-40-sxm", "nvidia/a100-sxm",    "nvidia/l4",       "nvidia/l40s",      "nvidia/a10",
        "nvidia/t4",          "nvidia/v100-16-sxm", "nvidia/h100-sxm", "nvidia/h100-pcie", "nvidia/h200-sxm",
        "nvidia/b200-sxm",    "nvidia/gb200",       "nvidia/b300-sxm", "nvidia/gb300",     "nvidia/rtx-4090",
        "amd/mi210",          "amd/mi250x",         "amd/mi300x",      "amd/mi325x",       "amd/mi355x",
        "intel/gaudi2",       "intel/gaudi3",       "cerebras/wse-2",  "cerebras/wse-3",   "amd/epyc-9654",
        "amd/epyc-9755",      "intel/xeon-8480",    "intel/xeon-6980p"})
    EXPECT_EQ(device(name).set, "datasheet") << name;
  for (const CatalogueDevice &entry : catalogueDevices())
    EXPECT_EQ(entry.file, "catalogue/devices/" + entry.name + ".yaml");
  // Figures from memory are marked.
  EXPECT_TRUE(llvm::is_contained(device("nvidia/t4").unsureFigures(), "memory_gbps"));
  EXPECT_TRUE(device("nvidia/h100-sxm").peakTflops.at("bf16").unsure == false);
}

TEST(Catalogue, namesTheNearestDevices) {
  auto message = [](StringRef name) { return llvm::toString(findDevice(name).takeError()); };
  EXPECT_EQ(message("nvidia/h100-sx"), "the catalogue has no device 'nvidia/h100-sx'; did you mean 'nvidia/h100-sxm', "
                                       "'paper/h100', 'nvidia/a100-sxm'?");
  EXPECT_NE(message("gaudi3").find("'intel/gaudi3'"), std::string::npos) << message("gaudi3");
  EXPECT_NE(message("quite something else altogether").find("; it has amd/"), std::string::npos);
}

TEST(Catalogue, substitutesNothing) {
  EXPECT_EQ(llvm::toString(device("nvidia/a100-sxm").peak("fp8").takeError()),
            "nvidia/a100-sxm: the catalogue has no figure 'peak_tflops.fp8' for it "
            "(catalogue/devices/nvidia/a100-sxm.yaml), only f32, bf16, int8, int4; choose a precision that computes in "
            "one of those, or add the figure with its source");
  EXPECT_EQ(llvm::toString(device("nvidia/h100-pcie").rentalPerHour().takeError()),
            "nvidia/h100-pcie: the catalogue has no figure 'price.rental_dollars_per_hour' for it "
            "(catalogue/devices/nvidia/h100-pcie.yaml); add it with its source, or choose another device");
}

TEST(Catalogue, linksAreOneWayWhateverTheSourceAddsUp) {
  EXPECT_EQ(llvm::cantFail(device("nvidia/h100-sxm").linkOneWayGBps()), 450); // 900 both ways
  EXPECT_EQ(llvm::cantFail(device("nvidia/l4").linkOneWayGBps()), 32);        // PCIe 4 x16, stated one way
  EXPECT_EQ(device("nvidia/gb200").devicesOnLink(), 72);
  EXPECT_EQ(device("nvidia/b200-sxm").devicesOnLink(), 8);
}

// Table 5 of arXiv 2507.19635 prints the operating costs; the set `paper` holds them as figures.
TEST(Catalogue, operatingCostsAreThoseOfThePaper) {
  for (const char *name : {"paper/a40", "paper/a100", "paper/gaudi3", "paper/mi300x", "paper/b200"})
    EXPECT_NEAR(llvm::cantFail(device(name).operatingPerHour()), device(name).operatingDollarsPerHour->value, 0.01)
        << name;
  // The price beside the H100 gives another figure; $30,000 gives the one that is printed.
  CatalogueDevice h100 = device("paper/h100");
  EXPECT_NEAR(llvm::cantFail(h100.operatingPerHour()), 0.55, 0.005);
  h100.purchaseDollars->value = 30000;
  EXPECT_NEAR(llvm::cantFail(h100.operatingPerHour()), h100.operatingDollarsPerHour->value, 0.01);
}

TEST(Catalogue, ownersPayThePrincipalToo) {
  CatalogueDevice chip = llvm::cantFail(CatalogueDevice::parse(good, "chip.yaml"));
  // $35,040 over 4 years are $1 an hour; without interest the rest is energy: 0.5 kW at half load and $0.2.
  OwnershipTerms terms{4, 0, 0.2, 0.5};
  EXPECT_NEAR(llvm::cantFail(chip.ownedPerHour(terms)), 1.05, 1e-12);
  EXPECT_NEAR(llvm::cantFail(chip.operatingPerHour(terms)), 0.05, 1e-12);
  terms.interestPerYear = 0.08; // e^0.32 - 1 = 0.377128 of the price
  EXPECT_NEAR(llvm::cantFail(chip.ownedPerHour(terms)), 1.427128, 1e-6);
  for (OwnershipTerms bad :
       {OwnershipTerms{0, 0.08, 0.4, 1}, OwnershipTerms{4, 8, 0.4, 1}, OwnershipTerms{4, 0.08, -1, 1},
        OwnershipTerms{4, 0.08, 0.4, 1.5}, OwnershipTerms{NAN, 0.08, 0.4, 1}}) {
    llvm::Expected<double> price = chip.ownedPerHour(bad);
    EXPECT_FALSE(bool(price));
    llvm::consumeError(price.takeError());
  }
  EXPECT_EQ(llvm::toString(chip.ownedPerHour({4, 8, 0.4, 1}).takeError()),
            "ownership: interest a year 8.00 must be between 0 and 1 (8 % is 0.08)");
}
