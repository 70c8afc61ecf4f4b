//===- PackagingTest.cpp - Embedded weights, bundles, executables, intarsia-run --------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Decoder.h"
#include "test/unit/Runtime/Mixed.h"
#include "test/unit/Runtime/SeveralDevices.h"

#include "intarsia/Version.h"

#include <sys/wait.h>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace {
class Packaging : public ModuleTest {};
} // namespace

TEST_F(Packaging, EmbeddedWeights) {
  std::string path = writeEmbedded(folder), bytes = readFile(path);
  itx_load_options verify = {};
  verify.verify = 1;
  TensorPointer ids = idsOf(2, 3), output;
  {
    ModulePointer module = load(path, verify);
    ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
    EXPECT_TRUE(isRight(ids, output));
  }
  itx_module *fromMemory = nullptr;
  ASSERT_EQ(itx_module_load_memory(bytes.data(), bytes.size(), nullptr, nullptr, &fromMemory), ITX_OK);
  ModulePointer owner(fromMemory);
  ASSERT_EQ(invoke(find(owner, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isRight(ids, output));

  writeFile(folder / "cut.itx", bytes.substr(0, bytes.size() - 5));
  EXPECT_THAT(loadFailure(folder / "cut.itx", ITX_CORRUPT), HasSubstr("truncated"));
  bytes.back() ^= 1;
  writeFile(folder / "bit.itx", bytes);
  EXPECT_THAT(loadFailure(folder / "bit.itx", ITX_CORRUPT, verify), HasSubstr("embedded weights"));
}

TEST_F(Packaging, SameInputsSameBytes) {
  std::string first = readFile(writeEmbedded(folder));
  EXPECT_EQ(first, readFile(writeEmbedded(folder)));
}

TEST_F(Packaging, ArtifactPathNotWritable) {
  std::string elf = sampleElf(filledManifest());
  EXPECT_EQ(intarsia::writeArtifact("/does/not/exist/m.itx", elf.data(), elf.size()).code(), ITX_IO_ERROR);
  EXPECT_EQ(intarsia::writeArtifact(folder.path(), elf.data(), elf.size()).code(), ITX_IO_ERROR);
  EXPECT_FALSE(intarsia::writeArtifact(folder / "m.itx", elf.data(), elf.size(), folder / "none").ok());
  EXPECT_EQ(folder.files(), 0u);
}

TEST_F(Packaging, Bundle) {
  std::string embedded = writeEmbedded(folder);
  std::string other = readFile(embedded);
  // The first entry is for another machine: only its table entry counts here.
  std::string elf = sampleElf(filledManifest());
  elf[18] = char(hostElfMachine() == 62 ? 183 : 62);
  ASSERT_TRUE(intarsia::writeArtifact(folder / "other.itx", elf.data(), elf.size()).ok());
  Status status = intarsia::writeBundle(folder / "b.itx", {folder / "other.itx", embedded});
  ASSERT_TRUE(status.ok()) << status.message();
  ModulePointer module = load(folder / "b.itx");
  TensorPointer ids = idsOf(2, 3), output;
  ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isRight(ids, output));

  EXPECT_FALSE(intarsia::writeBundle(folder / "c.itx", {embedded, embedded}).ok());
  ASSERT_TRUE(intarsia::writeBundle(folder / "c.itx", {folder / "other.itx"}).ok());
  EXPECT_THAT(loadFailure(folder / "c.itx", ITX_UNSUPPORTED), HasSubstr("bundle for"));
  writeFile(folder / "d.itx", readFile(folder / "b.itx").substr(0, 40));
  EXPECT_THAT(loadFailure(folder / "d.itx", ITX_CORRUPT), HasSubstr("truncated"));
}

namespace {
/// Runs a command; returns its standard output and error, and its exit code.
std::pair<std::string, int> shell(const std::string &command) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  while (size_t count = fread(buffer, 1, sizeof(buffer), pipe))
    text.append(buffer, count);
  int status = pclose(pipe);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}
} // namespace

