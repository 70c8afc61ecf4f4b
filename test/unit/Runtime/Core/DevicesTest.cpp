//===- DevicesTest.cpp - Modules that run on several devices ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Decoder.h"
#include "test/unit/Runtime/Mixed.h"

#include "lib/Runtime/Core/Tensor.h"
#include "lib/Support/Json.h"

#include <map>
#include <set>
#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {
class SeveralDevices : public ModuleTest {
protected:
  static TensorPointer range(int64_t count, int64_t first = 0) {
    std::vector<int64_t> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = (first + i) % 64;
    return tensorOf(ITX_I64, {count}, values);
  }

  static bool isLookedUp(const TensorPointer &ids, const TensorPointer &output) {
    const auto *values = static_cast<const float *>(itx_tensor_data(output.get()));
    for (int64_t i = 0; i < itx_tensor_elements(ids.get()); ++i)
      for (int64_t k = 0; k < 4; ++k)
        if (values[i * 4 + k] != mixedResult(static_cast<int64_t *>(itx_tensor_data(ids.get()))[i], k))
          return false;
    return itx_tensor_elements(output.get()) == 4 * itx_tensor_elements(ids.get());
  }

  /// Returns the message of a load that must fail.
  std::string refused(const std::string &from, const std::string &to, itx_status status) {
    return loadFailure(writeMixed(folder, replaced(mixedManifest(), from, to)), status);
  }
};
} // namespace

// ---- Calls ------------------------------------------------------------------------------------------------

TEST_F(SeveralDevices, RunEachKernelOnItsDevice) {
  ModulePointer module = load(writeMixed(folder));
  for (uint64_t delay : {0, 300}) {
    ScopedDelay delayed(delay);
    for (int64_t count : {1, 5, 1000, 3}) {
      TensorPointer ids = range(count, count), output;
      ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
      EXPECT_TRUE(isLookedUp(ids, output)) << count;
    }
  }
}

TEST_F(SeveralDevices, CallsEndWithTheirWork) {
  ModulePointer module = load(writeMixed(folder));
  ScopedDelay delayed(400);
  for (int64_t first = 0; first < 3; ++first) {
    TensorPointer values = range(1000, first), output;
    ASSERT_EQ(invoke(find(module, "hasty"), {values.get()}, output), ITX_OK) << itx_last_error();
    const char *out = static_cast<const char *>(itx_tensor_data(output.get()));
    for (int copy = 0; copy < 18; ++copy)
      EXPECT_EQ(std::memcmp(out + copy * 8000, itx_tensor_data(values.get()), 8000), 0) << copy;
  }
}

TEST_F(SeveralDevices, SeveralCallers) {
  ModulePointer module = load(writeMixed(folder));
  const itx_function *main = find(module, "main");
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t round = 0; round < 25; ++round) {
        TensorPointer ids = range(50 + t, t + round), output;
        failures += invoke(main, {ids.get()}, output) != ITX_OK || !isLookedUp(ids, output);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures.load(), 0);
}

TEST_F(SeveralDevices, ErrorsOfDevicesAreErrorsOfCalls) {
  ModulePointer module = load(writeMixed(folder));
  TensorPointer ids = range(100), output;
  for (uint64_t command : {1, 2, 3}) {
    ScopedFault fault(Fault::OutOfMemory, command);
    EXPECT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OUT_OF_MEMORY) << command;
    EXPECT_THAT(itx_last_error(), HasSubstr("an injected fault"));
    EXPECT_EQ(output, nullptr);
  }
  {
    ScopedFault fault(Fault::OutOfMemory, 36); // the last of a function that does not wait
    EXPECT_EQ(invoke(find(module, "hasty"), {ids.get()}, output), ITX_OUT_OF_MEMORY);
  }
  {
    ScopedFault fault(Fault::DeviceLost, 2);
    EXPECT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_DEVICE_LOST);
    EXPECT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_DEVICE_LOST) << "it stays lost";
    EXPECT_STREQ(itx_status_name(ITX_DEVICE_LOST), "device lost");
  }
  ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isLookedUp(ids, output));
}

