//===- RuntimeModule.cpp - Artifacts and calls from end to end ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "RuntimeTesting.h"

#include "intarsia/Version.h"
#include "lib/Runtime/CPU/CpuFeatures.h"
#include "lib/Runtime/Core/ArtifactFormat.h"
#include "lib/Runtime/Core/DLPack.h"
#include "lib/Runtime/Core/Json.h"
#include "lib/Runtime/Core/Memory.h"
#include "lib/Runtime/Core/Module.h"

#include <cmath>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

struct FreeModule {
  void operator()(itx_module *module) const { itx_module_free(module); }
};
struct FreeTensor {
  void operator()(itx_tensor *tensor) const { itx_tensor_free(tensor); }
};
using ModulePointer = std::unique_ptr<itx_module, FreeModule>;
using TensorPointer = std::unique_ptr<itx_tensor, FreeTensor>;

ModulePointer load(const std::string &path, itx_load_options options = {}) {
  options.struct_bytes = sizeof(options);
  itx_module *module = nullptr;
  EXPECT_EQ(itx_module_load(path.c_str(), &options, &module), ITX_OK) << itx_last_error();
  return ModulePointer(module);
}

/// The message of a load that must fail with this status.
std::string loadFailure(const std::string &path, itx_status expected, itx_load_options options = {}) {
  options.struct_bytes = sizeof(options);
  itx_module *module = nullptr;
  itx_status status = itx_module_load(path.c_str(), &options, &module);
  EXPECT_EQ(status, expected) << itx_last_error();
  EXPECT_EQ(module, nullptr);
  itx_module_free(module);
  return itx_last_error();
}

template <typename T>
TensorPointer tensorOf(itx_dtype dtype, std::vector<int64_t> shape, const std::vector<T> &values) {
  itx_tensor *tensor = nullptr;
  EXPECT_EQ(itx_tensor_create(dtype, uint32_t(shape.size()), shape.data(), values.data(), &tensor), ITX_OK);
  EXPECT_EQ(itx_tensor_bytes(tensor), values.size() * sizeof(T));
  return TensorPointer(tensor);
}

TensorPointer idsOf(int64_t batch, int64_t sequence, int64_t step = 7) {
  std::vector<int64_t> ids(batch * sequence);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = int64_t(i) * step % 100;
  return tensorOf(ITX_I64, {batch, sequence}, ids);
}

const itx_function *find(const ModulePointer &module, const char *name) {
  const itx_function *function = nullptr;
  EXPECT_EQ(itx_module_function(module.get(), name, &function), ITX_OK) << itx_last_error();
  return function;
}

itx_status invoke(const itx_function *function, std::vector<itx_tensor *> inputs, TensorPointer &output) {
  itx_tensor *made = nullptr;
  itx_status status = itx_invoke(function, inputs.data(), inputs.size(), &made, 1);
  output.reset(made);
  return status;
}

/// The message of a call that must be refused.
std::string refusal(const itx_function *function, std::vector<itx_tensor *> inputs) {
  TensorPointer output;
  EXPECT_EQ(invoke(function, std::move(inputs), output), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(output, nullptr);
  return itx_last_error();
}

/// What modules/sample.c computes with its defaults.
float expected(const TensorPointer &ids, int64_t i, int64_t k) {
  return (float(static_cast<int64_t *>(itx_tensor_data(ids.get()))[i]) + float(k) / 4) * 2;
}

bool isRight(const TensorPointer &ids, const TensorPointer &output) {
  const auto *values = static_cast<const float *>(itx_tensor_data(output.get()));
  for (int64_t i = 0; i < itx_tensor_elements(ids.get()); ++i)
    for (int64_t k = 0; k < 4; ++k)
      if (values[i * 4 + k] != expected(ids, i, k))
        return false;
  return itx_tensor_elements(output.get()) == 4 * itx_tensor_elements(ids.get());
}

class ModuleTest : public ::testing::Test {
protected:
  TemporaryFolder folder;
};

} // namespace

// ---- Loading ----------------------------------------------------------------------------------------------

