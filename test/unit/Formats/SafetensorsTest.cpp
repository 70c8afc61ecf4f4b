//===- SafetensorsTest.cpp - Archives, good and bad ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "test/unit/Testing.h"

#include "lib/Support/Json.h"

#include <ctime>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

static Status parse(const std::string &bytes, std::unique_ptr<SafetensorsFile> &file) {
  return SafetensorsFile::parse(bytes.data(), bytes.size(), "m.safetensors", file);
}

/// Returns the message of an archive that must be refused.
static std::string refusal(const std::string &bytes) {
  std::unique_ptr<SafetensorsFile> file;
  Status status = parse(bytes, file);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_EQ(file, nullptr);
  EXPECT_THAT(status.message(), HasSubstr("m.safetensors"));
  return status.message();
}

static std::string refusalOf(const std::string &header, size_t dataBytes) {
  return refusal(safetensorsBytes(header, std::string(dataBytes, 'x')));
}

TEST(Safetensors, ReadsEntriesInFileOrder) {
  std::string bytes = safetensorsBytes(R"({"__metadata__":{"format":"pt"},
    "b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},
    "a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},
    "none":{"dtype":"BF16","shape":[0,4],"data_offsets":[8,8]}})",
                                       std::string(32, 'd'));
  std::unique_ptr<SafetensorsFile> file;
  Status status = parse(bytes, file);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_EQ(file->metadata("format"), "pt");
  EXPECT_EQ(file->metadata("b"), std::nullopt);
  const ArchiveTensor *b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b->bytes(), 24u);
  EXPECT_EQ(b->begin, file->headerBytes() + 8);
  EXPECT_EQ(static_cast<const char *>(b->data), bytes.data() + b->begin);
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST(Safetensors, MissingFile) {
  std::unique_ptr<SafetensorsFile> file;
  Status status = SafetensorsFile::open("/does/not/exist.safetensors", file);
  EXPECT_EQ(status.code(), ITX_NOT_FOUND);
  EXPECT_THAT(status.message(), HasSubstr("/does/not/exist.safetensors"));
}

TEST(Safetensors, Folder) {
  std::unique_ptr<SafetensorsFile> file;
  TemporaryFolder folder;
  EXPECT_THAT(SafetensorsFile::open(folder.path(), file).message(), HasSubstr("is a folder"));
}

TEST(Safetensors, TooShort) { EXPECT_THAT(refusal("abc"), HasSubstr("3 bytes")); }
TEST(Safetensors, Empty) { EXPECT_THAT(refusal(""), HasSubstr("truncated")); }

TEST(Safetensors, HeaderLengthBeyondTheFile) {
  std::string bytes = safetensorsBytes("{}", "");
  bytes[1] = 1; // 64 - 8 + 256
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("header length 312"), HasSubstr("64 bytes")));
  std::memset(bytes.data(), 0xff, 8);
  EXPECT_THAT(refusal(bytes), HasSubstr("header length 18446744073709551615"));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  std::string bytes = sampleWeights();
  for (size_t length :
       {size_t(0), size_t(7), size_t(8), size_t(40), bytes.size() - 1601, bytes.size() - 1600, bytes.size() - 1})
    refusal(bytes.substr(0, length));
  EXPECT_THAT(refusal(bytes.substr(0, bytes.size() - 1)),
              AllOf(HasSubstr("'table'"), HasSubstr("1600"), HasSubstr("1599")));
}

TEST(Safetensors, NotJson) { EXPECT_THAT(refusalOf("{\"a\":", 0), HasSubstr("not valid JSON")); }
TEST(Safetensors, NotAnObject) { EXPECT_THAT(refusalOf("[1]", 0), HasSubstr("not a JSON object")); }
TEST(Safetensors, DeepNesting) { EXPECT_THAT(refusalOf(std::string(100000, '['), 0), HasSubstr("nested")); }

TEST(Safetensors, DuplicateName) {
  EXPECT_THAT(refusalOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                            "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                        2),
              HasSubstr("key 'a' twice"));
}

TEST(Safetensors, WrongByteLength) {
  EXPECT_THAT(refusalOf(R"({"w":{"dtype":"F32","shape":[3,5],"data_offsets":[0,56]}})", 56),
              AllOf(HasSubstr("'w'"), HasSubstr("56 bytes"), HasSubstr("[3, 5] of F32"), HasSubstr("60")));
}

