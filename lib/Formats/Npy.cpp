//===- Npy.cpp - NumPy array files --------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Npy.h"

#include "lib/Formats/Dtype.h"

#include <cstring>
#include <string_view>

namespace intarsia {

namespace {

/// The header is a Python dictionary literal: strings, True and False, one tuple of integers. Nothing else is accepted.
class Literal {
public:
  explicit Literal(std::string_view text) : text_(text) {}

  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c)
      return false;
    ++at_;
    return true;
  }
  bool takeWord(std::string_view word) {
    space();
    if (text_.substr(at_, word.size()) != word)
      return false;
    at_ += word.size();
    return true;
  }
  bool takeString(std::string_view &value) {
    space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      return false;
    size_t close = text_.find(text_[at_], at_ + 1);
    if (close == std::string_view::npos)
      return false;
    value = text_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    return true;
  }
  bool takeInteger(int64_t &value) {
    space();
    size_t begin = at_;
    value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(text_[at_] - '0'), &value))
        return false;
    if (at_ == begin)
      return false;
    take('L'); // Python 2 wrote long integers so
    return true;
  }
  bool atEnd() {
    space();
    return at_ == text_.size();
  }

private:
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

} // namespace

static bool readShape(Literal &literal, std::vector<int64_t> &shape) {
  if (!literal.take('('))
    return false;
  while (!literal.take(')')) {
    int64_t size;
    if (shape.size() == ITX_MAX_RANK || !literal.takeInteger(size))
      return false;
    shape.push_back(size);
    if (!literal.take(','))
      return literal.take(')');
  }
  return true;
}

Status parseNpy(const uint8_t *data, uint64_t bytes, const std::string &name, NpyHeader &header) {
  const char *where = name.c_str();
  if (bytes < 10 || std::memcmp(data, "\x93NUMPY", 6) != 0)
    return error(ITX_CORRUPT, "%s: is not a NumPy .npy file", where);
  unsigned major = data[6];
  if (major < 1 || major > 3)
    return error(ITX_CORRUPT, "%s: has .npy version %u.%u; 1.0 to 3.0 are read", where, major, unsigned(data[7]));
  uint64_t start = major == 1 ? 10 : 12, length = 0;
  if (bytes < start)
    return error(ITX_CORRUPT, "%s: is truncated in its header", where);
  for (uint64_t i = start; i-- > 8;)
    length = length << 8 | data[i];
  if (length > bytes - start)
    return error(ITX_CORRUPT, "%s: is truncated: its header has %llu bytes, the file %llu", where,
                 (unsigned long long)length, (unsigned long long)bytes);

  Literal literal(std::string_view(reinterpret_cast<const char *>(data) + start, length));
  NpyHeader result;
  std::string_view descr;
  bool good = literal.take('{'), haveDescr = false, haveOrder = false, haveShape = false;
  while (good && !literal.take('}')) {
    std::string_view key;
    good = literal.takeString(key) && literal.take(':');
    if (!good)
      break;
    if (key == "descr") {
      if (!literal.takeString(descr))
        return error(ITX_CORRUPT, "%s: has a structured or unknown data type; plain numbers are read", where);
      haveDescr = true;
    } else if (key == "fortran_order") {
      result.fortranOrder = literal.takeWord("True");
      good = haveOrder = result.fortranOrder || literal.takeWord("False");
    } else if (key == "shape") {
      result.shape.clear();
      good = haveShape = readShape(literal, result.shape);
    } else {
      good = false;
    }
    if (good && !literal.take(',')) {
      good = literal.take('}');
      break;
    }
  }
  if (!good || !haveDescr || !haveOrder || !haveShape || !literal.atEnd())
    return error(ITX_CORRUPT, "%s: its .npy header cannot be understood", where);

  const DtypeInfo *info = dtypeInfoOfNpy(descr);
  if (!info)
    return error(ITX_CORRUPT,
                 "%s: has the data type '%.*s'; read are <f4 <f2 <f8 <i8 <i4 <i2 |i1 |u1 |b1 (little endian) and <u2 "
                 "as the bits of bf16",
                 where, int(descr.size()), descr.data());
  result.dtype = info->dtype;
  Status status = tensorBytes(result.dtype, result.shape.data(), result.shape.size(), result.dataBytes);
  if (!status.ok())
    return {ITX_CORRUPT, name + ": " + status.message()};
  result.dataOffset = start + length;
  if (result.dataBytes > bytes - result.dataOffset)
    return error(ITX_CORRUPT, "%s: is truncated: %s of %s needs %llu bytes, there are %llu", where,
                 shapeText(result.shape).c_str(), info->name, (unsigned long long)result.dataBytes,
                 (unsigned long long)(bytes - result.dataOffset));
  header = std::move(result);
  return Status::success();
}

void fortranToRowMajor(const NpyHeader &header, const uint8_t *from, uint8_t *to) {
  size_t rank = header.shape.size(), element = dtypeInfo(header.dtype)->bytes;
  std::vector<int64_t> strides(rank), position(rank, 0);
  int64_t elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    strides[i] = elements;
    elements *= header.shape[i];
  }
  int64_t offset = 0;
  for (int64_t i = 0; i < elements; ++i) {
    std::memcpy(to + i * element, from + offset * element, element);
    for (size_t d = rank; d-- > 0;) {
      offset += strides[d];
      if (++position[d] < header.shape[d])
        break;
      offset -= strides[d] * header.shape[d];
      position[d] = 0;
    }
  }
}

std::string npyHeaderText(itx_dtype dtype, const std::vector<int64_t> &shape) {
  std::string text = std::string("{'descr': '") + dtypeInfo(dtype)->npy + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  text += shape.size() == 1 ? ",), }" : "), }";
  while ((10 + text.size() + 1) % 64 != 0)
    text += ' ';
  text += '\n';
  std::string result("\x93NUMPY\x01\x00", 8);
  result += char(text.size() & 255);
  result += char(text.size() >> 8);
  return result + text;
}

} // namespace intarsia
