//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Files of weights through the interface that all kinds of them have.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Archive.h"
#include "test/unit/Testing.h"

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::EndsWith;
using ::testing::HasSubstr;

namespace {

template <typename Number> std::string bytesOf(Number number) {
  return std::string(reinterpret_cast<const char *>(&number), sizeof(number));
}

std::string safetensors() {
  std::string header = R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("a":{"dtype":"U8","shape":[1,3],"data_offsets":[8,11]}})";
  return bytesOf(uint64_t(header.size())) + header + bytesOf(1.0f) + bytesOf(2.0f) + "xyz";
}

/// A file of version 3 with one tensor [2, 3] of F32.
std::string gguf() {
  std::string text = "GGUF" + bytesOf(uint32_t(3)) + bytesOf(uint64_t(1)) + bytesOf(uint64_t(0));
  text += bytesOf(uint64_t(1)) + "w" + bytesOf(uint32_t(2)) + bytesOf(uint64_t(3)) + bytesOf(uint64_t(2)) +
          bytesOf(uint32_t(0)) + bytesOf(uint64_t(0));
  text.resize((text.size() + 31) / 32 * 32);
  for (float value : {1, 2, 3, 4, 5, 6})
    text += bytesOf(value);
  return text;
}

class Archives : public ::testing::Test {
protected:
  std::unique_ptr<Archive> open(const std::string &name, const std::string &bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    std::unique_ptr<Archive> archive;
    Status status = Archive::open(folder / name, archive);
    message = status.message();
    return archive;
  }
  TemporaryFolder folder;
  std::string message;
};

TEST_F(Archives, OfSafetensors) {
  std::unique_ptr<Archive> archive = open("m.safetensors", safetensors());
  ASSERT_TRUE(archive) << message;
  EXPECT_EQ(archive->name(), folder / "m.safetensors");
  ASSERT_EQ(archive->tensors().size(), 2u);
  EXPECT_EQ(archive->tensors().front()->name, "b");
  const ArchiveTensor *tensor = archive->find("a");
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->dtype, "U8");
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(std::string(static_cast<const char *>(tensor->data), tensor->bytes()), "xyz");
  EXPECT_EQ(archive->find("c"), nullptr);
  auto [memory] = std::array<std::span<const uint8_t>, 1>{archive->mappings().front()};
  EXPECT_EQ(memory.size(), safetensors().size());
}

TEST_F(Archives, OfGguf) {
  std::unique_ptr<Archive> archive = open("m.gguf", gguf());
  ASSERT_TRUE(archive) << message;
  ASSERT_EQ(archive->tensors().size(), 1u);
  const ArchiveTensor *tensor = archive->find("w");
  ASSERT_EQ(tensor, archive->tensors().front());
  EXPECT_EQ(tensor->dtype, "F32");
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(static_cast<const float *>(tensor->data)[5], 6);
  EXPECT_EQ(archive->mappings().front().size(), gguf().size());
}

TEST_F(Archives, OfOtherKindsAreRefusedByName) {
  EXPECT_FALSE(open("m.bin", safetensors()));
  EXPECT_THAT(message, EndsWith("m.bin: weights are not read from files of this kind; they are read from files named "
                                ".safetensors, .gguf, .onnx"));
}

TEST_F(Archives, ThatAreDamagedAreRefused) {
  EXPECT_FALSE(open("m.safetensors", gguf()));
  EXPECT_THAT(message, HasSubstr("m.safetensors:"));
  EXPECT_FALSE(open("m.gguf", safetensors()));
  EXPECT_THAT(message, HasSubstr("m.gguf:"));
}

} // namespace
