//===- DeviceTensorsTest.cpp - Tensors in the memory of devices ------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Mixed.h"

#include "lib/Formats/DLPack.h"
#include "lib/Runtime/Core/Tensor.h"
#include "lib/Support/Json.h"

#include <thread>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {

struct FreeDevice {
  void operator()(itx_device *device) const { itx_device_free(device); }
};
using DevicePointer = std::unique_ptr<itx_device, FreeDevice>;

class DeviceTensors : public ModuleTest {
protected:
  static DevicePointer device(const char *name) {
    itx_device *found = nullptr;
    EXPECT_EQ(itx_device_find(name, &found), ITX_OK) << itx_last_error();
    return DevicePointer(found);
  }

  static TensorPointer valuesOn(const DevicePointer &device, const std::vector<int64_t> &values) {
    int64_t shape = int64_t(values.size());
    itx_tensor *tensor = nullptr;
    EXPECT_EQ(itx_tensor_create_on(device.get(), ITX_I64, 1, &shape, values.data(), &tensor), ITX_OK)
        << itx_last_error();
    return TensorPointer(tensor);
  }

  static TensorPointer copied(const TensorPointer &tensor, const DevicePointer &device) {
    itx_tensor *copy = nullptr;
    EXPECT_EQ(itx_tensor_copy(tensor.get(), device.get(), &copy), ITX_OK) << itx_last_error();
    return TensorPointer(copy);
  }

  static std::vector<int64_t> valuesIn(const TensorPointer &tensor) {
    TensorPointer host = copied(tensor, nullptr);
    const auto *values = static_cast<const int64_t *>(itx_tensor_data(host.get()));
    return {values, values + itx_tensor_elements(host.get())};
  }

  /// True if the rows of a result, wherever it is, are those of the table at the ids, and the offset.
  static bool isLookedUp(const TensorPointer &output, const std::vector<int64_t> &ids) {
    TensorPointer host = copied(output, nullptr);
    const auto *values = static_cast<const float *>(itx_tensor_data(host.get()));
    for (size_t i = 0; i < ids.size(); ++i)
      for (int64_t k = 0; k < 4; ++k)
        if (values[i * 4 + k] != float(ids[i]) + float(k) / 2)
          return false;
    return itx_tensor_elements(host.get()) == int64_t(4 * ids.size());
  }

  /// Calls "there"; `where` is the device for both results, null for the host.
  static itx_status call(const ModulePointer &module, std::vector<itx_tensor *> inputs, const itx_device *where,
                         TensorPointer (&outputs)[2]) {
    const itx_device *devices[] = {where, where};
    itx_invoke_options options = {sizeof(options), devices, 2};
    itx_tensor *made[2] = {};
    itx_status status = itx_invoke_with(find(module, "there"), &options, inputs.data(), inputs.size(), made, 2);
    outputs[0].reset(made[0]);
    outputs[1].reset(made[1]);
    return status;
  }

  /// Returns how many copies the reference device makes during an action.
  template <typename Action> size_t copiesDuring(Action action) {
    EXPECT_EQ(itx_profile_start(), ITX_OK);
    action();
    EXPECT_EQ(itx_profile_stop((folder / "t.json").c_str()), ITX_OK) << itx_last_error();
    size_t copies = 0;
    Json profile = Json::parse(readFile(folder / "t.json"));
    for (const Json &event : profile["traceEvents"])
      copies += event.value("cat", "") == "copy";
    return copies;
  }
};

} // namespace

// ---- Making and copying -----------------------------------------------------------------------------------

