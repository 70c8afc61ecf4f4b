//===- PackWeights.cpp - Weights as kernels read them ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/PackWeights.h"

#include "dialects/Nn/Nn.h"
#include "intarsia/Assemble/Assemble.h"
#include "intarsia/Quantize/BlockPanels.h"
#include "intarsia/module_abi.h"
#include "lib/Assemble/CarriedFiles.h"
#include "lib/Assemble/Mxfp4.h"
#include "lib/Assemble/WeightItem.h"
#include "lib/Support/Hash.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
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

namespace intarsia::assemble {

static constexpr llvm::StringLiteral producerKey = "packed_by", producerValue = "intarsia", ownerKey = "artifact",
                                     hashKey = "data_hash";

llvm::StringRef safetensorsDtype(Type type) {
  return llvm::TypeSwitch<Type, StringRef>(type)
      .Case([](Float64Type) { return "F64"; })
      .Case([](Float32Type) { return "F32"; })
      .Case([](Float16Type) { return "F16"; })
      .Case([](BFloat16Type) { return "BF16"; })
      .Case([](Float8E4M3FNType) { return "F8_E4M3"; })
      .Case([](Float8E5M2Type) { return "F8_E5M2"; })
      .Case([](IntegerType integer) -> StringRef {
        bool isUnsigned = integer.isUnsigned();
        switch (integer.getWidth()) {
        case 1:
          return "BOOL";
        case 8:
          return isUnsigned ? "U8" : "I8";
        case 16:
          return isUnsigned ? "U16" : "I16";
        case 32:
          return isUnsigned ? "U32" : "I32";
        case 64:
          return isUnsigned ? "U64" : "I64";
        default:
          return "";
        }
      })
      .Default([](Type) { return ""; });
}

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

constexpr uint64_t unitBytes = 2 << 20; // about the size of a core's second-level cache

bool isZero(StringRef bytes) {
  return bytes.empty() || (bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

/// Returns the product of sizes, nullopt if it does not fit in 64 bits.
std::optional<int64_t> productOf(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    if (llvm::MulOverflow(product, size, product))
      return std::nullopt;
  return product;
}

std::vector<char> dataOf(DenseElementsAttr value) {
  std::vector<char> data;
  int64_t elements = value.getNumElements();
  if (value.getElementType().isInteger(1)) {
    for (bool bit : value.getValues<bool>())
      data.push_back(bit);
    return data;
  }
  ArrayRef<char> raw = value.getRawData();
  if (!value.isSplat())
    return std::vector<char>(raw.begin(), raw.end());
  for (int64_t i = 0; i < elements; ++i)
    data.insert(data.end(), raw.begin(), raw.end());
  return data;
}

} // namespace

struct WeightPacker::State {
  explicit State(ModuleOp module, StringRef directory) : archives(module, directory) {}
  Archives archives;
  std::vector<Item> items; // in the order of the module, files after them
  std::vector<PackedFile> files;
  llvm::StringSet<> names;
  std::map<std::string_view, std::set<const SafetensorsEntry *>> decoded; // tensors by their type

  llvm::Error add(rt::ConstantOp constant);
  void add(CarriedFile file);
  void makeUnique(std::string &name);
  std::string header(llvm::StringRef owner, std::vector<Item> &padding);
};

llvm::Error WeightPacker::State::add(rt::ConstantOp constant) {
  auto type = cast<RankedTensorType>(constant.getType());
  Item item;
  item.dtype = safetensorsDtype(type.getElementType()).str();
  if (item.dtype.empty())
    return createStringError("constant '" + constant.getSymName() + "' has elements that archives do not hold");
  item.elementBytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  item.transposed = constant.getTransposed();
  item.mxfp4 = constant.getMxfp4();
  item.format = dyn_cast_or_null<nn::BlockFormatAttr>(constant.getFormatAttr());
  SmallVector<int64_t> sizes(type.getShape());
  sizes.push_back(item.elementBytes);
  std::optional<int64_t> bytesOfType = productOf(sizes);
  if (!bytesOfType)
    return createStringError("constant '" + constant.getSymName() + "' is " + typeText(item.dtype, type.getShape()) +
                             ", which has more bytes than 64 bits hold");
  uint64_t wanted = *bytesOfType;

  if (constant.getValue()) {
    auto value = dyn_cast<DenseElementsAttr>(*constant.getValue());
    if (!value)
      return createStringError("constant '" + constant.getSymName() + "': its data is not held as dense elements");
    item.name = constant.getSymName().str();
    item.data = dataOf(value);
    item.dataEntry = std::make_shared<SafetensorsEntry>();
    item.dataEntry->name = item.name;
    item.dataEntry->dtype = item.dtype;
    item.dataEntry->shape.assign(type.getShape().begin(), type.getShape().end());
    item.dataEntry->end = item.data.size();
    item.dataEntry->data = item.data.data();
    item.parts.push_back(item.dataEntry.get());
  } else {
    uint64_t bytes = 0;
    for (Attribute type : constant.getBlocks().value_or(ArrayAttr::get(constant.getContext(), {}))) {
      auto blocks = dyn_cast<nn::GgmlTypeAttr>(type);
      item.blocks.push_back(blocks ? &blocks.getType() : nullptr);
    }
    for (auto [archive, key] : llvm::zip_equal(constant.getArchivesAttr().getAsRange<FlatSymbolRefAttr>(),
                                               constant.getKeys().getAsRange<StringAttr>())) {
      auto entry = archives.find(archive, key);
      if (!entry)
        return entry.takeError();
      const GgmlType *blocks = blocksOf(item, item.parts.size());
      bool isFloat = llvm::is_contained({"F32", "F16", "BF16"}, (*entry)->dtype);
      StringRef stored = blocks ? "I8" : item.mxfp4 ? "U8" : StringRef(item.dtype);
      if (item.format && !blocks ? !isFloat : (*entry)->dtype != stored)
        return createStringError("tensor '" + key.getValue() + "' is " + typeText((*entry)->dtype, (*entry)->shape) +
                                 " in its archive, the model reads it as " + stored);
      if (item.transposed && (*entry)->shape.size() != 2)
        return createStringError("tensor '" + key.getValue() + "' is " + typeText((*entry)->dtype, (*entry)->shape) +
                                 " in its archive, the model reads a matrix");
      item.name += (item.name.empty() ? "" : "+") + key.getValue().str();
      item.parts.push_back(*entry);
      bytes += elementsOf(item, item.parts.size() - 1) * item.elementBytes;
      if (blocks && !item.format && !constant.getLayout().getFormat())
        decoded[blocks->name].insert(*entry);
    }
    if (item.mxfp4) // bf16 values from four bits each, and a byte of scale for each block
      bytes = item.parts[1]->bytes() * mxfp4Block * 2 == wanted ? item.parts[0]->bytes() * 4 : 0;
    if (bytes != wanted)
      return createStringError("tensor '" + item.name + "' is " +
                               typeText(item.parts.front()->dtype, item.parts.front()->shape) +
                               (item.parts.size() > 1 ? " and more" : "") + " in its archive, the model reads " +
                               typeText(item.dtype, type.getShape()) + "; are the weights from another model?");
  }
  if (item.transposed)
    item.name += ".transposed";
  if (constant.getStrides() || item.mxfp4) {
    bool isDecoded = item.mxfp4 && !constant.getLayout().getFormat();
    item.name += isDecoded ? ".decoded" : constant.getStrides() ? ".reordered" : "";
    SmallVector<int64_t> inOrder = computeSuffixProduct(type.getShape());
    ArrayRef<int64_t> strides = constant.getStrides().value_or(ArrayRef<int64_t>(inOrder));
    item.strides.assign(strides.begin(), strides.end());
    item.shape.assign(type.getShape().begin(), type.getShape().end());
    item.columns = item.shape.back();
    // Rows are read from blocks or from several tensors.
    bool areRows = item.parts.size() > 1 || !item.blocks.empty();
    int64_t unit = std::max<int64_t>(item.mxfp4 ? mxfp4Block : areRows ? item.columns : 1, 1);
    auto isWhole = [&](int64_t elements) { return elements % unit == 0; };
    bool areWhole = isWhole(item.columns) && strides.back() == 1 && llvm::all_of(strides.drop_back(), isWhole);
    for (size_t part = 0; part < item.parts.size(); ++part)
      areWhole &= item.mxfp4 || isWhole(elementsOf(item, part));
    if (unit > 1 && !areWhole)
      return createStringError("constant '" + constant.getSymName() + "' has rows spread over blocks or tensors");
  }
  item.fileShape.assign(type.getShape().begin(), type.getShape().end());
  item.bytes = wanted;
  bool isMatrix = type.getRank() == 2;
  if (isMatrix || (item.format && type.getRank() > 2)) {
    item.rows = ShapedType::getNumElements(type.getShape().drop_back());
    item.columns = type.getShape().back();
  }
  item.matrixRows = item.rows;
  if (constant.getLayout().getKind() == rt::LayoutKind::Panels) {
    item.panelWidth = constant.getLayout().getWidth();
    item.slices = constant.getLayout().getSlices();
    item.name += ".panels" + std::to_string(item.panelWidth);
    if (item.slices > 1)
      item.name += "x" + std::to_string(item.slices);
    ArrayRef<int64_t> leading = type.getShape().drop_back(2);
    int64_t matrices = ShapedType::getNumElements(leading);
    item.columns = type.getShape().back();
    item.matrixRows = type.getShape().drop_back().back();
    item.rows = matrices * item.matrixRows;
    int64_t panels = llvm::divideCeil(item.matrixRows, item.panelWidth);
    item.fileShape.assign(leading.begin(), leading.end());
    llvm::append_values(item.fileShape, panels, item.columns, item.panelWidth);
    std::optional<int64_t> bytes =
        productOf({matrices, panels, item.columns, item.panelWidth, int64_t(item.elementBytes)});
    if (!bytes)
      return createStringError("constant '" + constant.getSymName() + "' is " + typeText(item.dtype, type.getShape()) +
                               ", which has more bytes in panels of " + Twine(item.panelWidth) + " than 64 bits hold");
    item.bytes = *bytes;
  }
  if (Attribute format = constant.getLayout().getFormat()) {
    item.coded = BlockPanels::of(format, item.columns, item.panelWidth);
    if (!item.coded)
      return createStringError("constant '" + constant.getSymName() + "': no panels of " + Twine(item.panelWidth) +
                               " hold its format");
    item.name += "." + nameOf(format);
    item.dtype = "U8";
    int64_t panels = llvm::divideCeil(item.matrixRows, item.panelWidth);
    item.fileShape = {item.matrixRows ? item.rows / item.matrixRows * panels : 0, item.coded->panelBytes()};
    item.bytes = uint64_t(item.fileShape[0]) * item.fileShape[1];
  }
  if (item.format && item.format.hasTensorScale())
    if (llvm::Error error = findTensorScales(item))
      return error;
  if (item.transposed && !isMatrix)
    return createStringError("constant '" + constant.getSymName() + "' is transposed, which needs a matrix, and is " +
                             typeText(item.dtype, type.getShape()) +
                             "; reshape the weight where it is used, not where it is stored");
  if ((item.panelWidth || item.transposed) && item.columns && item.strides.empty()) {
    for (auto [number, part] : llvm::enumerate(item.parts))
      if (elementsOf(item, number) % item.columns || (item.transposed && part->shape[0] != item.columns))
        return createStringError("tensor '" + part->name + "' is " + typeText(part->dtype, part->shape) +
                                 " in its archive, the model reads rows of " + Twine(item.columns));
  }
  makeUnique(item.name);
  items.push_back(std::move(item));
  return llvm::Error::success();
}

void WeightPacker::State::add(CarriedFile file) {
  Item item;
  item.name = "file." + file.name;
  makeUnique(item.name);
  item.dtype = "U8";
  item.elementBytes = 1;
  item.bytes = file.bytes.size();
  item.fileShape = {int64_t(item.bytes)};
  item.data = std::move(file.bytes);
  files.push_back({file.name, item.name, hashTextOf(item.data.data(), item.data.size())});
  items.push_back(std::move(item));
}

void WeightPacker::State::makeUnique(std::string &name) {
  std::string first = name;
  for (unsigned count = 2; !names.insert(name).second; ++count)
    name = first + "." + std::to_string(count);
}

/// Places the items and returns the file's first bytes: the header's length and the header. A reader of safetensors may
/// refuse gaps between tensors, so gaps are tensors too.
std::string WeightPacker::State::header(llvm::StringRef owner, std::vector<Item> &padding) {
  uint64_t offset = 0;
  for (Item &item : items) {
    item.begin = offset;
    offset += item.bytes;
    if (uint64_t gap = llvm::offsetToAlignment(offset, llvm::Align(ITX_BUFFER_ALIGNMENT))) {
      Item filler;
      filler.name = "padding." + std::to_string(padding.size());
      filler.dtype = "U8";
      filler.fileShape = {int64_t(gap)};
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
            for (int64_t size : item.fileShape)
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
    uint64_t stepBytes = 1, steps = item->bytes; // steps are bytes, rows or panels, of which a unit has several
    if (item->panelWidth || item->isReordered() || item->format) {
      stepBytes = item->coded ? item->fileShape[1]
                              : (item->panelWidth ? item->panelWidth : 1) * item->columns * item->elementBytes;
      steps = stepBytes ? item->bytes / stepBytes : 0;
    }
    if (steps * stepBytes != item->bytes)
      return createStringError("tensor '" + item->name + "': its panels or rows are " + Twine(steps * stepBytes) +
                               " bytes, its place in the packed weights is " + Twine(item->bytes));
    uint64_t stride = std::max<uint64_t>(1, unitBytes / std::max<uint64_t>(stepBytes, 1));
    for (uint64_t first = 0; first < steps; first += stride) {
      uint64_t last = std::min(steps, first + stride);
      units.push_back({item, first, last, header.size() + item->begin + first * stepBytes, (last - first) * stepBytes});
    }
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
  std::string problem; // message about a value that has no code
  std::set<const Item *> withoutMeaning;
  auto work = [&] {
    std::vector<char> buffer;
    for (size_t number; (number = next++) < units.size();) {
      const Unit &unit = units[number];
      const Item &item = *unit.item;
      StringRef bytes;
      if (llvm::Expected<StringRef> made = makeUnit(unit, buffer)) {
        bytes = *made;
      } else {
        std::lock_guard lock(mutex);
        problem = llvm::toString(made.takeError());
      }
      if (!isZero(bytes))
        store(bytes, unit.fileOffset);
      // Constants in the IR, such as masks, may be infinite.
      bool hasMeaning = item.parts.empty() || item.dataEntry || areFinite(item.dtype, bytes);
      {
        std::unique_lock lock(mutex);
        if (!hasMeaning)
          withoutMeaning.insert(&item);
        turn.wait(lock, [&] { return hashed == number; });
        hasher.update(bytes.data(), bytes.size());
        ++hashed;
      }
      turn.notify_all();
      if (item.parts.empty() || item.dataEntry || item.isReordered() || !item.blocks.empty())
        continue; // not mapped, read out of order, or already dropped
      // The range of the sources that this unit has read: rows of panels, rows or bytes.
      uint64_t rowBytes = item.columns * sourceBytes(item), partBegin = 0;
      auto bytesBefore = [&](uint64_t step) {
        return item.panelWidth ? rowsBefore(item, step) * rowBytes : item.format ? step * rowBytes : step;
      };
      for (int64_t slice = 0; slice < item.slices; ++slice) {
        uint64_t firstRead = bytesBefore(unit.first), lastRead = bytesBefore(unit.last);
        if (item.slices > 1) {
          firstRead = bytesBefore(panelStoredAs(item, unit.first / item.slices * item.slices + slice));
          lastRead = firstRead + bytesBefore((unit.last - unit.first) / item.slices);
        }
        partBegin = 0;
        for (const SafetensorsEntry *part : item.parts) {
          uint64_t partEnd = partBegin + part->bytes();
          uint64_t begin = std::max(firstRead, partBegin), end = std::min(lastRead, partEnd);
          if (begin < end)
            dropPages(static_cast<const char *>(part->data) + (begin - partBegin), end - begin);
          partBegin = partEnd;
        }
      }
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
  std::string place = ("\"" + hashKey + "\":\"").str();
  header.replace(header.find(place) + place.size(), unknownHash.size(), result.hash);
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

} // namespace intarsia::assemble
