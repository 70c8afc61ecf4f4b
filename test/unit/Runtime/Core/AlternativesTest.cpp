//===- AlternativesTest.cpp - Functions that are compiled for several devices ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/SeveralDevices.h"

#include "lib/Runtime/Core/BoundDevice.h"
#include "lib/Runtime/Reference/ReferenceDevice.h"

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {
class Alternatives : public ModuleTest {
protected:
  static ModulePointer loadFor(const std::string &path, std::vector<const char *> names) {
    itx_load_options options = {};
    options.devices = names.data();
    options.device_count = names.size();
    return load(path, options);
  }

  /// Returns the result of a function for x = 1, 1; the second of the factors is 2.
  static float resultOf(const ModulePointer &module, const char *function) {
    TensorPointer x = tensorOf<float>(ITX_F32, {2}, {1, 1}), output;
    EXPECT_EQ(invoke(find(module, function), {x.get()}, output), ITX_OK) << itx_last_error();
    return output ? static_cast<float *>(itx_tensor_data(output.get()))[1] : 0;
  }

  std::string refused(const std::string &from, const std::string &to, itx_status status = ITX_CORRUPT) {
    return loadFailure(writeAlternatives(folder, replaced(alternativesManifest(), from, to)), status);
  }

  static constexpr float onHost = 12, onReference = 22, onBoth = 54;
};
} // namespace

TEST_F(Alternatives, TheFirstWhoseDevicesAreHere) {
  ModulePointer module = load(writeAlternatives(folder));
  EXPECT_EQ(resultOf(module, "main"), onBoth);
  EXPECT_EQ(resultOf(module, "other"), onReference);
  ASSERT_EQ(itx_module_function_count(module.get()), 2u) << "one for each name";
  EXPECT_STREQ(itx_function_name(itx_module_function_at(module.get(), 0)), "main");
  EXPECT_STREQ(itx_function_name(itx_module_function_at(module.get(), 1)), "other");

  std::string elsewhere = replaced(alternativesManifest(), R"("kind":"reference")", R"("kind":"cuda")");
  module = load(writeAlternatives(folder, elsewhere));
  EXPECT_EQ(resultOf(module, "main"), onHost);
  EXPECT_EQ(resultOf(module, "other"), onHost);
}

TEST_F(Alternatives, AreChosenByTheDevicesThatMayBeUsed) {
  std::string path = writeAlternatives(folder);
  ModulePointer module = loadFor(path, {"cpu"});
  EXPECT_EQ(resultOf(module, "main"), onHost);
  EXPECT_EQ(resultOf(module, "other"), onHost);
  module = loadFor(path, {"reference"});
  EXPECT_EQ(resultOf(module, "main"), onReference);
  EXPECT_EQ(resultOf(module, "other"), onReference);
  module = loadFor(path, {"reference", "cpu"});
  EXPECT_EQ(resultOf(module, "main"), onBoth);
}

TEST_F(Alternatives, DevicesOfOthersGetNothing) {
  // A device whose settings are wrong, and an object that it could not load, do not matter.
  ScopedVariable delay("ITX_REFERENCE_DELAY_MICROSECONDS", "long");
  std::string manifest = replaced(alternativesManifest(), hostVariant(), "s390x-unknown-linux-gnu");
  std::string path = writeAlternatives(folder, manifest);
  EXPECT_EQ(resultOf(loadFor(path, {"cpu"}), "main"), onHost);
  EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT), HasSubstr("'long'"));

  // So it is for a device that is here, if all chosen functions do without it.
  manifest = replaced(manifest, R"("main","devices":[0,1])", R"("main","devices":[])");
  manifest = replaced(manifest, R"("other","devices":[1])", R"("other","devices":[])");
  EXPECT_NE(load(writeAlternatives(folder, manifest)), nullptr);
}

TEST_F(Alternatives, FunctionsOnlyUseTheirDevices) {
  auto failure = [&](const std::string &devices, const char *device) {
    std::string function = R"("main","devices":)";
    std::string manifest = replaced(alternativesManifest(), function + devices, function + "[]");
    ModulePointer module = loadFor(writeAlternatives(folder, manifest), {device});
    TensorPointer x = tensorOf<float>(ITX_F32, {2}, {1, 1}), output;
    EXPECT_EQ(invoke(find(module, "main"), {x.get()}, output), ITX_CORRUPT);
    return std::string(itx_last_error());
  };
  EXPECT_THAT(failure("[0,1]", "cpu"),
              HasSubstr("wants a workspace of the device 'reference', which is not among its devices"));
  EXPECT_THAT(failure("[0]", "reference"),
              HasSubstr("starts kernel 'host_kernel' of the device 'cpu', which is not among its devices"));
}

