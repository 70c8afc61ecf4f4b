//===- OnnxFile.cpp - Read ONNX files -----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/OnnxFile.h"

#include "lib/Formats/Onnx/OnnxReader.h"
#include "lib/Support/File.h"

#include <algorithm>
#include <tuple>

namespace intarsia::onnx {

std::string printable(std::string_view text) {
  constexpr size_t longest = 100;
  std::string result;
  for (char c : text.substr(0, longest))
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text.size() > longest ? result + "…" : result;
}

DataTypeFacts factsOf(DataType type) {
  // https://onnx.ai/onnx/repo-docs/IR.html, tensor element types.
  static const DataTypeFacts table[] = {
      {"undefined", 0, ""},        {"float", 32, "F32", 4},   {"uint8", 8, "U8"},          {"int8", 8, "I8"},
      {"uint16", 16, "U16"},       {"int16", 16, "I16"},      {"int32", 32, "I32"},        {"int64", 64, "I64", 7},
      {"string", 0, ""},           {"bool", 8, "BOOL"},       {"float16", 16, "F16"},      {"double", 64, "F64", 10},
      {"uint32", 32, "U32", 11},   {"uint64", 64, "U64", 11}, {"complex64", 64, "C64", 4}, {"complex128", 128, "", 10},
      {"bfloat16", 16, "BF16"},    {"float8e4m3fn", 8, "U8"}, {"float8e4m3fnuz", 8, "U8"}, {"float8e5m2", 8, "U8"},
      {"float8e5m2fnuz", 8, "U8"}, {"uint4", 4, "U8"},        {"int4", 4, "U8"},           {"float4e2m1", 4, "U8"},
      {"float8e8m0", 8, "U8"},     {"uint2", 2, "U8"},        {"int2", 2, "U8"},           {"float6e2m3", 6, "U8"},
      {"float6e3m2", 6, "U8"},
  };
  auto number = size_t(type);
  return number < std::size(table) ? table[number] : DataTypeFacts();
}

File::~File() = default;

Status File::open(const std::string &path, const std::string &name, std::unique_ptr<File> &file) {
  std::unique_ptr<File> result(new File);
  result->name_ = name;
  ITX_RETURN_IF_ERROR(MappedFile::open(path, result->mapping_));
  result->data_ = result->mapping_->data();
  result->size_ = result->mapping_->size();
  result->external_ = std::make_unique<ExternalFiles>(folderOf(path));
  ITX_RETURN_IF_ERROR(result->parse());
  file = std::move(result);
  return Status::success();
}

Status File::parse(const void *data, uint64_t bytes, const std::string &name, std::unique_ptr<File> &file) {
  std::unique_ptr<File> result(new File);
  result->name_ = name;
  result->data_ = static_cast<const uint8_t *>(data);
  result->size_ = bytes;
  ITX_RETURN_IF_ERROR(result->parse());
  file = std::move(result);
  return Status::success();
}

std::vector<std::span<const uint8_t>> File::mappings() const {
  std::vector<std::span<const uint8_t>> result{{data_, size_}};
  if (external_)
    for (const auto &[name, file] : external_->opened())
      result.emplace_back(file->data(), file->size());
  return result;
}

/// Returns what a file that is no model looks like; null if it may be one.
static const char *disguise(std::string_view text) {
  if (text.empty())
    return "is empty";
  if (text.starts_with("version https://git-lfs"))
    return "is a pointer of Git LFS, not the file that it stands for; run git lfs pull";
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<!doctype") || text.starts_with("<html"))
    return "is a page of HTML; was an error page downloaded?";
  if (text.starts_with("PK\x03\x04"))
    return "is a zip archive; unpack it";
  if (text.starts_with("ir_version:"))
    return "is a model as text; save it with onnx.save_model";
  return nullptr;
}

static void listTensors(Graph &graph, std::vector<Tensor *> &tensors);

/// Lists the tensors of an attribute. `name` is that of those without a name of their own.
static void listTensors(Attribute &attribute, std::string_view name, std::vector<Tensor *> &tensors) {
  for (Tensor &tensor : attribute.tensors) {
    if (tensor.name.empty())
      tensor.name = name;
    tensors.push_back(&tensor);
  }
  for (Graph &graph : attribute.graphs)
    listTensors(graph, tensors);
}

static void listTensors(std::vector<Node> &nodes, std::vector<Tensor *> &tensors) {
  // A constant is known by the value that it is.
  for (Node &node : nodes)
    for (Attribute &attribute : node.attributes)
      listTensors(attribute, node.outputs.empty() ? std::string_view() : node.outputs.front(), tensors);
}

static void listTensors(Graph &graph, std::vector<Tensor *> &tensors) {
  for (Tensor &tensor : graph.initializers)
    tensors.push_back(&tensor);
  listTensors(graph.nodes, tensors);
}

Status File::parse() {
  std::string_view text(reinterpret_cast<const char *>(data_), size_);
  if (const char *what = disguise(text))
    return error(ITX_CORRUPT, "%s: %s", name_.c_str(), what);
  std::string problem = readModel(text, external_.get(), model_);
  if (!problem.empty())
    return error(ITX_CORRUPT, "%s: %s", name_.c_str(), problem.c_str());
  std::vector<Tensor *> tensors;
  listTensors(model_.graph, tensors);
  for (Function &function : model_.functions) {
    for (Attribute &attribute : function.defaults)
      listTensors(attribute, attribute.name, tensors);
    listTensors(function.nodes, tensors);
  }
  std::map<std::string, unsigned> numbers; // that names have got so far
  for (Tensor *tensor : tensors) {
    DataTypeFacts facts = factsOf(tensor->type);
    if (facts.safetensors.empty())
      continue;
    std::string wanted(tensor->name.empty() ? "constant" : tensor->name);
    tensor->key = wanted;
    // Nested graphs may name tensors as others do: those get numbers.
    for (unsigned &number = numbers[wanted]; archived_.contains(tensor->key);)
      tensor->key = wanted + "#" + std::to_string(++number);
    ArchiveTensor &entry = archived_[tensor->key];
    entry.name = tensor->key;
    entry.dtype = facts.safetensors;
    // Elements of fewer than 8 bits are packed: the archive has their bytes.
    entry.shape = facts.bits < 8 ? std::vector{int64_t(tensor->bytes)} : tensor->dims;
    // Positions are those in the memory of the process: tensors lie in several files.
    entry.begin = reinterpret_cast<uintptr_t>(tensor->data);
    entry.end = entry.begin + tensor->bytes;
    entry.data = tensor->data;
  }
  return Status::success();
}

namespace {
class OnnxArchive : public Archive {
public:
  std::unique_ptr<File> file;

  const std::string &name() const override { return file->name(); }
  std::vector<const ArchiveTensor *> tensors() const override {
    std::vector<const ArchiveTensor *> result;
    for (const auto &[key, tensor] : file->archived())
      result.push_back(&tensor);
    std::sort(result.begin(), result.end(), [](const ArchiveTensor *one, const ArchiveTensor *other) {
      return std::tie(one->begin, one->name) < std::tie(other->begin, other->name);
    });
    return result;
  }
  const ArchiveTensor *find(std::string_view key) const override {
    auto found = file->archived().find(key);
    return found == file->archived().end() ? nullptr : &found->second;
  }
  std::vector<std::span<const uint8_t>> mappings() const override { return file->mappings(); }
};
} // namespace

Status openArchive(const std::string &path, std::unique_ptr<Archive> &archive) {
  auto result = std::make_unique<OnnxArchive>();
  ITX_RETURN_IF_ERROR(File::open(path, path, result->file));
  archive = std::move(result);
  return Status::success();
}

} // namespace intarsia::onnx