TEST_F(ModuleTest, LoadsAndDescribesItself) {
  ModulePointer module = load(writeSample(folder));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(folder.files(), 2u) << "temporary files are left";
  EXPECT_STREQ(itx_module_variant(module.get()), "plain");
  EXPECT_EQ(itx_module_function_count(module.get()), 2u);
  EXPECT_THAT(itx_module_manifest(module.get()), HasSubstr("\"producer\":\"test 1.0\""));
  const itx_function *main = find(module, nullptr);
  EXPECT_STREQ(itx_function_name(main), "main");
  EXPECT_STREQ(itx_function_metadata(main), R"({"labels":["a","b"]})");
  ASSERT_EQ(itx_function_input_count(main), 3u);
  const itx_value_info *ids = itx_function_input(main, 0), *mask = itx_function_input(main, 1);
  EXPECT_STREQ(ids->name, "ids");
  EXPECT_EQ(ids->dtype, ITX_I64);
  ASSERT_EQ(ids->rank, 2u);
  EXPECT_EQ(ids->shape[1], -1);
  EXPECT_STREQ(ids->symbols[1], "sequence");
  EXPECT_EQ(ids->maxima[0], -1);
  EXPECT_EQ(ids->maxima[1], 512);
  EXPECT_FALSE(ids->optional);
  EXPECT_TRUE(ids->has_range);
  EXPECT_EQ(ids->range_high, 100);
  EXPECT_TRUE(mask->optional);
  EXPECT_EQ(mask->default_value, 1);
  const itx_value_info *rows = itx_function_output(main, 0);
  EXPECT_EQ(rows->shape[2], 4);
  EXPECT_EQ(rows->symbols[2], nullptr);
  EXPECT_EQ(itx_function_input(main, 3), nullptr);
  EXPECT_EQ(itx_module_function_at(module.get(), 2), nullptr);
}

TEST_F(ModuleTest, UnknownFunctionAndInput) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *function = nullptr;
  EXPECT_EQ(itx_module_function(module.get(), "embed", &function), ITX_NOT_FOUND);
  EXPECT_THAT(itx_last_error(), AllOf(HasSubstr("'embed'"), HasSubstr("main, total")));
  size_t index = 0;
  EXPECT_EQ(itx_function_input_index(find(module, "main"), "input_ids", &index), ITX_NOT_FOUND);
  EXPECT_THAT(itx_last_error(), AllOf(HasSubstr("'input_ids'"), HasSubstr("ids, mask, scale")));
  EXPECT_EQ(itx_function_input_index(find(module, "main"), "scale", &index), ITX_OK);
  EXPECT_EQ(index, 2u);
}

TEST_F(ModuleTest, MissingAndForeignFiles) {
  EXPECT_THAT(loadFailure(folder / "none.itx", ITX_NOT_FOUND), HasSubstr("none.itx"));
  writeFile(folder / "text.itx", "this is not a module");
  EXPECT_THAT(loadFailure(folder / "text.itx", ITX_CORRUPT), HasSubstr("not a compiled module"));
  writeFile(folder / "empty.itx", "");
  loadFailure(folder / "empty.itx", ITX_CORRUPT);
  EXPECT_THAT(loadFailure(ITX_TEST_RUNNER, ITX_CORRUPT), HasSubstr(".itx.header"));
}

