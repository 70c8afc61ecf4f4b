//===- PrecisionCandidates.cpp - What formats a model's matrices may have, and what each costs -------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize/PrecisionCandidates.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/Quantize/Quantize.h"
#include "intarsia/Quantize/QuantizedModel.h"
#include "intarsia/Target/Target.h"
#include "lib/Quantize/LinearInputs.h"
#include "lib/Quantize/Models/CompressedTensors.h"
#include "lib/Support/FileVersions.h"
#include "lib/Support/Json.h"
#include "lib/Weights/Archives.h"
#include "lib/Weights/TemporaryFiles.h"
#include "lib/Weights/TensorSource.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::createStringError;
using llvm::Expected;

namespace intarsia {
namespace {

/// A matrix of the model's files that linears or embeddings read.
struct StoredMatrix {
  nn::WeightOp weight;
  std::string name; // of the first linear that reads it; of a table its key
  bool isTable = false, isLinear = false;

  int64_t rows() { return cast<RankedTensorType>(weight.getType()).getDimSize(0); }
  int64_t columns() { return cast<RankedTensorType>(weight.getType()).getDimSize(1); }
};

using StoredMatrices = llvm::MapVector<StringRef, StoredMatrix>; // by key

/// Finds the matrices that can have a format of their own: those of linears as they are stored, and tables.
StoredMatrices findMatrices(ModuleOp module) {
  StoredMatrices matrices;
  auto add = [&](nn::WeightOp weight) -> StoredMatrix * {
    auto type = dyn_cast<RankedTensorType>(weight.getType());
    if (!type || type.getRank() != 2 || !isa<FloatType>(type.getElementType()))
      return nullptr;
    StoredMatrix &matrix = matrices[weight.getKey()];
    if (!matrix.weight)
      matrix.weight = weight;
    return &matrix;
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    function.walk([&](nn::EmbeddingOp embedding) {
      if (auto weight = embedding.getTable().getDefiningOp<nn::WeightOp>())
        if (StoredMatrix *matrix = add(weight))
          matrix->isTable = true;
    });
    for (const LinearInput &input : inputsOfLinears(function))
      for (ContractionOpInterface linear : input.linears)
        if (auto weight = linear.getRight().getDefiningOp<nn::WeightOp>())
          if (StoredMatrix *matrix = add(weight)) {
            matrix->isLinear = true;
            if (matrix->name.empty())
              matrix->name = nameOf(linear);
          }
  }
  for (auto &[key, matrix] : matrices)
    if (matrix.name.empty())
      matrix.name = key.str();
  return matrices;
}

uint64_t bytesOf(nn::BlockFormatAttr format, int64_t rows, int64_t columns) {
  uint64_t scales = uint64_t(rows) * format.getBlockCount(columns) * nn::scaleBytes(format.getScale());
  if (haveZeroPoints(format))
    scales *= 2;
  uint64_t values = llvm::divideCeil(uint64_t(rows) * columns * nn::elementBits(format.getElement()), 8);
  return values + scales + (format.hasTensorScale() ? sizeof(float) : 0);
}

/// Returns true if a model directory can hold a matrix in a format.
bool isCompressed(StoredMatrix &matrix, nn::BlockFormatAttr format) {
  return matrix.isLinear && !matrix.isTable && matrix.weight.getKey().ends_with(".weight") &&
         quantize::whyNotCompressed(format, matrix.weight.getType()).empty();
}

/// Returns the time of multiplying a matrix of so many bytes by the features of one token: the longest of the devices.
double microsecondsOf(ArrayRef<target::Device> devices, double bytes, int64_t rows, int64_t columns) {
  KernelWork work;
  work.root = KernelRoot::Linear;
  work.flops = 2.0 * double(rows) * double(columns);
  work.weightBytes = bytes;
  work.activationBytes = double(rows + columns) * sizeof(float);
  MatrixWork matrix;
  matrix.shape.columns = double(rows);
  matrix.shape.depth = double(columns);
  matrix.shape.weightBytes = bytes / (double(rows) * double(columns));
  matrix.elementType = "bf16"; // few rows are multiplied as weights are read; GpuCosts knows it for every device
  matrix.bytes = work.weightBytes + work.activationBytes;
  work.matrix = matrix;
  double longest = 0;
  for (const target::Device &device : devices)
    longest = std::max(longest, device.model->microseconds(work));
  return longest;
}

/// Returns the time of the other kernels for one token: experts, attention and products of computed tensors.
double otherMicroseconds(ModuleOp module, ArrayRef<target::Device> devices, const StoredMatrices &matrices) {
  double longest = 0;
  for (const target::Device &device : devices) {
    double sum = 0;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isExternal() || (function.getName() != "step" && function.getName() != "main"))
        continue;
      WorkModel model(function);
      for (Operation &op : function.front())
        if (auto root = dyn_cast<KernelRootOpInterface>(op); root && !asProductWithWeight(&op))
          sum += device.model->microseconds(model.work(root.getKernelRoot(), &op));
    }
    longest = std::max(longest, sum);
  }
  return longest;
}