TEST_F(Alternatives, NoneIsPossible) {
  std::string path = writeAlternatives(
      folder, replaced(alternativesManifest(), R"("main","devices":[0],)", R"("other","devices":[0,1],)"));
  itx_load_options options = {};
  const char *names[2] = {"cpu", "reference"};
  options.devices = names;
  options.device_count = 1;
  EXPECT_THAT(
      loadFailure(path, ITX_INVALID_ARGUMENT, options),
      HasSubstr("two.itx: is compiled for the devices cpu and reference or the device reference, may use cpu "
                "(this machine has cpu, reference, emulated and wafer): name the devices that it needs too, or none"));
  options.device_count = 2;
  EXPECT_NE(load(path, options), nullptr);
  std::string manifest = replaced(alternativesManifest(), R"("kind":"cpu")", R"("kind":"hip")");
  manifest = replaced(manifest, R"("kind":"reference")", R"("kind":"cuda")");
  EXPECT_THAT(loadFailure(writeAlternatives(folder, manifest), ITX_UNSUPPORTED),
              HasSubstr("two.itx: is compiled for the devices hip and cuda or the device hip or the device cuda, this "
                        "machine has cpu, reference, emulated and wafer: compile it with --target=cpu"));
}

TEST_F(Alternatives, ManifestsThatCannotBeRight) {
  EXPECT_THAT(refused(R"("main","devices":[0],)", R"("main",)"), HasSubstr("there are two functions named 'main'"));
  EXPECT_THAT(refused(R"("main","devices":[0],)", R"("main","devices":[1,0],)"),
              HasSubstr("there are two functions named 'main' for the same devices"));
  EXPECT_THAT(refused(R"("main","devices":[0],)", R"("main","devices":[2],)"),
              HasSubstr("a device of function 'main' is 2, there are 2 devices"));
  EXPECT_THAT(refused(R"("main","devices":[0],)", R"("main","devices":[0,0],)"),
              HasSubstr("function 'main' lists a device twice"));
  EXPECT_THAT(refused(R"("main","devices":[0],)", R"("main","devices":"cpu",)"),
              HasSubstr("'devices' is not an array"));
}

// ---- Several devices of one kind --------------------------------------------------------------------------

namespace {
/// Returns a manifest without functions but one, for devices of these kinds.
Manifest manifestFor(const std::vector<std::string> &kinds) {
  Manifest manifest;
  manifest.functions.resize(1);
  manifest.functions[0].name = "main";
  for (size_t i = 0; i < kinds.size(); ++i) {
    manifest.devices.push_back({"d" + std::to_string(i), kinds[i], {}});
    manifest.functions[0].devices.push_back(uint32_t(i));
  }
  return manifest;
}
} // namespace

TEST(BoundDevices, EachStandsForOne) {
  ReferenceDevice second{HostedSettings()}, third{HostedSettings()};
  std::vector<Device *> present = devices();
  present.push_back(&second);
  present.push_back(&third);
  Manifest manifest = manifestFor({"reference", "cpu", "reference"});
  std::vector<BoundDevice> bound;
  std::vector<size_t> functions;
  Status status = bindDevices(manifest, "x.itx", {}, present, 0, bound, functions);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(bound.size(), 3u);
  EXPECT_EQ(bound[0].device, devices()[1]);
  EXPECT_EQ(bound[1].device, devices()[0]);
  EXPECT_EQ(bound[2].device, &second);
  EXPECT_TRUE(bound[2].hasOwnMemory);
  EXPECT_FALSE(bound[1].hasOwnMemory);
  EXPECT_EQ(functions, std::vector<size_t>{0});

  manifest = manifestFor({"reference", "cpu", "reference", "reference", "reference"});
  EXPECT_EQ(bindDevices(manifest, "x.itx", {}, present, 0, bound, functions).message(),
            "x.itx: is compiled for the devices reference (4) and cpu, this machine has cpu, reference (3), "
            "emulated and wafer: compile "
            "it with --target=cpu");
}
