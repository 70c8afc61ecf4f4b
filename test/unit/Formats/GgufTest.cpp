//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// GGUF files, good and bad. Values of blocks are compared with the gguf package in test/EndToEnd/test_gguf_blocks.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/DecodeBlocks.h"
#include "lib/Formats/GgufFile.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace intarsia;
using namespace intarsia::gguf;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

/// Writes a file as gguf.md describes it; every number can be made wrong.
struct Writer {
  uint32_t magic = 0x46554747, version = 3;
  uint64_t tensorCount = 0, keyCount = 0;
  std::string keys, tensors, data;

  template <typename T> static std::string raw(T value) {
    return std::string(reinterpret_cast<char *>(&value), sizeof(T));
  }
  static std::string text(const std::string &value) { return raw<uint64_t>(value.size()) + value; }

  template <typename T> Writer &key(const std::string &name, uint32_t type, T value) {
    ++keyCount;
    keys += text(name) + raw(type) + raw(value);
    return *this;
  }
  Writer &key(const std::string &name, const std::string &typeAndValue) {
    ++keyCount;
    keys += text(name) + typeAndValue;
    return *this;
  }
  Writer &tensor(const std::string &name, const std::vector<uint64_t> &dimensions, uint32_t type, uint64_t offset) {
    ++tensorCount;
    tensors += text(name) + raw<uint32_t>(dimensions.size());
    for (uint64_t size : dimensions)
      tensors += raw(size);
    tensors += raw(type) + raw(offset);
    return *this;
  }
  Writer &bytes(size_t count) {
    data.assign(count, 'x');
    return *this;
  }
  std::string file(size_t alignment = 32) const {
    std::string all = raw(magic) + raw(version) + raw(tensorCount) + raw(keyCount) + keys + tensors;
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data;
  }
};

Status parse(const std::string &bytes, std::unique_ptr<File> &file) {
  return File::parse(bytes.data(), bytes.size(), "m.gguf", file);
}

std::string refusal(const std::string &bytes) {
  std::unique_ptr<File> file;
  Status status = parse(bytes, file);
  EXPECT_EQ(status.code(), ITX_CORRUPT);
  EXPECT_EQ(file, nullptr);
  EXPECT_THAT(status.message(), HasSubstr("m.gguf"));
  return status.message();
}
std::string refusal(const Writer &writer) { return refusal(writer.file()); }

struct Folder {
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "itx-gguf-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string &name, const Writer &writer) const {
    std::ofstream(path + "/" + name, std::ios::binary) << writer.file();
    return path + "/" + name;
  }
  std::string path;
};

Writer part(uint16_t number, uint16_t count, const std::string &tensor) {
  Writer writer;
  writer.key("split.no", 2, number).key("split.count", 2, count).key<int32_t>("split.tensors.count", 5, count);
  return writer.tensor(tensor, {4}, 0, 0).bytes(16);
}

TEST(Gguf, ReadsMetadataAndTensors) {
  Writer writer;
  writer.key("general.architecture", Writer::raw<uint32_t>(8) + Writer::text("llama"))
      .key<uint32_t>("llama.block_count", 4, 7)
      .key<float>("llama.rope.freq_base", 6, 0.5f)
      .key<uint8_t>("flag", 7, 1)
      .key<uint64_t>("large", 10, UINT64_MAX)
      .key("heads", Writer::raw<uint32_t>(9) + Writer::raw<uint32_t>(5) + Writer::raw<uint64_t>(2) +
                        Writer::raw<int32_t>(3) + Writer::raw<int32_t>(-4))
      .key("tokens", Writer::raw<uint32_t>(9) + Writer::raw<uint32_t>(8) + Writer::raw<uint64_t>(2) +
                         Writer::text("a") + Writer::text("bc"))
      .tensor("q", {64, 3}, 2, 32)
      .tensor("b", {4}, 0, 0)
      .tensor("none", {0}, 1, 0)
      .tensor("scalar", {}, 1, 160)
      .bytes(162);
  for (uint32_t version : {2, 3}) {
    writer.version = version;
    std::string bytes = writer.file();
    std::unique_ptr<File> file;
    Status status = parse(bytes, file);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(file->metadata("general.architecture")->string(), "llama");
    EXPECT_EQ(file->metadata("llama.block_count")->integer(), 7);
    EXPECT_EQ(file->metadata("llama.block_count")->string(), std::nullopt);
    EXPECT_EQ(file->metadata("llama.rope.freq_base")->number(), 0.5);
    EXPECT_EQ(file->metadata("llama.rope.freq_base")->integer(), std::nullopt);
    EXPECT_EQ(file->metadata("flag")->boolean(), true);
    EXPECT_EQ(file->metadata("large")->integer(), std::nullopt);
    EXPECT_EQ(file->metadata("heads")->integers(), (std::vector<int64_t>{3, -4}));
    EXPECT_EQ(file->metadata("heads")->integer(), std::nullopt);
    EXPECT_EQ(file->metadata("tokens")->integers(), std::nullopt);
    std::vector<std::string> elements;
    for (const char *key : {"tokens", "heads"})
      file->metadata(key)->forEach([&](const Value &value) {
        elements.push_back(value.string() ? std::string(*value.string()) : std::to_string(value.integer().value()));
      });
    EXPECT_EQ(elements, (std::vector<std::string>{"a", "bc", "3", "-4"}));
    EXPECT_EQ(file->metadata("other"), nullptr);
    ASSERT_EQ(file->tensors().size(), 4u);
    const Tensor *q = file->find("q");
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(q->shape, (std::vector<int64_t>{3, 64}));
    EXPECT_EQ(q->raw.shape, (std::vector<int64_t>{3, 36}));
    EXPECT_EQ(q->raw.dtype, "I8");
    EXPECT_EQ(q->raw.bytes(), 108u);
    EXPECT_EQ(static_cast<const char *>(q->raw.data), bytes.data() + bytes.size() - 162 + 32);
    EXPECT_EQ(file->find("b")->raw.dtype, "F32");
    EXPECT_EQ(file->find("scalar")->raw.bytes(), 2u);
    EXPECT_EQ(file->find("c"), nullptr);
  }
}