/// Returns why a device has no kernel for matrices of a format, and which targets have one; empty if all have one.
std::string whyNoKernel(ArrayRef<target::Device> devices, nn::BlockFormatAttr format, int64_t columns) {
  auto row = cast<BlockFormatAttrInterface>(Attribute(format)).getRowFormat(columns);
  for (const target::Device &device : devices) {
    if (row && device.target->storesQuantized(row, columns))
      continue;
    std::string others;
    for (const target::Target *other : target::Target::all())
      if (row && other->storesQuantized(row, columns))
        others += (others.empty() ? "" : ", ") + other->kind().str();
    return llvm::formatv("target '{0}' has no kernel for matrices in {1} with {2} columns; {3}", device.target->kind(),
                         format.getName(), columns, others.empty() ? "no target has" : "those that have: " + others);
  }
  return "";
}

Json candidatesOf(StoredMatrix &matrix, ArrayRef<std::pair<std::string, nn::BlockFormatAttr>> formats,
                  ArrayRef<target::Device> devices) {
  auto type = cast<RankedTensorType>(matrix.weight.getType());
  int64_t rows = matrix.rows(), columns = matrix.columns();
  uint64_t stored = uint64_t(rows) * columns * type.getElementTypeBitWidth() / 8;
  Json candidates = Json::array();
  candidates.push_back({{"format", "none"},
                        {"bytes", stored},
                        {"microseconds", matrix.isLinear ? microsecondsOf(devices, double(stored), rows, columns) : 0},
                        {"linear", false},
                        {"why", ""}});
  for (const auto &[name, format] : formats) {
    uint64_t bytes = bytesOf(format, rows, columns);
    candidates.push_back({{"format", name},
                          {"bytes", bytes},
                          {"microseconds", matrix.isLinear ? microsecondsOf(devices, double(bytes), rows, columns) : 0},
                          {"linear", isCompressed(matrix, format)},
                          {"why", whyNoKernel(devices, format, columns)}});
  }
  return {{"key", matrix.weight.getKey().str()}, {"name", matrix.name},      {"table", matrix.isTable},
          {"linear", matrix.isLinear},           {"shape", {rows, columns}}, {"candidates", candidates}};
}

} // namespace

Expected<std::string> listPrecisionCandidates(ModuleOp module, StringRef archiveDirectory,
                                              const std::vector<std::string> &names) {
  std::vector<std::pair<std::string, nn::BlockFormatAttr>> formats;
  for (const std::string &name : names) {
    auto format = parseWeightFormat(name, module.getContext());
    if (!format)
      return format.takeError();
    formats.emplace_back(name, *format);
  }
  SmallVector<target::Device> devices;
  for (auto op : module.getOps<rt::DeviceOp>()) {
    FailureOr<target::Device> device = target::deviceOf(op);
    if (failed(device))
      return createStringError("the targets cannot be used");
    devices.push_back(*device);
  }
  Expected<std::string> hash = hashModel(module, archiveDirectory);
  if (!hash)
    return hash.takeError();
  uint64_t bytes = 0;
  weights::Archives archives(module, archiveDirectory);
  for (auto archive : module.getOps<nn::ArchiveOp>()) {
    auto opened = archives.open(FlatSymbolRefAttr::get(archive.getSymNameAttr()));
    if (!opened)
      return opened.takeError();
    for (const ArchiveTensor *tensor : (*opened)->tensors())
      bytes += tensor->bytes();
  }
  StoredMatrices matrices = findMatrices(module);
  Json tensors = Json::array();
  for (auto &[key, matrix] : matrices)
    tensors.push_back(candidatesOf(matrix, formats, devices));
  if (Status status = FileVersions::check(); !status.ok())
    return createStringError(status.message());
  Json result = {{"model", *hash},
                 {"bytes", bytes},
                 {"microseconds", otherMicroseconds(module, devices, matrices)},
                 {"tensors", tensors}};
  return jsonText(result) + "\n";
}

std::vector<std::string> compressedEntries(ModuleOp module, const PrecisionFile &file) {
  StoredMatrices matrices = findMatrices(module);
  std::vector<std::string> entries;
  for (const auto &[key, name] : file.tensors) {
    auto found = matrices.find(key);
    auto format = name == "none" ? nn::BlockFormatAttr() : llvm::cantFail(parseWeightFormat(name, module.getContext()));
    if (found != matrices.end() && format && isCompressed(found->second, format))
      entries.push_back(key + "=" + name);
  }
  return entries;
}