TEST_F(DeviceTensors, AreMadeAndCopied) {
  DevicePointer there = device("reference"), cpu = device("cpu");
  TensorPointer first = valuesOn(there, {1, 2, 3}), second = copied(first, there), host = copied(second, cpu);
  EXPECT_STREQ(itx_tensor_device(first.get()), "reference");
  EXPECT_STREQ(itx_tensor_device(second.get()), "reference");
  EXPECT_EQ(itx_tensor_device(host.get()), nullptr);
  EXPECT_EQ(itx_tensor_device(nullptr), nullptr);
  EXPECT_NE(itx_tensor_data(first.get()), itx_tensor_data(second.get()));
  EXPECT_EQ(valuesIn(first), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(valuesIn(second), valuesIn(first));
  EXPECT_EQ(valuesIn(host), valuesIn(first));
  EXPECT_EQ(valuesIn(copied(host, there)), valuesIn(first));
  EXPECT_EQ(valuesIn(valuesOn(there, {})), std::vector<int64_t>()) << "empty";
  EXPECT_EQ(itx_tensor_device(valuesOn(cpu, {1}).get()), nullptr);
  EXPECT_STREQ(itx_device_get_name(there.get()), "reference");
}

TEST_F(DeviceTensors, RowsShareTheMemory) {
  DevicePointer there = device("reference");
  TensorPointer all = valuesOn(there, {1, 2, 3, 4, 5});
  auto rows = [&](const TensorPointer &of, int64_t first, int64_t count) {
    itx_tensor *made = nullptr;
    EXPECT_EQ(itx_tensor_rows(of.get(), first, count, &made), ITX_OK) << itx_last_error();
    return TensorPointer(made);
  };
  TensorPointer some = rows(all, 1, 3);
  EXPECT_STREQ(itx_tensor_device(some.get()), "reference");
  EXPECT_EQ(itx_tensor_data(some.get()), static_cast<int64_t *>(itx_tensor_data(all.get())) + 1);
  EXPECT_EQ(copiesDuring([&] { rows(all, 0, 2); }), 0u);
  EXPECT_EQ(valuesIn(some), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(valuesIn(rows(some, 2, 1)), std::vector<int64_t>{4});
  EXPECT_EQ(valuesIn(rows(all, 5, 0)), std::vector<int64_t>());
  some = rows(all, 4, 1);
  all.reset();
  EXPECT_EQ(valuesIn(some), std::vector<int64_t>{5}) << "rows keep the memory";

  int64_t shape[] = {2, 3};
  const int64_t numbers[] = {1, 2, 3, 4, 5, 6};
  itx_tensor *made = nullptr;
  ASSERT_EQ(itx_tensor_create(ITX_I64, 2, shape, numbers, &made), ITX_OK);
  TensorPointer matrix(made);
  EXPECT_EQ(valuesIn(rows(matrix, 1, 1)), (std::vector<int64_t>{4, 5, 6}));
  for (auto [first, count] : {std::pair<int64_t, int64_t>(-1, 1), {0, -1}, {0, 3}, {3, 0}, {1, INT64_MAX}}) {
    made = nullptr;
    EXPECT_EQ(itx_tensor_rows(matrix.get(), first, count, &made), ITX_INVALID_ARGUMENT);
    EXPECT_THAT(itx_last_error(), HasSubstr("are wanted, the tensor has 2"));
    EXPECT_EQ(made, nullptr);
  }
  ASSERT_EQ(itx_tensor_create(ITX_I64, 0, nullptr, numbers, &made), ITX_OK);
  TensorPointer scalar(made);
  EXPECT_EQ(itx_tensor_rows(scalar.get(), 0, 0, &made), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("a tensor of rank 0 has no rows"));
}

TEST_F(DeviceTensors, RefusedArguments) {
  DevicePointer there = device("reference");
  itx_device *found = nullptr;
  itx_tensor *made = nullptr;
  int64_t many = int64_t(1) << 58;
  EXPECT_EQ(itx_device_find("gpu7", &found), ITX_NOT_FOUND);
  EXPECT_THAT(itx_last_error(), HasSubstr("no device 'gpu7'; it has cpu, reference"));
  EXPECT_EQ(itx_device_find(nullptr, &found), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create_on(there.get(), ITX_I64, 1, &many, nullptr, &made), ITX_OUT_OF_MEMORY);
  EXPECT_THAT(itx_last_error(), HasSubstr("no memory on the device 'reference' for a tensor of"));
  EXPECT_EQ(itx_tensor_create_on(there.get(), ITX_I64, 17, &many, nullptr, &made), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create_on(there.get(), ITX_I64, 1, &many, nullptr, nullptr), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_copy(nullptr, there.get(), &made), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_copy_start(nullptr, there.get(), nullptr), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  ScopedFault fault(Fault::OutOfMemory, 1);
  int64_t value = 1, one = 1;
  EXPECT_EQ(itx_tensor_create_on(there.get(), ITX_I64, 1, &one, &value, &made), ITX_OUT_OF_MEMORY);
  EXPECT_THAT(itx_last_error(), HasSubstr("an injected fault"));
}

TEST_F(DeviceTensors, AreCopiedInTheBackground) {
  DevicePointer there = device("reference");
  ScopedDelay delayed(2000);
  TensorPointer host = tensorOf<int64_t>(ITX_I64, {3}, {4, 5, 6});
  std::vector<itx_pending *> pending(8);
  for (itx_pending *&one : pending)
    ASSERT_EQ(itx_tensor_copy_start(host.get(), there.get(), &one), ITX_OK) << itx_last_error();
  for (itx_pending *one : pending) {
    itx_tensor *copy = nullptr;
    ASSERT_EQ(itx_pending_wait(one, &copy, 1), ITX_OK) << itx_last_error();
    EXPECT_EQ(valuesIn(TensorPointer(copy)), (std::vector<int64_t>{4, 5, 6}));
  }
  itx_pending *failing = nullptr;
  itx_tensor *copy = nullptr;
  ScopedFault fault(Fault::DeviceLost, 1);
  ASSERT_EQ(itx_tensor_copy_start(host.get(), there.get(), &failing), ITX_OK) << "the error comes later";
  EXPECT_EQ(itx_pending_wait(failing, &copy, 1), ITX_DEVICE_LOST);
  EXPECT_EQ(copy, nullptr);
}

// ---- Calls ------------------------------------------------------------------------------------------------

TEST_F(DeviceTensors, AreUsedWhereTheyAre) {
  ModulePointer module = load(writeMixed(folder));
  DevicePointer there = device("reference");
  std::vector<int64_t> ids = {3, 1, 63, 0, 7}, fives(5, 5);
  EXPECT_STREQ(itx_function_input(find(module, "there"), 0)->device, "reference");
  EXPECT_STREQ(itx_function_output(find(module, "there"), 1)->device, "reference");
  EXPECT_EQ(itx_function_input(find(module, "main"), 0)->device, nullptr);
  for (uint64_t delay : {0, 300}) {
    ScopedDelay delayed(delay);
    TensorPointer onHost = tensorOf(ITX_I64, {5}, ids), onDevice = valuesOn(there, ids), outputs[2];
    ASSERT_EQ(call(module, {onHost.get()}, nullptr, outputs), ITX_OK) << itx_last_error();
    EXPECT_EQ(itx_tensor_device(outputs[0].get()), nullptr);
    EXPECT_TRUE(isLookedUp(outputs[0], ids));
    EXPECT_TRUE(isLookedUp(outputs[1], fives)) << "the default is copied there too";
    ASSERT_EQ(call(module, {onDevice.get(), onHost.get()}, there.get(), outputs), ITX_OK) << itx_last_error();
    EXPECT_STREQ(itx_tensor_device(outputs[0].get()), "reference");
    EXPECT_TRUE(isLookedUp(outputs[0], ids));
    EXPECT_TRUE(isLookedUp(outputs[1], ids));
  }
  TensorPointer onHost = tensorOf(ITX_I64, {5}, ids), onDevice = valuesOn(there, ids), outputs[2];
  EXPECT_EQ(copiesDuring([&] { call(module, {onHost.get(), onHost.get()}, nullptr, outputs); }), 4u);
  EXPECT_EQ(copiesDuring([&] { call(module, {onDevice.get(), onDevice.get()}, nullptr, outputs); }), 2u);
  EXPECT_EQ(copiesDuring([&] { call(module, {onDevice.get(), onDevice.get()}, there.get(), outputs); }), 0u);
  EXPECT_TRUE(isLookedUp(outputs[1], ids));
}

TEST_F(DeviceTensors, ResultsOfTheHostAreCopiedOnRequest) {
  ModulePointer module = load(writeMixed(folder));
  DevicePointer there = device("reference"), cpu = device("cpu");
  TensorPointer ids = tensorOf<int64_t>(ITX_I64, {2}, {9, 60});
  for (const DevicePointer *where : {&there, &cpu}) {
    const itx_device *devices[] = {where->get()};
    itx_invoke_options options = {sizeof(options), devices, 1};
    itx_tensor *inputs[] = {ids.get()}, *made = nullptr;
    ASSERT_EQ(itx_invoke_with(find(module, "main"), &options, inputs, 1, &made, 1), ITX_OK) << itx_last_error();
    TensorPointer output(made), host = copied(output, nullptr);
    EXPECT_EQ(itx_tensor_device(made) != nullptr, where == &there);
    EXPECT_EQ(static_cast<float *>(itx_tensor_data(host.get()))[7], mixedResult(60, 3));
  }
}

TEST_F(DeviceTensors, RefusedCalls) {
  ModulePointer module = load(writeMixed(folder));
  DevicePointer there = device("reference");
  TensorPointer onDevice = valuesOn(there, {1, 2});
  EXPECT_THAT(refusal(find(module, "main"), {onDevice.get()}),
              HasSubstr("input 'ids' is in the memory of the device 'reference', it must be in the memory of the host: "
                        "copy it there first"));
  const itx_device *devices[] = {there.get()};
  itx_invoke_options options = {sizeof(options), devices, 1};
  itx_tensor *inputs[] = {onDevice.get()}, *made[2] = {};
  EXPECT_EQ(itx_invoke_with(find(module, "there"), &options, inputs, 1, made, 2), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("devices for 1 outputs given, function 'there' has 2"));
  options.struct_bytes = 4;
  EXPECT_EQ(itx_invoke_with(find(module, "there"), &options, inputs, 1, made, 2), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("sizeof(itx_invoke_options)"));
}

TEST_F(DeviceTensors, FailuresOfCopiesAreThoseOfTheCall) {
  ModulePointer module = load(writeMixed(folder));
  DevicePointer there = device("reference");
  TensorPointer ids = tensorOf<int64_t>(ITX_I64, {2}, {1, 2}), outputs[2];
  for (uint64_t command = 1; command <= 6; ++command) { // two inputs, two kernels, two results
    ScopedFault fault(Fault::OutOfMemory, command);
    EXPECT_EQ(call(module, {ids.get()}, nullptr, outputs), ITX_OUT_OF_MEMORY) << command;
    EXPECT_THAT(itx_last_error(), HasSubstr("an injected fault"));
    EXPECT_EQ(outputs[0], nullptr);
  }
  {
    ScopedFault fault(Fault::DeviceLost, 4);
    EXPECT_EQ(call(module, {ids.get()}, nullptr, outputs), ITX_DEVICE_LOST);
  }
  ASSERT_EQ(call(module, {ids.get()}, there.get(), outputs), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isLookedUp(outputs[0], {1, 2}));
}

TEST_F(DeviceTensors, SeveralCallers) {
  ModulePointer module = load(writeMixed(folder));
  DevicePointer there = device("reference");
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<int64_t> ids = {t, 2 * t, 3 * t};
      TensorPointer onHost = tensorOf(ITX_I64, {3}, ids), onDevice = valuesOn(there, ids), outputs[2];
      for (int round = 0; round < 20; ++round) {
        bool good = call(module, {onHost.get(), onDevice.get()}, round % 2 ? there.get() : nullptr, outputs) == ITX_OK;
        failures += !(good && isLookedUp(outputs[0], ids) && isLookedUp(outputs[1], ids));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures.load(), 0);
}

// ---- DLPack -----------------------------------------------------------------------------------------------

TEST_F(DeviceTensors, GoThroughDlpack) {
  DevicePointer there = device("reference");
  TensorPointer tensor = valuesOn(there, {1, 2, 3});
  void *address = itx_tensor_data(tensor.get());
  DLManagedTensorVersioned *managed = nullptr;
  ASSERT_EQ(itx_tensor_to_dlpack_versioned(tensor.get(), &managed), ITX_OK) << itx_last_error();
  EXPECT_EQ(managed->dl_tensor.device.device_type, kDLExtDev);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 0);
  tensor.reset();
  itx_tensor *imported = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack_versioned(managed, &imported), ITX_OK) << itx_last_error();
  tensor.reset(imported);
  EXPECT_EQ(itx_tensor_data(imported), address);
  EXPECT_STREQ(itx_tensor_device(imported), "reference");
  EXPECT_EQ(valuesIn(tensor), (std::vector<int64_t>{1, 2, 3})) << "the memory lives on";

  DLManagedTensor *old = nullptr;
  ASSERT_EQ(itx_tensor_to_dlpack(tensor.get(), &old), ITX_OK) << itx_last_error();
  EXPECT_EQ(old->dl_tensor.device.device_type, kDLExtDev);
  old->deleter(old);
}

TEST_F(DeviceTensors, PartsAreImported) {
  ModulePointer module = load(writeMixed(folder));
  DevicePointer there = device("reference");
  TensorPointer whole = valuesOn(there, {7, 8, 9, 10}), outputs[2];
  int64_t shape = 2;
  DLManagedTensor part = {
      {itx_tensor_data(whole.get()), {kDLExtDev, 0}, 1, {kDLInt, 64, 1}, &shape, nullptr, 8}, nullptr, nullptr};
  itx_tensor *tensor = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack(&part, &tensor), ITX_OK) << itx_last_error();
  TensorPointer owned(tensor);
  EXPECT_EQ(valuesIn(owned), (std::vector<int64_t>{8, 9}));
  ASSERT_EQ(call(module, {tensor, tensor}, nullptr, outputs), ITX_OK) << "an input that is not aligned is copied";
  EXPECT_TRUE(isLookedUp(outputs[1], {8, 9}));
}