TEST(Gguf, AlignmentIsRead) {
  Writer writer;
  writer.key<uint32_t>("general.alignment", 4, 128).tensor("a", {4}, 0, 128).bytes(144);
  std::unique_ptr<File> file;
  Status status = parse(writer.file(128), file);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(file->find("a")->raw.begin % 128, 0u);
  for (uint32_t wrong : {0u, 4u, 24u, 1u << 30})
    EXPECT_THAT(refusal(Writer().key("general.alignment", 4, wrong)), HasSubstr("general.alignment"));
  EXPECT_THAT(refusal(Writer().tensor("a", {4}, 0, 8).bytes(32)), HasSubstr("begins at byte 8"));
}

TEST(Gguf, EveryTruncationIsRefused) {
  Writer writer;
  writer.key<uint32_t>("llama.block_count", 4, 7)
      .key("name", Writer::raw<uint32_t>(8) + Writer::text("llama"))
      .key("tokens", Writer::raw<uint32_t>(9) + Writer::raw<uint32_t>(8) + Writer::raw<uint64_t>(1) + Writer::text("a"))
      .tensor("q", {64, 3}, 2, 0)
      .bytes(108);
  std::string bytes = writer.file();
  for (size_t length = 0; length < bytes.size(); ++length)
    refusal(bytes.substr(0, length));
}

TEST(Gguf, BadHeaders) {
  Writer writer;
  writer.magic = 0x67676d6c;
  EXPECT_THAT(refusal(writer), HasSubstr("is not a GGUF file"));
  writer = Writer();
  writer.version = 0x03000000;
  EXPECT_THAT(refusal(writer), HasSubstr("big-endian"));
  for (uint32_t version : {0, 1, 4}) {
    writer.version = version;
    EXPECT_THAT(refusal(writer), HasSubstr("version " + std::to_string(version)));
  }
  writer = Writer();
  writer.tensorCount = uint64_t(1) << 60;
  EXPECT_THAT(refusal(writer), HasSubstr("1152921504606846976 tensors"));
  writer = Writer();
  writer.keyCount = UINT64_MAX;
  EXPECT_THAT(refusal(writer), HasSubstr("18446744073709551615 keys"));
}