TEST_F(SeveralDevices, WhatFunctionsMayNotDo) {
  ModulePointer module = load(writeMixed(folder));
  auto fails = [&](int64_t what, itx_status status) {
    TensorPointer values = tensorOf<int64_t>(ITX_I64, {1}, {what}), output;
    EXPECT_EQ(invoke(find(module, "wrong"), {values.get()}, output), status) << what;
    return std::string(itx_last_error());
  };
  EXPECT_THAT(fails(0, ITX_CORRUPT), HasSubstr("wants a workspace of the device 'cpu', which uses memory of the host"));
  EXPECT_THAT(fails(1, ITX_OUT_OF_MEMORY), HasSubstr("no memory on the device 'reference' for the -1 bytes"));
  EXPECT_THAT(fails(2, ITX_OUT_OF_MEMORY), HasSubstr("for the 1152921504606846976 bytes that function 'wrong' works"));
  EXPECT_THAT(fails(3, ITX_CORRUPT), HasSubstr("function 'wrong' waits for an event of device 199 of 2"));
  EXPECT_THAT(fails(4, ITX_CORRUPT), HasSubstr("copies 8 bytes on device 2 of 2"));
  EXPECT_THAT(fails(5, ITX_CORRUPT), HasSubstr("copies -8 bytes on device 1 of 2"));
  EXPECT_THAT(fails(6, ITX_CORRUPT), HasSubstr("between the memories 8"));
  EXPECT_THAT(fails(7, ITX_CORRUPT), HasSubstr("starts kernel 2 of 2"));
}

TEST_F(SeveralDevices, EachQueueHasATrackInProfiles) {
  ModulePointer module = load(writeMixed(folder));
  TensorPointer ids = range(10), output;
  ASSERT_EQ(itx_profile_start(), ITX_OK);
  ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  ASSERT_EQ(itx_profile_stop((folder / "t.json").c_str()), ITX_OK) << itx_last_error();
  Json json;
  Status status = parseJson(readFile(folder / "t.json"), "t.json", json);
  ASSERT_TRUE(status.ok()) << status.message();
  std::map<int64_t, std::string> tracks;
  for (const Json &event : json["traceEvents"])
    if (event["name"] == "thread_name")
      tracks[event["tid"]] = event["args"]["name"];
  std::map<std::string, std::set<std::string>> found;
  for (const Json &event : json["traceEvents"])
    if (event["ph"] == "X")
      found[tracks[event["tid"]]].insert(event["name"].get<std::string>() + event["args"].value("device", ""));
  EXPECT_EQ(found, (std::map<std::string, std::set<std::string>>{{"", {"main", "scale_kernel"}},
                                                                 {"reference queue 0", {"copyreference"}},
                                                                 {"reference queue 1", {"look_up_kernelreference"}}}));
}

// ---- Loading ----------------------------------------------------------------------------------------------

TEST_F(SeveralDevices, AreNamedByTheCaller) {
  std::string path = writeMixed(folder);
  const char *names[2] = {"reference", "cpu"}; // in any order
  itx_load_options options = {};
  options.devices = names;
  options.device_count = 2;
  TensorPointer ids = range(7), output;
  ModulePointer module = load(path, options);
  ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isLookedUp(ids, output));

  auto refusedNames = [&](const char *first, const char *second, itx_status status) {
    names[0] = first;
    names[1] = second;
    return loadFailure(path, status, options);
  };
  EXPECT_THAT(
      refusedNames("cpu", "gpu7", ITX_NOT_FOUND),
      HasSubstr(
          "x.itx: may use the device 'gpu7', which is not here: this machine has cpu, reference, emulated and wafer"));
  EXPECT_THAT(refusedNames("cpu", "cpu", ITX_INVALID_ARGUMENT), HasSubstr("the device 'cpu' is named twice"));
  EXPECT_THAT(refusedNames("cpu", nullptr, ITX_INVALID_ARGUMENT),
              HasSubstr("the name of device 1 in the load options is null"));
  options.device_count = 1;
  EXPECT_THAT(refusedNames("cpu", nullptr, ITX_INVALID_ARGUMENT),
              HasSubstr("x.itx: is compiled for the devices cpu and reference, may use cpu (this machine has cpu, "
                        "reference, emulated and wafer): name the devices that it needs too, or none"));
  names[0] = "reference";
  EXPECT_THAT(
      loadFailure(writeSample(folder), ITX_INVALID_ARGUMENT, options),
      HasSubstr("m.itx: may use the device 'reference', but has no code for the kind reference: it has code for "
                "cpu"));
  options.devices = nullptr;
  EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT, options), HasSubstr("'options.devices' is null"));
}

