//===- VerifyKernelsTest.cpp - Wrong kernels are found ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Mixed.h"
#include "test/unit/Runtime/SeveralDevices.h"

#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Module.h"

#include <atomic>
#include <cmath>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {
class VerifiedKernelsTest : public ModuleTest {
protected:
  static itx_load_options verifying(double tolerance = 0.001) {
    itx_load_options options = {};
    options.verify_kernels = tolerance;
    return options;
  }

  ModulePointer loadVerified(double tolerance = 0.001) { return load(writeVerified(folder), verifying(tolerance)); }

  static VerifiedKernels verified(const ModulePointer &module) {
    return moduleOf(module.get())->verifier()->verified();
  }

  /// Returns first, 1, 2, …
  static TensorPointer range(float first, int64_t count = 1000) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = i == 0 ? first : float(i);
    return tensorOf(ITX_F32, {count}, values);
  }

  static itx_status callTwoOutputs(const ModulePointer &module, const char *function, const TensorPointer &x,
                                   TensorPointer &scaled, TensorPointer &which) {
    itx_tensor *input = x.get(), *made[2] = {};
    itx_status status = itx_invoke(find(module, function), &input, 1, made, 2);
    scaled.reset(made[0]);
    which.reset(made[1]);
    return status;
  }

  static float at(const TensorPointer &tensor, int64_t index) {
    return static_cast<float *>(itx_tensor_data(tensor.get()))[index];
  }
};
} // namespace

TEST_F(VerifiedKernelsTest, RightOnesPass) {
  ModulePointer module = loadVerified();
  for (int64_t count : {1, 7, 1000}) {
    TensorPointer scaled, which;
    ASSERT_EQ(callTwoOutputs(module, "scale", range(3, count), scaled, which), ITX_OK) << itx_last_error();
    EXPECT_EQ(at(scaled, count - 1), float((count - 1) % 4 + 1) * (count == 1 ? 3 : float(count - 1)));
    EXPECT_EQ(static_cast<int64_t *>(itx_tensor_data(which.get()))[count - 1], (count - 1) % 4);
  }
  EXPECT_EQ(verified(module).launches, 3u);
  EXPECT_EQ(verified(module).kernels, 1u);
  EXPECT_EQ(verified(module).largestDifference, 0);
}

TEST_F(VerifiedKernelsTest, OneWrongElementIsFound) {
  ModulePointer module = loadVerified();
  TensorPointer scaled, which;
  EXPECT_EQ(callTwoOutputs(module, "faulty", range(0, 16), scaled, which), ITX_OK) << itx_last_error();
  EXPECT_EQ(callTwoOutputs(module, "faulty", range(1, 16), scaled, which), ITX_INTERNAL);
  EXPECT_THAT(itx_last_error(),
              HasSubstr("kernel 'scale_wrongly' (layer.faulty) on cpu: output 0 is 10.25 at element 5, reference "
                        "computes 10 (tolerance 0.001; 1 of 16 elements differ): the compiler's code for cpu is "
                        "wrong"));
  EXPECT_EQ(scaled, nullptr);
  EXPECT_EQ(callTwoOutputs(module, "faulty", range(2, 16), scaled, which), ITX_INTERNAL);
  EXPECT_THAT(itx_last_error(), HasSubstr("output 1 is 4 at element 7, reference computes 3 (tolerance 0.001;"));
  EXPECT_EQ(verified(module).launches, 1u) << "of those that agree";
  EXPECT_NEAR(verified(module).largestDifference, 0.25 / 26, 1e-4) << "the root mean square is 26";
  EXPECT_EQ(verified(module).kernel, "scale_wrongly");
  EXPECT_EQ(verified(module).label, "layer.faulty");
  EXPECT_EQ(callTwoOutputs(module, "scale", range(1, 16), scaled, which), ITX_OK) << "the module still works";

  module = loadVerified(0.1);
  EXPECT_EQ(callTwoOutputs(module, "faulty", range(1, 16), scaled, which), ITX_OK) << itx_last_error();
  EXPECT_EQ(at(scaled, 5), 10.25f) << "results are those of the own device";
  module = load(folder / "two.itx");
  EXPECT_EQ(callTwoOutputs(module, "faulty", range(2, 16), scaled, which), ITX_OK) << itx_last_error();
}

TEST_F(VerifiedKernelsTest, UpdatesInPlace) {
  ModulePointer module = loadVerified();
  TensorPointer total = tensorOf<float>(ITX_F32, {500}, std::vector<float>(500, 1)), sum;
  TensorPointer x = range(5, 500);
  for (int round = 1; round <= 3; ++round) {
    ASSERT_EQ(invoke(find(module, "accumulate"), {total.get(), x.get()}, sum), ITX_OK) << itx_last_error();
    EXPECT_EQ(at(sum, 499), 1 + 499.0f * float(round));
    EXPECT_EQ(at(total, 499), 1 + 499.0f * float(round)) << "once in each call";
  }
  EXPECT_EQ(verified(module).launches, 3u);
}

TEST_F(VerifiedKernelsTest, AsynchronousDevices) {
  ModulePointer module = loadVerified();
  for (uint64_t delay : {0, 300}) {
    ScopedDelay delayed(delay);
    TensorPointer x = range(5), scaled;
    ASSERT_EQ(invoke(find(module, "there"), {x.get()}, scaled), ITX_OK) << itx_last_error();
    EXPECT_EQ(at(scaled, 999), 4 * 999.0f);
  }
  EXPECT_EQ(verified(module).launches, 2u);
  EXPECT_EQ(verified(module).kernels, 1u);
}