TEST_F(ModuleTest, EveryTruncationIsRefused) {
  std::string path = writeSample(folder), bytes = readFile(path);
  for (size_t length = 0; length < bytes.size(); length += length < 128 ? 13 : 331) {
    writeFile(folder / "cut.itx", bytes.substr(0, length));
    EXPECT_THAT(loadFailure(folder / "cut.itx", ITX_CORRUPT), HasSubstr("cut.itx")) << length;
  }
  writeFile(folder / "cut.itx", bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(loadFailure(folder / "cut.itx", ITX_CORRUPT), HasSubstr("truncated"));
  writeFile(folder / "long.itx", bytes + "x");
  EXPECT_THAT(loadFailure(folder / "long.itx", ITX_CORRUPT), HasSubstr("its header says"));
}

TEST_F(ModuleTest, EveryFlippedBitIsFound) {
  std::string path = writeSample(folder), bytes = readFile(path);
  uint32_t random = 12345;
  for (size_t position = 0; position < bytes.size(); position += position < 256 ? 1 : 61) {
    random = random * 1664525 + 1013904223;
    std::string damaged = bytes;
    damaged[position] ^= char(1 << (random >> 29));
    writeFile(folder / "bit.itx", damaged);
    itx_module *module = nullptr;
    itx_status status = itx_module_load((folder / "bit.itx").c_str(), nullptr, &module);
    EXPECT_TRUE(status == ITX_CORRUPT || status == ITX_VERSION_MISMATCH) << position << ": " << itx_last_error();
    ASSERT_EQ(module, nullptr) << position;
  }
}

TEST_F(ModuleTest, OtherVersion) {
  std::string path = writeSample(folder), bytes = readFile(path);
  size_t header = bytes.find(std::string(artifactMagic, 8));
  ASSERT_NE(header, std::string::npos);
  bytes[header + 8] = 9;
  writeFile(folder / "new.itx", bytes);
  EXPECT_THAT(loadFailure(folder / "new.itx", ITX_VERSION_MISMATCH),
              AllOf(HasSubstr("format 9"), HasSubstr("format 1"), HasSubstr(INTARSIA_VERSION)));
}

TEST_F(ModuleTest, OtherMachine) {
  std::string elf = sampleElf(filledManifest());
  elf[18] = char(hostElfMachine() == 62 ? 183 : 62); // e_machine
  elf[19] = 0;
  ASSERT_TRUE(intarsia::assemble::writeArtifact(folder / "other.itx", elf.data(), elf.size()).ok());
  EXPECT_THAT(loadFailure(folder / "other.itx", ITX_UNSUPPORTED),
              AllOf(HasSubstr("aarch64"), HasSubstr("--target=cpu:")));
}

TEST_F(ModuleTest, MissingCpuFeature) {
  std::string manifest = replaced(filledManifest(), R"("features":[])", R"("features":["warp-drive"])");
  std::string path = writeSample(folder, manifest);
  EXPECT_THAT(loadFailure(path, ITX_UNSUPPORTED), AllOf(HasSubstr("'warp-drive'"), HasSubstr("--target=cpu:")));
  itx_load_options options = {};
  options.variant = "marked";
  EXPECT_THAT(loadFailure(path, ITX_UNSUPPORTED, options), HasSubstr("'a-feature-of-tomorrow'"));
  options.variant = "other";
  EXPECT_THAT(loadFailure(path, ITX_NOT_FOUND, options), AllOf(HasSubstr("'other'"), HasSubstr("marked, plain")));
}

TEST(Variants, TheProcessorsOwnThenTheOneWithMostFeatures) {
  std::vector<VariantInfo> variants = {{"v3", "x86-64-v3", {"avx2", "fma"}},
                                       {"wide", "x86-64-v4", {"avx2", "fma", "avx512f"}},
                                       {"mine", "znver9", {"avx2"}},
                                       {"twin", "znver9", {"avx2"}}};
  std::vector<std::string> all = {"fma", "avx2", "avx512f"};
  EXPECT_EQ(bestVariant(variants, "", all, "znver9"), 2u);
  EXPECT_EQ(bestVariant(variants, "", all, "znver8"), 1u);
  EXPECT_EQ(bestVariant(variants, "", all, ""), 1u);
  EXPECT_EQ(bestVariant(variants, "", {"avx2", "fma"}, ""), 0u);
  EXPECT_EQ(bestVariant(variants, "twin", all, "znver9"), 3u);
  // A virtual machine may hide features of the processor that it names.
  EXPECT_EQ(bestVariant(variants, "", {"fma"}, "znver9"), std::nullopt);
  EXPECT_EQ(bestVariant(variants, "wide", {"avx2", "fma"}, "znver9"), std::nullopt);
  // "x86-64-v4" is no processor that a machine can be.
  variants[2].cpu = "";
  EXPECT_EQ(bestVariant(variants, "", {"avx2"}, ""), 2u);
}

TEST_F(ModuleTest, VariantOfThisProcessorIsTaken) {
  if (hostProcessorName().empty())
    GTEST_SKIP() << "this processor (" << hostDescription() << ") is not in the table";
  std::string manifest = replaced(filledManifest(), R"(["a-feature-of-tomorrow"])", "[]");
  manifest = replaced(manifest, R"("name":"plain","cpu":"x")", R"("name":"plain","cpu":")" + hostProcessorName() + '"');
  EXPECT_STREQ(itx_module_variant(load(writeSample(folder, manifest)).get()), "plain");
}

TEST_F(ModuleTest, FirstOfEqualVariantsIsTaken) {
  std::string manifest = replaced(filledManifest(), R"(["a-feature-of-tomorrow"])", "[]");
  ModulePointer module = load(writeSample(folder, manifest));
  EXPECT_STREQ(itx_module_variant(module.get()), "marked");
  TensorPointer ids = idsOf(1, 4), output;
  ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_EQ(static_cast<float *>(itx_tensor_data(output.get()))[0], 1000 + expected(ids, 0, 0));
}

TEST_F(ModuleTest, OptionsWithoutTheirSize) {
  itx_load_options options = {};
  options.verify = 1;
  itx_module *module = nullptr;
  EXPECT_EQ(itx_module_load(writeSample(folder).c_str(), &options, &module), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("sizeof(itx_load_options)"));
}

TEST_F(ModuleTest, ManifestAndCodeDisagree) {
  std::string manifest = replaced(filledManifest(), R"("total_kernel")", R"("total_kernel","third")");
  EXPECT_THAT(loadFailure(writeSample(folder, manifest), ITX_CORRUPT), HasSubstr("2 kernels"));
}

TEST_F(ModuleTest, ReplacedFileIsLoadedAnew) {
  std::string path = writeSample(folder);
  ModulePointer first = load(path);
  std::string manifest = replaced(filledManifest(), R"(["a-feature-of-tomorrow"])", "[]");
  ModulePointer second = load(writeSample(folder, manifest));
  EXPECT_STREQ(itx_module_variant(first.get()), "plain");
  EXPECT_STREQ(itx_module_variant(second.get()), "marked");
  TensorPointer ids = idsOf(2, 2), output;
  ASSERT_EQ(invoke(find(first, "main"), {ids.get()}, output), ITX_OK);
  EXPECT_TRUE(isRight(ids, output));
}

TEST_F(ModuleTest, FromMemory) {
  std::string path = writeSample(folder), bytes = readFile(path);
  itx_module *module = nullptr;
  ASSERT_EQ(itx_module_load_memory(bytes.data(), bytes.size(), path.c_str(), nullptr, &module), ITX_OK)
      << itx_last_error();
  ModulePointer owner(module);
  bytes.assign(bytes.size(), 'x');
  TensorPointer ids = idsOf(1, 5), output;
  ASSERT_EQ(invoke(find(owner, "main"), {ids.get()}, output), ITX_OK);
  EXPECT_TRUE(isRight(ids, output));
}

// ---- Weights ----------------------------------------------------------------------------------------------

TEST_F(ModuleTest, MissingWeights) {
  std::string path = writeSample(folder);
  std::filesystem::remove(folder / "m.safetensors");
  EXPECT_THAT(loadFailure(path, ITX_NOT_FOUND), AllOf(HasSubstr("m.safetensors"), HasSubstr("m.itx")));
}

TEST_F(ModuleTest, WeightsOfAnotherModel) {
  std::string path = writeSample(folder), weights = sampleWeights();
  writeFile(folder / "m.safetensors", weights + std::string(4, 'x'));
  EXPECT_THAT(loadFailure(path, ITX_CORRUPT), HasSubstr(std::to_string(weights.size() + 4)));
  writeFile(folder / "m.safetensors", replaced(weights, "\"table\"", "\"tablx\""));
  EXPECT_THAT(loadFailure(path, ITX_CORRUPT), HasSubstr("another model"));
}

TEST_F(ModuleTest, DamagedWeightsAreFoundByVerify) {
  std::string path = writeSample(folder), weights = sampleWeights();
  weights.back() ^= 1;
  writeFile(folder / "m.safetensors", weights);
  EXPECT_NE(load(path), nullptr) << "only the header is checked without verify";
  itx_load_options options = {};
  options.verify = 1;
  EXPECT_THAT(loadFailure(path, ITX_CORRUPT, options), HasSubstr("m.safetensors"));
  writeFile(folder / "m.safetensors", sampleWeights());
  EXPECT_NE(load(path, options), nullptr);
}

TEST_F(ModuleTest, WeightsElsewhere) {
  std::string path = writeSample(folder), other = folder / "other.safetensors";
  std::filesystem::rename(folder / "m.safetensors", other);
  itx_load_options options = {};
  options.weights = other.c_str();
  EXPECT_NE(load(path, options), nullptr);
}

namespace {
/// An artifact with the weights inside; returns its path.
std::string writeEmbedded(const TemporaryFolder &folder) {
  std::string elf = sampleElf(replaced(filledManifest(), "\"file\":\"m.safetensors\"", "\"file\":null"));
  writeFile(folder / "packed", sampleWeights());
  Status status = intarsia::assemble::writeArtifact(folder / "all.itx", elf.data(), elf.size(), folder / "packed");
  EXPECT_TRUE(status.ok()) << status.message();
  std::filesystem::remove(folder / "packed");
  return folder / "all.itx";
}
} // namespace

TEST_F(ModuleTest, EmbeddedWeights) {
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

TEST_F(ModuleTest, SameInputsSameBytes) {
  std::string first = readFile(writeEmbedded(folder));
  EXPECT_EQ(first, readFile(writeEmbedded(folder)));
}

TEST_F(ModuleTest, ArtifactPathNotWritable) {
  std::string elf = sampleElf(filledManifest());
  EXPECT_EQ(intarsia::assemble::writeArtifact("/does/not/exist/m.itx", elf.data(), elf.size()).code(), ITX_IO_ERROR);
  EXPECT_EQ(intarsia::assemble::writeArtifact(folder.path(), elf.data(), elf.size()).code(), ITX_IO_ERROR);
  EXPECT_FALSE(intarsia::assemble::writeArtifact(folder / "m.itx", elf.data(), elf.size(), folder / "none").ok());
  EXPECT_EQ(folder.files(), 0u);
}

TEST_F(ModuleTest, Bundle) {
  std::string embedded = writeEmbedded(folder);
  std::string other = readFile(embedded);
  // The first entry is for another machine: only its table entry counts here.
  std::string elf = sampleElf(filledManifest());
  elf[18] = char(hostElfMachine() == 62 ? 183 : 62);
  ASSERT_TRUE(intarsia::assemble::writeArtifact(folder / "other.itx", elf.data(), elf.size()).ok());
  Status status = intarsia::assemble::writeBundle(folder / "b.itx", {folder / "other.itx", embedded});
  ASSERT_TRUE(status.ok()) << status.message();
  ModulePointer module = load(folder / "b.itx");
  TensorPointer ids = idsOf(2, 3), output;
  ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isRight(ids, output));

  EXPECT_FALSE(intarsia::assemble::writeBundle(folder / "c.itx", {embedded, embedded}).ok());
  ASSERT_TRUE(intarsia::assemble::writeBundle(folder / "c.itx", {folder / "other.itx"}).ok());
  EXPECT_THAT(loadFailure(folder / "c.itx", ITX_UNSUPPORTED), HasSubstr("bundle for"));
  writeFile(folder / "d.itx", readFile(folder / "b.itx").substr(0, 40));
  EXPECT_THAT(loadFailure(folder / "d.itx", ITX_CORRUPT), HasSubstr("truncated"));
}

namespace {
/// Standard output and error of a command, and its exit code.
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

TEST_F(ModuleTest, Executable) {
  std::string embedded = writeEmbedded(folder), program = folder / "program";
  Status status = intarsia::assemble::writeExecutable(program, ITX_TEST_RUNNER, embedded);
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

TEST_F(ModuleTest, RunTool) {
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
}

// ---- Calls ------------------------------------------------------------------------------------------------

TEST_F(ModuleTest, CallsAtAnySize) {
  ModulePointer module = load(writeSample(folder));
  for (int64_t batch : {1, 3})
    for (int64_t sequence : {1, 2, 17, 512}) {
      TensorPointer ids = idsOf(batch, sequence), output;
      ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
      EXPECT_TRUE(isRight(ids, output));
      ASSERT_EQ(itx_tensor_rank(output.get()), 3u);
      EXPECT_EQ(itx_tensor_shape(output.get())[1], sequence);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(itx_tensor_data(output.get())) % 64, 0u);
    }
}

TEST_F(ModuleTest, SizesThatTheModuleChecks) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *total = find(module, "total");
  TensorPointer many = idsOf(9, 512), one = idsOf(1, 1);
  EXPECT_THAT(refusal(total, {many.get()}),
              HasSubstr("batch * sequence is 4608, must be at most 4096: 'sum' needs it"));
  EXPECT_THAT(refusal(total, {one.get()}), HasSubstr("batch * sequence is 1, must be at least 2"));
  ModulePointer equal = load(writeSample(folder, replaced(filledManifest(), "\"at_most\"", "\"equal\"")));
  TensorPointer two = idsOf(2, 3), output;
  EXPECT_THAT(refusal(find(equal, "total"), {two.get()}), HasSubstr("batch * sequence is 6, must be 4096: 'sum'"));
  // More checks than the manifest has.
  ModulePointer fewer = load(writeSample(
      folder,
      replaced(filledManifest(),
               ",\n             {\"relation\":\"equal\",\"left\":\"sequence\",\"right\":\"batch + sequence - batch\"}",
               "")));
  EXPECT_EQ(invoke(find(fewer, "total"), {two.get()}, output), ITX_CORRUPT);
  EXPECT_THAT(itx_last_error(), HasSubstr("check 2 of 2"));
}

TEST_F(ModuleTest, WorkspaceCopyAndSharedScratch) {
  ModulePointer module = load(writeSample(folder));
  for (int round = 0; round < 20; ++round) {
    int64_t sequence = 1 + round * 25 % 500;
    TensorPointer ids = idsOf(3, sequence, 3 + round), output;
    ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK) << itx_last_error();
    ASSERT_EQ(itx_tensor_elements(output.get()), 3);
    for (int64_t b = 0; b < 3; ++b) {
      float sum = 0; // exact: small multiples of 1/2
      for (int64_t s = 0; s < sequence; ++s)
        for (int64_t k = 0; k < 4; ++k)
          sum += expected(ids, b * sequence + s, k);
      EXPECT_EQ(static_cast<float *>(itx_tensor_data(output.get()))[b], sum);
    }
  }
}