TEST_F(SeveralDevices, ThatAreNotHere) {
  EXPECT_THAT(refused(R"("name":"r1","kind":"reference")", R"("name":"r1","kind":"cuda")", ITX_UNSUPPORTED),
              HasSubstr("x.itx: is compiled for the devices cpu and cuda, this machine has cpu, reference, emulated "
                        "and wafer: compile it "
                        "with --target=cpu"));
  EXPECT_THAT(refused(R"({"name":"cpu","kind":"cpu"})", R"({"name":"cpu","kind":"cpu"},{"name":"c","kind":"cpu"})",
                      ITX_UNSUPPORTED),
              HasSubstr("x.itx: is compiled for the devices cpu (2) and reference, this machine has cpu, reference, "
                        "emulated and wafer"));
  std::string sample = replaced(filledManifest(), "\"kernels\"", R"("devices":[{"name":"d","kind":"cuda"}],"kernels")");
  EXPECT_THAT(loadFailure(writeSample(folder, sample), ITX_UNSUPPORTED),
              HasSubstr("m.itx: is compiled for the device cuda, this machine has cpu, reference, emulated and wafer"));
  EXPECT_THAT(refused(hostVariant(), "s390x-unknown-linux-gnu", ITX_UNSUPPORTED),
              AllOf(HasSubstr("has code for 'r1' in the variants pdp11-unknown-none, s390x-unknown-linux-gnu, none of "
                              "which the device 'reference' can load"),
                    HasSubstr("asynchronous queues")));
}

TEST_F(SeveralDevices, ManifestAndCodeDisagree) {
  EXPECT_THAT(refused(R"({"name":"cpu","kind":"cpu"},)", "", ITX_CORRUPT),
              HasSubstr("the device of kernel 'look_up_kernel' is 1, there are 1 devices"));
  EXPECT_THAT(loadFailure(writeSample(folder, replaced(filledManifest(), "\"kernels\"",
                                                       R"("devices":[{"name":"a","kind":"cpu"},
                                                          {"name":"b","kind":"reference"}],"kernels")")),
                          ITX_CORRUPT),
              HasSubstr("for 1 devices, its manifest lists 2"));
  EXPECT_THAT(refused(hostVariant() + R"(","object":0)", hostVariant() + R"(","object":1)", ITX_CORRUPT),
              HasSubstr("for 1 objects, its manifest lists 2"));
  std::string objects =
      R"("objects":[{"variant":"pdp11-unknown-none","object":0},{"variant":")" + hostVariant() + R"(","object":0}])";
  std::string moved = replaced(mixedManifest(), R"("kind":"cpu"})", R"("kind":"cpu",)" + objects + "}");
  moved = replaced(moved, ",\n   " + objects + "}],", "}],");
  EXPECT_THAT(loadFailure(writeMixed(folder, replaced(moved, "[0,1]", "[1,1]")), ITX_CORRUPT),
              HasSubstr("has no code for the device 'r1', which kernel 'scale_kernel' runs on"));
  EXPECT_THAT(refused("[0,1]", "[0,0]", ITX_CORRUPT),
              HasSubstr("kernel 'look_up_kernel' of the device 'cpu' has no host code"));
  EXPECT_THAT(refused("[0,1]", "[1,1]", ITX_CORRUPT), HasSubstr("lacks kernel 'scale_kernel'"));
}

TEST_F(SeveralDevices, WeightsThatCannotBeCopied) {
  std::string path = writeMixed(folder);
  {
    ScopedFault fault(Fault::OutOfMemory, 1);
    EXPECT_THAT(loadFailure(path, ITX_OUT_OF_MEMORY),
                HasSubstr("x.safetensors: cannot copy tensor 'table', 1024 bytes, to the device 'reference': "));
  }
  {
    ScopedFault fault(Fault::OutOfMemory, 2);
    EXPECT_THAT(loadFailure(path, ITX_OUT_OF_MEMORY), HasSubstr("cannot copy tensor 'offset', 64 bytes"));
  }
  EXPECT_NE(load(path), nullptr);
}

