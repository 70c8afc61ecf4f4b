//===- RuntimeSafetensors.cpp - Archives, good and bad ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "RuntimeTesting.h"

using namespace intarsia::runtime;
using namespace intarsia::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

static Status parse(const std::string &bytes, std::unique_ptr<SafetensorsFile> &file) {
  return SafetensorsFile::parse(bytes.data(), bytes.size(), "m.safetensors", file);
}

/// The message of an archive that must be refused.
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
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const SafetensorsEntry *b = file->find("b");
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