TEST_F(ModuleTest, GivenInputsReplaceDefaults) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(1, 4), output;
  TensorPointer mask = tensorOf<int64_t>(ITX_I64, {1, 4}, {1, 0, 1, 0});
  TensorPointer scale = tensorOf<float>(ITX_F32, {4}, {1, 10, 100, 1000});
  ASSERT_EQ(invoke(find(module, "main"), {ids.get(), mask.get(), scale.get()}, output), ITX_OK) << itx_last_error();
  const auto *values = static_cast<float *>(itx_tensor_data(output.get()));
  EXPECT_EQ(values[1 * 4 + 3], 0);
  EXPECT_EQ(values[2 * 4 + 3], (14 + 0.75f) * 1000);
}

TEST_F(ModuleTest, UnalignedInputs) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(2, 9), output;
  std::vector<char> memory(2 * 9 * 8 + 128);
  char *unaligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) + 8;
  std::memcpy(unaligned, itx_tensor_data(ids.get()), 2 * 9 * 8);
  int64_t shape[] = {2, 9};
  int released = 0;
  itx_tensor *wrapped = nullptr;
  ASSERT_EQ(itx_tensor_wrap(
                unaligned, ITX_I64, 2, shape, [](void *count) { ++*static_cast<int *>(count); }, &released, &wrapped),
            ITX_OK);
  EXPECT_EQ(itx_tensor_data(wrapped), unaligned);
  ASSERT_EQ(invoke(find(module, "main"), {wrapped}, output), ITX_OK) << itx_last_error();
  EXPECT_TRUE(isRight(ids, output));
  EXPECT_EQ(released, 0);
  itx_tensor_free(wrapped);
  EXPECT_EQ(released, 1);
}