TEST(Safetensors, Overlap) {
  EXPECT_THAT(refusalOf(R"({"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]},
                            "e":{"dtype":"U8","shape":[0],"data_offsets":[5,5]},
                            "b":{"dtype":"U8","shape":[10],"data_offsets":[9,19]}})",
                        19),
              AllOf(HasSubstr("'a' and 'b' overlap"), HasSubstr("10"), HasSubstr("9")));
}

TEST(Safetensors, HolesAreRefused) {
  const char *first = R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]},
                          "a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})";
  EXPECT_THAT(refusalOf(first, 12), AllOf(HasSubstr("bytes 0 to 4"), HasSubstr("before tensor 'a'")));
  const char *inside = R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]},
                           "none":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},
                           "a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  EXPECT_THAT(refusalOf(inside, 9), AllOf(HasSubstr("bytes 4 to 5"), HasSubstr("before tensor 'b'")));
  EXPECT_THAT(refusalOf("{}", 1), HasSubstr("the last 1 of 1 bytes"));
}

TEST(Safetensors, BytesAfterTheLastTensorAreRefused) {
  std::string bytes = sampleWeights();
  EXPECT_THAT(refusal(bytes + std::string(1 << 20, 'x')), HasSubstr("the last 1048576 of 1050176 bytes"));
  // Eight bytes before the data, and a header that begins earlier: the tensors would be shifted.
  size_t header = bytes.size() - 1600;
  EXPECT_THAT(refusal(bytes.substr(0, header) + std::string(8, 'x') + bytes.substr(header)),
              HasSubstr("the last 8 of 1608 bytes"));
  uint64_t length = header - 8 - 4;
  std::memcpy(bytes.data(), &length, 8);
  ASSERT_EQ(bytes[header - 1], ' ');
  EXPECT_THAT(refusal(bytes), HasSubstr("the last 4 of 1604 bytes"));
}

