//===- Safetensors.cpp - Read safetensors archives ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Safetensors.h"

#include "lib/Runtime/Core/File.h"
#include "lib/Runtime/Core/Hash.h"
#include "lib/Runtime/Core/Json.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace intarsia::runtime {

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

const SafetensorsEntry *SafetensorsFile::find(std::string_view name) const {
  auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::string SafetensorsFile::headerHash() const { return hashTextOf(data_, headerBytes_); }

/// Reads one header entry; offsets stay relative to the data.
static Status readEntry(const std::string &file, const std::string &name, const Json &value, SafetensorsEntry &entry) {
  const char *where = file.c_str();
  entry.name = name;
  if (!value.is_object())
    return error(ITX_CORRUPT, "%s: entry of tensor '%s' is not an object", where, name.c_str());
  auto dtype = value.find("dtype"), shape = value.find("shape"), offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string() || shape == value.end() || !shape->is_array() ||
      offsets == value.end() || !offsets->is_array() || offsets->size() != 2)
    return error(ITX_CORRUPT, "%s: tensor '%s' lacks a proper dtype, shape or data_offsets", where, name.c_str());
  entry.dtype = dtype->get<std::string>();
  unsigned bits = safetensorsBits(entry.dtype);
  if (bits == 0)
    return error(ITX_CORRUPT, "%s: tensor '%s' has the unknown dtype '%s'", where, name.c_str(), entry.dtype.c_str());

  uint64_t elements = 1;
  for (const Json &size : *shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t(INT64_MAX))
      return error(ITX_CORRUPT, "%s: tensor '%s' has a size that is not a non-negative integer", where, name.c_str());
    entry.shape.push_back(size.get<int64_t>());
    if (__builtin_mul_overflow(elements, size.get<uint64_t>(), &elements))
      return error(ITX_CORRUPT, "%s: tensor '%s' %s has more elements than 64 bits count", where, name.c_str(),
                   shapeText(entry.shape).c_str());
  }
  if (elements > UINT64_MAX / 64)
    return error(ITX_CORRUPT, "%s: tensor '%s' %s has more bytes than 64 bits count", where, name.c_str(),
                 shapeText(entry.shape).c_str());
  if (!(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned())
    return error(ITX_CORRUPT, "%s: tensor '%s' has data_offsets that are not non-negative integers", where,
                 name.c_str());
  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  if (entry.begin > entry.end)
    return error(ITX_CORRUPT, "%s: tensor '%s' ends at %llu, before its begin %llu", where, name.c_str(),
                 (unsigned long long)entry.end, (unsigned long long)entry.begin);
  uint64_t bytes = (elements * bits + 7) / 8;
  if (bytes != entry.end - entry.begin)
    return error(ITX_CORRUPT, "%s: tensor '%s' has %llu bytes, %s of %s needs %llu", where, name.c_str(),
                 (unsigned long long)(entry.end - entry.begin), shapeText(entry.shape).c_str(), entry.dtype.c_str(),
                 (unsigned long long)bytes);
  return Status::success();
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
  std::string_view text(reinterpret_cast<const char *>(data_) + 8, length);
  Json header;
  ITX_RETURN_IF_ERROR(parseJson(text, name_, header));
  if (!header.is_object())
    return error(ITX_CORRUPT, "%s: the header is not a JSON object", where);

  uint64_t dataBytes = size_ - headerBytes_;
  for (const auto &[name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object())
        return error(ITX_CORRUPT, "%s: __metadata__ is not an object", where);
      for (const auto &[key, item] : value.items())
        metadata_[key] = item.is_string() ? item.get<std::string>() : jsonText(item);
      continue;
    }
    SafetensorsEntry entry;
    ITX_RETURN_IF_ERROR(readEntry(name_, name, value, entry));
    if (entry.end > dataBytes)
      return error(ITX_CORRUPT, "%s: tensor '%s' ends at byte %llu of the data, which has %llu: the file is truncated",
                   where, name.c_str(), (unsigned long long)entry.end, (unsigned long long)dataBytes);
    tensors_.push_back(std::move(entry));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const SafetensorsEntry &a, const SafetensorsEntry &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const SafetensorsEntry *last = nullptr; // the last one that is not empty; the ones before it end before it begins
  for (SafetensorsEntry &entry : tensors_) {
    if (entry.begin == entry.end)
      continue;
    if (last && entry.begin < last->end)
      return error(ITX_CORRUPT, "%s: tensors '%s' and '%s' overlap: one ends at byte %llu, the other begins at %llu",
                   where, last->name.c_str(), entry.name.c_str(), (unsigned long long)last->end,
                   (unsigned long long)entry.begin);
    last = &entry;
  }
  for (SafetensorsEntry &entry : tensors_) {
    entry.begin += headerBytes_;
    entry.end += headerBytes_;
    entry.data = data_ + entry.begin;
  }
  for (size_t i = 0; i < tensors_.size(); ++i)
    index_.emplace(tensors_[i].name, i);
  return Status::success();
}

} // namespace intarsia::runtime