TEST_F(ModuleTest, WrongInputs) {
  ModulePointer module = load(writeSample(folder));
  const itx_function *main = find(module, "main");
  TensorPointer ids = idsOf(2, 8), scale = tensorOf<float>(ITX_F32, {4}, {1, 1, 1, 1});
  itx_tensor *good = ids.get();

  EXPECT_THAT(refusal(main, {}), HasSubstr("input 'ids' of function 'main' is missing"));
  EXPECT_THAT(refusal(main, {good, nullptr, nullptr, good}), AllOf(HasSubstr("4 inputs"), HasSubstr("takes 3")));
  EXPECT_THAT(refusal(main, {scale.get()}), AllOf(HasSubstr("'ids' is f32"), HasSubstr("takes i64")));
  TensorPointer flat = tensorOf<int64_t>(ITX_I64, {3}, {1, 2, 3});
  EXPECT_THAT(refusal(main, {flat.get()}),
              AllOf(HasSubstr("rank 1"), HasSubstr("rank 2"), HasSubstr("[batch, sequence]")));
  TensorPointer five = tensorOf<float>(ITX_F32, {5}, {1, 1, 1, 1, 1});
  EXPECT_THAT(refusal(main, {good, nullptr, five.get()}), AllOf(HasSubstr("'scale' is [5]"), HasSubstr("must be 4")));
  TensorPointer tooLong = idsOf(1, 600);
  EXPECT_THAT(refusal(main, {tooLong.get()}), HasSubstr("sequence is 600, the model's maximum is 512"));
  TensorPointer mask = idsOf(2, 7);
  EXPECT_THAT(refusal(main, {good, mask.get()}),
              AllOf(HasSubstr("sequence is 8 in input 'ids'"), HasSubstr("7 in input 'mask'")));
  TensorPointer empty = tensorOf<int64_t>(ITX_I64, {0, 4}, {});
  EXPECT_THAT(refusal(main, {empty.get()}), HasSubstr("batch is 0"));

  TensorPointer high = idsOf(2, 8), low = idsOf(2, 8);
  static_cast<int64_t *>(itx_tensor_data(high.get()))[11] = 100;
  EXPECT_THAT(refusal(main, {high.get()}), AllOf(HasSubstr("'ids' is 100 at [1, 3]"), HasSubstr("[0, 100)")));
  static_cast<int64_t *>(itx_tensor_data(low.get()))[0] = -1;
  EXPECT_THAT(refusal(main, {low.get()}), HasSubstr("'ids' is -1 at [0, 0]"));

  itx_tensor *outputs[2] = {};
  EXPECT_EQ(itx_invoke(main, &good, 1, outputs, 2), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("2 outputs"));
  EXPECT_EQ(itx_invoke(nullptr, &good, 1, outputs, 1), ITX_INVALID_ARGUMENT);
}

