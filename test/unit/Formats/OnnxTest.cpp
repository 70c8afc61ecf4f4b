//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// ONNX files, good and bad. Files of other writers are read in test/EndToEnd/test_onnx.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/OnnxFile.h"
#include "lib/Support/FileVersions.h"
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::onnx;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::testing::SizeIs;

namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += char(value | 0x80);
  return bytes + char(value);
}
std::string number(unsigned field, uint64_t value) { return varint(field << 3) + varint(value); }
std::string text(unsigned field, const std::string &value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}
template <typename T> std::string raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(T));
}

/// A tensor of floats [2, 3] whose data is `data`.
std::string tensor(const std::string &name, const std::string &data) {
  return number(1, 2) + number(1, 3) + number(2, 1) + text(8, name) + data;
}
std::string floats() { return raw<float>({1, 2, 3, 4, 5, 6}); }
std::string entry(const std::string &key, const std::string &value) { return text(13, text(1, key) + text(2, value)); }
std::string model(const std::string &graph) { return number(1, 10) + text(8, number(2, 20)) + text(7, graph); }

std::string problem(const std::string &bytes) {
  std::unique_ptr<onnx::File> file;
  return onnx::File::parse(bytes.data(), bytes.size(), "m.onnx", file).message();
}

TEST(Onnx, ReadsAModel) {
  std::string dims = text(1, number(1, 2)) + text(1, text(2, "batch")) + text(1, "");
  std::string type = text(1, number(1, 1) + text(2, dims));
  std::string strides = text(1, "strides") + number(20, 7) + number(8, 2) + text(8, varint(3) + varint(-1));
  std::string node = text(1, "x") + text(1, "") + text(2, "y") + text(3, "first") + text(4, "Conv") + text(5, strides);
  std::string bytes = model(text(2, "g") + text(1, node) + text(5, tensor("w", text(9, floats()))) +
                            text(11, text(1, "x") + text(2, type)) + text(12, text(1, "y")) + text(99, "later"));
  std::unique_ptr<onnx::File> file;
  ASSERT_EQ(onnx::File::parse(bytes.data(), bytes.size(), "m.onnx", file).message(), "");
  const Model &read = file->model();
  EXPECT_EQ(read.irVersion, 10);
  EXPECT_EQ(read.operatorSets[0].version, 20);
  const Node &first = read.graph.nodes[0];
  EXPECT_EQ(first.op, "Conv");
  EXPECT_EQ(first.inputs, (std::vector<std::string_view>{"x", ""}));
  EXPECT_EQ(first.find("strides")->integers, (std::vector<int64_t>{2, 3, -1})) << "packed and one by one";
  const ValueType &input = read.graph.inputs[0].type;
  EXPECT_EQ(input.dims[0].value, 2);
  EXPECT_EQ(input.dims[1].name, "batch");
  EXPECT_FALSE(input.dims[2].value.has_value());
  const ArchiveTensor &weight = file->archived().at("w");
  EXPECT_EQ(weight.dtype, "F32");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(weight.data, floats().data(), 24), 0);
}

TEST(Onnx, ReadsNumbersOfEachKind) {
  auto bytesOf = [](DataType type, const std::string &data) {
    std::string bytes = model(text(5, number(1, 2) + number(2, uint64_t(type)) + text(8, "w") + data));
    std::unique_ptr<onnx::File> file;
    EXPECT_EQ(onnx::File::parse(bytes.data(), bytes.size(), "m.onnx", file).message(), "");
    const onnx::Tensor &read = file->model().graph.initializers[0];
    return std::string(reinterpret_cast<const char *>(read.data), read.bytes);
  };
  EXPECT_EQ(bytesOf(DataType::Float, text(4, raw<float>({1, 2}))), raw<float>({1, 2}));
  EXPECT_EQ(bytesOf(DataType::Float, varint(4 << 3 | 5) + raw<float>({1}) + text(4, raw<float>({2}))),
            raw<float>({1, 2}));
  EXPECT_EQ(bytesOf(DataType::Double, text(10, raw<double>({1, 2}))), raw<double>({1, 2}));
  EXPECT_EQ(bytesOf(DataType::Int64, text(7, varint(5) + varint(-2))), raw<int64_t>({5, -2}));
  EXPECT_EQ(bytesOf(DataType::Float16, text(5, varint(0x3c00) + varint(0xc000))), raw<uint16_t>({0x3c00, 0xc000}));
  EXPECT_EQ(bytesOf(DataType::Int8, text(5, varint(-1) + varint(7))), raw<int8_t>({-1, 7}));
  EXPECT_EQ(bytesOf(DataType::Bool, text(5, varint(1) + varint(0))), raw<uint8_t>({1, 0}));
  EXPECT_EQ(bytesOf(DataType::Int4, text(9, "\x21")), "\x21") << "two in a byte";
  EXPECT_EQ(bytesOf(DataType::Int4, text(5, varint(0x21))), "\x21") << "two in an integer";
  EXPECT_EQ(bytesOf(DataType::Float6E2M3, text(9, "\x41\x08")), "\x41\x08") << "two in 12 bits";
  EXPECT_EQ(bytesOf(DataType::Float6E2M3, text(5, varint(1) + varint(0x21))), "\x41\x08") << "one in an integer";
}

