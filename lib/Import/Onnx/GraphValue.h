//===- GraphValue.h - What the importer knows of a value of a graph -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_GRAPHVALUE_H
#define INTARSIA_IMPORT_ONNX_GRAPHVALUE_H

#include "lib/Formats/Onnx/OnnxModel.h"
#include "lib/Import/Builder/ModuleBuilder.h"
#include <memory>

namespace intarsia::onnx {

using importer::Shape;
using importer::Size;

/// An element that import knows: an integer, a real number, or a size that the call decides.
struct Element {
  enum class Kind { Integer, Real, Size };

  Element(int64_t integer = 0) : integer(integer) {}
  static Element ofReal(double real) {
    Element element;
    element.kind = Kind::Real;
    element.real = real;
    return element;
  }
  /// Of a size that is a number, an integer.
  static Element of(const Size &size, bool isCount = false) {
    Element element(size.isDynamic() ? 0 : size.value);
    if (size.isDynamic()) {
      element.kind = Kind::Size;
      element.size = size;
      element.isCountOfCall = isCount;
    }
    return element;
  }

  bool isInteger() const { return kind == Kind::Integer; }
  bool isReal() const { return kind == Kind::Real; }
  bool isSize() const { return kind == Kind::Size; }
  bool isNumber() const { return !isSize(); }
  double number() const { return isReal() ? real : double(integer); }
  /// An integer or a size as a size.
  Size asSize() const { return isSize() ? size : Size(integer); }

  /// True for an integer, or a size, that is known to be 0 or more: a difference of sizes is not.
  bool isCount() const { return isSize() ? isCountOfCall : isInteger() && integer >= 0; }

  Kind kind = Kind::Integer;
  int64_t integer = 0;
  double real = 0;
  Size size = 0;
  bool isCountOfCall = false; ///< of a size
};

/// Elements of a tensor that are followed; more are computed by kernels.
constexpr int64_t mostElements = 4096;

/// The elements of a tensor, row-major.
struct Elements {
  llvm::SmallVector<int64_t> shape;
  std::vector<Element> values;
};

/// A condition that a size of the call decides: it is a number, or with `isNegated` it is another one.
struct SizeCondition {
  Size size = 0;
  int64_t number = 0;
  bool isNegated = false;
};

/// True for a shape that no call decides.
inline bool isStatic(llvm::ArrayRef<Size> shape) {
  return llvm::none_of(shape, [](const Size &size) { return size.isDynamic(); });
}

/// True for a shape of more elements than the compiler counts: 2^56, sizes of the call not among them.
bool isTooLarge(llvm::ArrayRef<Size> shape);

/// The integers of 8 bits that QuantizeLinear computes with one known scale and zero point, as an f32 tensor of whole
/// numbers from -128 to 127. A number means (number - zero) * scale. For uint8, numbers and zero are 128 less than in
/// the file.
struct QuantizedIntegers {
  mlir::Value integers;
  float scale;
  int64_t zero;
};

/// A tensor of int8 in the file that DequantizeLinear reads without zero points, with one scale or scales of an axis.
struct StoredIntegers {
  const Tensor *values, *scales;
  int64_t axis;
};

/// A value of a graph. Integers that shapes are made of are followed as elements; they become a tensor of the IR where
/// an op reads them as data.
struct GraphValue {
  DataType type = DataType::Undefined;
  mlir::Value tensor;                       ///< null until an op reads it as data
  std::shared_ptr<const Elements> elements; ///< null if they are not known
  const Tensor *stored = nullptr;           ///< in the file, if it lies there
  std::optional<SizeCondition> condition;   ///< what its one element, a bool, says of a size of the call
  /// The values of a sequence, which has as many in each call; null if it is none. `type` is that of their elements.
  std::shared_ptr<const std::vector<GraphValue>> sequence;
  std::shared_ptr<const QuantizedIntegers> quantizedIntegers; ///< that it is, or is dequantized from; or null
  std::shared_ptr<const StoredIntegers> storedIntegers;       ///< that it is dequantized from; or null
  bool isNothing = false;                                     ///< it is an optional value without a value
  bool isRefused = false;                                     ///< it is computed by a node that is not imported

  /// True for a tensor, which an optional value that has one is too.
  bool isTensor() const { return !sequence && !isNothing; }
};

/// Returns the type of elements in IR, where integers have no signs; null for those that IR does not have.
mlir::Type elementType(DataType type, mlir::MLIRContext *context);

bool isSmallFloat(DataType type);   ///< of 8 bits and fewer
bool isSmallInteger(DataType type); ///< of 4 and 2 bits
/// True for elements that are bytes of IR with another meaning than theirs, which no arithmetic is done with
/// (SmallTypes).
inline bool isSmall(DataType type) { return isSmallFloat(type) || isSmallInteger(type); }

// These are false for small types.

bool isFloat(DataType type);
inline bool isBool(DataType type) { return type == DataType::Bool; }
inline bool isNumber(DataType type) { return !isBool(type) && !isSmall(type); }
inline bool isInteger(DataType type) { return isNumber(type) && !isFloat(type); }

bool isUnsigned(DataType type); ///< bool and small integers included
/// True for the integers that indices are.
inline bool isIndex(DataType type) { return type == DataType::Int32 || type == DataType::Int64; }
inline bool isInt32(DataType type) { return type == DataType::Int32; }
inline bool isUint8(DataType type) { return type == DataType::Uint8; }
inline bool isSingle(DataType type) { return type == DataType::Float; }
/// True for integers of 8 bits.
inline bool isByte(DataType type) { return type == DataType::Int8 || type == DataType::Uint8; }
/// True for the floats that ops of nn compute with: those of 16 and 32 bits.
inline bool isComputedByNn(DataType type) {
  return type == DataType::Float || type == DataType::Float16 || type == DataType::Bfloat16;
}
/// Returns the bits of an element.
inline unsigned bitsOf(DataType type) { return factsOf(type).bits; }
/// Returns "float", or "type 99" for a number that is none.
std::string nameOf(DataType type);

/// Reads the elements of a tensor of the file, small floats as the integers that have their bits; nullopt if they are
/// too many to be followed, and for types that are no numbers of up to 64 bits.
std::optional<Elements> readElements(const Tensor &tensor);

/// Returns a number without its fraction; of those that 64 bits do not hold the nearest that they hold, 0 of NaN.
int64_t integerOf(double number);

/// Returns what an element becomes when it is stored with a type: integers wrap, reals are rounded. Small floats stay
/// the integers that have their bits.
Element rounded(const Element &element, DataType type);

} // namespace intarsia::onnx

#endif