TEST_F(ModuleTest, ErrorsBelongToTheirThread) {
  loadFailure("/does/not/exist.itx", ITX_NOT_FOUND);
  std::thread([] { EXPECT_STREQ(itx_last_error(), ""); }).join();
  EXPECT_THAT(itx_last_error(), HasSubstr("exist.itx"));
}

TEST_F(ModuleTest, AsynchronousCalls) {
  ModulePointer module = load(writeSample(folder));
  std::vector<TensorPointer> all;
  std::vector<itx_pending *> pending;
  for (int64_t i = 0; i < 20; ++i) {
    all.push_back(idsOf(1 + i % 3, 40 + i));
    itx_tensor *inputs[] = {all.back().get()};
    pending.push_back(nullptr);
    ASSERT_EQ(itx_invoke_start(find(module, "main"), inputs, 1, &pending.back()), ITX_OK) << itx_last_error();
  }
  module.reset(); // calls in flight keep it
  for (size_t i = 0; i < pending.size(); ++i) {
    itx_tensor *made = nullptr;
    ASSERT_EQ(itx_pending_wait(pending[i], &made, 1), ITX_OK) << itx_last_error();
    TensorPointer output(made);
    EXPECT_TRUE(isRight(all[i], output));
  }
}

TEST_F(ModuleTest, AsynchronousErrorsAndDrops) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer tooLong = idsOf(1, 600), good = idsOf(1, 6);
  itx_tensor *inputs[] = {tooLong.get()};
  itx_pending *pending = nullptr;
  EXPECT_EQ(itx_invoke_start(find(module, "main"), inputs, 1, &pending), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(pending, nullptr);
  inputs[0] = good.get();
  ASSERT_EQ(itx_invoke_start(find(module, "main"), inputs, 1, &pending), ITX_OK);
  good.reset(); // the call holds the memory
  while (!itx_pending_done(pending))
    std::this_thread::yield();
  EXPECT_EQ(itx_pending_wait(pending, nullptr, 0), ITX_OK);
}

