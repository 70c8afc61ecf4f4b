//===- PrecisionFile.cpp - Formats of a model's tensors and caches, in a file beside its weights -----------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Quantize/PrecisionFile.h"

#include "dialects/Nn/Nn.h"
#include "lib/Support/File.h"
#include "lib/Support/FileVersions.h"
#include "lib/Support/Hash.h"
#include "lib/Support/Json.h"
#include "lib/Weights/Archives.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using llvm::createStringError;
using llvm::Expected;

namespace intarsia {
namespace {

constexpr int kForm = 1;
/// Bytes of a tensor that are hashed at its beginning, middle and end: a page of memory each.
constexpr uint64_t kHashedBytes = 4096;

/// Reads an object of names and texts.
llvm::Error readEntries(const Json &file, const char *section, const std::string &path,
                        std::vector<std::pair<std::string, std::string>> &entries) {
  auto found = file.find(section);
  if (found == file.end())
    return llvm::Error::success();
  if (!found->is_object())
    return createStringError(llvm::formatv("{0}: '{1}' is no object of names and formats", path, section));
  for (const auto &[name, format] : found->items()) {
    if (!format.is_string())
      return createStringError(llvm::formatv("{0}: '{1}' of '{2}' is no text", path, name, section));
    entries.emplace_back(name, format.get<std::string>());
  }
  return llvm::Error::success();
}

/// Reads a list of inputs, each with the keys of its weights and the given settings.
llvm::Error readEach(const Json &file, const char *section, llvm::ArrayRef<const char *> settings,
                     const std::string &path,
                     llvm::function_ref<llvm::Error(const Json &, std::vector<std::string>)> read) {
  auto found = file.find(section);
  if (found == file.end())
    return llvm::Error::success();
  if (!found->is_array())
    return createStringError(llvm::formatv("{0}: '{1}' is no list", path, section));
  for (const auto &[number, entry] : llvm::enumerate(*found)) {
    auto wrong = [&](const llvm::Twine &what) {
      return createStringError(llvm::formatv("{0}: input {1} of '{2}': {3}", path, number, section, what.str()));
    };
    bool isWhole = entry.is_object() && entry.contains("weights") && entry.size() == settings.size() + 1 &&
                   llvm::all_of(settings, [&entry = entry](const char *name) { return entry.contains(name); });
    if (!isWhole)
      return wrong("of it must be said 'weights', '" + llvm::join(settings, "', '") + "'");
    const Json &weights = entry["weights"];
    if (!weights.is_array() || !llvm::all_of(weights, [](const Json &value) { return value.is_string(); }))
      return wrong("'weights' is no list of keys");
    if (llvm::Error error = read(entry, weights.get<std::vector<std::string>>()))
      return wrong(llvm::toString(std::move(error)));
  }
  return llvm::Error::success();
}

/// Reads a list of inputs: {"weights": [keys], "channels": [numbers], "wide_blocks": number}.
llvm::Error readInputs(const Json &file, const std::string &path, std::vector<MixedInput> &inputs) {
  auto read = [&](const Json &entry, std::vector<std::string> weights) -> llvm::Error {
    const Json &channels = entry["channels"], &wide = entry["wide_blocks"];
    auto isChannel = [&](const Json &value) {
      return value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < int64_t(channels.size());
    };
    if (!channels.is_array() || !llvm::all_of(channels, isChannel))
      return createStringError("'channels' is no list of features");
    if (!wide.is_number_integer())
      return createStringError("'wide_blocks' is no number");
    inputs.push_back({std::move(weights), channels.get<std::vector<int32_t>>(), wide.get<int64_t>()});
    return inputs.back().check();
  };
  return readEach(file, "inputs", {"channels", "wide_blocks"}, path, read);
}

/// Reads a list of inputs: {"weights": [keys], "factors": [numbers]}.
llvm::Error readStaticInputs(const Json &file, const std::string &path, std::vector<StaticInput> &inputs) {
  auto read = [&](const Json &entry, std::vector<std::string> weights) -> llvm::Error {
    const Json &factors = entry["factors"];
    if (!factors.is_array() || !llvm::all_of(factors, [](const Json &value) { return value.is_number(); }))
      return createStringError("'factors' is no list of numbers");
    inputs.push_back({std::move(weights), factors.get<std::vector<float>>()});
    return inputs.back().check();
  };
  return readEach(file, "static_inputs", {"factors"}, path, read);
}

std::vector<std::string> optionsOf(const std::vector<std::pair<std::string, std::string>> &entries) {
  std::vector<std::string> options;
  for (const auto &[name, format] : entries)
    options.push_back(name + "=" + format);
  return options;
}

void hashSample(Hasher &hasher, const ArchiveTensor &tensor, uint64_t begin) {
  const char *data = static_cast<const char *>(tensor.data);
  hasher.update(data + begin, std::min(kHashedBytes, tensor.bytes() - begin));
}

} // namespace

Expected<PrecisionFile> PrecisionFile::read(const std::string &path) {
  FileVersions::note(path);
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(path + ": cannot be read: " + buffer.getError().message());
  Json file;
  if (Status status = parseJson((*buffer)->getBuffer(), path, file); !status.ok())
    return createStringError(status.message());
  if (!file.is_object() || !file.contains("intarsia_precision"))
    return createStringError(path + ": is no file of formats as `intarsia quantize` writes it");
  if (file["intarsia_precision"] != kForm)
    return createStringError(llvm::formatv("{0}: has the form {1}, this version reads {2}: quantize the model again",
                                           path, jsonText(file["intarsia_precision"]), kForm));
  static constexpr llvm::StringLiteral known[] = {"intarsia_precision", "model", "tensors", "caches", "inputs",
                                                  "static_inputs"};
  for (const auto &[name, value] : file.items())
    if (!llvm::is_contained(known, StringRef(name)))
      return createStringError(llvm::formatv("{0}: the setting '{1}' is not known", path, name));
  PrecisionFile result;
  if (!file.contains("model") || !file["model"].is_string())
    return createStringError(path + ": 'model' is no hash of a model");
  result.model = file["model"].get<std::string>();
  if (llvm::Error error = readEntries(file, "tensors", path, result.tensors))
    return std::move(error);
  if (llvm::Error error = readEntries(file, "caches", path, result.caches))
    return std::move(error);
  if (llvm::Error error = readInputs(file, path, result.inputs))
    return std::move(error);
  if (llvm::Error error = readStaticInputs(file, path, result.staticInputs))
    return std::move(error);
  return result;
}

std::string PrecisionFile::text() const {
  Json file = {
      {"intarsia_precision", kForm}, {"model", model}, {"tensors", Json::object()}, {"caches", Json::object()}};
  for (const auto &[name, format] : tensors)
    file["tensors"][name] = format;
  for (const auto &[name, format] : caches)
    file["caches"][name] = format;
  for (const MixedInput &input : inputs)
    file["inputs"].push_back(
        {{"weights", input.weights}, {"channels", input.channels}, {"wide_blocks", input.wideBlocks}});
  for (const StaticInput &input : staticInputs)
    file["static_inputs"].push_back({{"weights", input.weights}, {"factors", input.factors}});
  return jsonText(file, 2) + "\n";
}

std::vector<std::string> PrecisionFile::tensorOptions() const { return optionsOf(tensors); }
std::vector<std::string> PrecisionFile::cacheOptions() const { return optionsOf(caches); }

template <typename Input> static std::vector<std::string> optionsOf(const std::vector<Input> &inputs) {
  std::vector<std::string> options;
  for (const Input &input : inputs)
    options.push_back(input.option());
  return options;
}

std::vector<std::string> PrecisionFile::inputOptions() const { return optionsOf(inputs); }
std::vector<std::string> PrecisionFile::staticInputOptions() const { return optionsOf(staticInputs); }

Expected<std::string> hashModel(ModuleOp module, StringRef archiveDirectory) {
  weights::Archives archives(module, archiveDirectory);
  Hasher hasher;
  for (auto archive : module.getOps<nn::ArchiveOp>()) {
    auto opened = archives.openSafetensors(FlatSymbolRefAttr::get(archive.getSymNameAttr()),
                                           "files of formats are for safetensors");
    if (!opened)
      return opened.takeError();
    for (const ArchiveTensor *tensor : (*opened)->tensors()) {
      std::string text = tensor->name + " " + weights::typeText(tensor->dtype, tensor->shape) + "\n";
      hasher.update(text.data(), text.size());
      uint64_t bytes = tensor->bytes(), last = bytes - std::min(bytes, kHashedBytes);
      hashSample(hasher, *tensor, 0);
      hashSample(hasher, *tensor, last / 2);
      hashSample(hasher, *tensor, last);
    }
  }
  return hashText(hasher.finish());
}

llvm::Error checkPrecisionFile(const PrecisionFile &file, StringRef name, ModuleOp module, StringRef archiveDirectory) {
  Expected<std::string> hash = hashModel(module, archiveDirectory);
  if (!hash)
    return hash.takeError();
  if (*hash != file.model)
    return createStringError(llvm::formatv("{0}: names formats for another model: it is about weights with the hash "
                                           "{1}, those here have {2}; quantize this model with `intarsia quantize`, or "
                                           "remove the file",
                                           name, file.model, *hash));
  llvm::StringSet<> keys;
  weights::Archives archives(module, archiveDirectory);
  for (auto archive : module.getOps<nn::ArchiveOp>()) {
    auto opened = archives.open(FlatSymbolRefAttr::get(archive.getSymNameAttr()));
    if (!opened)
      return opened.takeError();
    for (const ArchiveTensor *tensor : (*opened)->tensors())
      keys.insert(tensor->name);
  }
  for (const auto &[key, format] : file.tensors)
    if (!keys.contains(key) && !keys.contains(key + "_packed"))
      return createStringError(
          llvm::formatv("{0}: names a format for '{1}', which the model does not have", name, key));
  std::vector<std::string> named;
  for (const MixedInput &input : file.inputs)
    llvm::append_range(named, input.weights);
  for (const StaticInput &input : file.staticInputs)
    llvm::append_range(named, input.weights);
  for (const std::string &key : named)
    if (!keys.contains(key))
      return createStringError(llvm::formatv("{0}: names an input of '{1}', which the model does not have", name, key));
  return llvm::Error::success();
}

llvm::Error writePrecisionFile(PrecisionFile file, ModuleOp module, StringRef directory) {
  Expected<std::string> hash = hashModel(module, directory);
  if (!hash)
    return hash.takeError();
  file.model = *hash;
  std::string text = file.text();
  SmallString<128> path(directory);
  llvm::sys::path::append(path, precisionFileName);
  std::unique_ptr<AtomicFile> output;
  Status status = AtomicFile::create(path.str().str(), output);
  if (status.ok())
    status = output->write(text.data(), text.size());
  if (status.ok())
    status = output->commit();
  return status.ok() ? llvm::Error::success() : createStringError(status.message());
}

} // namespace intarsia