TEST_F(Packaging, Executable) {
  std::string embedded = writeEmbedded(folder), program = folder / "program";
  Status status = intarsia::writeExecutable(program, ITX_TEST_RUNNER, embedded);
  ASSERT_TRUE(status.ok()) << status.message();
  auto [text, code] = shell(program + " --list");
  EXPECT_EQ(code, 0) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("function main"), HasSubstr("sequence is at most 512")));
  TensorPointer ids = idsOf(1, 3);
  ASSERT_EQ(itx_tensor_save_npy(ids.get(), (folder / "ids.npy").c_str()), ITX_OK);
  auto [summary, ran] = shell(program + " --input=ids=@" + (folder / "ids.npy") + " --function=main");
  EXPECT_EQ(ran, 0) << summary;
  EXPECT_THAT(summary, HasSubstr("rows  f32 [1, 3, 4]  0 0.5 1 1.5 14 14.5"));
  itx_module *module = nullptr;
  EXPECT_EQ(itx_module_load_embedded(program.c_str(), nullptr, &module), ITX_OK) << itx_last_error();
  itx_module_free(module);
  EXPECT_EQ(itx_module_load_embedded(nullptr, nullptr, &module), ITX_NOT_FOUND);

  auto [help, helped] = shell(program + " --help");
  EXPECT_EQ(helped, 0);
  EXPECT_THAT(help, AllOf(HasSubstr("Usage: program [OPTIONS]"), HasSubstr(program + " --list"),
                          Not(HasSubstr("MODULE")), Not(HasSubstr("m.itx"))));
  std::filesystem::resize_file(program, std::filesystem::file_size(program) - 100);
  auto [truncated, ended] = shell(program + " --list");
  EXPECT_EQ(ended, 1);
  EXPECT_THAT(truncated, AllOf(HasSubstr("program: is truncated"), Not(HasSubstr("MODULE"))));
}

/// Drivers of GPUs take longer to start than most artifacts to run.
TEST_F(Packaging, DriversAreOnlyLookedForWhenTheyAreNeeded) {
  std::string path = writeSample(folder), run = "LD_DEBUG=libs " ITX_TEST_RUNNER " ";
  TensorPointer ids = idsOf(2, 3);
  ASSERT_EQ(itx_tensor_save_npy(ids.get(), (folder / "ids.npy").c_str()), ITX_OK);
  std::string input = " --input=ids=@" + (folder / "ids.npy"), looked = "find library=libcuda.so.1";
  auto [plain, code] = shell(run + path + input);
  EXPECT_EQ(code, 0) << plain;
  EXPECT_THAT(plain, AllOf(HasSubstr("find library="), Not(HasSubstr(looked))));
  EXPECT_THAT(shell(run + path + input + " --device=cpu").first, Not(HasSubstr(looked)));
  EXPECT_THAT(shell(run + "--list-devices").first, AllOf(HasSubstr(looked), HasSubstr("libamdhip64.so.6")));
  // A machine may have drivers of both kinds, but none of this name.
  auto [text, failed] = shell(ITX_TEST_RUNNER " " + path + input + " --device=cuda:99");
  EXPECT_NE(failed, 0);
  EXPECT_THAT(text, HasSubstr("may use the device 'cuda:99', which is not here"));
  bool hasGpu = shell(ITX_TEST_RUNNER " --list-devices").first.find("\ncuda") != std::string::npos;
  EXPECT_THAT(text, hasGpu ? HasSubstr("cuda") : HasSubstr("CUDA driver")) << "the reason is told";
}