std::vector<std::pair<std::string, std::string>> widenedEntries(ModuleOp module) {
  std::vector<std::pair<std::string, std::string>> entries;
  module.walk([&](nn::QuantizeOp quantize) {
    auto weight = quantize.getInput().getDefiningOp<nn::WeightOp>();
    bool isOfLinear = llvm::any_of(quantize->getUsers(), [](Operation *user) {
      return isa<nn::DequantizeOp>(user) && llvm::any_of(user->getUsers(), asProductWithWeight);
    });
    if (weight && isOfLinear && quantize::isStoredWider(quantize.getFormat().getElement()))
      entries.emplace_back(weight.getKey().str(), weightFormatName(quantize.getFormat()));
  });
  return entries;
}

namespace {
/// Rounds one matrix and writes what its values mean.
llvm::Error writeNearest(const ArchiveTensor &entry, nn::BlockFormatAttr format, OutputFile &file) {
  int64_t rows = entry.shape[0], columns = entry.shape[1];
  weights::StoredTensor source(&entry, entry.shape, entry.dtype, unsigned(entry.bytes() / (rows * columns)));
  BlockCodec codec(format, haveZeroPoints(format));
  std::vector<float> row(columns);
  float tensorScale = 1;
  if (format.hasTensorScale()) {
    float largest = 0;
    for (int64_t number = 0; number < rows; ++number) {
      if (llvm::Error error = source.readFloats({number * columns, columns}, row))
        return error;
      largest = std::max(largest, BlockCodec::largestMagnitude(row));
    }
    tensorScale = BlockCodec::tensorScaleOf(largest);
  }
  std::vector<uint8_t> values(columns), scales(codec.blockCount(columns) * codec.scaleBytes()),
      zeroPoints(codec.zeroPointCount(columns));
  for (int64_t number = 0; number < rows; ++number) {
    if (llvm::Error error = source.readFloats({number * columns, columns}, row))
      return error;
    if (auto wrong = codec.encodeRow(row, tensorScale, values, scales, zeroPoints))
      return createStringError(llvm::formatv("tensor '{0}' has {1} at [{2}, {3}], which {4} cannot represent",
                                             entry.name, row[*wrong], number, *wrong, format.getName()));
    codec.decodeRow(values, scales, zeroPoints, tensorScale, row);
    if (Status status = file.write(row.data(), row.size() * sizeof(float)); !status.ok())
      return createStringError(status.message());
  }
  return llvm::Error::success();
}
} // namespace

llvm::Error writeNearest(ModuleOp module, StringRef archiveDirectory, const std::vector<std::string> &keys,
                         const std::string &formatName, const std::string &path) {
  auto format = parseWeightFormat(formatName, module.getContext());
  if (!format)
    return format.takeError();
  StoredMatrices matrices = findMatrices(module);
  weights::Archives archives(module, archiveDirectory);
  Json header = Json::object();
  std::vector<const ArchiveTensor *> entries;
  uint64_t at = 0;
  for (const std::string &key : keys) {
    auto matrix = matrices.find(key);
    if (matrix == matrices.end())
      return createStringError("'" + key + "' is no matrix that linears or embeddings of the model read");
    auto entry = weights::findWeight(matrix->second.weight, archives);
    if (!entry)
      return entry.takeError();
    entries.push_back(*entry);
    uint64_t bytes = uint64_t((*entry)->shape[0]) * (*entry)->shape[1] * sizeof(float);
    header[key] = {{"dtype", "F32"}, {"shape", (*entry)->shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  // Tensors lie in the order of keys, which jsonText sorts in the header alone.
  std::string text = jsonText(header);
  text.resize(llvm::alignTo(text.size(), 8), ' ');
  uint64_t length = text.size();
  weights::TemporaryFiles files;
  auto temporary = files.make(path);
  if (!temporary)
    return temporary.takeError();
  std::unique_ptr<OutputFile> file;
  Status status = OutputFile::create(*temporary, file);
  if (status.ok())
    status = file->write(&length, sizeof(length));
  if (status.ok())
    status = file->write(text.data(), text.size());
  if (!status.ok())
    return createStringError(status.message());
  for (const ArchiveTensor *entry : entries)
    if (llvm::Error error = writeNearest(*entry, *format, *file))
      return files.named(std::move(error));
  if (status = file->close(); status.ok())
    status = FileVersions::check();
  if (!status.ok())
    return createStringError(status.message());
  return files.keep(*temporary, path);
}

} // namespace intarsia