TEST_F(VerifiedKernelsTest, SeveralCallers) {
  ModulePointer module = loadVerified();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 10; ++round) {
        TensorPointer x = range(float(t), 100 + t), scaled, which;
        failures += callTwoOutputs(module, "scale", x, scaled, which) != ITX_OK || at(scaled, 99) != 4 * 99.0f;
        failures += invoke(find(module, "there"), {x.get()}, scaled) != ITX_OK || at(scaled, 99) != 4 * 99.0f;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures.load(), 0);
  EXPECT_EQ(verified(module).launches, 80u);
  EXPECT_EQ(verified(module).kernels, 2u);
}

TEST_F(VerifiedKernelsTest, TheVerifyingDeviceNeedNotRunFunctions) {
  // Without functions on the reference device the module may be told to use the CPU alone.
  std::string manifest = replaced(verifiedManifest(), R"("there","devices":[1])", R"("there","devices":[])");
  itx_load_options options = verifying();
  const char *cpu = "cpu";
  options.devices = &cpu;
  options.device_count = 1;
  ModulePointer module = load(writeVerified(folder, manifest), options);
  TensorPointer scaled, which;
  EXPECT_EQ(callTwoOutputs(module, "scale", range(1, 16), scaled, which), ITX_OK) << itx_last_error();
  EXPECT_EQ(callTwoOutputs(module, "faulty", range(1, 16), scaled, which), ITX_INTERNAL);
}

TEST_F(VerifiedKernelsTest, ErrorsOfTheVerifyingDevice) {
  ModulePointer module = loadVerified();
  TensorPointer scaled, which;
  // The copies of x, scaled and which, and of the weight; the kernel; the copies of two results.
  for (uint64_t command = 1; command <= 7; ++command) {
    ModulePointer fresh = loadVerified();
    ScopedFault fault(Fault::OutOfMemory, command);
    EXPECT_EQ(callTwoOutputs(fresh, "scale", range(1, 16), scaled, which), ITX_OUT_OF_MEMORY) << command;
    EXPECT_THAT(itx_last_error(), AllOf(HasSubstr("kernel 'scale' (layer.scale) on cpu: cannot be verified: "),
                                        HasSubstr("an injected fault")));
  }
  EXPECT_EQ(callTwoOutputs(module, "scale", range(1, 16), scaled, which), ITX_OK) << itx_last_error();
}

TEST_F(VerifiedKernelsTest, ChildrenOfForks) {
  ModulePointer module = loadVerified();
  TensorPointer scaled, which, x = range(1, 16);
  ASSERT_EQ(callTwoOutputs(module, "scale", x, scaled, which), ITX_OK) << itx_last_error();
  pid_t child = fork();
  if (child == 0) {
    itx_status status = callTwoOutputs(module, "scale", x, scaled, which);
    _exit(status == ITX_DEVICE_LOST && std::string(itx_last_error()).find("child of a fork") != std::string::npos ? 0
                                                                                                                  : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(VerifiedKernelsTest, ModulesThatCannotBeVerified) {
  EXPECT_THAT(loadFailure(writeSample(folder), ITX_INVALID_ARGUMENT, verifying()),
              HasSubstr("m.itx: has no code that verifies kernels: compile it with --target=cpu,reference"));
  auto refused = [&](const std::string &from, const std::string &to, itx_status status) {
    return loadFailure(writeVerified(folder, replaced(verifiedManifest(), from, to)), status, verifying());
  };
  EXPECT_THAT(refused("\"operand_types\"", "\"other\"", ITX_CORRUPT),
              HasSubstr("its manifest does not describe their operands"));
  EXPECT_THAT(refused(hostVariant(), "pdp11-unknown-none", ITX_UNSUPPORTED), HasSubstr("in the variants pdp11"));
  std::string manifest = replaced(verifiedManifest(), R"("kind":"reference")", R"("kind":"cuda")");
  manifest = replaced(manifest, R"("there","devices":[1])", R"("there","devices":[])");
  EXPECT_THAT(loadFailure(writeVerified(folder, manifest), ITX_UNSUPPORTED, verifying()),
              HasSubstr("its kernels are verified on a device of kind cuda, which this machine does not have"));
  EXPECT_NE(load(folder / "two.itx"), nullptr) << "it runs";
  for (double tolerance : {-1.0, double(NAN), double(INFINITY)})
    EXPECT_THAT(loadFailure(folder / "two.itx", ITX_INVALID_ARGUMENT, verifying(tolerance)),
                HasSubstr("verify_kernels of the load options is"));
}

TEST_F(VerifiedKernelsTest, OperandsThatAreNotAsTheManifestSays) {
  auto failure = [&](const std::string &manifest) {
    ModulePointer module = load(writeVerified(folder, manifest), verifying());
    TensorPointer scaled, which;
    EXPECT_EQ(callTwoOutputs(module, "scale", range(1, 16), scaled, which), ITX_INTERNAL);
    return std::string(itx_last_error());
  };
  std::string manifest = verifiedManifest();
  EXPECT_THAT(failure(replaced(manifest, "[[[[4,0],[64]],", "[[[[4,3],[64]],")),
              HasSubstr("the bytes of operand 0 cannot be computed from the sizes of the launch"));
  manifest = replaced(manifest, "[[[[4,0],[64]],[[4,0],[8,0]]],", "[[[[4,0],[64]],[[4,0],[8,0],[1]]],");
  manifest = replaced(manifest, R"([[["f32",""],["f32","i64"]],)", R"([[["f32",""],["f32","i64","u8"]],)");
  EXPECT_THAT(failure(manifest), HasSubstr("is started with 4 operands, the manifest lists 5"));
}
