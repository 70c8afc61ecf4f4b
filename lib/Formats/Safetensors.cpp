//===- Safetensors.cpp - Read safetensors archives ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Safetensors.h"

#include "lib/Support/File.h"
#include "lib/Support/Hash.h"
#include "lib/Support/Json.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

namespace intarsia {

unsigned safetensorsBits(std::string_view dtype) {
  // https://docs.rs/safetensors: enum Dtype
  static const struct {
    std::string_view name;
    unsigned bits;
  } table[] = {{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
               {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
               {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
               {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
  for (const auto &entry : table)
    if (entry.name == dtype)
      return entry.bits;
  return 0;
}

SafetensorsFile::~SafetensorsFile() = default;

Status SafetensorsFile::open(const std::string &path, std::unique_ptr<SafetensorsFile> &file) {
  return openPart(path, 0, MappedFile::toTheEnd, path, file);
}

Status SafetensorsFile::openPart(const std::string &path, uint64_t offset, uint64_t bytes, const std::string &name,
                                 std::unique_ptr<SafetensorsFile> &file) {
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->name_ = name;
  ITX_RETURN_IF_ERROR(MappedFile::open(path, result->mapping_, offset, bytes));
  result->data_ = result->mapping_->data();
  result->size_ = result->mapping_->size();
  ITX_RETURN_IF_ERROR(result->parse());
  file = std::move(result);
  return Status::success();
}

Status SafetensorsFile::parse(const void *data, uint64_t bytes, const std::string &name,
                              std::unique_ptr<SafetensorsFile> &file) {
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->name_ = name;
  result->data_ = static_cast<const uint8_t *>(data);
  result->size_ = bytes;
  ITX_RETURN_IF_ERROR(result->parse());
  file = std::move(result);
  return Status::success();
}

const ArchiveTensor *SafetensorsFile::find(std::string_view name) const {
  auto found = std::lower_bound(byName_.begin(), byName_.end(), name,
                                [&](uint32_t number, std::string_view key) { return tensors_[number].name < key; });
  return found == byName_.end() || tensors_[*found].name != name ? nullptr : &tensors_[*found];
}

Status SafetensorsFile::checkSize() const { return mapping_ ? mapping_->checkSize() : Status::success(); }

std::string SafetensorsFile::headerHash() const { return hashTextOf(data_, headerBytes_); }

namespace {

/// Reads tensors while the JSON of the header is parsed: a tree of its values would take 28 times the memory of its
/// text. Offsets stay relative to the data.
class HeaderReader : public JsonEvents {
public:
  HeaderReader(const std::string &file, uint64_t dataBytes, std::vector<ArchiveTensor> &tensors)
      : where_(file.c_str()), dataBytes_(dataBytes), tensors_(tensors) {}

  Status status;

  bool key(string_t &key) override;
  bool string(string_t &value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool start_object(std::size_t) override;
  bool start_array(std::size_t) override;
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

protected:
  bool scalar() override;

private:
  enum class Inside { Nothing, Header, Metadata, Tensor, Shape, Offsets };
  enum Field : unsigned { Other = 0, Dtype = 1, Shape = 2, Offsets = 4, All = Dtype | Shape | Offsets };

  ArchiveTensor &tensor() { return tensors_.back(); }
  const char *name() { return tensor().name.c_str(); }
  bool fail(Status problem) {
    status = std::move(problem);
    return false;
  }
  bool failTwice(const char *key) {
    return fail(error(ITX_CORRUPT, "%s: JSON has the key '%s' twice in one object", where_, key));
  }
  bool failTensor() {
    return fail(error(ITX_CORRUPT, "%s: tensor '%s' lacks a proper dtype, shape or data_offsets", where_, name()));
  }
  bool leave();
  Status finishTensor();

  const char *where_;
  uint64_t dataBytes_;
  std::vector<ArchiveTensor> &tensors_;
  Inside inside_ = Inside::Nothing;
  bool isMetadata_ = false;  // the value of the current key of the header
  bool hasMetadata_ = false; // the header had it
  Field field_ = Other;      // of the current tensor
  unsigned fields_ = 0;      // fields seen in the current tensor
  unsigned offsets_ = 0;     // offsets read so far
  uint64_t skipped_ = 0;     // open arrays and objects in a field that the format does not know
};

bool HeaderReader::key(string_t &key) {
  if (skipped_)
    return true;
  if (inside_ == Inside::Header) {
    isMetadata_ = key == "__metadata__";
    if (isMetadata_)
      return !std::exchange(hasMetadata_, true) || failTwice("__metadata__");
    tensors_.emplace_back();
    tensor().name = std::move(key);
    fields_ = offsets_ = 0;
  } else if (inside_ == Inside::Tensor) {
    field_ = key == "dtype" ? Dtype : key == "shape" ? Shape : key == "data_offsets" ? Offsets : Other;
    if (fields_ & field_)
      return failTwice(key.c_str());
    fields_ |= field_;
  }
  return true;
}

bool HeaderReader::scalar() {
  if (skipped_)
    return true;
  switch (inside_) {
  case Inside::Nothing:
    return fail(error(ITX_CORRUPT, "%s: the header is not a JSON object", where_));
  case Inside::Header:
    return fail(isMetadata_ ? error(ITX_CORRUPT, "%s: __metadata__ is not an object", where_)
                            : error(ITX_CORRUPT, "%s: entry of tensor '%s' is not an object", where_, name()));
  case Inside::Metadata:
    return fail(error(ITX_CORRUPT, "%s: __metadata__ has a value that is not a string", where_));
  case Inside::Tensor:
    return field_ == Other || failTensor();
  case Inside::Shape:
    return fail(error(ITX_CORRUPT, "%s: tensor '%s' has a size that is not a non-negative integer", where_, name()));
  case Inside::Offsets:
    return fail(
        error(ITX_CORRUPT, "%s: tensor '%s' has data_offsets that are not non-negative integers", where_, name()));
  }
  return false;
}

bool HeaderReader::string(string_t &value) {
  if (!skipped_ && inside_ == Inside::Metadata)
    return true;
  if (skipped_ || inside_ != Inside::Tensor || field_ != Dtype)
    return scalar();
  tensor().dtype = std::move(value);
  return true;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (!skipped_ && inside_ == Inside::Shape && value <= uint64_t(INT64_MAX)) {
    tensor().shape.push_back(int64_t(value));
    return true;
  }
  if (skipped_ || inside_ != Inside::Offsets)
    return scalar();
  if (offsets_ == 2)
    return failTensor();
  (offsets_++ == 0 ? tensor().begin : tensor().end) = value;
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (!skipped_ && inside_ == Inside::Nothing) {
    inside_ = Inside::Header;
    return true;
  }
  if (!skipped_ && inside_ == Inside::Header) {
    inside_ = isMetadata_ ? Inside::Metadata : Inside::Tensor;
    return true;
  }
  return scalar() && ++skipped_;
}

bool HeaderReader::start_array(std::size_t) {
  if (!skipped_ && inside_ == Inside::Tensor && (field_ == Shape || field_ == Offsets)) {
    inside_ = field_ == Shape ? Inside::Shape : Inside::Offsets;
    return true;
  }
  return scalar() && ++skipped_;
}

bool HeaderReader::leave() {
  if (skipped_) {
    --skipped_;
    return true;
  }
  if (inside_ == Inside::Shape || inside_ == Inside::Offsets) {
    inside_ = Inside::Tensor;
    return true;
  }
  if (inside_ == Inside::Tensor)
    status = finishTensor();
  inside_ = inside_ == Inside::Header ? Inside::Nothing : Inside::Header;
  return status.ok();
}

Status HeaderReader::finishTensor() {
  ArchiveTensor &entry = tensor();
  if (fields_ != All || offsets_ != 2) {
    failTensor();
    return status;
  }
  unsigned bits = safetensorsBits(entry.dtype);
  if (bits == 0)
    return error(ITX_CORRUPT, "%s: tensor '%s' has the unknown dtype '%s'", where_, name(), entry.dtype.c_str());
  uint64_t elements = 1;
  for (int64_t size : entry.shape)
    if (__builtin_mul_overflow(elements, uint64_t(size), &elements))
      return error(ITX_CORRUPT, "%s: tensor '%s' %s has more elements than 64 bits count", where_, name(),
                   shapeText(entry.shape).c_str());
  if (elements > UINT64_MAX / 64)
    return error(ITX_CORRUPT, "%s: tensor '%s' %s has more bytes than 64 bits count", where_, name(),
                 shapeText(entry.shape).c_str());
  if (entry.begin > entry.end)
    return error(ITX_CORRUPT, "%s: tensor '%s' ends at %llu, before its begin %llu", where_, name(),
                 (unsigned long long)entry.end, (unsigned long long)entry.begin);
  uint64_t bytes = (elements * bits + 7) / 8;
  if (bytes != entry.end - entry.begin)
    return error(ITX_CORRUPT, "%s: tensor '%s' has %llu bytes, %s of %s needs %llu", where_, name(),
                 (unsigned long long)(entry.end - entry.begin), shapeText(entry.shape).c_str(), entry.dtype.c_str(),
                 (unsigned long long)bytes);
  if (entry.end > dataBytes_)
    return error(ITX_CORRUPT, "%s: tensor '%s' ends at byte %llu of the data, which has %llu: the file is truncated",
                 where_, name(), (unsigned long long)entry.end, (unsigned long long)dataBytes_);
  return Status::success();
}

/// Finds the text of one key of __metadata__.
class MetadataReader : public JsonEvents {
public:
  explicit MetadataReader(std::string_view key) : wanted_(key) {}

  std::optional<std::string> text;

  bool key(string_t &key) override {
    isMetadata_ = depth_ == 1 ? key == "__metadata__" : isMetadata_;
    isWanted_ = depth_ == 2 && isMetadata_ && key == wanted_;
    return true;
  }
  bool string(string_t &value) override {
    if (isWanted_)
      text = std::move(value);
    return !isWanted_;
  }
  bool start_object(std::size_t) override { return ++depth_ != 0; }
  bool end_object() override {
    --depth_;
    return true;
  }

private:
  std::string_view wanted_;
  uint64_t depth_ = 0;
  bool isMetadata_ = false, isWanted_ = false;
};

} // namespace

std::optional<std::string> SafetensorsFile::metadata(std::string_view key) const {
  MetadataReader reader(key);
  (void)parseJson(headerText(), name_, reader); // cannot fail: it was parsed before
  return reader.text;
}

std::string_view SafetensorsFile::headerText() const {
  return {reinterpret_cast<const char *>(data_) + 8, headerBytes_ - 8};
}

Status SafetensorsFile::parse() {
  const char *where = name_.c_str();
  if (size_ < 8)
    return error(ITX_CORRUPT, "%s: is truncated: %llu bytes, a safetensors file has at least 8", where,
                 (unsigned long long)size_);
  uint64_t length;
  std::memcpy(&length, data_, 8);
  if (length > size_ - 8)
    return error(
        ITX_CORRUPT,
        "%s: header length %llu goes beyond the file, which has %llu bytes: it is truncated, or not safetensors", where,
        (unsigned long long)length, (unsigned long long)size_);
  headerBytes_ = 8 + length;
  HeaderReader reader(name_, size_ - headerBytes_, tensors_);
  ITX_RETURN_IF_ERROR(parseJson(headerText(), name_, reader));
  ITX_RETURN_IF_ERROR(reader.status);
  if (headerText().front() != '{')
    return error(ITX_CORRUPT, "%s: the header does not begin with '{'", where);
  std::sort(tensors_.begin(), tensors_.end(), [](const ArchiveTensor &a, const ArchiveTensor &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  ITX_RETURN_IF_ERROR(indexNames());
  ITX_RETURN_IF_ERROR(checkCoverage());
  for (ArchiveTensor &entry : tensors_) {
    entry.begin += headerBytes_;
    entry.end += headerBytes_;
    entry.data = data_ + entry.begin;
  }
  return Status::success();
}

Status SafetensorsFile::indexNames() {
  byName_.resize(tensors_.size());
  std::iota(byName_.begin(), byName_.end(), 0u);
  auto nameOf = [&](uint32_t number) -> const std::string & { return tensors_[number].name; };
  std::sort(byName_.begin(), byName_.end(), [&](uint32_t a, uint32_t b) { return nameOf(a) < nameOf(b); });
  auto twice = std::adjacent_find(byName_.begin(), byName_.end(),
                                  [&](uint32_t a, uint32_t b) { return nameOf(a) == nameOf(b); });
  if (twice != byName_.end())
    return error(ITX_CORRUPT, "%s: JSON has the key '%s' twice in one object", name_.c_str(), nameOf(*twice).c_str());
  return Status::success();
}

Status SafetensorsFile::checkCoverage() const {
  const char *where = name_.c_str();
  const ArchiveTensor *last = nullptr; // the last one that is not empty; the ones before it end before it begins
  auto end = [&] { return last ? last->end : 0; };
  for (const ArchiveTensor &entry : tensors_) {
    if (entry.begin == entry.end)
      continue;
    if (entry.begin < end())
      return error(ITX_CORRUPT, "%s: tensors '%s' and '%s' overlap: one ends at byte %llu, the other begins at %llu",
                   where, last->name.c_str(), entry.name.c_str(), (unsigned long long)last->end,
                   (unsigned long long)entry.begin);
    if (entry.begin > end())
      return error(ITX_CORRUPT,
                   "%s: bytes %llu to %llu of the data, before tensor '%s', belong to no tensor, which the format does "
                   "not allow: is the file damaged?",
                   where, (unsigned long long)end(), (unsigned long long)entry.begin, entry.name.c_str());
    last = &entry;
  }
  uint64_t dataBytes = size_ - headerBytes_;
  if (end() != dataBytes)
    return error(ITX_CORRUPT,
                 "%s: the last %llu of %llu bytes of the data belong to no tensor, which the format does not allow: is "
                 "the header's length damaged, or was something appended?",
                 where, (unsigned long long)(dataBytes - end()), (unsigned long long)dataBytes);
  return Status::success();
}

namespace {
class SafetensorsArchive : public Archive {
public:
  const std::string &name() const override { return file->name(); }
  std::vector<const ArchiveTensor *> tensors() const override {
    std::vector<const ArchiveTensor *> all;
    for (const ArchiveTensor &tensor : file->tensors())
      all.push_back(&tensor);
    return all;
  }
  const ArchiveTensor *find(std::string_view key) const override { return file->find(key); }
  std::vector<std::span<const uint8_t>> mappings() const override { return {{file->data(), file->size()}}; }

  std::unique_ptr<SafetensorsFile> file;
};
} // namespace

Status openSafetensorsArchive(const std::string &path, std::unique_ptr<Archive> &archive) {
  auto result = std::make_unique<SafetensorsArchive>();
  ITX_RETURN_IF_ERROR(SafetensorsFile::open(path, result->file));
  archive = std::move(result);
  return Status::success();
}

} // namespace intarsia
