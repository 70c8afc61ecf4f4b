//===- ParsersTest.cpp - NumPy files, manifests, ELF files -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include "lib/Formats/Artifact.h"
#include "lib/Formats/Npy.h"
#include "lib/Runtime/Core/Tensor.h"

using namespace intarsia;
using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::HasSubstr;

// ---- .npy -------------------------------------------------------------------------------------------------

static std::string npy(const std::string &header, const std::string &data, int major = 1) {
  std::string text("\x93NUMPY", 6);
  text += char(major);
  text += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i)
    text += char(header.size() >> (8 * i) & 255);
  return text + header + data;
}

static Status parse(const std::string &bytes, NpyHeader &header) {
  return parseNpy(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), "x.npy", header);
}

TEST(Npy, ReadsAllVersions) {
  for (int major : {1, 2, 3}) {
    NpyHeader header;
    Status status = parse(
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", std::string(24, 0), major), header);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(header.dtype, ITX_F32);
    EXPECT_EQ(header.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_FALSE(header.fortranOrder);
    EXPECT_EQ(header.dataBytes, 24u);
  }
}

TEST(Npy, ReadsShapesAndTypes) {
  NpyHeader header;
  EXPECT_TRUE(parse(npy("{'descr':'<i8','fortran_order':False,'shape':()}", std::string(8, 0)), header).ok());
  EXPECT_TRUE(header.shape.empty());
  EXPECT_TRUE(parse(npy("{'descr':'|b1','fortran_order':True,'shape':(7,)}", std::string(7, 0)), header).ok());
  EXPECT_EQ(header.dtype, ITX_BOOL);
  EXPECT_TRUE(parse(npy("{'shape':(0, 5),'descr':\"<u2\",'fortran_order':False}", ""), header).ok());
  EXPECT_EQ(header.dtype, ITX_BF16);
}

TEST(Npy, RefusesWhatItCannotRead) {
  NpyHeader header;
  auto refused = [&](const std::string &bytes, const char *why) {
    Status status = parse(bytes, header);
    EXPECT_EQ(status.code(), ITX_CORRUPT) << why;
    EXPECT_THAT(status.message(), HasSubstr("x.npy"));
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  const char *good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  refused("", "not a NumPy");
  refused("PK\x03\x04 some zip file", "not a NumPy");
  refused(npy(good, std::string(24, 0), 4), "version 4.0");
  refused(npy(good, std::string(23, 0)), "needs 24 bytes, there are 23");
  refused(npy(good, "").substr(0, 30), "truncated");
  refused(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "1234"), "data type '>f4'");
  refused(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "12345678"), "data type '<c8'");
  refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"), "structured");
  refused(npy("{'descr': '<f4', 'shape': (1,)}", "1234"), "cannot be understood");
  refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "1234"), "cannot be understood");
  refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", ""), "cannot be");
  refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", ""), "larger than");
  refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} import os", "1234"), "cannot be understood");
}

TEST(Npy, FortranOrderIsConverted) {
  TemporaryFolder folder;
  std::string data; // columns of [[0, 1, 2], [3, 4, 5]]
  for (int value : {0, 3, 1, 4, 2, 5})
    data += char(value);
  writeFile(folder / "x.npy", npy("{'descr':'|u1','fortran_order':True,'shape':(2, 3)}", data));
  Tensor tensor;
  Status status = loadNpy(folder / "x.npy", tensor);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(static_cast<uint8_t *>(tensor.data.get())[i], i);
}

TEST(Npy, WritesWhatItReads) {
  TemporaryFolder folder;
  for (std::vector<int64_t> shape : {std::vector<int64_t>{}, {5}, {2, 3, 4}, {0, 2}}) {
    Tensor tensor, again;
    ASSERT_TRUE(makeTensor(ITX_I32, shape.data(), shape.size(), tensor).ok());
    for (uint64_t i = 0; i < tensor.bytes / 4; ++i)
      static_cast<int32_t *>(tensor.data.get())[i] = int32_t(i * 7);
    ASSERT_TRUE(saveNpy(tensor, folder / "x.npy").ok());
    Status status = loadNpy(folder / "x.npy", again);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(again.shape, shape);
    EXPECT_EQ(again.dtype, ITX_I32);
    EXPECT_EQ(std::memcmp(again.data.get(), tensor.data.get(), tensor.bytes), 0);
  }
  EXPECT_EQ(folder.files(), 1u) << "temporary files are left";
}

