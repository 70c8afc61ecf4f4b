//===- QuantizedModel.cpp - A model directory with quantized weights ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layout is that of the package compressed-tensors, as its documentation of formats gives it.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize/QuantizedModel.h"

#include "dialects/Nn/BlockFormats.h"
#include "intarsia/Quantize/Quantize.h"
#include "lib/Quantize/ErrorFeedback.h"
#include "lib/Quantize/LinearInputs.h"
#include "lib/Quantize/Models/CompressedTensors.h"
#include "lib/Quantize/Models/ModelFiles.h"
#include "lib/Support/FileVersions.h"
#include "lib/Support/Json.h"
#include "lib/Weights/Archives.h"
#include "lib/Weights/TensorSource.h"
#include "lib/Weights/WeightItem.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include <cmath>

using namespace mlir;
using llvm::createStringError;
using llvm::Expected;

namespace intarsia {
namespace quantize {
using namespace weights;

namespace {

/// Called with the name of each linear when its work begins.
using StepCallback = llvm::function_ref<void(StringRef)>;

/// Names of linears that one glob may list in braces: more than large models have in all.
constexpr size_t kMostAlternatives = 1 << 16;

/// Errors are measured on every eighth tile, which takes as long as three eighths of the rounding itself.
constexpr int64_t measuredRows = 8 * ErrorFeedback::kMostRows;

/// One matrix to quantize.
struct Matrix {
  nn::WeightOp weight;
  nn::BlockFormatAttr format;
  std::string linear;  // its name
  std::string moments; // name of its input's second moments

  /// Returns the beginning that the names of its tensors share: "model.layers.0.mlp.down_proj."
  std::string stem() { return weight.getKey().drop_back(StringRef("weight").size()).str(); }
};

/// Returns the op that quantizes a linear's weight as an archive has it; null if there is none.
nn::QuantizeOp quantizeOf(ContractionOpInterface linear) {
  auto dequantize = linear.getRight().getDefiningOp<nn::DequantizeOp>();
  auto quantize = dequantize ? dequantize.getQuantized().getDefiningOp<nn::QuantizeOp>() : nullptr;
  return quantize && quantize.getInput().getDefiningOp<nn::WeightOp>() ? quantize : nullptr;
}

/// Writes one directory.
class Writer {
public:
  Writer(ModuleOp module, const QuantizedModelOptions &options, StepCallback step)
      : module(module), options(options), step(step), archives(module, options.model),
        pool(llvm::hardware_concurrency(options.threads)), files(options.model, options.output) {}

  Expected<std::vector<QuantizedMatrix>> write();

private:
  llvm::Error findMatrices();
  llvm::Error openInputs();
  Expected<std::vector<Matrix>> someMatrices();
  llvm::Error writeSome();
  llvm::Error writeErrors();
  llvm::Error writeModel();
  llvm::Error writeArchive(nn::ArchiveOp archive);
  Expected<CompressedMatrix> compress(Matrix &matrix, float *decoded);
  Expected<SharedSource> sourceOf(Matrix &matrix);
  Expected<Json> errorsOf(Matrix &matrix);
  /// Writes a matrix that a part holds; false if none does.
  Expected<bool> copyMatrix(Matrix &matrix, OutputFile &file);
  Expected<const InputMoments *> momentsOf(Matrix &matrix);
  Expected<CompressedMatrix> emptyMatrix(const Matrix &matrix, const TensorSource &source);
  llvm::Error forTiles(int64_t rows, int64_t distance, llvm::function_ref<llvm::Error(int64_t, int64_t)> encode);
  llvm::Error encodeTile(Matrix &matrix, const TensorSource &source, int64_t firstRow, int64_t rows,
                         const InputMoments *moments, CompressedMatrix &result, QuantizedMatrix &report, float *kept);

