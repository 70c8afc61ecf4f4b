//===- GpuObjectTest.cpp - Objects of GPUs, written, read and refused ------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include "lib/Formats/GpuObject.h"

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::HasSubstr;

namespace {

/// An object with two pieces of code and two kernels.
GpuObject twoKernels() {
  GpuObject object;
  object.architecture = "sm_80";
  object.code = {{GpuCodeKind::Cubin, "sm_80", 0, {}}, {GpuCodeKind::Ptx, "sm_80", 0, {}}};
  GpuLaunch partial = {"linear_partial",
                       {parseSizeExpression("s0 64 ceildiv"), parseSizeExpression("s1"), parseSizeExpression("2")},
                       {32, 4, 1},
                       parseSizeExpression("s1 4 * 49152 +"),
                       {{1, 2, parseSizeExpression("s0"), parseSizeExpression("768"), 128, 64, 128}}};
  GpuLaunch reduce = {
      "linear_reduce", {parseSizeExpression("s0"), parseSizeExpression("1"), parseSizeExpression("1")}, {256, 1, 1}};
  object.kernels.push_back({3, 2, 2, parseSizeExpression("s0 8 *"), {partial, reduce}});
  object.kernels.push_back({7, 1, 1, parseSizeExpression("0"), {reduce}});
  object.functions = {{"linear_partial", 96, 0, 16384, 8, 40, 2}, {"linear_reduce"}};
  return object;
}

const std::vector<std::string_view> twoPieces = {"machine code machine code machine code", ".version 7.0\n"};

std::string written(const GpuObject &object = twoKernels(), const std::vector<std::string_view> &code = twoPieces) {
  std::string bytes;
  Status status = writeGpuObject(object, code, bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

Status parse(const std::string &bytes, GpuObject &object) {
  return parseGpuObject(bytes.data(), bytes.size(), "m.itx", object);
}

std::string number(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += char(value >> (8 * i) & 255);
  return bytes;
}

/// Returns an object with this text and code.
std::string container(const std::string &text, const std::string &code) {
  return std::string(gpuObjectMagic, 8) + number(text.size()) + number(code.size()) + text + code;
}

/// Returns the written object with another text, in which `from` is replaced.
std::string changed(const std::string &from, const std::string &to) {
  std::string bytes = written();
  uint64_t textBytes = uint8_t(bytes[8]) + 256 * uint8_t(bytes[9]);
  return container(replaced(bytes.substr(24, textBytes), from, to), bytes.substr(24 + textBytes));
}

} // namespace

TEST(GpuObject, IsReadAsItWasWritten) {
  std::string bytes = written();
  GpuObject object;
  Status status = parse(bytes, object);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(object.architecture, "sm_80");
  ASSERT_EQ(object.code.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    std::string code;
    status = unpackGpuCode(object.code[i], "m.itx", code);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(code, twoPieces[i]);
    EXPECT_EQ(object.code[i].architecture, "sm_80");
  }
  EXPECT_EQ(object.code[1].kind, GpuCodeKind::Ptx);
  EXPECT_EQ(object.find(4), nullptr);
  const GpuKernel *kernel = object.find(3);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->buffers, 2u);
  EXPECT_EQ(kernel->sizes, 2u);
  ASSERT_EQ(kernel->launches.size(), 2u);
  const GpuLaunch &launch = kernel->launches[0];
  EXPECT_EQ(launch.function, "linear_partial");
  EXPECT_EQ(launch.block, (std::array<uint32_t, 3>{32, 4, 1}));
  const int64_t sizes[] = {100, 3};
  EXPECT_EQ(evaluate(kernel->scratch, sizes, 2), 800);
  EXPECT_EQ(evaluate(launch.grid[0], sizes, 2), 2);
  EXPECT_EQ(evaluate(launch.grid[1], sizes, 2), 3);
  EXPECT_EQ(evaluate(launch.grid[2], sizes, 2), 2);
  EXPECT_EQ(evaluate(launch.shared, sizes, 2), 49164);
  ASSERT_EQ(launch.tensorMaps.size(), 1u);
  const GpuTensorMap &map = launch.tensorMaps[0];
  EXPECT_EQ(map.buffer, 1u);
  EXPECT_EQ(map.elementBytes, 2u);
  EXPECT_EQ(evaluate(map.rows, sizes, 2), 100);
  EXPECT_EQ(evaluate(map.columns, sizes, 2), 768);
  EXPECT_EQ(map.boxRows, 128u);
  EXPECT_EQ(map.boxColumns, 64u);
  EXPECT_EQ(map.swizzleBytes, 128u);
  EXPECT_EQ(evaluate(kernel->launches[1].shared, sizes, 2), 0) << "nothing was said";
  EXPECT_TRUE(kernel->launches[1].tensorMaps.empty());
  EXPECT_EQ(object.find(7)->launches[0].function, "linear_reduce");
  ASSERT_EQ(object.functions.size(), 2u);
  EXPECT_EQ(object.functions[0].registers, 96u);
  EXPECT_EQ(object.functions[0].spilledBytes, 0u);
  EXPECT_EQ(object.functions[0].sharedBytes, 16384u);
  EXPECT_EQ(object.functions[0].localBytes, 8u);
  EXPECT_EQ(object.functions[0].scalarRegisters, 40u);
  EXPECT_EQ(object.functions[0].spilledScalars, 2u);
  EXPECT_EQ(object.functions[1].sharedBytes, std::nullopt);
  EXPECT_EQ(object.functions[1].spilledScalars, std::nullopt);
}

TEST(GpuObject, BytesDependOnTheObjectAlone) { EXPECT_EQ(written(), written()); }

TEST(GpuObject, CodeIsPacked) {
  std::string large(1 << 20, 'x');
  GpuObject object = twoKernels(), again;
  object.code.pop_back();
  std::string bytes = written(object, {large});
  EXPECT_LT(bytes.size(), 4096u);
  ASSERT_TRUE(parse(bytes, again).ok());
  std::string code;
  ASSERT_TRUE(unpackGpuCode(again.code[0], "m.itx", code).ok());
  EXPECT_EQ(code, large);
}

TEST(GpuObject, NothingIsWrittenThatCannotBeRead) {
  std::string bytes = "before";
  auto refused = [&](auto change, const char *why) {
    GpuObject object = twoKernels();
    change(object);
    Status status = writeGpuObject(object, twoPieces, bytes);
    EXPECT_EQ(status.code(), ITX_INVALID_ARGUMENT) << why;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(bytes, "before");
  };
  refused([](GpuObject &object) { object.code.pop_back(); }, "lists 1 pieces of code is written with 2");
  refused([](GpuObject &object) { object.architecture = ""; }, "'architecture' is empty");
  refused([](GpuObject &object) { object.kernels[1].index = 3; }, "two kernels 3");
  refused([](GpuObject &object) { object.kernels[0].launches.clear(); }, "'launches' is missing");
  refused([](GpuObject &object) { object.kernels[1].sizes = 0; }, "is 's0', but the kernel has 0 sizes");
  refused([](GpuObject &object) { object.kernels[0].launches[0].block[1] = 33; }, "1056 threads");
  refused([](GpuObject &object) { object.kernels[0].launches[0].block[2] = 0; }, "0 threads");
  refused([](GpuObject &object) { object.kernels[0].scratch.clear(); }, "the scratch is ''");
  refused([](GpuObject &object) { object.kernels[0].launches[0].function = std::string("a\0b", 3); }, "zero byte");
}

TEST(GpuObject, ObjectsWithoutTensorMapsAreReadByEarlierRuntimes) {
  EXPECT_THAT(written(), HasSubstr("\"format\":2"));
  GpuObject object = twoKernels();
  for (GpuKernel &kernel : object.kernels)
    for (GpuLaunch &launch : kernel.launches)
      launch.tensorMaps.clear();
  EXPECT_THAT(written(object), HasSubstr("\"format\":1"));
}

TEST(GpuObject, RefusesDamagedHeaders) {
  GpuObject object;
  auto refused = [&](const std::string &bytes, const char *why, itx_status code = ITX_CORRUPT) {
    Status status = parse(bytes, object);
    EXPECT_EQ(status.code(), code) << why;
    EXPECT_THAT(status.message(), HasSubstr("m.itx: "));
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  std::string good = written();
  refused("", "is not an object of a GPU");
  refused(good.substr(0, 23), "is not an object of a GPU");
  refused("\x7f" + good.substr(1), "is not an object of a GPU");
  refused(good.substr(0, 7) + "\2" + good.substr(8), "version 2", ITX_VERSION_MISMATCH);
  refused(good.substr(0, good.size() - 1), "there are");
  refused(good + "x", "there are");
  refused(good.substr(0, 8) + number(~uint64_t(0)) + good.substr(16), "18446744073709551615 bytes of text");
  refused(good.substr(0, 8) + number(~uint64_t(0)) + number(good.size() - 23) + good.substr(24), "there are");
  refused(container("{", ""), "m.itx");
  refused(container("[]", ""), "'format' is missing");
  refused(container("{\"format\":3}", ""), "format 3", ITX_VERSION_MISMATCH);
  refused(container("{\"format\":0}", ""), "format 0", ITX_VERSION_MISMATCH);
}

TEST(GpuObject, RefusesDamagedText) {
  GpuObject object;
  auto refused = [&](const char *from, const char *to, const char *why) {
    Status status = parse(changed(from, to), object);
    EXPECT_EQ(status.code(), ITX_CORRUPT) << why;
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  EXPECT_TRUE(parse(changed("\"s0 8 *\"", "\"s0 9 *\""), object).ok()) << "the changed text itself must be readable";
  refused("\"code\"", "\"core\"", "'code' is missing");
  refused("\"cubin\"", "\"elf\"", "unknown kind 'elf'");
  refused("\"bytes\":38", "\"bytes\":268435457", "'bytes' is 268435457; 0 to 268435456 are possible");
  refused("\"bytes\":38", "\"bytes\":-1", "'bytes' is -1");
  refused("\"packed_bytes\":", "\"packed_bytes\":9", "packed bytes");
  refused("\"s0 8 *\"", "8", "the scratch is '8', which is not a valid expression");
  refused("\"s0 8 *\"", "\"s0 8\"", "the scratch is 's0 8', which is not a valid expression");
  refused("\"s0 8 *\"", "\"s2 8 *\"", "the scratch is 's2 8 *', but the kernel has 2 sizes");
  refused("\"s0 64 ceildiv\",", "", "three dimensions");
  refused("[32,4,1]", "[32,4,1,1]", "three dimensions");
  refused("[32,4,1]", "[32,4,1.5]", "is not an integer");
  refused("[32,4,1]", "[32,4,\"1\"]", "is not an integer");
  refused("[32,4,1]", "[1024,1024,1024]", "threads");
  refused("\"linear_partial\",\"grid\"", "\"\",\"grid\"", "'function' is empty");
  refused("\"buffer\":1", "\"buffer\":2", "tensor map 0: it is of buffer 2, but the kernel has 2");
  refused("\"element_bytes\":2", "\"element_bytes\":3", "tensor map 0: it has elements of 3 bytes");
  refused("\"swizzle_bytes\":128", "\"swizzle_bytes\":96", "and a swizzle of 96; 1, 2 or 4 and 32, 64 or 128");
  refused("\"box_columns\":64", "\"box_columns\":32", "128 rows of 64 bytes, its swizzle is for rows of 128");
  refused("\"box_rows\":128", "\"box_rows\":257", "'box_rows' is 257; 0 to 256 are possible");
  refused("\"box_rows\":128", "\"box_rows\":0", "a box has 0 rows");
  refused("\"columns\":\"768\"", "\"columns\":\"s2\"", "tensor map 0: 'columns' is 's2', but the kernel has 2 sizes");
  refused("\"rows\":\"s0\"", "\"lines\":\"s0\"", "'rows' is missing");
  refused("\"registers\":96", "\"registers\":-96", "'registers' of function 'linear_partial' is -96");
}

TEST(GpuObject, RefusesDamagedCode) {
  std::string good = written();
  GpuObject object;
  ASSERT_TRUE(parse(good, object).ok());
  size_t begin = size_t(object.code[0].packed.data() - good.data()), bytes = object.code[0].packed.size();
  std::string code;
  // The frame is small: every byte is damaged once. Bits that zstd does not use may be anything.
  size_t refusals = 0;
  for (size_t at = begin; at < begin + bytes; ++at) {
    std::string bad = good;
    bad[at] = char(~bad[at]);
    ASSERT_TRUE(parse(bad, object).ok());
    Status status = unpackGpuCode(object.code[0], "m.itx", code);
    EXPECT_TRUE(!status.ok() || code == twoPieces[0]) << at;
    refusals += status.code() == ITX_CORRUPT;
  }
  EXPECT_EQ(refusals, bytes);
  // A piece that says it is larger than it is.
  ASSERT_TRUE(parse(changed("\"bytes\":38", "\"bytes\":39"), object).ok());
  std::string larger = changed("\"bytes\":38", "\"bytes\":268435456");
  ASSERT_TRUE(parse(larger, object).ok());
  Status status = unpackGpuCode(object.code[0], "m.itx", code);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_THAT(status.message(), HasSubstr("does not begin as 268435456 bytes"));
  GpuCode none = {GpuCodeKind::Ptx, "sm_80", 5, {}};
  EXPECT_EQ(unpackGpuCode(none, "m.itx", code).code(), ITX_CORRUPT);
}

// ---- Expressions ------------------------------------------------------------------------------------------

TEST(SizeExpression, IsReadAsItWasWritten) {
  for (const char *text : {"0", "-3", "s0", "s1 3 +", "s0 64 ceildiv s1 *", "s0 3 floordiv 4 mod"}) {
    SizeExpression expression = parseSizeExpression(text);
    EXPECT_FALSE(expression.empty()) << text;
    EXPECT_EQ(sizeExpressionText(expression), text);
    EXPECT_EQ(parseSizeExpression(sizeExpressionText(expression)), expression);
  }
  EXPECT_EQ(requiredSizes(parseSizeExpression("s0 s3 + s1 *")), 4u);
  EXPECT_EQ(requiredSizes(parseSizeExpression("7")), 0u);
}

TEST(SizeExpression, IsComputedWithoutOverflow) {
  const int64_t sizes[] = {INT64_MAX, 7};
  auto value = [&](const char *text) { return evaluate(parseSizeExpression(text), sizes, 2); };
  EXPECT_EQ(value("s1 2 ceildiv"), 4);
  EXPECT_EQ(value("s1 2 floordiv s1 2 mod +"), 4);
  EXPECT_EQ(value("-7 2 ceildiv"), -3);
  EXPECT_EQ(value("s0 1 +"), std::nullopt);
  EXPECT_EQ(value("s0 s0 *"), std::nullopt);
  EXPECT_EQ(value("s0 0 mod"), std::nullopt);
  EXPECT_EQ(value("s2"), std::nullopt);
}