TEST(Safetensors, OnlyTheFormatsHeaderIsRead) {
  EXPECT_THAT(refusalOf(R"( {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("begin with '{'"));
  EXPECT_THAT(refusalOf(R"({"__metadata__":1})", 0), HasSubstr("__metadata__ is not an object"));
  EXPECT_THAT(refusalOf(R"({"__metadata__":{"a":1}})", 0), HasSubstr("not a string"));
  EXPECT_THAT(refusalOf(R"({"__metadata__":{"a":{}}})", 0), HasSubstr("not a string"));
  EXPECT_THAT(refusalOf(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("key '__metadata__' twice"));
  EXPECT_THAT(refusalOf(R"({"t":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}})", 1),
              HasSubstr("key 'dtype' twice"));
  EXPECT_THAT(refusalOf(R"({"t":{"dtype":"U8","shape":[],"data_offsets":[0,1,1]}})", 1), HasSubstr("'t'"));
  EXPECT_THAT(refusalOf(R"({"t":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1), HasSubstr("'t'"));
  // Unknown fields are ignored.
  std::unique_ptr<SafetensorsFile> file;
  Status status = parse(safetensorsBytes(R"({"t":{"note":{"dtype":["x",{"shape":[[1]]}]},"dtype":"U8","shape":[1],
                                                  "data_offsets":[0,1],"more":2}})",
                                         "x"),
                        file);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(file->find("t")->shape, std::vector<int64_t>{1});
}

TEST(Safetensors, HeaderOverTheLimit) {
  TemporaryFolder folder;
  std::string path = folder / "large.safetensors";
  uint64_t length = largestJson + 1;
  writeFile(path, std::string(reinterpret_cast<const char *>(&length), 8));
  std::filesystem::resize_file(path, 8 + length); // a sparse file
  std::unique_ptr<SafetensorsFile> file;
  EXPECT_THAT(SafetensorsFile::open(path, file).message(), AllOf(HasSubstr("100000001 bytes"), HasSubstr("100000000")));
}

/// Returns a header of many tensors of one byte.
static std::string manyTensors(size_t count) {
  std::string header = "{";
  for (size_t i = 0; i < count; ++i)
    header += (i ? ",\"model.layers." : "\"model.layers.") + std::to_string(i) +
              R"(.weight":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  return header + "}";
}

// If the time grows with the square of the number, this test takes hours.
TEST(Safetensors, ManyTensorsTakeLinearTime) {
  size_t count = 300'000;
  std::unique_ptr<SafetensorsFile> file;
  Status status = parse(safetensorsBytes(manyTensors(count), std::string(count, 'x')), file);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(file->tensors().size(), count);
  EXPECT_NE(file->find("model.layers.299999.weight"), nullptr);
}

TEST(Json, ManyKeysTakeLinearTime) {
  // Eight times as many keys, the last of which is there already.
  double seconds[2];
  for (size_t count : {5'000, 40'000}) {
    std::string text = manyTensors(count), again = text;
    again.back() = ',';
    again += R"("model.layers.7.weight":1})";
    Json value, other;
    std::clock_t begin = std::clock();
    Status status = parseJson(text, "many.json", value), refused = parseJson(again, "many.json", other);
    seconds[count > 5'000] = double(std::clock() - begin) / CLOCKS_PER_SEC;
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(value.size(), count);
    EXPECT_THAT(refused.message(), HasSubstr("key 'model.layers.7.weight' twice"));
  }
  EXPECT_LT(seconds[1], 24 * seconds[0] + 0.1); // 64 times as long if it grows with the square
}

TEST(Json, EqualKeysOfDifferentObjectsAreNoDuplicates) {
  Json value;
  EXPECT_TRUE(parseJson(R"([{"a":{"a":1}},{"a":2},{"b":[{"a":3}]}])", "x", value).ok());
  EXPECT_THAT(parseJson(R"([{"a":{"b":1,"c":{},"b":2}}])", "x", value).message(), HasSubstr("key 'b' twice"));
}

TEST(Json, TextsThatWouldTakeMuchMoreMemoryAreRefused) {
  std::string text = "[";
  for (int i = 0; i < 1'000'000; ++i)
    text += "[],";
  Json value;
  EXPECT_THAT(parseJson(text + "[]]", "x.json", value).message(),
              AllOf(HasSubstr("x.json"), HasSubstr("1000002 values")));
  // A header ends at its first wrong entry.
  EXPECT_THAT(refusalOf("{\"t\":{\"dtype\":\"U8\",\"shape\":" + text + "[]]}}", 1), HasSubstr("'t'"));
}

TEST(Safetensors, OutOfBounds) {
  EXPECT_THAT(refusalOf(R"({"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]}})", 9),
              AllOf(HasSubstr("'a'"), HasSubstr("10"), HasSubstr("9")));
  EXPECT_THAT(
      refusalOf(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551616]}})", 9),
      HasSubstr("m.safetensors"));
}

TEST(Safetensors, BackwardOffsets) {
  EXPECT_THAT(refusalOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[5,4]}})", 9), HasSubstr("before its begin"));
}

TEST(Safetensors, BadEntries) {
  for (const char *entry :
       {R"(1)", R"({})", R"({"dtype":"F32","shape":[1]})", R"({"dtype":3,"shape":[1],"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", R"({"dtype":"F32","shape":[1],"data_offsets":["0","4"]})",
        R"({"dtype":"F99","shape":[1],"data_offsets":[0,4]})"})
    EXPECT_THAT(refusalOf(std::string("{\"t\":") + entry + "}", 4), HasSubstr("'t'")) << entry;
}

TEST(Safetensors, ProductOverflow) {
  EXPECT_THAT(refusalOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
              HasSubstr("64 bits"));
  EXPECT_THAT(refusalOf(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
              HasSubstr("64 bits"));
}

TEST(Safetensors, HeaderHashCoversLengthAndHeader) {
  std::string bytes = sampleWeights();
  std::unique_ptr<SafetensorsFile> file;
  ASSERT_TRUE(parse(bytes, file).ok());
  EXPECT_EQ(file->headerHash(), hashTextOf(bytes.data(), bytes.size() - 1600));
  EXPECT_EQ(file->headerHash().size(), 32u);
}

TEST(Hash, KnownValue) {
  // XXH3-128 of nothing, from the reference implementation's test vectors.
  EXPECT_EQ(hashTextOf("", 0), "99aa06d3014798d86001c324468d497f");
  Hasher hasher;
  hasher.update("ab", 2);
  hasher.update("c", 1);
  EXPECT_EQ(hasher.finish(), hashBytes("abc", 3));
}