TEST_F(SeveralDevices, BadVariablesOfADeviceThatIsUsed) {
  ScopedVariable delay("ITX_REFERENCE_DELAY_MICROSECONDS", "long");
  EXPECT_THAT(loadFailure(writeMixed(folder), ITX_INVALID_ARGUMENT), HasSubstr("'long'"));
  EXPECT_NE(load(writeSample(folder)), nullptr) << "it uses another device";
}

// ---- Tensors ----------------------------------------------------------------------------------------------

namespace {
/// Makes a tensor in the memory of the reference device.
itx_tensor onDevice(itx_dtype dtype, std::vector<int64_t> shape, const Buffer &buffer) {
  itx_tensor tensor;
  tensor.dtype = dtype;
  EXPECT_TRUE(tensorBytes(dtype, shape.data(), shape.size(), tensor.bytes).ok());
  EXPECT_LE(tensor.bytes, buffer.bytes());
  tensor.shape = std::move(shape);
  tensor.data = std::shared_ptr<void>(buffer.address(), [](void *) {});
  tensor.device = buffer.device();
  return tensor;
}
} // namespace

TEST_F(SeveralDevices, TensorsStayWhereTheyAre) {
  Buffer buffer;
  ASSERT_TRUE(Buffer::make(reference(), 64, buffer).ok());
  itx_tensor tensor = onDevice(ITX_I64, {4}, buffer);
  EXPECT_EQ(itx_tensor_save_npy(&tensor, (folder / "x.npy").c_str()), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("is in the memory of the device 'reference' and cannot be saved"));
  EXPECT_EQ(folder.files(), 0u);
  EXPECT_THAT(itx_last_error(), HasSubstr("so copy it there first"));
  ModulePointer module = load(writeMixed(folder));
  EXPECT_THAT(refusal(find(module, "main"), {&tensor}),
              HasSubstr("input 'ids' is in the memory of the device 'reference', it must be in the memory of the "
                        "host: copy it there first"));
}

TEST_F(SeveralDevices, StateIsOnItsDeviceOrTheHost) {
  std::string elf = sampleElf(deviceDecoderManifest(), ITX_TEST_DECODER_DEVICE);
  ASSERT_TRUE(writeArtifact(folder / "d.itx", elf.data(), elf.size()).ok());
  ModulePointer module = load(folder / "d.itx");
  TensorPointer ones = tensorOf<int64_t>(ITX_I64, {1}, {0}), table = tensorOf<int64_t>(ITX_I64, {1, 1}, {0});
  TensorPointer keys = tensorOf<int64_t>(ITX_I64, {1, 4}, {0, 0, 0, 0}), output;
  std::vector<itx_tensor *> inputs = {ones.get(), ones.get(), ones.get(), table.get(), ones.get(), keys.get()};
  ASSERT_EQ(invoke(find(module, "step"), inputs, output), ITX_OK) << itx_last_error();
  EXPECT_EQ(static_cast<float *>(itx_tensor_data(output.get()))[5], expectedLogit({0}, 5));
  const auto *onHost = static_cast<const int64_t *>(itx_tensor_data(keys.get()));
  EXPECT_EQ(onHost[0], 1) << "state of the host is copied to the device and back";
  TensorPointer wrong = tensorOf<int64_t>(ITX_I64, {1}, {failing});
  std::vector<itx_tensor *> failingInputs = inputs;
  failingInputs[0] = wrong.get();
  refusal(find(module, "step"), failingInputs);
  EXPECT_EQ(onHost[0], 1) << "unless the call fails";
  Buffer buffer;
  ASSERT_TRUE(Buffer::make(reference(), 256, buffer).ok());
  itx_tensor there = onDevice(ITX_I64, {1, 4}, buffer);
  inputs.back() = &there;
  ASSERT_EQ(invoke(find(module, "step"), inputs, output), ITX_OK) << itx_last_error();
  EXPECT_EQ(static_cast<float *>(itx_tensor_data(output.get()))[5], expectedLogit({0}, 5));
  there.data = std::shared_ptr<void>(static_cast<char *>(buffer.address()) + 8, [](void *) {});
  EXPECT_THAT(refusal(find(module, "step"), inputs), HasSubstr("must begin at a multiple of 64 bytes"));
}