TEST(Onnx, NamesTensorsOfNestedGraphsApart) {
  std::string inner = text(5, tensor("w", text(9, floats())));
  std::string branch = text(1, "then_branch") + number(20, 5) + text(6, inner);
  std::string value = text(1, "value") + number(20, 4) + text(5, tensor("", text(9, floats())));
  std::string bytes = model(text(1, text(2, "c") + text(4, "Constant") + text(5, value)) +
                            text(1, text(4, "If") + text(5, branch)) + text(5, tensor("w", text(9, floats()))));
  std::unique_ptr<onnx::File> file;
  ASSERT_EQ(onnx::File::parse(bytes.data(), bytes.size(), "m.onnx", file).message(), "");
  std::vector<std::string> keys;
  for (const auto &[key, tensor] : file->archived())
    keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"c", "w", "w#1"}));
}

TEST(Onnx, RefusesMalformedFiles) {
  std::string good = model(text(5, tensor("w", text(9, floats()))));
  EXPECT_EQ(problem(good), "");
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(problem(good.substr(0, length)), "") << length;
  EXPECT_THAT(problem(""), HasSubstr("m.onnx: is empty"));
  EXPECT_THAT(problem(std::string(100, '\0')), HasSubstr("invalid tag"));
  EXPECT_THAT(problem("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(problem("ir_version: 8\n"), HasSubstr("model as text"));
  EXPECT_THAT(problem("<!DOCTYPE html>"), HasSubstr("HTML"));
  EXPECT_THAT(problem(number(1, 10)), HasSubstr("has no graph"));
  EXPECT_THAT(problem(good + text(7, "")), HasSubstr("two graphs"));
  EXPECT_THAT(problem(good + varint(3 << 3 | 3)), HasSubstr("unknown pbf field type")) << "a group";
  EXPECT_THAT(problem(varint(1 << 3) + std::string(11, '\xff')), HasSubstr("varint too long"));
  EXPECT_THAT(problem(text(1, "x")), HasSubstr("wire type"));
  std::string node = text(1, text(3, "n") + text(4, "Conv") + text(5, text(1, "pads") + varint(8 << 3 | 5) + "abcd"));
  EXPECT_THAT(problem(model(node)), HasSubstr("node 'n' (Conv): attribute 'pads': field 8 has wire type 5"));
}

TEST(Onnx, RefusesMalformedTensors) {
  auto of = [](const std::string &bytes) { return problem(model(text(5, bytes))); };
  EXPECT_THAT(of(tensor("w", text(9, "abc"))), AllOf(HasSubstr("tensor 'w'"), HasSubstr("3 bytes"), HasSubstr("24")));
  EXPECT_THAT(of(tensor("w", text(9, floats()) + text(4, floats()))), HasSubstr("in two places"));
  EXPECT_THAT(of(number(1, -1) + number(2, 1) + text(8, "w")), HasSubstr("dimension of -1"));
  EXPECT_THAT(of(number(1, 1ull << 62) + number(1, 1ull << 62) + number(2, 1)), HasSubstr("more elements"));
  EXPECT_THAT(of(number(1, 1ull << 62) + number(2, 1)), HasSubstr("elements"));
  EXPECT_THAT(of(number(1, 2) + number(2, 77)), HasSubstr("element type 77"));
  EXPECT_THAT(of(tensor("w", number(14, 1))), HasSubstr("has external data"));
  EXPECT_EQ(of(number(1, 0) + number(1, 1ull << 62) + number(1, 1ull << 62) + number(2, 1)), "") << "no elements";
}

TEST(Onnx, RefusesDeepAndManyMessages) {
  std::string graph;
  for (int depth = 0; depth < 100; ++depth)
    graph = text(1, text(4, "If") + text(5, text(1, "g") + number(20, 5) + text(6, graph)));
  EXPECT_THAT(problem(model(graph)), HasSubstr("nested deeper"));
  graph = text(1, text(3, "inner") + text(4, "Conv") + text(5, text(1, "pads") + varint(8 << 3 | 5) + "abcd"));
  for (int depth = 0; depth < 60; ++depth)
    graph =
        text(1, text(3, std::string(90, 'n')) + text(4, "If") + text(5, text(1, "g") + number(20, 5) + text(6, graph)));
  EXPECT_THAT(problem(model(graph)), AllOf(HasSubstr("node 'inner' (Conv): attribute 'pads'"), SizeIs(Lt(1000u))));
  std::string nodes;
  for (int count = 0; count < (1 << 20) + 1; ++count)
    nodes += text(1, "");
  EXPECT_THAT(problem(model(nodes)), HasSubstr("take more than 48 MiB"));
}

class OnnxExternal : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("onnx-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder / "model" / "data");
    write(folder / "model" / "data" / "w.bin", "pad!" + floats());
    write(folder / "outside.bin", floats());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  static void write(const std::filesystem::path &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string open(const std::string &entries) {
    write(folder / "model" / "m.onnx", model(text(5, tensor("w", number(14, 1) + entries))));
    return onnx::File::open(folder / "model" / "m.onnx", "m.onnx", file).message();
  }

  std::filesystem::path folder;
  std::unique_ptr<onnx::File> file;
};

TEST_F(OnnxExternal, MapsDataBesideTheModel) {
  ASSERT_EQ(open(entry("location", "data/w.bin") + entry("offset", "4") + entry("length", "24")), "");
  EXPECT_EQ(std::memcmp(file->archived().at("w").data, floats().data(), 24), 0);
  EXPECT_EQ(file->mappings().size(), 2u);
}

TEST_F(OnnxExternal, NotesTheVersionOfData) {
  FileVersions versions;
  ASSERT_EQ(open(entry("location", "data/w.bin") + entry("offset", "4")), "");
  EXPECT_EQ(FileVersions::check().message(), "");
  write(folder / "model" / "data" / "w.bin", "pad!" + floats() + "more");
  EXPECT_THAT(FileVersions::check().message(), HasSubstr("w.bin"));
}

TEST_F(OnnxExternal, RefusesOtherFiles) {
  std::filesystem::create_symlink(folder / "outside.bin", folder / "model" / "link");
  std::filesystem::create_hard_link(folder / "outside.bin", folder / "model" / "hard");
  EXPECT_THAT(open(entry("location", "../outside.bin")), HasSubstr("leads out of the model's directory"));
  EXPECT_THAT(open(entry("location", (folder / "outside.bin").string())), HasSubstr("leads out"));
  EXPECT_THAT(open(entry("location", "link")), HasSubstr("symbolic link"));
  EXPECT_THAT(open(entry("location", "hard")), HasSubstr("hard link"));
  EXPECT_THAT(open(entry("location", "data")), HasSubstr("no regular file"));
  EXPECT_THAT(open(entry("location", "missing")), HasSubstr("No such file"));
  EXPECT_THAT(open(entry("location", "a\nb\x1b[2J" + std::string(300, 'c'))),
              AllOf(HasSubstr("external data 'a?b?[2Jccc"), HasSubstr("…': "), Not(HasSubstr("\x1b"))));
  ASSERT_EQ(mkfifo((folder / "model" / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(open(entry("location", "pipe")), HasSubstr("no regular file"));
  EXPECT_THAT(open(entry("location", "")), HasSubstr("no name of a file"));
  EXPECT_THAT(open(entry("location", std::string(10 << 20, 'a'))), HasSubstr("no name of a file"));
  EXPECT_THAT(open(entry("location", "data/w.bin") + entry("location", "data/w.bin")), HasSubstr("twice"));
  EXPECT_THAT(open(entry("location", "data/w.bin") + entry("offset", "5") + entry("length", "24")),
              HasSubstr("has 28 bytes, 24 from 5"));
  EXPECT_THAT(open(entry("location", "data/w.bin") + entry("offset", "-1")), HasSubstr("offset '-1'"));
  EXPECT_THAT(open(entry("location", "data/w.bin") + entry("offset", "9223372036854775807")), HasSubstr("wanted"));
  EXPECT_THAT(open(entry("location", "data/w.bin") + entry("length", "4")), HasSubstr("4 bytes of data"));
}

} // namespace