TEST_F(ModuleTest, SeveralThreadsAndModules) {
  std::string path = writeSample(folder);
  ModulePointer first = load(path), second = load(path);
  itx_set_threads(3);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const itx_function *function = find(t % 2 ? first : second, "main");
      for (int round = 0; round < 50; ++round) {
        TensorPointer ids = idsOf(1 + t, 1 + round * 7 % 100), output;
        failures += invoke(function, {ids.get()}, output) != ITX_OK || !isRight(ids, output);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  itx_set_threads(0);
  EXPECT_EQ(failures.load(), 0);
}

TEST_F(ModuleTest, ForkWhileCallsRun) {
  ModulePointer module = load(writeSample(folder));
  itx_set_threads(3);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    TensorPointer ids = idsOf(4, 300), output;
    while (!stop)
      invoke(find(module, "main"), {ids.get()}, output);
  });
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      TensorPointer ids = idsOf(2, 50), output;
      bool good = invoke(find(module, "main"), {ids.get()}, output) == ITX_OK && isRight(ids, output);
      itx_tensor *inputs[] = {ids.get()}, *made = nullptr;
      itx_pending *pending = nullptr;
      good = good && itx_invoke_start(find(module, "main"), inputs, 1, &pending) == ITX_OK &&
             itx_pending_wait(pending, &made, 1) == ITX_OK;
      TensorPointer again(made);
      _exit(good && isRight(ids, again) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  busy.join();
  itx_set_threads(0);
}

TEST_F(ModuleTest, ThreadCount) {
  EXPECT_EQ(itx_set_threads(2), ITX_OK);
  EXPECT_EQ(itx_threads(), 2);
  EXPECT_EQ(itx_set_threads(-1), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_set_threads(0), ITX_OK);
  EXPECT_GE(itx_threads(), 1);
}

TEST_F(ModuleTest, SteadyStateReusesMemory) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(8, 512), output;
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);
  void *before = itx_tensor_data(output.get());
  output.reset();
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);
  EXPECT_EQ(itx_tensor_data(output.get()), before);
}

// ---- DLPack -----------------------------------------------------------------------------------------------

TEST(DLPack, RoundTripWithoutCopying) {
  TensorPointer tensor = tensorOf<float>(ITX_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  void *data = itx_tensor_data(tensor.get());
  DLManagedTensor *managed = nullptr;
  ASSERT_EQ(itx_tensor_to_dlpack(tensor.get(), &managed), ITX_OK);
  EXPECT_EQ(managed->dl_tensor.data, data);
  EXPECT_EQ(managed->dl_tensor.ndim, 2);
  EXPECT_EQ(managed->dl_tensor.strides[0], 3);
  EXPECT_EQ(managed->dl_tensor.dtype.bits, 32);
  tensor.reset(); // the memory lives on
  itx_tensor *back = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack(managed, &back), ITX_OK);
  TensorPointer owner(back);
  EXPECT_EQ(itx_tensor_data(back), data);
  EXPECT_EQ(static_cast<float *>(data)[5], 6);
  DLManagedTensorVersioned *versioned = nullptr;
  ASSERT_EQ(itx_tensor_to_dlpack_versioned(back, &versioned), ITX_OK);
  EXPECT_EQ(versioned->version.major, 1u);
  itx_tensor *again = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack_versioned(versioned, &again), ITX_OK);
  EXPECT_EQ(itx_tensor_data(again), data);
  itx_tensor_free(again);
}