TEST(Gguf, BadMetadata) {
  EXPECT_THAT(refusal(Writer().key<uint32_t>("a", 4, 1).key<uint32_t>("a", 4, 1)), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(refusal(Writer().key<uint32_t>("a", 99, 1)), HasSubstr("unknown type 99"));
  std::string nested = Writer::raw<uint32_t>(9) + Writer::raw<uint32_t>(9) + Writer::raw<uint64_t>(1);
  EXPECT_THAT(refusal(Writer().key("a", nested + std::string(20, '\0'))), HasSubstr("arrays of arrays"));
  std::string many = Writer::raw<uint32_t>(9) + Writer::raw<uint32_t>(12) + Writer::raw<uint64_t>(uint64_t(1) << 61);
  EXPECT_THAT(refusal(Writer().key("a", many)), HasSubstr("more than 64 bits count"));
  EXPECT_THAT(refusal(Writer().key("a", Writer::raw<uint32_t>(8) + Writer::raw<uint64_t>(UINT64_MAX))),
              HasSubstr("the value of 'a' needs"));
  Writer writer;
  writer.keyCount = 1;
  writer.keys = Writer::raw<uint64_t>(UINT64_MAX - 8) + std::string(64, 'k');
  EXPECT_THAT(refusal(writer), HasSubstr("characters"));
  EXPECT_THAT(refusal(Writer().key<uint32_t>("a\n", 4, 1)), HasSubstr("printable"));
}

TEST(Gguf, BadTensors) {
  EXPECT_THAT(refusal(Writer().tensor("a", {4}, 77, 0).bytes(16)), AllOf(HasSubstr("'a'"), HasSubstr("type 77")));
  EXPECT_THAT(refusal(Writer().tensor("a", {1, 1, 1, 1, 1}, 0, 0).bytes(16)), HasSubstr("5 dimensions"));
  EXPECT_THAT(refusal(Writer().tensor("a", {33}, 2, 0).bytes(64)), HasSubstr("whole blocks of 32"));
  EXPECT_THAT(refusal(Writer().tensor("a", {}, 2, 0).bytes(64)), HasSubstr("whole blocks of 32"));
  EXPECT_THAT(refusal(Writer().tensor("a", {uint64_t(1) << 32, uint64_t(1) << 32}, 0, 0)), HasSubstr("64 bits"));
  EXPECT_THAT(refusal(Writer().tensor("a", {UINT64_MAX}, 0, 0)), HasSubstr("64 bits"));
  EXPECT_THAT(refusal(Writer().tensor("a", {uint64_t(1) << 62}, 28, 0)), HasSubstr("more bytes than 64 bits"));
  EXPECT_THAT(refusal(Writer().tensor("a", {4}, 0, UINT64_MAX - 7)), HasSubstr("more bytes than 64 bits"));
  EXPECT_THAT(refusal(Writer().tensor("a", {4}, 0, 32).bytes(32)), HasSubstr("ends at byte 48"));
  EXPECT_THAT(refusal(Writer().tensor("a", {9}, 0, 0).tensor("b", {4}, 0, 32).bytes(64)),
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("overlap")));
  EXPECT_THAT(refusal(Writer().tensor("a", {4}, 0, 0).tensor("a", {4}, 0, 32).bytes(64)), HasSubstr("two tensors 'a'"));
  EXPECT_THAT(refusal(Writer().tensor("", {4}, 0, 0).bytes(16)), HasSubstr("has no name"));
}

TEST(Gguf, Parts) {
  Folder folder;
  std::string first = folder.write("m-00001-of-00002.gguf", part(0, 2, "a"));
  std::vector<std::unique_ptr<File>> parts;
  Status status = openParts(first, parts);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("m-00002-of-00002.gguf"), HasSubstr("part 2 of 2")));
  std::string second = folder.write("m-00002-of-00002.gguf", part(1, 2, "b"));
  status = openParts(first, parts);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1]->name(), "m-00002-of-00002.gguf");
  EXPECT_NE(parts[1]->find("b"), nullptr);

  EXPECT_THAT(openParts(second, parts).message(), HasSubstr("give the first part, m-00001-of-00002.gguf"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, "a"));
  EXPECT_THAT(openParts(first, parts).message(), HasSubstr("another part has too"));
  folder.write("m-00002-of-00002.gguf", part(0, 2, "b"));
  EXPECT_THAT(openParts(first, parts).message(), HasSubstr("its name says that it is part 2 of 2"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, "b").tensor("c", {4}, 0, 32).bytes(48));
  EXPECT_THAT(openParts(first, parts).message(), HasSubstr("split.tensors.count is 2, the 2 parts have 3"));
  EXPECT_THAT(openParts(folder.write("other.gguf", part(0, 2, "a")), parts).message(), HasSubstr("one of 2 parts"));
  EXPECT_THAT(openParts(folder.path + "/missing.gguf", parts).message(), HasSubstr("missing.gguf"));
}

TEST(Gguf, PartsOfBlocksAreDecoded) {
  const GgmlType &type = *ggmlTypeOf("q8_0");
  std::vector<uint8_t> blocks(3 * type.bytes);
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = i % type.bytes == 0 ? 0 : i % type.bytes == 1 ? 0x3c : uint8_t(i); // scale 1.0
  std::vector<float> whole(96);
  decodeBlocks(type, blocks.data(), 3, whole.data());
  EXPECT_EQ(whole[0], 2.0f);
  EXPECT_EQ(whole[33], float(int8_t(type.bytes + 3)));
  for (uint64_t first = 0; first < 96; ++first)
    for (uint64_t count = 0; first + count <= 96; ++count) {
      std::vector<float> values(count + 1, 0.5f);
      decodeElements(type, blocks.data(), first, count, values.data());
      ASSERT_TRUE(std::equal(values.begin(), values.end() - 1, whole.begin() + first));
      ASSERT_EQ(values.back(), 0.5f);
    }
}

} // namespace