  ModuleOp module;
  const QuantizedModelOptions &options;
  StepCallback step;
  Archives archives;
  llvm::DefaultThreadPool pool;
  ModelFiles files;
  llvm::StringMap<llvm::StringMap<Matrix>> matrices; // by archive and key
  std::unique_ptr<SafetensorsFile> secondMoments;
  std::vector<std::unique_ptr<SafetensorsFile>> parts;
  std::string momentsName;             // of `moments`
  std::optional<InputMoments> moments; // of the matrix before, which often has the same input
  std::vector<QuantizedMatrix> reports;
  std::vector<std::pair<std::string, nn::BlockFormatAttr>> compressed; // names of modules
  Json weightMap = Json::object();
  std::mutex mutex;
};

llvm::Error Writer::findMatrices() {
  for (auto function : module.getOps<func::FuncOp>()) {
    DenseMap<Value, std::string> names; // of inputs
    llvm::Error error = llvm::Error::success();
    for (const LinearInput &input : inputsOfLinears(function))
      for (ContractionOpInterface linear : input.linears) {
        nn::QuantizeOp quantize = quantizeOf(linear);
        if (!quantize || error)
          continue;
        auto weight = quantize.getInput().getDefiningOp<nn::WeightOp>();
        bool isTable = llvm::any_of(weight->getUsers(), [](Operation *user) { return isa<nn::EmbeddingOp>(user); });
        for (Operation *user : quantize->getUsers())
          for (Operation *reader : user->getUsers())
            isTable |= isa<nn::EmbeddingOp>(reader);
        if (isTable || !weight.getKey().ends_with(".weight"))
          error = createStringError(
              llvm::formatv("'{0}' is {1}, which compressed-tensors has no format for; leave it to the compiler: "
                            "--quantize-parts=linears here, and again for the parts that are left",
                            weight.getKey(), isTable ? "also the embedding" : "not named '….weight'"));
        else if (std::string why = whyNotCompressed(quantize.getFormat(), weight.getType()); !why.empty())
          error = createStringError(llvm::formatv("'{0}': {1}", weight.getKey(), why));
        else
          matrices[weight.getArchive()].try_emplace(weight.getKey(),
                                                    Matrix{weight, quantize.getFormat(), nameOf(linear),
                                                           secondMomentsPrefix.str() + nameOf(input.linears.front())});
      }
    if (error)
      return error;
  }
  return matrices.empty() && !options.precision
             ? createStringError("no linear is quantized that has a weight of its own as a tensor of the "
                                 "model's files: give --quantize=int4 or another format")
             : llvm::Error::success();
}

llvm::Error Writer::openInputs() {
  FileVersions::note(options.secondMoments);
  if (!options.secondMoments.empty())
    if (Status status = SafetensorsFile::open(options.secondMoments, secondMoments); !status.ok())
      return createStringError(status.message());
  for (const std::string &path : options.parts) {
    FileVersions::note(path);
    if (Status status = SafetensorsFile::open(path, parts.emplace_back()); !status.ok())
      return createStringError(status.message());
  }
  return llvm::Error::success();
}

Expected<const InputMoments *> Writer::momentsOf(Matrix &matrix) {
  if (!secondMoments)
    return nullptr;
  if (momentsName == matrix.moments)
    return &*moments;
  int64_t features = cast<RankedTensorType>(matrix.weight.getType()).getShape().back();
  const ArchiveTensor *entry = secondMoments->find(matrix.moments);
  if (!entry)
    return createStringError(
        llvm::formatv("{0}: has no tensor '{1}', the inputs of '{2}': it was made of another model",
                      options.secondMoments, matrix.moments, matrix.linear));
  if (entry->dtype != "F32" || entry->shape != std::vector<int64_t>{features, features})
    return createStringError(llvm::formatv("{0}: tensor '{1}' is {2}, the inputs of '{3}' are {4} features of F32: it "
                                           "was made of another model",
                                           options.secondMoments, matrix.moments, typeText(entry->dtype, entry->shape),
                                           matrix.linear, features));
  std::vector<float> values(features * features);
  std::memcpy(values.data(), entry->data, entry->bytes());
  momentsName.clear();
  auto made = InputMoments::create(values, features, pool);
  if (!made)
    return createStringError(llvm::formatv("{0}: tensor '{1}': {2}", options.secondMoments, matrix.moments,
                                           llvm::toString(made.takeError())));
  moments.emplace(std::move(*made));
  momentsName = matrix.moments;
  return &*moments;
}

llvm::Error Writer::encodeTile(Matrix &matrix, const TensorSource &source, int64_t firstRow, int64_t rows,
                               const InputMoments *moments, CompressedMatrix &result, QuantizedMatrix &report,
                               float *kept) {
  int64_t columns = source.shape().back();
  BlockCodec codec(matrix.format, haveZeroPoints(matrix.format));
  size_t scaleBytes = codec.blockCount(columns) * codec.scaleBytes(), zeroCount = codec.zeroPointCount(columns);
  std::vector<float> weights(rows * columns), decoded(rows * columns);
  std::vector<uint8_t> quantized(rows * columns), scales(rows * scaleBytes), zeroPoints(rows * zeroCount);
  if (llvm::Error error = source.readFloats({firstRow * columns, rows * columns}, weights))
    return error;
  auto encodeToNearest = [&]() -> std::optional<size_t> {
    for (int64_t row = 0; row < rows; ++row)
      if (auto wrong = codec.encodeRow(ArrayRef(weights).slice(row * columns, columns), result.tensorScale,
                                       MutableArrayRef(quantized).slice(row * columns, columns),
                                       MutableArrayRef(scales).slice(row * scaleBytes, scaleBytes),
                                       MutableArrayRef(zeroPoints).slice(row * zeroCount, zeroCount)))
        return row * columns + *wrong;
    return std::nullopt;
  };
  auto decode = [&] {
    for (int64_t row = 0; row < rows; ++row)
      codec.decodeRow(ArrayRef(quantized).slice(row * columns, columns),
                      ArrayRef(scales).slice(row * scaleBytes, scaleBytes),
                      ArrayRef(zeroPoints).slice(row * zeroCount, zeroCount), result.tensorScale,
                      MutableArrayRef(decoded).slice(row * columns, columns));
  };
  double nearest = 0, error = 0, all = 0;
  std::optional<ErrorFeedback> feedback;
  std::optional<size_t> wrong;
  if (moments) {
    feedback.emplace(matrix.format, *moments);
    if (firstRow % measuredRows == 0) {
      if (!(wrong = encodeToNearest()))
        decode();
      nearest = feedback->outputError(weights, decoded, rows);
      all = feedback->outputError(weights, std::vector<float>(weights.size()), rows);
    }
    if (!wrong)
      wrong = feedback->encodeRows(weights, rows, result.tensorScale, quantized, scales, zeroPoints);
    if (!wrong && firstRow % measuredRows == 0) {
      decode();
      error = feedback->outputError(weights, decoded, rows);
    }
  } else if (options.searchScales) {
    wrong = encodeWithBestScales(matrix.format, weights, rows, result.tensorScale, quantized, scales, zeroPoints);
  } else {
    wrong = encodeToNearest();
  }
  if (wrong)
    return createStringError(llvm::formatv(
        "tensor '{0}' has {1} at {2}, which {3} cannot represent", matrix.weight.getKey(), weights[*wrong],
        source.originOf(firstRow * columns + *wrong).indices(), matrix.format.getName()));
  if (kept) {
    decode();
    llvm::copy(decoded, kept + firstRow * columns);
  }
  for (int64_t row = 0; row < rows; ++row)
    result.store(firstRow + row, ArrayRef(quantized).slice(row * columns, columns),
                 ArrayRef(scales).slice(row * scaleBytes, scaleBytes),
                 ArrayRef(zeroPoints).slice(row * zeroCount, zeroCount));
  std::lock_guard lock(mutex);
  report.error += error;
  report.nearest += nearest;
  report.reference += all;
  return llvm::Error::success();
}

/// Returns what is rounded: the weight, or what the calibration found to be a better aim.
Expected<SharedSource> Writer::sourceOf(Matrix &matrix) {
  auto type = cast<RankedTensorType>(matrix.weight.getType());
  std::string target = "target." + matrix.linear;
  if (const ArchiveTensor *entry = secondMoments ? secondMoments->find(target) : nullptr) {
    if (entry->dtype != "F32" || ArrayRef(entry->shape) != type.getShape())
      return createStringError(llvm::formatv(
          "{0}: tensor '{1}' is {2}, the weight is {3}: it was made of another model", options.secondMoments, target,
          typeText(entry->dtype, entry->shape), typeText("F32", type.getShape())));
    return std::make_shared<StoredTensor>(entry, type.getShape().vec(), entry->dtype, sizeof(float));
  }
  auto entry = findWeight(matrix.weight, archives);
  if (!entry)
    return entry.takeError();
  return std::make_shared<StoredTensor>(*entry, type.getShape().vec(), (*entry)->dtype,
                                        type.getElementTypeBitWidth() / 8);
}

/// Returns a matrix in the format of `matrix` that tiles of `source` can be stored in.
Expected<CompressedMatrix> Writer::emptyMatrix(const Matrix &matrix, const TensorSource &source) {
  int64_t rows = source.shape()[0], columns = source.shape()[1];
  CompressedMatrix result(matrix.format, rows, columns);
  if (matrix.format.hasTensorScale()) {
    std::vector<float> row(columns);
    float largest = 0;
    for (int64_t number = 0; number < rows; ++number) {
      if (llvm::Error error = source.readFloats({number * columns, columns}, row))
        return std::move(error);
      largest = std::max(largest, BlockCodec::largestMagnitude(row));
    }
    result.chooseTensorScale(largest);
  }
  result.allocate();
  return std::move(result);
}

/// Calls `encode(first row, rows)` on the threads of the pool, with a tile of rows at every multiple of `distance`.
llvm::Error Writer::forTiles(int64_t rows, int64_t distance, llvm::function_ref<llvm::Error(int64_t, int64_t)> encode) {
  llvm::ThreadPoolTaskGroup tasks(pool);
  std::string problem;
  for (int64_t first = 0; first < rows; first += distance)
    tasks.async([&, first] {
      if (llvm::Error error = encode(first, std::min<int64_t>(ErrorFeedback::kMostRows, rows - first))) {
        std::string message = llvm::toString(std::move(error));
        std::lock_guard lock(mutex);
        problem = message;
      }
    });
  tasks.wait();
  return problem.empty() ? llvm::Error::success() : createStringError(problem);
}

/// Rounds a matrix; its decoded weights go to `decoded` unless that is null.
Expected<CompressedMatrix> Writer::compress(Matrix &matrix, float *decoded) {
  step(matrix.linear);
  Expected<SharedSource> found = sourceOf(matrix);
  if (!found)
    return found.takeError();
  const TensorSource &source = **found;
  Expected<const InputMoments *> inputs = momentsOf(matrix);
  if (!inputs)
    return inputs.takeError();
  Expected<CompressedMatrix> result = emptyMatrix(matrix, source);
  if (!result)
    return result.takeError();
  int64_t rows = source.shape()[0], columns = source.shape()[1];
  QuantizedMatrix report{matrix.linear, describe(matrix.format), uint64_t(rows * columns), result->bytes()};
  llvm::Error error = forTiles(rows, ErrorFeedback::kMostRows, [&](int64_t first, int64_t count) {
    return encodeTile(matrix, source, first, count, *inputs, *result, report, decoded);
  });
  source.drop(0, rows * columns);
  if (error)
    return std::move(error);
  if (report.reference > 0) {
    report.error = std::sqrt(report.error / report.reference);
    report.nearest = std::sqrt(report.nearest / report.reference);
  }
  reports.push_back(report);
  return std::move(*result);
}

Expected<bool> Writer::copyMatrix(Matrix &matrix, OutputFile &file) {
  auto type = cast<RankedTensorType>(matrix.weight.getType());
  CompressedMatrix planned(matrix.format, type.getShape()[0], type.getShape()[1]);
  for (const std::unique_ptr<SafetensorsFile> &part : parts) {
    if (!part->find(matrix.stem() + planned.parts().front().name))
      continue;
    for (const CompressedMatrix::Part &tensor : planned.parts()) {
      const ArchiveTensor *entry = part->find(matrix.stem() + tensor.name);
      if (!entry || entry->dtype != tensor.dtype || entry->shape != tensor.shape)
        return createStringError(llvm::formatv("{0}: '{1}{2}' is {3}, expected {4}: it was made for another format",
                                               part->name(), matrix.stem(), tensor.name,
                                               entry ? typeText(entry->dtype, entry->shape) : "missing",
                                               typeText(tensor.dtype, tensor.shape)));
      if (Status status = file.write(entry->data, entry->bytes()); !status.ok())
        return createStringError(status.message());
    }
    QuantizedMatrix report{matrix.linear, describe(matrix.format), uint64_t(type.getNumElements()), planned.bytes()};
    for (auto [name, value] : {std::pair("error.", &report.error), std::pair("nearest.", &report.nearest)})
      if (std::optional<std::string> text = part->metadata(name + matrix.linear))
        *value = std::strtod(text->c_str(), nullptr);
    reports.push_back(report);
    return true;
  }
  return false;
}

llvm::Error Writer::writeArchive(nn::ArchiveOp archive) {
  auto opened = archives.openSafetensors(FlatSymbolRefAttr::get(archive.getSymNameAttr()),
                                         "directories of safetensors can be quantized so");
  if (!opened)
    return opened.takeError();
  std::vector<const ArchiveTensor *> tensors = (*opened)->tensors();
  llvm::StringMap<Matrix> &here = matrices[archive.getSymName()];
  Json header = Json::object();
  header["__metadata__"] = {{"format", "pt"}}; // what transformers asks for
  uint64_t at = 0;
  auto add = [&](const std::string &name, StringRef dtype, const std::vector<int64_t> &shape, uint64_t bytes) {
    header[name] = {{"dtype", dtype.str()}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
    weightMap[name] = archive.getFile().str();
    at += bytes;
  };
  for (const ArchiveTensor *entry : tensors) {
    auto matrix = here.find(entry->name);
    if (matrix == here.end()) {
      add(entry->name, entry->dtype, entry->shape, entry->bytes());
      continue;
    }
    CompressedMatrix planned(matrix->second.format, entry->shape[0], entry->shape[1]);
    for (const CompressedMatrix::Part &part : planned.parts())
      add(matrix->second.stem() + part.name, part.dtype, part.shape, part.bytes());
  }
  auto file = files.create(files.pathOf(archive.getFile()), header);
  if (!file)
    return file.takeError();
  Status status;
  for (const ArchiveTensor *entry : tensors) {
    auto found = here.find(entry->name);
    if (found == here.end()) {
      status = (*file)->write(entry->data, entry->bytes());
      dropPages(entry->data, entry->bytes());
    } else {
      Matrix &matrix = found->second;
      compressed.emplace_back(StringRef(matrix.stem()).drop_back().str(), matrix.format);
      Expected<bool> isCopied = copyMatrix(matrix, **file);
      if (!isCopied)
        return isCopied.takeError();
      if (!*isCopied) {
        Expected<CompressedMatrix> result = compress(matrix, /*decoded=*/nullptr);
        if (!result)
          return result.takeError();
        status = result->write(**file);
      }
    }
    if (!status.ok())
      return createStringError(status.message());
  }
  status = (*file)->close();
  return status.ok() ? llvm::Error::success() : createStringError(status.message());
}

/// Returns the matrices whose linears have names that options.linears matches. Those with one input are together.
Expected<std::vector<Matrix>> Writer::someMatrices() {
  llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(options.linears, kMostAlternatives);
  if (!pattern)
    return createStringError(
        llvm::formatv("'{0}' is no glob: {1}", options.linears, llvm::toString(pattern.takeError())));
  std::vector<Matrix> chosen;
  for (auto &archive : matrices)
    for (auto &entry : archive.second)
      if (pattern->match(entry.second.linear))
        chosen.push_back(entry.second);
  llvm::sort(chosen, [](const Matrix &a, const Matrix &b) { return a.moments + a.linear < b.moments + b.linear; });
  return std::move(chosen);
}

/// Returns the errors of a matrix's outputs by format, measured on the tiles that compress() measures them on.
Expected<Json> Writer::errorsOf(Matrix &matrix) {
  step(matrix.linear);
  Expected<SharedSource> source = sourceOf(matrix);
  if (!source)
    return source.takeError();
  Expected<const InputMoments *> inputs = momentsOf(matrix);
  if (!inputs)
    return inputs.takeError();
  int64_t rows = (*source)->shape()[0];
  Json errors = Json::object();
  for (const std::string &name : options.errorFormats) {
    auto format = parseWeightFormat(name, module.getContext());
    if (!format)
      return format.takeError();
    Matrix other = matrix;
    other.format = *format;
    if (!whyNotCompressed(*format, matrix.weight.getType()).empty())
      continue;
    Expected<CompressedMatrix> result = emptyMatrix(other, **source);
    if (!result)
      return result.takeError();
    QuantizedMatrix report;
    if (llvm::Error error = forTiles(rows, measuredRows, [&](int64_t first, int64_t count) {
          return encodeTile(other, **source, first, count, *inputs, *result, report, /*kept=*/nullptr);
        }))
      return std::move(error);
    errors[name] = report.reference > 0 ? std::sqrt(report.error / report.reference) : 0.0;
  }
  return std::move(errors);
}

llvm::Error Writer::writeErrors() {
  Expected<std::vector<Matrix>> chosen = someMatrices();
  if (!chosen)
    return chosen.takeError();
  Json errors = Json::object();
  for (Matrix &matrix : *chosen) {
    Expected<Json> found = errorsOf(matrix);
    if (!found)
      return found.takeError();
    errors[matrix.linear] = std::move(*found);
  }
  return files.writeText(options.output, errors.dump() + "\n");
}

/// Writes the matrices of someMatrices(), and the weights that they mean.
llvm::Error Writer::writeSome() {
  Expected<std::vector<Matrix>> some = someMatrices();
  if (!some)
    return some.takeError();
  std::vector<Matrix> &chosen = *some;
  Json header = Json::object(), decodedHeader = Json::object();
  uint64_t at = 0, decodedAt = 0;
  auto add = [](Json &header, uint64_t &at, const std::string &name, StringRef dtype, ArrayRef<int64_t> shape,
                uint64_t bytes) {
    header[name] = {{"dtype", dtype.str()}, {"shape", shape.vec()}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  };
  for (Matrix &matrix : chosen) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(matrix.weight.getType()).getShape();
    CompressedMatrix planned(matrix.format, shape[0], shape[1]);
    for (const CompressedMatrix::Part &part : planned.parts())
      add(header, at, matrix.stem() + part.name, part.dtype, part.shape, part.bytes());
    add(decodedHeader, decodedAt, matrix.weight.getKey().str(), "F32", shape, shape[0] * shape[1] * sizeof(float));
  }
  std::unique_ptr<OutputFile> decodedFile;
  if (!options.decoded.empty()) {
    auto created = files.create(options.decoded, decodedHeader);
    if (!created)
      return created.takeError();
    decodedFile = std::move(*created);
  }
  Status status;
  std::vector<CompressedMatrix> results;
  for (Matrix &matrix : chosen) {
    std::vector<float> decoded(decodedFile ? cast<RankedTensorType>(matrix.weight.getType()).getNumElements() : 0);
    Expected<CompressedMatrix> result = compress(matrix, decodedFile ? decoded.data() : nullptr);
    if (!result)
      return result.takeError();
    results.push_back(std::move(*result));
    if (decodedFile)
      status = decodedFile->write(decoded.data(), decoded.size() * sizeof(float));
    if (!status.ok())
      return createStringError(status.message());
  }
  // The figures of the table that is printed when parts become a model.
  for (const QuantizedMatrix &report : reports) {
    header["__metadata__"]["error." + report.name] = llvm::formatv("{0:E6}", report.error).str();
    header["__metadata__"]["nearest." + report.name] = llvm::formatv("{0:E6}", report.nearest).str();
  }
  auto file = files.create(options.output, header);
  if (!file)
    return file.takeError();
  for (const CompressedMatrix &result : results)
    if (status = result.write(**file); !status.ok())
      return createStringError(status.message());
  status = (*file)->close();
  if (status.ok() && decodedFile)
    status = decodedFile->close();
  return status.ok() ? llvm::Error::success() : createStringError(status.message());
}

llvm::Error Writer::writeModel() {
  Expected<Json> config = files.readJson("config.json");
  if (!config)
    return config.takeError();
  if (std::error_code code = llvm::sys::fs::create_directories(options.output))
    return createStringError(options.output + ": cannot be made: " + code.message());
  size_t archiveCount = 0;
  for (auto archive : module.getOps<nn::ArchiveOp>()) {
    if (llvm::Error error = writeArchive(archive))
      return error;
    ++archiveCount;
  }
  step("files");
  if (archiveCount > 1)
    if (llvm::Error error =
            files.writeText(files.pathOf("model.safetensors.index.json"),
                            Json{{"metadata", Json::object()}, {"weight_map", weightMap}}.dump(2) + "\n"))
      return error;
  if (llvm::Error error = files.copyOthers())
    return error;
  if (!compressed.empty())
    (*config)["quantization_config"] = compressedTensorsConfig(compressed);
  return files.writeText(files.pathOf("config.json"), config->dump(2) + "\n");
}

Expected<std::vector<QuantizedMatrix>> Writer::write() {
  if (llvm::Error error = findMatrices())
    return std::move(error);
  if (llvm::Error error = openInputs())
    return std::move(error);
  if (llvm::Error error = options.linears.empty()        ? writeModel()
                          : options.errorFormats.empty() ? writeSome()
                                                         : writeErrors())
    return files.named(std::move(error));
  if (llvm::Error error = files.keep())
    return std::move(error);
  return std::move(reports);
}

} // namespace
} // namespace quantize

llvm::Error checkQuantizedModel(const QuantizedModelOptions &options) {
  if (!llvm::sys::fs::is_directory(options.model))
    return createStringError(options.model + ": --emit=huggingface needs a model directory (config.json and "
                                             "*.safetensors)");
  if (llvm::sys::fs::equivalent(options.model, options.output))
    return createStringError(options.output + ": is the model that is read; choose another directory for the result");
  if (options.linears.empty() && llvm::sys::fs::exists(options.output) && !llvm::sys::fs::is_directory(options.output))
    return createStringError(options.output + ": is no directory");
  if (!options.secondMoments.empty() && !llvm::sys::fs::exists(options.secondMoments))
    return createStringError(options.secondMoments + ": there is no such file; `intarsia quantize` makes it");
  if (!options.errorFormats.empty() && (options.linears.empty() || options.secondMoments.empty()))
    return createStringError("errors of outputs (--errors) are those of --linears on a text: give --linears=GLOB and "
                             "--second-moments=FILE too");
  return llvm::Error::success();
}

Expected<std::vector<QuantizedMatrix>> writeQuantizedModel(ModuleOp module, const QuantizedModelOptions &options,
                                                           llvm::function_ref<void(StringRef)> step) {
  if (options.precision && !options.precision->inputs.empty())
    return createStringError("the model has inputs in blocks of 8 and of 4 bits, and weights that are quantized in the "
                             "order of their features when it is compiled: give the model that it was made of");
  return quantize::Writer(module, options, step).write();
}

} // namespace intarsia