TEST(Npy, UnwritablePath) {
  Tensor tensor;
  ASSERT_TRUE(makeTensor(ITX_I32, nullptr, 0, tensor).ok());
  Status status = saveNpy(tensor, "/does/not/exist/x.npy");
  EXPECT_EQ(status.code(), ITX_IO_ERROR);
  EXPECT_THAT(status.message(), HasSubstr("/does/not/exist"));
}

// ---- Manifest ---------------------------------------------------------------------------------------------

TEST(Manifest, ReadsTheSample) {
  Manifest manifest;
  Status status = parseManifest(filledManifest(), "m.itx", manifest);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(manifest.functions.size(), 2u);
  const FunctionInfo &main = manifest.functions[0];
  EXPECT_EQ(main.sizes[1].name, "sequence");
  EXPECT_EQ(main.sizes[1].maximum, 512);
  EXPECT_EQ(main.inputs[0].symbols, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(main.inputs[0].hasRange);
  EXPECT_TRUE(main.inputs[1].optional);
  EXPECT_EQ(main.inputs[2].shape, (std::vector<int64_t>{4}));
  EXPECT_EQ(main.metadata, R"({"labels":["a","b"]})");
  EXPECT_TRUE(main.checks.empty());
  ASSERT_EQ(manifest.functions[1].checks.size(), 3u);
  EXPECT_EQ(manifest.functions[1].checks[0].relation, CheckRelation::AtMost);
  EXPECT_EQ(manifest.functions[1].checks[0].why, "'sum' needs it");
  EXPECT_EQ(manifest.functions[1].checks[2].relation, CheckRelation::Equal);
  EXPECT_EQ(manifest.weights.tensors, std::vector<std::string>{"table"});
  EXPECT_EQ(manifest.variants[0].features, std::vector<std::string>{"a-feature-of-tomorrow"});
}

TEST(Manifest, RelationsOfChecks) {
  auto parse = [](const std::string &relation, Manifest &manifest) {
    std::string text = replaced(filledManifest(), R"("relation":"equal")", "\"relation\":\"" + relation + "\"");
    return parseManifest(text, "m.itx", manifest).message();
  };
  Manifest manifest, other;
  EXPECT_EQ(parse("below", manifest), "");
  EXPECT_EQ(manifest.functions[1].checks[2].relation, CheckRelation::Below);
  EXPECT_THAT(parse("above", other), HasSubstr("has a check with the unknown relation 'above'"));
}

TEST(Manifest, SizesOfOperands) {
  auto with = [](const std::string &operand) {
    std::string text = filledManifest();
    text.replace(text.find("\"kernels\""), 0, "\"operands\":[[[[4,0]],[" + operand + "]],[[],[]]],");
    return text;
  };
  Manifest manifest;
  Status status = parseManifest(with(R"([4,1,"s0 -3 + s1 floordiv"])"), "m.itx", manifest);
  ASSERT_TRUE(status.ok()) << status.message();
  const OperandInfo &operand = manifest.operands[0][1];
  EXPECT_EQ(operand.bytes, 4u);
  EXPECT_EQ(operand.sizes, std::vector<uint32_t>{1});
  ASSERT_EQ(operand.expressions.size(), 1u);
  using Kind = SizeStep::Kind;
  std::vector<std::pair<Kind, int64_t>> steps;
  for (const SizeStep &step : operand.expressions[0])
    steps.push_back({step.kind, step.value});
  EXPECT_EQ(steps, (std::vector<std::pair<Kind, int64_t>>{
                       {Kind::Size, 0}, {Kind::Number, -3}, {Kind::Add, 0}, {Kind::Size, 1}, {Kind::FloorDivide, 0}}));
  for (const char *wrong : {"", "+", "s0 +", "s0 s1", "s-1", "s", "x", "1e3", "s0 s1 /", "99999999999999999999"}) {
    status = parseManifest(with("[4,\"" + std::string(wrong) + "\"]"), "m.itx", manifest);
    EXPECT_EQ(status.code(), ITX_CORRUPT) << wrong;
    EXPECT_THAT(status.message(), HasSubstr("which is not valid")) << wrong;
  }
  EXPECT_THAT(parseManifest(with("[]"), "m.itx", manifest).message(), HasSubstr("has no bytes"));
}

TEST(Manifest, BytesOfOperands) {
  using Kind = SizeStep::Kind;
  auto bytes = [](OperandInfo operand, std::vector<int64_t> sizes) {
    return operand.bytesIn(sizes.data(), sizes.size());
  };
  auto expression = [](int64_t number, Kind operation) {
    return OperandInfo{2, {}, false, false, 0, 0, 0, {}, {{{Kind::Size, 0}, {Kind::Number, number}, {operation}}}};
  };
  EXPECT_EQ(bytes({4}, {}), 4u);
  EXPECT_EQ(bytes({4, {1, 0, 1}}, {3, 5}), 300u);
  EXPECT_EQ(bytes({4, {0}}, {0}), 0u);
  EXPECT_EQ(bytes(expression(3, Kind::Add), {4}), 14u);
  EXPECT_EQ(bytes(expression(3, Kind::Multiply), {4}), 24u);
  EXPECT_EQ(bytes(expression(3, Kind::FloorDivide), {8}), 4u);
  EXPECT_EQ(bytes(expression(3, Kind::CeilDivide), {7}), 6u);
  EXPECT_EQ(bytes(expression(3, Kind::CeilDivide), {6}), 4u);
  EXPECT_EQ(bytes(expression(3, Kind::Modulo), {8}), 4u);
  EXPECT_EQ(bytes(expression(3, Kind::Modulo), {-1}), 4u);
  EXPECT_EQ(bytes(expression(3, Kind::FloorDivide), {-1}), std::nullopt) << "-1, which is negative";
  EXPECT_EQ(bytes(expression(3, Kind::CeilDivide), {-1}), 0u);
  EXPECT_EQ(bytes(expression(0, Kind::FloorDivide), {8}), std::nullopt);
  EXPECT_EQ(bytes(expression(-2, Kind::Modulo), {8}), std::nullopt);
  EXPECT_EQ(bytes(expression(1, Kind::Add), {INT64_MAX}), std::nullopt);
  EXPECT_EQ(bytes(expression(3, Kind::Multiply), {INT64_MAX}), std::nullopt);
  EXPECT_EQ(bytes({4, {0, 0}}, {int64_t(1) << 31}), std::nullopt);
  EXPECT_EQ(bytes({4, {0}}, {-1}), std::nullopt);
  EXPECT_EQ(bytes({4, {1}}, {1}), std::nullopt) << "there is no such size";
  EXPECT_EQ(bytes(expression(3, Kind::Add), {}), std::nullopt);
}

TEST(Manifest, TypesOfOperands) {
  auto with = [](const std::string &types) {
    std::string text = filledManifest();
    text.replace(text.find("\"kernels\""), 0,
                 R"("operands":[[[[4,0]],[[8]]],[[],[[4],[2]]]],"operand_types":)" + types + ",");
    return text;
  };
  Manifest manifest;
  Status status = parseManifest(with(R"([[[""],["i64"]],[[],["f32","bf16"]]])"), "m.itx", manifest);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(manifest.hasOperandTypes);
  EXPECT_EQ(manifest.operands[0][0].dtype, std::nullopt);
  EXPECT_EQ(manifest.operands[0][1].dtype, ITX_I64);
  EXPECT_EQ(manifest.operands[1][0].dtype, ITX_F32);
  EXPECT_EQ(manifest.operands[1][1].dtype, ITX_BF16);
  for (auto [wrong, why] : {std::pair(R"([[[""],["i64"]]])", "of another number of kernels than 'operands'"),
                            {R"([[[""],["i64"]],[[],["f32"]]])", "are not those of its operands"},
                            {R"([[[""],["i64"]],[["f32"],["bf16"]]])", "of another number of outputs"},
                            {R"([[[""],["i64"]],[]])", "are not those of its operands"},
                            {R"([[[""],["i64"]],[[],["f32","f99"]]])", "has the unknown dtype 'f99'"},
                            {R"([[[""],["i64"]],[[],["f32",16]]])", "has the unknown dtype '16'"},
                            {"{}", "'operand_types' is not an array"}}) {
    status = parseManifest(with(wrong), "m.itx", manifest);
    EXPECT_EQ(status.code(), ITX_CORRUPT) << wrong;
    EXPECT_THAT(status.message(), HasSubstr(why));
  }
}

TEST(Manifest, RefusesContradictions) {
  std::string good = filledManifest();
  auto refused = [&](const std::string &text, const char *why) {
    Manifest manifest;
    Status status = parseManifest(text, "m.itx", manifest);
    EXPECT_FALSE(status.ok()) << why;
    EXPECT_THAT(status.message(), HasSubstr("m.itx: manifest"));
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  refused("", "not valid JSON");
  refused("[]", "is missing");
  refused(good.substr(0, good.size() / 2), "not valid JSON");
  refused(replaced(good, "\"format\":1", "\"format\":2"), "format 2");
  refused(replaced(good, "\"f32\"", "\"f33\""), "unknown dtype 'f33'");
  refused(replaced(good, "[\"batch\",\"sequence\"]", "[\"batch\",\"length\"]"), "'length'");
  refused(replaced(good, "[\"batch\",\"sequence\"]", "[\"batch\",-5]"), "negative");
  refused(replaced(good, "[0,100]", "[100,0]"), "[low, high)");
  refused(replaced(good, "\"default\":1", "\"default\":\"1\""), "not a number");
  refused(replaced(good, "\"default\":2", "\"default\":1e300"), "out of range");
  refused(replaced(good, "\"range\":[0,100]},", "\"range\":[0,100],\"default\":100},"), "default of 'ids' is not in");
  for (const char *below : {R"({"factor":2,"size":"none"})", R"({"factor":0,"size":"batch"})", R"({"size":"batch"})"})
    refused(replaced(good, "\"range\":[0,100]},", "\"range\":[0,100],\"below\":" + std::string(below) + "},"), "");
  refused(replaced(good, "\"range\":[0,100]},", R"("below":{"factor":2,"size":"batch"}},)"), "the limit of 'ids'");
  refused(replaced(good, "\"range\":[0,100]},", R"("range":[0,100],"default":1,"state":true},)"),
          "'ids' is updated in place and may be left out");
  refused(replaced(good, "\"at_most\"", "\"less\""), "unknown relation 'less'");
  refused(replaced(good, "\"left\":\"sequence\",", ""), "'left' is missing");
  refused(replaced(good, "\"maximum\":512", "\"maximum\":0"), "not positive");
  refused(replaced(good, R"({"name":"total",)", R"({"name":"total","page_tokens":0,)"),
          "'page_tokens' of function 'total' is not positive");
  refused(replaced(good, "\"name\":\"mask\"", "\"name\":\"ids\""), "two inputs named 'ids'");
  refused(replaced(good, "\"name\":\"total\"", "\"name\":\"main\""), "two functions named 'main'");
  refused(replaced(good, "m.safetensors", "../m.safetensors"), "another folder");
  refused(replaced(good, "\"kernels\":[", "\"kernels\":[1,"), "not a string");
  refused(replaced(good, "{\"name\":\"batch\"},", "{\"name\":\"batch\"},{\"name\":\"extra\"},"), "'extra'");
}

TEST(Manifest, ReadsDevices) {
  Manifest manifest;
  ASSERT_TRUE(parseManifest(filledManifest(), "m.itx", manifest).ok());
  ASSERT_EQ(manifest.devices.size(), 1u);
  EXPECT_EQ(manifest.devices[0].name, "cpu");
  EXPECT_EQ(manifest.devices[0].kind, "cpu");
  EXPECT_TRUE(manifest.devices[0].objects.empty());
  EXPECT_EQ(manifest.kernelDevices, (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(manifest.weights.devices, std::vector<int32_t>{-1});
  EXPECT_EQ(manifest.functions[0].inputs[0].device, -1);
  EXPECT_EQ(manifest.functions[0].devices, std::vector<uint32_t>{0});
  EXPECT_FALSE(manifest.devices[0].verifies);

  std::string text =
      replaced(filledManifest(), "\"kernels\":",
               R"("devices":[{"name":"cpu","kind":"cpu"},{"name":"gpu","kind":"cuda","verifies":true,"objects":[)"
               R"({"variant":"sm_90","object":1},{"variant":"sm_80","object":0}]}],)"
               R"("kernel_devices":[1,0],"kernels":)");
  text = replaced(text, R"("tensors":["table"])", R"("tensors":["table"],"devices":[1])");
  text = replaced(text, R"("range":[0,100]})", R"("state":true,"device":1})");
  text = replaced(text, R"({"name":"total",)", R"({"name":"main","devices":[1,0],)");
  text = replaced(text, R"({"name":"main","sizes")", R"({"name":"main","devices":[1],"sizes")");
  Status status = parseManifest(text, "m.itx", manifest);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(manifest.devices.size(), 2u);
  EXPECT_EQ(manifest.devices[1].kind, "cuda");
  ASSERT_EQ(manifest.devices[1].objects.size(), 2u);
  EXPECT_EQ(manifest.devices[1].objects[0].variant, "sm_90");
  EXPECT_EQ(manifest.devices[1].objects[0].object, 1u);
  EXPECT_EQ(manifest.kernelDevices, (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(manifest.weights.devices, std::vector<int32_t>{1});
  EXPECT_EQ(manifest.functions[0].inputs[0].device, 1);
  EXPECT_TRUE(manifest.devices[1].verifies);
  EXPECT_EQ(manifest.functions[0].devices, std::vector<uint32_t>{1});
  EXPECT_EQ(manifest.functions[1].devices, (std::vector<uint32_t>{0, 1}));

  auto refused = [&](const std::string &from, const std::string &to, const char *why) {
    Manifest unused;
    Status problem = parseManifest(replaced(text, from, to), "m.itx", unused);
    EXPECT_EQ(problem.code(), ITX_CORRUPT) << why;
    EXPECT_THAT(problem.message(), HasSubstr("m.itx: manifest: "));
    EXPECT_THAT(problem.message(), HasSubstr(why));
  };
  size_t begin = text.find("\"devices\":[{"), end = text.find("\"kernel_devices\"");
  refused(text.substr(begin, end - begin), "\"devices\":[],", "'devices' lists no device");
  refused(text.substr(begin, end - begin), "\"devices\":{},", "'devices' is not an array");
  refused("\"name\":\"gpu\"", "\"name\":\"cpu\"", "there are two devices named 'cpu'");
  refused("\"name\":\"gpu\",", "", "'name' is missing");
  refused("\"kind\":\"cuda\",", "", "'kind' is missing");
  refused("\"variant\":\"sm_90\",", "", "'variant' is missing");
  refused("\"sm_90\",\"object\":1", "\"sm_90\"", "'object' is missing");
  refused("\"object\":1", "\"object\":-1", "an object of device 'gpu' has the number -1");
  refused("\"object\":1", "\"object\":1.5", "an object is not an integer");
  refused(R"("name":"main","devices":[1],)", R"("name":"main",)", "there are two functions named 'main'");
  refused(R"("name":"main","devices":[1],)", R"("name":"main","devices":[0,1],)", "named 'main' for the same devices");
  refused(R"("name":"main","devices":[1],)", R"("name":"main","devices":[2],)", "a device of function 'main' is 2");
  refused(R"("name":"main","devices":[1],)", R"("name":"main","devices":[1,1],)", "lists a device twice");
  refused("[1,0]", "[1,2]", "the device of kernel 'total_kernel' is 2, there are 2 devices");
  refused("[1,0]", "[-1,0]", "the device of kernel 'rows_kernel' is -1");
  refused("[1,0]", "[1]", "'kernel_devices' are of another number of kernels");
  refused("[1,0]", "[1,\"cpu\"]", "the device of kernel 'total_kernel' is not an integer");
  refused("\"],\"devices\":[1]", "\"],\"devices\":[2]", "the device of the weight 'table' is 2, there are 2 devices");
  refused("\"],\"devices\":[1]", "\"],\"devices\":[-2]", "the device of the weight 'table' is -2");
  refused("\"],\"devices\":[1]", "\"],\"devices\":[1,1]", "are of another number of tensors");
  refused("\"device\":1", "\"device\":2", "the device of 'ids' is 2, there are 2 devices");
  refused("\"device\":1", "\"device\":-1", "the device of 'ids' is -1");
  refused("\"device\":1", "\"device\":1,\"range\":[0,9]", "'ids' has a range, which the host cannot check");
  Manifest plain;
  ASSERT_TRUE(parseManifest(replaced(text, "\"state\":true,\"device\":1", "\"device\":1"), "m.itx", plain).ok());
  EXPECT_FALSE(plain.functions[0].inputs[0].state);
  EXPECT_EQ(plain.functions[0].inputs[0].device, 1) << "what is not updated may be there too";
}

// ---- ELF --------------------------------------------------------------------------------------------------

static Status parseElf(const std::string &bytes, ElfReader &reader) {
  return ElfReader::parse(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), "m.itx", reader);
}

TEST(Elf, FindsSections) {
  std::string elf = sampleElf(filledManifest());
  ElfReader reader;
  ASSERT_TRUE(parseElf(elf, reader).ok());
  EXPECT_EQ(reader.machine(), hostElfMachine());
  ASSERT_NE(reader.find(".itx.header"), nullptr);
  EXPECT_EQ(reader.find(".itx.header")->bytes, 64u);
  EXPECT_EQ(reader.find(".nothing"), nullptr);
}

TEST(Elf, RefusesTruncation) {
  std::string elf = sampleElf(filledManifest());
  ElfReader reader;
  for (size_t length = 0; length < elf.size(); length += length < 100 ? 1 : 97)
    EXPECT_EQ(parseElf(elf.substr(0, length), reader).code(), ITX_CORRUPT) << length;
}

TEST(Elf, SurvivesDamagedHeaders) {
  std::string elf = sampleElf(filledManifest());
  for (size_t i = 0; i < 64; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = elf;
      damaged[i] ^= char(1 << bit);
      ElfReader reader;
      (void)parseElf(damaged, reader); // any status is right; the sanitizer finds reads outside the bytes
    }
}