TEST_F(DeviceTensors, RefusedImports) {
  DevicePointer there = device("reference");
  TensorPointer tensor = valuesOn(there, {1, 2, 3, 4});
  int64_t shape[] = {2}, strides[] = {2}, number = 0;
  auto refused = [&](void *data, DLDevice where, int64_t *stride) {
    DLManagedTensor managed = {{data, where, 1, {kDLInt, 64, 1}, shape, stride, 0}, nullptr, nullptr};
    itx_tensor *made = nullptr;
    EXPECT_EQ(itx_tensor_from_dlpack(&managed, &made), ITX_INVALID_ARGUMENT);
    EXPECT_EQ(made, nullptr);
    return std::string(itx_last_error());
  };
  void *data = itx_tensor_data(tensor.get());
  EXPECT_THAT(refused(data, {kDLExtDev, 3}, nullptr),
              HasSubstr("device type 12, number 3, which is none of the devices"));
  EXPECT_THAT(refused(data, {kDLCUDA, 0}, nullptr), HasSubstr("device type 2 (CUDA)"));
  EXPECT_THAT(refused(data, {kDLExtDev, 0}, strides),
              HasSubstr("in the memory of the device 'reference', are not dense"));
  EXPECT_THAT(refused(&number, {kDLExtDev, 0}, nullptr),
              HasSubstr("whose memory it is not: has another library made it"));
  shape[0] = 1000;
  EXPECT_THAT(refused(data, {kDLExtDev, 0}, nullptr), HasSubstr("whose memory it is not"));
}