TEST_F(Packaging, RunTool) {
  std::string path = writeSample(folder), run = ITX_TEST_RUNNER;
  TensorPointer ids = idsOf(2, 3);
  ASSERT_EQ(itx_tensor_save_npy(ids.get(), (folder / "ids.npy").c_str()), ITX_OK);
  std::string input = " --input=ids=@" + (folder / "ids.npy");
  auto [text, code] =
      shell(run + " " + path + input + " --output=@" + (folder / "y.npy") + " --profile=" + (folder / "t.json"));
  EXPECT_EQ(code, 0) << text;
  itx_tensor *tensor = nullptr;
  ASSERT_EQ(itx_tensor_load_npy((folder / "y.npy").c_str(), &tensor), ITX_OK) << itx_last_error();
  TensorPointer output(tensor);
  EXPECT_TRUE(isRight(ids, output));
  EXPECT_THAT(readFile(folder / "t.json"), HasSubstr("rows_kernel"));

  auto fails = [&](const std::string &arguments, const char *why) {
    auto [message, failed] = shell(run + " " + arguments);
    EXPECT_NE(failed, 0) << arguments;
    EXPECT_THAT(message, AllOf(HasSubstr("error: "), HasSubstr(why))) << arguments;
  };
  fails((folder / "none.itx"), "none.itx");
  fails(path, "input 'ids' of function 'main' is missing");
  fails(path + " --input=idz=@x.npy", "'idz'");
  fails(path + " --input=ids", "NAME=@FILE.npy");
  fails(path + input + " --function=none", "'none'");
  fails(path + input + " --output=@/does/not/exist/y.npy", "/does/not/exist");
  fails(path + input + " --output=rowz=@y.npy", "'rowz'");
  {
    ScopedVariable threads("ITX_THREADS", "many");
    fails(path + input, "ITX_THREADS is 'many'");
  }
  fails(path + input + " --output=@" + path, "m.itx: is a part of the model");
  fails(path + input + " --output=@" + (folder / "m.safetensors"), "m.safetensors: is a part of the model");
  fails(path + input + " --output=@y.npy --profile=y.npy", "y.npy: two results would be written to this file");
  for (const std::string &arguments : {path + input, path + " --list"}) {
    auto [message, failed] = shell("(" + run + " " + arguments + " 2>&1 >/dev/full)");
    EXPECT_EQ(failed, 1) << arguments;
    EXPECT_THAT(message, HasSubstr("error: standard output cannot be written: No space left on device")) << arguments;
  }
  auto [timing, timed] = shell(run + " " + path + input + " --benchmark=5 --threads=2 --verify");
  EXPECT_EQ(timed, 0) << timing;
  EXPECT_THAT(timing, AllOf(HasSubstr("median"), HasSubstr("p90"), HasSubstr("5 calls, 2 threads")));
  auto [bare, bareCode] = shell(run + " --benchmark " + path + input);
  EXPECT_EQ(bareCode, 0) << bare;
  EXPECT_THAT(bare, HasSubstr("100 calls"));
  EXPECT_THAT(shell(run + " --version").first, HasSubstr(INTARSIA_VERSION));
  auto [table, tableCode] = shell(run + " --list-devices");
  EXPECT_EQ(tableCode, 0) << table;
  EXPECT_THAT(table, AllOf(StartsWith("name "), HasSubstr("\ncpu              cpu "), HasSubstr("\nreference ")));
  EXPECT_THAT(shell(run + " " + path + input + " --device=cpu").second, 0);
  fails(path + input + " --device=reference", "has no code for the kind reference: it has code for cpu");
  fails(path + input + " --device=cpu --device=cpu", "the device 'cpu' is named twice");
  fails(path + input + " --verify-kernels", "compile it with --target=cpu,reference");
  fails(path + input + " --verify-kernels=0", "--verify-kernels");
  fails(path + input + " --verify-kernels --benchmark", "excludes");
  EXPECT_THAT(shell(run + " " + path + " --list").first,
              AllOf(Not(HasSubstr("device ")), Not(HasSubstr("  runs on "))));
}

namespace {
/// Runs the tool on modules for several devices.
class ToolOnSeveralDevices : public ModuleTest {
protected:
  static std::string run(const std::string &arguments) {
    auto [text, code] = shell(ITX_TEST_RUNNER " " + arguments);
    EXPECT_EQ(code, 0) << text;
    return text;
  }

  /// Writes an array and returns the option for it.
  template <typename T> std::string input(const std::string &name, itx_dtype dtype, const std::vector<T> &values) {
    TensorPointer tensor = tensorOf<T>(dtype, {int64_t(values.size())}, values);
    EXPECT_EQ(itx_tensor_save_npy(tensor.get(), (folder / (name + ".npy")).c_str()), ITX_OK);
    return " --input=" + name + "=@" + (folder / (name + ".npy"));
  }
};
} // namespace

