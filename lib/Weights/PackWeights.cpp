//===- PackWeights.cpp - Weights as kernels read them ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/PackWeights.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/module_abi.h"
#include "lib/Support/Hash.h"
#include "lib/Weights/CarriedFiles.h"
#include "lib/Weights/Recipes.h"
#include "lib/Weights/WeightItem.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>

using namespace mlir;
using llvm::createStringError;

namespace intarsia::weights {

static constexpr llvm::StringLiteral producerKey = "packed_by", producerValue = "intarsia", ownerKey = "artifact",
                                     hashKey = "data_hash";

std::optional<std::string> ownerOfPackedArchive(const std::string &path) {
  std::unique_ptr<SafetensorsFile> file;
  if (!SafetensorsFile::open(path, file).ok())
    return std::nullopt;
  if (file->metadata(producerKey) != producerValue)
    return std::nullopt;
  return file->metadata(ownerKey).value_or("");
}

namespace {

/// Keeps the hash's bytes free in the header, whose size must not change once the data behind it are hashed.
constexpr llvm::StringLiteral unknownHash = "00000000000000000000000000000000";

bool isZero(StringRef bytes) {
  return bytes.empty() || (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

} // namespace

struct WeightPacker::State {
  explicit State(ModuleOp module, StringRef directory) : archives(module, directory) {}
  Archives archives;
  std::vector<Item> items; // in the order of the module, files after them
  std::vector<PackedFile> files;
  llvm::StringSet<> names;
  std::map<std::string_view, std::set<const ArchiveTensor *>> decoded; // tensors by their type

  llvm::Error add(rt::ConstantOp constant);
  void add(CarriedFile file);
  void makeUnique(std::string &name);
  std::string header(llvm::StringRef owner, std::vector<Item> &padding);
};

llvm::Error WeightPacker::State::add(rt::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  auto recipe = readRecipe(constant, archives);
  if (!recipe)
    return recipe.takeError();
  StringRef dtype = safetensorsDtype(type.getElementType());
  if (dtype.empty())
    return createStringError("constant '" + constant.getSymName() + "' has elements that archives do not hold");
  auto storage = constant.getLayout().makeStorage(type, dtype);
  if (!storage)
    return createStringError("constant '" + constant.getSymName() + "', " + typeText(dtype, type.getShape()) + ": " +
                             llvm::toString(storage.takeError()));
  Item item;
  item.storage = std::move(*storage);
  item.source = recipe->source;
  item.name = recipe->name + item.storage->suffix;
  item.dtype = item.storage->dtype;
  item.shape = item.storage->shape;
  item.bytes = item.storage->pieces * item.storage->pieceBytes;
  item.tensors = recipe->tensors;
  item.mayBeInfinite = recipe->hasConstants;
  if (!item.storage->isQuantized && !recipe->isQuantized)
    for (auto [tensor, blocks] : recipe->blocks)
      decoded[blocks->name].insert(tensor);
  makeUnique(item.name);
  items.push_back(std::move(item));
  return llvm::Error::success();
}

void WeightPacker::State::add(CarriedFile file) {
  Item item;
  item.name = "file." + file.name;
  makeUnique(item.name);
  item.dtype = "U8";
  item.bytes = file.bytes.size();
  item.shape = {int64_t(item.bytes)};
  item.data = std::move(file.bytes);
  files.push_back({file.name, item.name, hashTextOf(item.data.data(), item.data.size())});
  items.push_back(std::move(item));
}

void WeightPacker::State::makeUnique(std::string &name) {
  std::string first = name;
  for (unsigned count = 2; !names.insert(name).second; ++count)
    name = first + "." + std::to_string(count);
}

/// Lays out the items and returns the file's first bytes: the header's length and the header. A reader of safetensors
/// may refuse gaps between tensors, so gaps are tensors too.
std::string WeightPacker::State::header(llvm::StringRef owner, std::vector<Item> &padding) {
  uint64_t offset = 0;
  for (Item &item : items) {
    item.begin = offset;
    offset += item.bytes;
    if (uint64_t gap = llvm::offsetToAlignment(offset, llvm::Align(ITX_BUFFER_ALIGNMENT))) {
      Item filler;
      filler.name = "padding." + std::to_string(padding.size());
      filler.dtype = "U8";
      filler.shape = {int64_t(gap)};
      filler.data.resize(gap);
      filler.bytes = gap;
      filler.begin = offset;
      padding.push_back(std::move(filler));
      offset += gap;
    }
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  json.object([&] {
    json.attributeObject("__metadata__", [&] {
      json.attribute(producerKey, producerValue);
      if (!owner.empty())
        json.attribute(ownerKey, llvm::json::fixUTF8(owner));
      json.attribute(hashKey, unknownHash);
    });
    for (const std::vector<Item> *list : {&items, &padding}) {
      for (const Item &item : *list) {
        json.attributeObject(item.name, [&] {
          json.attribute("dtype", item.dtype);
          json.attributeArray("shape", [&] {
            for (int64_t size : item.shape)
              json.value(size);
          });
          json.attributeArray("data_offsets", [&] {
            json.value(item.begin);
            json.value(item.begin + item.bytes);
          });
        });
      }
    }
  });
  text.append(llvm::offsetToAlignment(text.size() + 8, llvm::Align(ITX_BUFFER_ALIGNMENT)), ' ');
  uint64_t length = text.size();
  std::string result(8, '\0');
  for (unsigned byte = 0; byte < 8; ++byte)
    result[byte] = char(length >> (8 * byte));
  return result + text;
}

WeightPacker::WeightPacker() = default;
WeightPacker::WeightPacker(WeightPacker &&) = default;
WeightPacker::~WeightPacker() = default;
bool WeightPacker::empty() const { return state->items.empty(); }

llvm::Expected<WeightPacker> WeightPacker::create(ModuleOp module, StringRef archiveDirectory) {
  WeightPacker packer;
  packer.state = std::make_unique<State>(module, archiveDirectory);
  for (auto constant : module.getOps<rt::ConstantOp>())
    if (llvm::Error error = packer.state->add(constant))
      return error;
  auto files = readCarriedFiles(module, archiveDirectory);
  if (!files)
    return files.takeError();
  for (CarriedFile &file : *files)
    packer.state->add(std::move(file));
  std::string decoded;
  size_t count = 0;
  for (const auto &[type, tensors] : packer.state->decoded) {
    decoded += (count ? ", " : "") + std::to_string(tensors.size()) + " " + std::string(type);
    count += tensors.size();
  }
  if (count)
    emitRemark(module.getLoc()) << count << (count == 1 ? " tensor is" : " tensors are")
                                << " stored decoded to f32, which no kernel reads as blocks: " << decoded;
  return packer;
}

llvm::Expected<PackedWeights> WeightPacker::write(const std::string &path, llvm::StringRef owner, unsigned threads) {
  PackedWeights result;
  for (const Item &item : llvm::ArrayRef(state->items).drop_back(state->files.size())) {
    result.tensors.push_back(item.name);
    result.tensorBytes.push_back(item.bytes);
  }
  result.files = state->files;
  std::vector<Item> padding;
  std::string header = state->header(owner, padding);

  std::vector<const Item *> placed;
  for (const Item &item : state->items)
    placed.push_back(&item);
  for (const Item &item : padding)
    placed.push_back(&item);
  llvm::stable_sort(placed, [](const Item *a, const Item *b) { return a->begin < b->begin; });
  std::vector<Unit> units;
  uint64_t dataBytes = 0;
  for (const Item *item : placed) {
    divide(*item, header.size(), units);
    dataBytes = item->begin + item->bytes;
  }
  result.bytes = header.size() + dataBytes;

  int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  auto failed = [&](int code) {
    return createStringError(path + ": cannot write the packed weights (" + Twine(result.bytes) +
                             " bytes): " + llvm::sys::StrError(code));
  };
  if (file < 0)
    return failed(errno);
  std::atomic<int> errorCode = 0;
  auto store = [&](StringRef bytes, uint64_t offset) {
    while (!bytes.empty() && !errorCode) {
      ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
      if (written < 0 && errno != EINTR)
        errorCode = errno;
      if (written > 0) {
        bytes = bytes.drop_front(written);
        offset += written;
      }
    }
  };
  if (::ftruncate(file, result.bytes) != 0)
    errorCode = errno;
  Hasher hasher;

  // Units are made in any order, but hashed in the order of the file.
  std::atomic<size_t> next = 0;
  size_t hashed = 0;
  std::mutex mutex;
  std::condition_variable turn;
  std::string problem; // message about a value that its format cannot represent
  std::set<const Item *> withoutMeaning;
  auto work = [&] {
    UnitMemory memory;
    for (size_t number; (number = next++) < units.size();) {
      const Unit &unit = units[number];
      const Item &item = *unit.item;
      StringRef bytes;
      if (llvm::Expected<StringRef> made = makeUnit(unit, memory)) {
        bytes = *made;
      } else {
        std::lock_guard lock(mutex);
        problem = llvm::toString(made.takeError());
      }
      if (!isZero(bytes))
        store(bytes, unit.fileOffset);
      bool hasMeaning = !item.source || item.mayBeInfinite || areFinite(item.dtype, bytes);
      {
        std::unique_lock lock(mutex);
        if (!hasMeaning)
          withoutMeaning.insert(&item);
        turn.wait(lock, [&] { return hashed == number; });
        hasher.update(bytes.data(), bytes.size());
        ++hashed;
      }
      turn.notify_all();
      dropSources(unit);
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::min<size_t>(threads, units.size()); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  for (const Item &item : state->items)
    if (withoutMeaning.count(&item))
      result.warnings.push_back(describeNonFinite(item));
  // The header contains the hash of the data, so that other weights of the same shapes have another header.
  result.hash = hashText(hasher.finish());
  std::string key = ("\"" + hashKey + "\":\"").str();
  header.replace(header.find(key) + key.size(), unknownHash.size(), result.hash);
  result.headerHash = hashTextOf(header.data(), header.size());
  store(header, 0);
  if (::close(file) != 0 && !errorCode)
    errorCode = errno;
  if (!problem.empty())
    return createStringError(problem);
  if (errorCode)
    return failed(errorCode);
  return result;
}

} // namespace intarsia::weights
