//===- GraphValue.cpp - What the importer knows of a value of a graph ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/GraphValue.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <cstring>

using namespace mlir;

namespace intarsia::onnx {

Type elementType(DataType type, MLIRContext *context) {
  if (type == DataType::Bool)
    return IntegerType::get(context, 1);
  std::string_view name = factsOf(type).safetensors;
  return name.empty() ? Type() : importer::elementType(llvm::StringRef(name), context);
}

bool isSmallFloat(DataType type) {
  switch (type) {
  case DataType::Float8E4M3FN:
  case DataType::Float8E4M3FNUZ:
  case DataType::Float8E5M2:
  case DataType::Float8E5M2FNUZ:
  case DataType::Float4E2M1:
  case DataType::Float8E8M0:
  case DataType::Float6E2M3:
  case DataType::Float6E3M2:
    return true;
  default:
    return false;
  }
}

bool isSmallInteger(DataType type) {
  return type == DataType::Int4 || type == DataType::Uint4 || type == DataType::Int2 || type == DataType::Uint2;
}

bool isFloat(DataType type) {
  return type == DataType::Float || type == DataType::Double || type == DataType::Float16 || type == DataType::Bfloat16;
}

bool isUnsigned(DataType type) {
  switch (type) {
  case DataType::Bool:
  case DataType::Uint2:
  case DataType::Uint4:
  case DataType::Uint8:
  case DataType::Uint16:
  case DataType::Uint32:
  case DataType::Uint64:
    return true;
  default:
    return false;
  }
}

std::string nameOf(DataType type) {
  std::string_view name = factsOf(type).name;
  return name.empty() ? "type " + std::to_string(int32_t(type)) : std::string(name);
}

/// Returns the semantics of a float that APFloat has; null for others.
static const llvm::fltSemantics *semanticsOf(DataType type) {
  switch (type) {
  case DataType::Float16:
    return &llvm::APFloat::IEEEhalf();
  case DataType::Bfloat16:
    return &llvm::APFloat::BFloat();
  case DataType::Float:
    return &llvm::APFloat::IEEEsingle();
  case DataType::Double:
    return &llvm::APFloat::IEEEdouble();
  default:
    return nullptr;
  }
}

std::optional<Elements> readElements(const Tensor &tensor) {
  unsigned bits = bitsOf(tensor.type);
  const llvm::fltSemantics *semantics = semanticsOf(tensor.type);
  if (bits == 0 || bits > 64 || tensor.type == DataType::Complex64 || tensor.elements() > mostElements)
    return std::nullopt;
  Elements elements{llvm::SmallVector<int64_t>(tensor.dims.begin(), tensor.dims.end()), {}};
  int64_t count = tensor.elements();
  elements.values.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    // Elements of fewer than 8 bits begin inside of a byte, and end in it or the next.
    uint64_t raw = 0, begin = uint64_t(i) * bits, end = begin + bits;
    std::memcpy(&raw, tensor.data + begin / 8, (end + 7) / 8 - begin / 8);
    if (bits < 8)
      raw = raw >> begin % 8 & ((1u << bits) - 1);
    if (semantics) {
      llvm::APFloat value(*semantics, llvm::APInt(bits, raw));
      bool isLossy;
      value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &isLossy);
      elements.values.push_back(Element::ofReal(value.convertToDouble()));
    } else if (isBool(tensor.type)) {
      elements.values.push_back(int64_t(raw != 0));
    } else if (isUnsigned(tensor.type) || isSmallFloat(tensor.type)) {
      elements.values.push_back(int64_t(raw));
    } else {
      elements.values.push_back(llvm::APInt(bits, raw).getSExtValue());
    }
  }
  return elements;
}

bool isTooLarge(llvm::ArrayRef<Size> shape) {
  constexpr int64_t most = 1ll << 56;
  int64_t count = 1;
  for (const Size &size : shape)
    if (!size.isDynamic() && size.value > 1 && (llvm::MulOverflow(count, size.value, count) || count > most))
      return true;
  return false;
}

int64_t integerOf(double number) {
  constexpr double limit = 9223372036854775808.0;
  return std::isnan(number) ? 0 : number >= limit ? INT64_MAX : number >= -limit ? int64_t(number) : INT64_MIN;
}

Element rounded(const Element &element, DataType type) {
  if (element.isSize())
    return element;
  if (const llvm::fltSemantics *semantics = semanticsOf(type)) {
    llvm::APFloat value(element.number());
    bool isLossy;
    value.convert(*semantics, llvm::APFloat::rmNearestTiesToEven, &isLossy);
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &isLossy);
    return Element::ofReal(value.convertToDouble());
  }
  if (type == DataType::Bool)
    return int64_t(element.number() != 0);
  if (isSmallFloat(type))
    return element;
  // A number outside of the type has no defined result.
  int64_t integer = element.isReal() ? integerOf(element.real) : element.integer;
  unsigned bits = bitsOf(type);
  if (bits >= 64)
    return integer;
  llvm::APInt wrapped = llvm::APInt(64, uint64_t(integer)).trunc(bits);
  return isUnsigned(type) ? int64_t(wrapped.getZExtValue()) : wrapped.getSExtValue();
}

} // namespace intarsia::onnx
