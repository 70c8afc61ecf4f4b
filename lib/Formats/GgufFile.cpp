//===- GgufFile.cpp - Read GGUF files -----------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/GgufFile.h"

#include "lib/Support/File.h"
#include "lib/Support/FileVersions.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

using namespace intarsia;

namespace intarsia::gguf {
namespace {

constexpr uint32_t magic = 0x46554747; // "GGUF"
constexpr uint32_t defaultAlignment = 32, smallestAlignment = 8, largestAlignment = 1 << 20;
constexpr uint64_t mostElements = 1 << 20; // maximal elements of an array that is read
constexpr uint32_t mostDimensions = 4;     // GGML_MAX_DIMS
constexpr uint64_t longestName = 65535;    // longest key that gguf.md allows
constexpr uint64_t leastKeyBytes = 8 + 4 + 1, leastTensorBytes = 8 + 4 + 4 + 8;

/// Returns the bytes of a scalar; 0 for strings, arrays and unknown types.
unsigned scalarBytes(ValueType type) {
  switch (type) {
  case ValueType::U8:
  case ValueType::I8:
  case ValueType::Bool:
    return 1;
  case ValueType::U16:
  case ValueType::I16:
    return 2;
  case ValueType::U32:
  case ValueType::I32:
  case ValueType::F32:
    return 4;
  case ValueType::U64:
  case ValueType::I64:
  case ValueType::F64:
    return 8;
  case ValueType::String:
  case ValueType::Array:
    break;
  }
  return 0;
}

template <typename T> T load(const uint8_t *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

std::optional<int64_t> loadInteger(ValueType type, const uint8_t *data) {
  switch (type) {
  case ValueType::U8:
    return load<uint8_t>(data);
  case ValueType::I8:
    return load<int8_t>(data);
  case ValueType::U16:
    return load<uint16_t>(data);
  case ValueType::I16:
    return load<int16_t>(data);
  case ValueType::U32:
    return load<uint32_t>(data);
  case ValueType::I32:
    return load<int32_t>(data);
  case ValueType::I64:
    return load<int64_t>(data);
  case ValueType::U64:
    if (auto value = load<uint64_t>(data); value <= uint64_t(INT64_MAX))
      return int64_t(value);
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

/// Reads from the beginning to the end; every read is checked against the remaining bytes.
class Reader {
public:
  Reader(const uint8_t *data, uint64_t size, const std::string &file) : data(data), size(size), file(file) {}

  uint64_t position() const { return at; }
  uint64_t left() const { return size - at; }
  const uint8_t *here() const { return data + at; }

  Status skip(uint64_t bytes, const char *what) {
    if (bytes > left())
      return error(ITX_CORRUPT,
                   "%s: %s needs %llu bytes at byte %llu, the file has %llu: it is truncated, download it again",
                   file.c_str(), what, (unsigned long long)bytes, (unsigned long long)at, (unsigned long long)size);
    at += bytes;
    return Status::success();
  }

  template <typename T> Status read(T &value, const char *what) {
    const uint8_t *begin = here();
    ITX_RETURN_IF_ERROR(skip(sizeof(T), what));
    value = load<T>(begin);
    return Status::success();
  }

  /// Reads a name: a length, then characters, which must be printable ASCII.
  Status readName(std::string_view &name, const char *what) {
    uint64_t length;
    ITX_RETURN_IF_ERROR(read(length, what));
    const uint8_t *begin = here();
    if (length > longestName)
      return error(ITX_CORRUPT, "%s: %s at byte %llu has %llu characters, a name has at most %llu: the file is damaged",
                   file.c_str(), what, (unsigned long long)at, (unsigned long long)length,
                   (unsigned long long)longestName);
    ITX_RETURN_IF_ERROR(skip(length, what));
    name = std::string_view(reinterpret_cast<const char *>(begin), length);
    for (char c : name)
      if (c < 0x20 || c > 0x7e)
        return error(ITX_CORRUPT, "%s: %s before byte %llu has characters that are not printable ASCII", file.c_str(),
                     what, (unsigned long long)at);
    return Status::success();
  }

private:
  const uint8_t *data;
  uint64_t size, at = 0;
  const std::string &file;
};

Status readValue(Reader &reader, const std::string &file, std::string_view key, Value &value) {
  std::string what = "the value of '" + std::string(key) + "'";
  uint32_t type;
  ITX_RETURN_IF_ERROR(reader.read(type, what.c_str()));
  if (type == uint32_t(ValueType::Array)) {
    value.isArray = true;
    ITX_RETURN_IF_ERROR(reader.read(type, what.c_str()));
    ITX_RETURN_IF_ERROR(reader.read(value.count, what.c_str()));
  }
  value.type = ValueType(type);
  value.data = reader.here();
  if (value.type == ValueType::String) {
    for (uint64_t i = 0; i < value.count; ++i) {
      uint64_t length;
      ITX_RETURN_IF_ERROR(reader.read(length, what.c_str()));
      ITX_RETURN_IF_ERROR(reader.skip(length, what.c_str()));
    }
    return Status::success();
  }
  unsigned bytes = type <= uint32_t(ValueType::F64) ? scalarBytes(value.type) : 0;
  if (bytes == 0)
    return error(ITX_CORRUPT, "%s: %s is of the unknown type %u%s", file.c_str(), what.c_str(), type,
                 value.isArray ? " (arrays of arrays are not supported)" : "");
  uint64_t all;
  if (__builtin_mul_overflow(value.count, uint64_t(bytes), &all))
    return error(ITX_CORRUPT, "%s: %s has %llu elements, more than 64 bits count: the file is damaged", file.c_str(),
                 what.c_str(), (unsigned long long)value.count);
  return reader.skip(all, what.c_str());
}

/// Reads one description; the offset stays relative to the data.
Status readTensor(Reader &reader, const std::string &file, Tensor &tensor) {
  const char *where = file.c_str();
  std::string_view nameView;
  ITX_RETURN_IF_ERROR(reader.readName(nameView, "the name of a tensor"));
  std::string name(nameView), what = "the description of tensor '" + name + "'";
  if (name.empty())
    return error(ITX_CORRUPT, "%s: a tensor has no name: the file is damaged", where);
  tensor.raw.name = name;
  uint32_t rank, type;
  ITX_RETURN_IF_ERROR(reader.read(rank, what.c_str()));
  if (rank > mostDimensions)
    return error(ITX_CORRUPT, "%s: tensor '%s' has %u dimensions, the format has at most %u: the file is damaged",
                 where, name.c_str(), rank, mostDimensions);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t size;
    ITX_RETURN_IF_ERROR(reader.read(size, what.c_str()));
    if (size > uint64_t(INT64_MAX) || __builtin_mul_overflow(elements, size, &elements))
      return error(ITX_CORRUPT, "%s: tensor '%s' has more elements than 64 bits count: the file is damaged", where,
                   name.c_str());
    tensor.shape.insert(tensor.shape.begin(), int64_t(size));
  }
  ITX_RETURN_IF_ERROR(reader.read(type, what.c_str()));
  ITX_RETURN_IF_ERROR(reader.read(tensor.raw.begin, what.c_str()));
  tensor.type = ggmlTypeOf(type);
  if (!tensor.type)
    return error(ITX_CORRUPT,
                 "%s: tensor '%s' is of the unknown type %u; the file is damaged or newer than this program: convert "
                 "the model to one of the types that ggml documents",
                 where, name.c_str(), type);
  uint64_t row = tensor.shape.empty() ? 1 : uint64_t(tensor.shape.back());
  if (row % tensor.type->elements)
    return error(ITX_CORRUPT, "%s: tensor '%s' is %s, whose rows are no whole blocks of %u elements of type %s", where,
                 name.c_str(), shapeText(tensor.shape).c_str(), tensor.type->elements,
                 std::string(tensor.type->name).c_str());
  uint64_t bytes;
  if (__builtin_mul_overflow(elements / tensor.type->elements, uint64_t(tensor.type->bytes), &bytes) ||
      __builtin_add_overflow(tensor.raw.begin, bytes, &tensor.raw.end))
    return error(ITX_CORRUPT, "%s: tensor '%s' %s has more bytes than 64 bits count: the file is damaged", where,
                 name.c_str(), shapeText(tensor.shape).c_str());
  tensor.raw.shape = tensor.shape;
  if (tensor.isPlain()) {
    tensor.raw.dtype = tensor.type->name;
  } else {
    tensor.raw.dtype = "I8";
    tensor.raw.shape.back() = int64_t(row / tensor.type->elements * tensor.type->bytes);
  }
  return Status::success();
}

} // namespace

//===-- Metadata ----------------------------------------------------------------------------------------------===//

std::optional<int64_t> Value::integer() const { return isArray ? std::nullopt : loadInteger(type, data); }

std::optional<double> Value::number() const {
  if (isArray)
    return std::nullopt;
  if (type == ValueType::F32)
    return double(load<float>(data));
  if (type == ValueType::F64)
    return load<double>(data);
  std::optional<int64_t> whole = integer();
  return whole ? std::optional(double(*whole)) : std::nullopt;
}

std::optional<bool> Value::boolean() const {
  if (isArray || type != ValueType::Bool)
    return std::nullopt;
  return *data != 0;
}

std::optional<std::string_view> Value::string() const {
  if (isArray || type != ValueType::String)
    return std::nullopt;
  return std::string_view(reinterpret_cast<const char *>(data) + 8, load<uint64_t>(data));
}

std::optional<std::vector<int64_t>> Value::integers() const {
  if (count > mostElements)
    return std::nullopt;
  std::vector<int64_t> result;
  unsigned bytes = scalarBytes(type);
  for (uint64_t i = 0; i < count; ++i) {
    std::optional<int64_t> one = loadInteger(type, data + i * bytes);
    if (!one)
      return std::nullopt;
    result.push_back(*one);
  }
  return result;
}

std::optional<std::vector<bool>> Value::booleans() const {
  if (!isArray || type != ValueType::Bool || count > mostElements)
    return std::nullopt;
  std::vector<bool> result;
  for (uint64_t i = 0; i < count; ++i)
    result.push_back(data[i] != 0);
  return result;
}

void Value::forEach(const std::function<void(const Value &)> &visit) const {
  Value element;
  element.type = type;
  element.data = data;
  for (uint64_t i = 0; i < count; ++i) {
    visit(element);
    element.data += type == ValueType::String ? 8 + load<uint64_t>(element.data) : scalarBytes(type);
  }
}

//===-- One file ----------------------------------------------------------------------------------------------===//

File::~File() = default;

Status File::open(const std::string &path, const std::string &name, std::unique_ptr<File> &file) {
  std::unique_ptr<File> result(new File);
  result->name_ = name;
  FileVersions::note(path);
  ITX_RETURN_IF_ERROR(MappedFile::open(path, result->mapping_));
  result->data_ = result->mapping_->data();
  result->size_ = result->mapping_->size();
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

const Tensor *File::find(std::string_view name) const {
  auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const Value *File::metadata(std::string_view key) const {
  auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

/// Reads the header's counts, after checking magic and version.
static Status readHeader(Reader &reader, const char *where, uint64_t &tensors, uint64_t &keys) {
  uint32_t mark, version;
  ITX_RETURN_IF_ERROR(reader.read(mark, "the header"));
  if (mark != magic)
    return error(ITX_CORRUPT, "%s: is not a GGUF file: it does not begin with 'GGUF'", where);
  ITX_RETURN_IF_ERROR(reader.read(version, "the header"));
  if (version != 0 && (version & 0xffff) == 0)
    return error(ITX_CORRUPT,
                 "%s: is a big-endian GGUF file, which is not supported; convert it with "
                 "gguf-convert-endian of the gguf package",
                 where);
  if (version != 2 && version != 3)
    return error(ITX_CORRUPT, "%s: is version %u of GGUF, supported are 2 and 3; convert the model again", where,
                 version);
  ITX_RETURN_IF_ERROR(reader.read(tensors, "the header"));
  ITX_RETURN_IF_ERROR(reader.read(keys, "the header"));
  // Refuses impossible counts before it allocates memory for them.
  if (keys > reader.left() / leastKeyBytes || tensors > reader.left() / leastTensorBytes)
    return error(ITX_CORRUPT,
                 "%s: says that it has %llu keys and %llu tensors, which do not fit into its %llu bytes: it is "
                 "truncated or damaged, download it again",
                 where, (unsigned long long)keys, (unsigned long long)tensors,
                 (unsigned long long)(reader.position() + reader.left()));
  return Status::success();
}

Status File::parse() {
  const char *where = name_.c_str();
  Reader reader(data_, size_, name_);
  uint64_t tensorCount, keyCount;
  ITX_RETURN_IF_ERROR(readHeader(reader, where, tensorCount, keyCount));
  for (uint64_t i = 0; i < keyCount; ++i) {
    std::string_view key;
    ITX_RETURN_IF_ERROR(reader.readName(key, "a key"));
    Value value;
    ITX_RETURN_IF_ERROR(readValue(reader, name_, key, value));
    if (!metadata_.emplace(key, value).second)
      return error(ITX_CORRUPT, "%s: has the key '%s' twice: the file is damaged", where, std::string(key).c_str());
  }
  for (uint64_t i = 0; i < tensorCount; ++i) {
    Tensor tensor;
    ITX_RETURN_IF_ERROR(readTensor(reader, name_, tensor));
    tensors_.push_back(std::move(tensor));
  }

  uint64_t alignment = defaultAlignment;
  if (const Value *value = metadata("general.alignment")) {
    int64_t given = value->integer().value_or(0);
    if (given < smallestAlignment || given > largestAlignment || (given & (given - 1)))
      return error(ITX_CORRUPT, "%s: general.alignment is no power of two from %u to %u: the file is damaged", where,
                   smallestAlignment, largestAlignment);
    alignment = uint64_t(given);
  }
  uint64_t begin = (reader.position() + alignment - 1) / alignment * alignment;
  uint64_t dataBytes = begin < size_ ? size_ - begin : 0;
  for (const Tensor &tensor : tensors_) {
    if (tensor.raw.begin % alignment)
      return error(ITX_CORRUPT,
                   "%s: tensor '%s' begins at byte %llu of the data, no multiple of general.alignment %llu", where,
                   tensor.raw.name.c_str(), (unsigned long long)tensor.raw.begin, (unsigned long long)alignment);
    if (tensor.raw.end > dataBytes)
      return error(ITX_CORRUPT,
                   "%s: tensor '%s' ends at byte %llu of the data, which has %llu: the file is truncated, download it "
                   "again",
                   where, tensor.raw.name.c_str(), (unsigned long long)tensor.raw.end, (unsigned long long)dataBytes);
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const Tensor &a, const Tensor &b) {
    return std::tie(a.raw.begin, a.raw.end, a.raw.name) < std::tie(b.raw.begin, b.raw.end, b.raw.name);
  });
  const Tensor *last = nullptr; // the last tensor so far that is not empty
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor &tensor = tensors_[i];
    if (!index_.emplace(tensor.raw.name, i).second)
      return error(ITX_CORRUPT, "%s: has two tensors '%s': the file is damaged", where, tensor.raw.name.c_str());
    if (tensor.raw.begin != tensor.raw.end) {
      if (last && tensor.raw.begin < last->raw.end)
        return error(ITX_CORRUPT,
                     "%s: tensors '%s' and '%s' overlap: one ends at byte %llu, the other begins at %llu: the file is "
                     "damaged",
                     where, last->raw.name.c_str(), tensor.raw.name.c_str(), (unsigned long long)last->raw.end,
                     (unsigned long long)tensor.raw.begin);
      last = &tensor;
    }
  }
  for (Tensor &tensor : tensors_) {
    bool isEmpty = tensor.raw.begin == tensor.raw.end;
    tensor.raw.begin += begin;
    tensor.raw.end += begin;
    tensor.raw.data = isEmpty ? data_ : data_ + tensor.raw.begin;
  }
  return Status::success();
}

//===-- Several files -----------------------------------------------------------------------------------------===//

/// "m-00002-of-00003.gguf" → {"m", 2, 3}.
struct PartName {
  std::string stem;
  unsigned number, count;

  std::string of(unsigned other) const { return format("%s-%05u-of-%05u.gguf", stem.c_str(), other, count); }
};

static std::optional<PartName> partNameOf(const std::string &file) {
  constexpr size_t length = sizeof("-00001-of-00003.gguf") - 1;
  if (file.size() <= length)
    return std::nullopt;
  PartName name{file.substr(0, file.size() - length), 0, 0};
  for (unsigned i = 0; i < 5; ++i) {
    char number = file[name.stem.size() + 1 + i], count = file[name.stem.size() + 10 + i];
    if (number < '0' || number > '9' || count < '0' || count > '9')
      return std::nullopt;
    name.number = name.number * 10 + unsigned(number - '0');
    name.count = name.count * 10 + unsigned(count - '0');
  }
  return name.of(name.number) == file ? std::optional(name) : std::nullopt;
}

/// Checks that the metadata of a part agree with its name.
static Status checkPart(const File &part, const PartName &name, unsigned number) {
  auto integerOf = [&](const char *key) {
    const Value *value = part.metadata(key);
    return value ? value->integer().value_or(-1) : -1;
  };
  int64_t count = integerOf("split.count"), no = integerOf("split.no");
  if (count == int64_t(name.count) && no == int64_t(number) - 1)
    return Status::success();
  return error(ITX_CORRUPT,
               "%s: its name says that it is part %u of %u, its split.no and split.count say %lld and %lld; parts keep "
               "the names that they were made with",
               part.name().c_str(), number, name.count, (long long)no, (long long)count);
}

Status openParts(const std::string &path, std::vector<std::unique_ptr<File>> &parts) {
  size_t slash = path.find_last_of('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1), file = path.substr(folder.size());
  std::unique_ptr<File> first;
  ITX_RETURN_IF_ERROR(File::open(path, file, first));
  const Value *split = first->metadata("split.count");
  int64_t count = split ? split->integer().value_or(-1) : 1;
  if (split && (count < 1 || count > 99999))
    return error(ITX_CORRUPT, "%s: split.count is not a number of parts from 1 to 99999: the file is damaged",
                 file.c_str());
  const Value *total = first->metadata("split.tensors.count");
  parts.clear();
  parts.push_back(std::move(first));
  if (count == 1)
    return Status::success();
  std::optional<PartName> name = partNameOf(file);
  if (!name)
    return error(
        ITX_CORRUPT,
        "%s: is one of %lld parts, which are found by names such as m-00001-of-%05lld.gguf; give the parts the "
        "names that they were made with",
        file.c_str(), (long long)count, (long long)count);
  if (name->number != 1)
    return error(ITX_CORRUPT, "%s: is part %u of a model; give the first part, %s", file.c_str(), name->number,
                 name->of(1).c_str());
  ITX_RETURN_IF_ERROR(checkPart(*parts.front(), *name, 1));
  for (unsigned number = 2; number <= name->count; ++number) {
    std::unique_ptr<File> part;
    if (Status status = File::open(folder + name->of(number), name->of(number), part); !status.ok())
      return error(status.code(), "%s (part %u of %u of %s)", status.message().c_str(), number, name->count,
                   file.c_str());
    ITX_RETURN_IF_ERROR(checkPart(*part, *name, number));
    parts.push_back(std::move(part));
  }
  std::set<std::string_view> names;
  for (const std::unique_ptr<File> &part : parts)
    for (const Tensor &tensor : part->tensors())
      if (!names.insert(tensor.raw.name).second)
        return error(ITX_CORRUPT, "%s: has tensor '%s', which another part has too", part->name().c_str(),
                     tensor.raw.name.c_str());
  if (int64_t all = total ? total->integer().value_or(-1) : int64_t(names.size()); all != int64_t(names.size()))
    return error(ITX_CORRUPT, "%s: split.tensors.count is %lld, the %u parts have %zu tensors", file.c_str(),
                 (long long)all, name->count, names.size());
  return Status::success();
}

namespace {
class GgufArchive : public Archive {
public:
  const std::string &name() const override { return file->name(); }
  std::vector<const ArchiveTensor *> tensors() const override {
    std::vector<const ArchiveTensor *> all;
    for (const Tensor &tensor : file->tensors())
      all.push_back(&tensor.raw);
    return all;
  }
  const ArchiveTensor *find(std::string_view key) const override {
    const Tensor *tensor = file->find(key);
    return tensor ? &tensor->raw : nullptr;
  }
  std::vector<std::span<const uint8_t>> mappings() const override { return {{file->data(), file->size()}}; }

  std::unique_ptr<File> file;
};
} // namespace

Status openArchive(const std::string &path, std::unique_ptr<Archive> &archive) {
  auto result = std::make_unique<GgufArchive>();
  ITX_RETURN_IF_ERROR(File::open(path, path, result->file));
  archive = std::move(result);
  return Status::success();
}

} // namespace intarsia::gguf