TEST_F(ToolOnSeveralDevices, ListsThem) {
  EXPECT_THAT(run(writeMixed(folder) + " --list"),
              AllOf(HasSubstr("\ndevice cpu of kind cpu: 1 kernels, host code\n"),
                    HasSubstr("\ndevice r1 of kind reference: 1 kernels, code for pdp11-unknown-none, "),
                    HasSubstr("\nfunction main\n  runs on cpu, r1\n  input "), Not(HasSubstr("also"))));
  std::string path = writeAlternatives(folder);
  EXPECT_THAT(run(path + " --list"),
              AllOf(HasSubstr("function main\n  runs on cpu, reference\n  also compiled for: cpu; reference\n"),
                    HasSubstr("function other\n  runs on reference\n  also compiled for: cpu\n"),
                    Not(HasSubstr("not used here"))));
  EXPECT_THAT(run(path + " --list --device=cpu"),
              AllOf(HasSubstr(hostVariant() + " (not used here)\n"),
                    HasSubstr("function main\n  runs on cpu\n  also compiled for: cpu, reference; reference\n")));
  EXPECT_THAT(run(writeVerified(folder) + " --list"), HasSubstr(hostVariant() + ", verifies all kernels\n"));
}

TEST_F(ToolOnSeveralDevices, VerifiesKernels) {
  std::string path = writeVerified(folder), good = input<float>("x", ITX_F32, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(run(path + " --function=scale --verify-kernels" + good),
              HasSubstr("\nverified 1 launches of 1 kernels on reference, largest relative difference 0\n"));
  EXPECT_THAT(run(path + " --function=faulty --verify-kernels=0.5" + good),
              HasSubstr("on reference, largest relative difference 0.021 (scale_wrongly, layer.faulty)\n"));
  EXPECT_THAT(run(path + " --function=faulty" + good), Not(HasSubstr("verified")));
  auto [message, code] =
      shell(ITX_TEST_RUNNER " " + path + " --function=faulty --verify-kernels=0.001" + good + " 2>&1");
  EXPECT_EQ(code, 1);
  EXPECT_THAT(message, HasSubstr("error: kernel 'scale_wrongly' (layer.faulty) on cpu: output 0 is 12.25 at element 5, "
                                 "reference computes 12 (tolerance 0.001;"));
}

TEST_F(ToolOnSeveralDevices, CallsUseManyQueues) {
  // A call that uses more queues than it notes waits for some of them on the way.
  std::vector<int64_t> values(1000);
  for (int64_t i = 0; i < 1000; ++i)
    values[i] = i;
  std::string arguments = writeMixed(folder) + " --function=hasty" + input("values", ITX_I64, values) + " --output=@" +
                          (folder / "out.npy");
  auto [text, code] =
      shell("ITX_REFERENCE_QUEUES=24 ITX_REFERENCE_DELAY_MICROSECONDS=400 " ITX_TEST_RUNNER " " + arguments);
  ASSERT_EQ(code, 0) << text;
  itx_tensor *loaded = nullptr;
  ASSERT_EQ(itx_tensor_load_npy((folder / "out.npy").c_str(), &loaded), ITX_OK) << itx_last_error();
  TensorPointer out(loaded);
  ASSERT_EQ(itx_tensor_bytes(out.get()), 18 * 8000u);
  for (int copy = 0; copy < 18; ++copy)
    EXPECT_EQ(std::memcmp(static_cast<const char *>(itx_tensor_data(out.get())) + copy * 8000, values.data(), 8000), 0)
        << copy;
}

namespace {
class Continuing : public CacheTest {
protected:
  /// Runs the tool; returns its output and its exit code.
  std::pair<std::string, int> run(const std::string &arguments, const std::string &artifact = "m.itx") {
    return shell(ITX_TEST_RUNNER " " + (folder / artifact) + " --function=" + function() + " " + arguments);
  }

  static int64_t next(const Tokens &text) {
    int64_t best = 0;
    for (int64_t v = 1; v < vocabulary; ++v)
      best = expectedLogit(text, v) > expectedLogit(text, best) ? v : best;
    return best;
  }

  /// Returns the expected continuation of the tokens, as the tool prints it.
  static std::string expectedText(Tokens text, int count) {
    std::string result;
    for (int i = 0; i < count && text.size() <= size_t(context); ++i) {
      text.push_back(next(text));
      result += (i ? " " : "") + std::to_string(text.back());
    }
    return result + "\n";
  }
};
} // namespace

INSTANTIATE_TEST_SUITE_P(Models, Continuing, decoderFunctions, functionName);

TEST_P(Continuing, TokenIds) {
  Tokens prompt = {0, 0, 0, 2, 0};
  ASSERT_NE(expectedText(prompt, 6), expectedText({0, 0, 0, 2, 1}, 6)) << "the model does not tell prompts apart";
  using Result = std::pair<std::string, int>;
  EXPECT_EQ(run("--ids=0,0,0,2,0"), Result(expectedText(prompt, 1), 0));
  EXPECT_EQ(run("--ids 0,0,0,2,0 --max-tokens=6"), Result(expectedText(prompt, 6), 0));
  EXPECT_EQ(run("--ids=0,0,0,2,0 --max-tokens=99"), Result(expectedText(prompt, 99), 0)) << "to the context's end";
  EXPECT_EQ(run("--ids=0,0,0,2,0 --max-tokens=0 --output=@" + (folder / "l.npy")), Result("", 0));
  itx_tensor *tensor = nullptr;
  ASSERT_EQ(itx_tensor_load_npy((folder / "l.npy").c_str(), &tensor), ITX_OK) << itx_last_error();
  TensorPointer logits(tensor);
  ASSERT_EQ(itx_tensor_elements(tensor), 5 * vocabulary);
  for (int64_t v = 0; v < vocabulary; ++v)
    EXPECT_EQ(static_cast<float *>(itx_tensor_data(tensor))[3 * vocabulary + v], expectedLogit({0, 0, 0, 2}, v));

  Tokens shorter = prompt;
  shorter.push_back(next(shorter));
  ASSERT_NE(next(prompt), next(shorter));
  std::string ends = "],\"metadata\":{\"eos_token_ids\":[" + std::to_string(next(shorter)) + "]}}";
  std::string manifest = replaced(decoderManifest(), "16]}]},", "16]}" + ends + ",");
  write(replaced(manifest, "16]}]}]}", "16]}" + ends + "]}"), "ends.itx");
  EXPECT_EQ(run("--ids=0,0,0,2,0 --max-tokens=6", "ends.itx"), Result(expectedText(prompt, 1), 0));
}

TEST_P(Continuing, StateIsListed) {
  EXPECT_THAT(shell(ITX_TEST_RUNNER " --list " + (folder / "m.itx")).first,
              HasSubstr("  state   0.0 MB for a text as long as the model's context"));
}

TEST_P(Continuing, WhatCannotBeContinued) {
  auto fails = [&](const std::string &arguments, const char *why) {
    auto [message, failed] = run(arguments);
    EXPECT_NE(failed, 0) << arguments;
    EXPECT_THAT(message, AllOf(HasSubstr("error: "), HasSubstr(why))) << arguments;
  };
  std::string many = "0";
  for (int i = 0; i < context; ++i)
    many += ",1";
  fails("--ids=" + many, "--ids has 23 tokens, the model's context is 22: give fewer");
  fails("--ids=3,16", "--ids has 16 at position 1, the model's vocabulary is 0 to 15");
  fails("--ids=-1", "--ids has -1 at position 0");
  for (const char *ids : {",", "1,", "1,,2", "x", "1 2", "99999999999999999999"})
    fails("--ids='" + std::string(ids) + "'", "is no list of token ids such as");
  fails("--ids=1 --input=input_ids=@x.npy", "excludes");
  fails("--ids=1 --benchmark", "excludes");
  fails("--max-tokens=2", "--ids");
  fails("--ids=1 --output=@/does/not/exist/y.npy", "/does/not/exist");
  fails("--ids=1 --output=keys=@y.npy", "has no output 'keys'; it has: logits");
  EXPECT_THAT(shell(ITX_TEST_RUNNER " " + (folder / "m.itx")).first,
              HasSubstr("has no function 'main'; it has: step, tailed: it is a language model, which continues token "
                        "ids with --ids=1,2,3"));
  EXPECT_THAT(shell(ITX_TEST_RUNNER " " + writeSample(folder, filledManifest(), "other.itx") + " --ids=1").first,
              HasSubstr("has no function 'step'; it has: main, total"));
  EXPECT_THAT(shell(ITX_TEST_RUNNER " " + (folder / "other.itx") + " --ids=1 --function=main").first,
              HasSubstr("function 'main' is no forward step of a language model"));
}
