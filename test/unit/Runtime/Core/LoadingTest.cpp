//===- LoadingTest.cpp - Which artifacts are loaded, and which refused -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Runtime/Modules.h"

#include "intarsia/Version.h"
#include "lib/Formats/ArtifactFormat.h"
#include "lib/Runtime/Core/Module.h"
#include "lib/Support/CpuFeatures.h"

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {
class Loading : public ModuleTest {};
} // namespace

TEST_F(Loading, LoadsAndDescribesItself) {
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

TEST_F(Loading, CarriesFiles) {
  std::string weights = sampleWeights(), table = weights.substr(weights.size() - 1600);
  auto withFile = [&](const std::string &tensor, const std::string &hash) {
    return replaced(filledManifest(), "\"functions\":",
                    "\"files\":[{\"name\":\"table.bin\",\"tensor\":\"" + tensor + "\",\"hash\":\"" + hash +
                        "\"}],\n\"functions\":");
  };
  ModulePointer module = load(writeSample(folder, withFile("table", hashTextOf(table.data(), table.size()))));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(itx_module_file_count(module.get()), 1u);
  EXPECT_STREQ(itx_module_file_name(module.get(), 0), "table.bin");
  EXPECT_EQ(itx_module_file_name(module.get(), 1), nullptr);
  const void *data = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(itx_module_file(module.get(), "table.bin", &data, &bytes), ITX_OK) << itx_last_error();
  EXPECT_EQ(std::string(static_cast<const char *>(data), bytes), table);
  EXPECT_EQ(itx_module_file(module.get(), "tokenizer.json", &data, &bytes), ITX_NOT_FOUND);
  EXPECT_THAT(itx_last_error(), HasSubstr("m.itx: carries no file 'tokenizer.json'; it carries: table.bin"));

  // A damaged or missing file is reported when it is requested.
  module = load(writeSample(folder, withFile("table", std::string(32, '0'))));
  EXPECT_EQ(itx_module_file(module.get(), "table.bin", &data, &bytes), ITX_CORRUPT);
  EXPECT_THAT(itx_last_error(), HasSubstr("m.safetensors: is damaged: file 'table.bin' in it does not have the hash"));
  module = load(writeSample(folder, withFile("other", "")));
  EXPECT_EQ(itx_module_file(module.get(), "table.bin", &data, &bytes), ITX_CORRUPT);
  EXPECT_THAT(itx_last_error(), HasSubstr("has no tensor 'other', in which '"));
  module = load(writeSample(folder));
  EXPECT_EQ(itx_module_file(module.get(), "table.bin", &data, &bytes), ITX_NOT_FOUND);
  EXPECT_THAT(itx_last_error(), HasSubstr("it carries: none"));
}

TEST_F(Loading, UnknownFunctionAndInput) {
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

TEST_F(Loading, MissingAndForeignFiles) {
  EXPECT_THAT(loadFailure(folder / "none.itx", ITX_NOT_FOUND), HasSubstr("none.itx"));
  writeFile(folder / "text.itx", "this is not a module");
  EXPECT_THAT(loadFailure(folder / "text.itx", ITX_CORRUPT), HasSubstr("not a compiled module"));
  writeFile(folder / "empty.itx", "");
  loadFailure(folder / "empty.itx", ITX_CORRUPT);
  EXPECT_THAT(loadFailure(ITX_TEST_RUNNER, ITX_CORRUPT), HasSubstr(".itx.header"));
}

TEST_F(Loading, EveryTruncationIsRefused) {
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

TEST_F(Loading, EveryFlippedBitIsFound) {
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

TEST_F(Loading, OtherVersion) {
  std::string path = writeSample(folder), bytes = readFile(path);
  size_t header = bytes.find(std::string(artifactMagic, 8));
  ASSERT_NE(header, std::string::npos);
  bytes[header + 8] = 9;
  writeFile(folder / "new.itx", bytes);
  EXPECT_THAT(loadFailure(folder / "new.itx", ITX_VERSION_MISMATCH),
              AllOf(HasSubstr("format 9"), HasSubstr("format 1"), HasSubstr(INTARSIA_VERSION)));
}

TEST_F(Loading, OtherMachine) {
  std::string elf = sampleElf(filledManifest());
  elf[18] = char(hostElfMachine() == 62 ? 183 : 62); // e_machine
  elf[19] = 0;
  ASSERT_TRUE(intarsia::writeArtifact(folder / "other.itx", elf.data(), elf.size()).ok());
  EXPECT_THAT(loadFailure(folder / "other.itx", ITX_UNSUPPORTED),
              AllOf(HasSubstr("aarch64"), HasSubstr("--target=cpu:")));
}

TEST_F(Loading, MissingCpuFeature) {
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
  // "x86-64-v4" is not the name of a processor.
  variants[2].cpu = "";
  EXPECT_EQ(bestVariant(variants, "", {"avx2"}, ""), 2u);
}

TEST_F(Loading, VariantOfThisProcessorIsTaken) {
  if (hostProcessorName().empty())
    GTEST_SKIP() << "this processor (" << hostDescription() << ") is not in the table";
  std::string manifest = replaced(filledManifest(), R"(["a-feature-of-tomorrow"])", "[]");
  manifest = replaced(manifest, R"("name":"plain","cpu":"x")", R"("name":"plain","cpu":")" + hostProcessorName() + '"');
  EXPECT_STREQ(itx_module_variant(load(writeSample(folder, manifest)).get()), "plain");
}

TEST_F(Loading, FirstOfEqualVariantsIsTaken) {
  std::string manifest = replaced(filledManifest(), R"(["a-feature-of-tomorrow"])", "[]");
  ModulePointer module = load(writeSample(folder, manifest));
  EXPECT_STREQ(itx_module_variant(module.get()), "marked");
  TensorPointer ids = idsOf(1, 4), output;
  ASSERT_EQ(invoke(find(module, "main"), {ids.get()}, output), ITX_OK) << itx_last_error();
  EXPECT_EQ(static_cast<float *>(itx_tensor_data(output.get()))[0], 1000 + expected(ids, 0, 0));
}

TEST_F(Loading, OptionsWithoutTheirSize) {
  itx_load_options options = {};
  options.verify = 1;
  itx_module *module = nullptr;
  EXPECT_EQ(itx_module_load(writeSample(folder).c_str(), &options, &module), ITX_INVALID_ARGUMENT);
  EXPECT_THAT(itx_last_error(), HasSubstr("sizeof(itx_load_options)"));
}

TEST_F(Loading, ManifestAndCodeDisagree) {
  auto disagree = [&](const std::string &from, const std::string &to, const std::string &message) {
    EXPECT_THAT(loadFailure(writeSample(folder, replaced(filledManifest(), from, to)), ITX_CORRUPT),
                HasSubstr(message));
  };
  disagree(R"("total_kernel")", R"("total_kernel","third")",
           "m.itx: its code was compiled for 2 kernels, its manifest lists 3");
  disagree(R"(,"total_kernel")", "", "for 2 kernels, its manifest lists 1");
  disagree(R"({"name":"marked","cpu":"x","features":["a-feature-of-tomorrow"]},)", "",
           "for 2 target variants, its manifest lists 1");
  disagree(R"(,"layer.total")", "", "for 2 labels, its manifest lists 1");
  disagree(R"(["table"])", "[]", "for 1 weights, its manifest lists 0");
  disagree(R"(,"range":[0,100])", "", "for 1 inputs with a range of function 'main', its manifest lists 0");
  disagree(R"("range":[0,100])", R"("range":[0,100],"below":{"size":"batch","factor":100})",
           "for 0 inputs below a size of function 'main', its manifest lists 1");
  disagree(R"(,
             {"name":"scale","dtype":"f32","shape":[4],"default":2}])",
           "]", "for 3 inputs of function 'main', its manifest lists 2");
  disagree(R"({"name":"rows","dtype":"f32","shape":["batch","sequence",4]})", "",
           "for 1 outputs of function 'main', its manifest lists 0");
  disagree(R"(["batch","sequence",4])", R"(["batch","sequence"])",
           "for 3 dimensions of the outputs of function 'main', its manifest lists 2");
  disagree(R"(,
             {"relation":"equal","left":"sequence","right":"batch + sequence - batch"})",
           "", "for 3 checks of function 'total', its manifest lists 2");
  std::string manifest = replaced(filledManifest(), R"({"name":"batch"},)", "");
  for (int i = 0; i < 2; ++i)
    manifest = replaced(manifest, R"(["batch","sequence"],)", R"([1,"sequence"],)");
  manifest = replaced(manifest, R"(["batch","sequence",4])", R"([1,"sequence",4])");
  EXPECT_THAT(loadFailure(writeSample(folder, manifest), ITX_CORRUPT),
              HasSubstr("for 2 symbolic sizes of function 'main', its manifest lists 1"));
  size_t function = filledManifest().find(R"(,
  {"name":"total")");
  EXPECT_THAT(loadFailure(writeSample(folder, filledManifest().substr(0, function) + "]}"), ITX_CORRUPT),
              HasSubstr("for 2 functions, its manifest lists 1"));
}

TEST_F(Loading, ReplacedFileIsLoadedAnew) {
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

TEST_F(Loading, FromMemory) {
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

TEST_F(Loading, MissingWeights) {
  std::string path = writeSample(folder);
  std::filesystem::remove(folder / "m.safetensors");
  EXPECT_THAT(loadFailure(path, ITX_NOT_FOUND), AllOf(HasSubstr("m.safetensors"), HasSubstr("m.itx")));
}

TEST_F(Loading, WeightsOfAnotherModel) {
  std::string path = writeSample(folder), weights = sampleWeights();
  std::string longer =
      safetensorsBytes(R"({"table":{"dtype":"F32","shape":[101,4],"data_offsets":[0,1616]}})", std::string(1616, 'x'));
  writeFile(folder / "m.safetensors", longer);
  EXPECT_THAT(loadFailure(path, ITX_CORRUPT),
              AllOf(HasSubstr(std::to_string(weights.size())), HasSubstr(std::to_string(longer.size()))));
  writeFile(folder / "m.safetensors", weights + std::string(4, 'x'));
  EXPECT_THAT(loadFailure(path, ITX_CORRUPT), HasSubstr("the last 4 of 1604 bytes"));
  writeFile(folder / "m.safetensors", replaced(weights, "\"table\"", "\"tablx\""));
  EXPECT_THAT(loadFailure(path, ITX_CORRUPT), HasSubstr("another model or compilation"));
}

TEST_F(Loading, WeightsThatWaitForTheirName) {
  std::string path = writeSample(folder), weights = sampleWeights();
  uint64_t length;
  std::memcpy(&length, weights.data(), sizeof(length));
  std::string hash = hashTextOf(weights.data(), sizeof(length) + length);
  writeFile(folder / ("m." + hash + ".safetensors"), weights);
  writeFile(folder / "m.safetensors", replaced(weights, "\"table\"", "\"tablx\""));
  EXPECT_NE(load(path), nullptr) << "beside older weights";
  std::filesystem::remove(folder / "m.safetensors");
  EXPECT_NE(load(path), nullptr) << "beside none";
  // Weights with another hash in their name are not tried; the message names the usual file.
  std::filesystem::rename(folder / ("m." + hash + ".safetensors"),
                          folder / ("m." + std::string(32, '0') + ".safetensors"));
  EXPECT_THAT(loadFailure(path, ITX_NOT_FOUND), HasSubstr("/m.safetensors: the weights of"));
}

TEST_F(Loading, DamagedWeightsAreFoundByVerify) {
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

TEST_F(Loading, WeightsElsewhere) {
  std::string path = writeSample(folder), other = folder / "other.safetensors";
  std::filesystem::rename(folder / "m.safetensors", other);
  itx_load_options options = {};
  options.weights = other.c_str();
  EXPECT_NE(load(path, options), nullptr);
}