namespace {
/// A DLPack tensor that counts its deletions.
struct Foreign {
  DLManagedTensor managed = {};
  std::vector<int32_t> values = {0, 1, 2, 3, 4, 5};
  std::vector<int64_t> shape, strides;
  int deleted = 0;
  Foreign(std::vector<int64_t> shapeGiven, std::vector<int64_t> stridesGiven)
      : shape(std::move(shapeGiven)), strides(std::move(stridesGiven)) {
    managed.dl_tensor = {values.data(),
                         {kDLCPU, 0},
                         int32_t(shape.size()),
                         {kDLInt, 32, 1},
                         shape.data(),
                         strides.empty() ? nullptr : strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor *self) { ++static_cast<Foreign *>(self->manager_ctx)->deleted; };
  }
};
} // namespace

TEST(DLPack, TransposedIsCopied) {
  Foreign foreign({3, 2}, {1, 3});
  itx_tensor *tensor = nullptr;
  ASSERT_EQ(itx_tensor_from_dlpack(&foreign.managed, &tensor), ITX_OK) << itx_last_error();
  EXPECT_EQ(foreign.deleted, 1);
  const auto *values = static_cast<int32_t *>(itx_tensor_data(tensor));
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(values[i], i % 2 * 3 + i / 2);
  itx_tensor_free(tensor);
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, DenseForms) {
  for (const std::vector<int64_t> &strides : {std::vector<int64_t>{}, {6, 3, 1}, {77, 3, 1}}) {
    Foreign foreign({1, 2, 3}, strides);
    foreign.managed.dl_tensor.data = foreign.values.data() - 2;
    foreign.managed.dl_tensor.byte_offset = 8;
    itx_tensor *tensor = nullptr;
    ASSERT_EQ(itx_tensor_from_dlpack(&foreign.managed, &tensor), ITX_OK);
    EXPECT_EQ(itx_tensor_data(tensor), foreign.values.data());
    EXPECT_EQ(foreign.deleted, 0);
    itx_tensor_free(tensor);
    EXPECT_EQ(foreign.deleted, 1);
  }
}

TEST(DLPack, RefusedTensorsStayTheCallers) {
  itx_tensor *tensor = nullptr;
  Foreign device({6}, {}), type({6}, {}), negative({-6}, {});
  device.managed.dl_tensor.device.device_type = 2;
  EXPECT_EQ(itx_tensor_from_dlpack(&device.managed, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("device type 2"));
  type.managed.dl_tensor.dtype = {5, 64, 1};
  EXPECT_EQ(itx_tensor_from_dlpack(&type.managed, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_from_dlpack(&negative.managed, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(device.deleted + type.deleted + negative.deleted, 0);
  EXPECT_EQ(tensor, nullptr);
}

// ---- Tensors ----------------------------------------------------------------------------------------------

TEST(Tensor, BadArguments) {
  itx_tensor *tensor = nullptr;
  int64_t negative[] = {2, -1}, huge[] = {int64_t(1) << 40, int64_t(1) << 40}, large[] = {int64_t(1) << 58};
  EXPECT_EQ(itx_tensor_create(ITX_F32, 2, negative, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create(ITX_F32, 2, huge, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create(ITX_F32, 1, large, nullptr, &tensor), ITX_OUT_OF_MEMORY);
  EXPECT_EQ(itx_tensor_create(itx_dtype(99), 0, nullptr, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_create(ITX_F32, 17, nullptr, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(itx_tensor_wrap(nullptr, ITX_F32, 0, nullptr, nullptr, nullptr, &tensor), ITX_INVALID_ARGUMENT);
  EXPECT_EQ(tensor, nullptr);
  itx_tensor_free(nullptr);
  EXPECT_EQ(itx_dtype_name(itx_dtype(99)), nullptr);
  EXPECT_STREQ(itx_dtype_name(ITX_BF16), "bf16");
}

// ---- Profiles ---------------------------------------------------------------------------------------------

TEST_F(ModuleTest, ProfileIsChromeTraceJson) {
  ModulePointer module = load(writeSample(folder));
  TensorPointer ids = idsOf(2, 100), output;
  EXPECT_EQ(itx_profile_stop(nullptr), ITX_INVALID_ARGUMENT);
  ASSERT_EQ(itx_profile_start(), ITX_OK);
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);
  ASSERT_EQ(itx_profile_stop((folder / "t.json").c_str()), ITX_OK) << itx_last_error();
  ASSERT_EQ(invoke(find(module, "total"), {ids.get()}, output), ITX_OK);

  Json json;
  Status status = parseJson(readFile(folder / "t.json"), "t.json", json);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<std::string> names;
  for (const Json &event : json["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    names.push_back(event["name"]);
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_GE(event["ts"].get<double>(), 0);
    if (event["name"] == "rows_kernel") {
      EXPECT_EQ(event["args"]["label"], "layer.rows");
      EXPECT_EQ(event["args"]["tiles"], 200);
      EXPECT_EQ(event["args"]["threads"], itx_threads());
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"rows_kernel", "copy", "total_kernel", "total"}));
}
