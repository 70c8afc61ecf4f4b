//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_BLOCKFORMATS_H
#define INTARSIA_DIALECTS_NN_BLOCKFORMATS_H

#include "dialects/Nn/Nn.h"
#include "lib/Formats/FloatFormats.h"
#include <optional>

namespace intarsia::nn {

/// Integer elements: their range as quantization uses it.
struct IntegerElement {
  int lowest;
  int highest;
  unsigned bits;
  bool isSigned;
  int quantizedLargest; ///< what the input of the largest magnitude in a block is quantized to
};

/// The description of a floating-point element; null for others.
const FloatFormat *getFloatElement(BlockElement element);
/// The description of an integer or ternary element.
std::optional<IntegerElement> getIntegerElement(BlockElement element);
/// The 16 values of NF4, by bit pattern.
llvm::ArrayRef<float> getNf4Values();
/// Bits that a quantized value takes in a tensor: 4 or 8 (2 bits are stored in the low bits of 4, 5 and 6 bits in those
/// of 8, integers with their sign).
unsigned storageBits(BlockElement element);
/// Bits that tell the values of an element apart: 2, 4, 5, 6 or 8.
unsigned elementBits(BlockElement element);

/// Bytes of a stored scale.
unsigned scaleBytes(BlockScale scale);
/// Element type of a tensor of scales: a float type, or i8 for the patterns of E8M0 and E4M3.
mlir::Type scaleType(BlockScale scale, mlir::MLIRContext *context);
/// Returns the quantized value of the input with the largest magnitude in a block: the lowest of signed integers below
/// 8 bits, else the largest number of the element (with either sign).
float quantizedLargest(BlockElement element);
/// True if scales are negative where that input is positive.
inline bool hasSignedScales(BlockElement element) { return quantizedLargest(element) < 0; }
/// The scale that `nn.quantize` begins with for a block of an integer, floating-point or NF4 element without zero
/// points; `smallest` is zero if no number is negative.
float blockScale(BlockElement element, float largestMagnitude, float smallest);
/// How often the scale of ternary values becomes the mean of the magnitudes that are not rounded to zero by it: Lloyd's
/// iteration, which ends where the squared error is least. On weights of examples/glossary, whose error it lessens from
/// 0.26 to 0.18 of their squares, a fifth step changes the scale by less than 1 %.
inline constexpr int ternaryScaleSteps = 4;
/// Returns the scale of a block of ternary values, before it is stored.
float ternaryScale(llvm::ArrayRef<float> block);
/// Multiples of that scale, the first is 1: stored is that which leaves the least error.
llvm::ArrayRef<float> scaleFactors(BlockElement element, BlockScale scale);

/// The number that a bit pattern means, before scaling.
/// Returns true for E4M3 with a scale for each row: what matrix instructions of 8-bit floats add up before it is
/// scaled.
bool isScaledByRows(BlockFormatAttr format);

float decodeElement(BlockElement element, unsigned pattern);
/// The bit pattern of a number after scaling: the nearest, ties to even, the largest where it is beyond that; of NaN
/// that of NaN where the element has one, else of zero.
unsigned encodeElement(BlockElement element, float value);
/// The number that the bit pattern of a stored scale means (E8M0: 0 is 2^-127, 255 NaN; E4M3).
float decodeScale(BlockScale scale, unsigned pattern);
/// The bit pattern of an E4M3 scale.
unsigned encodeScaleE4M3(float scale);
/// The bit pattern of the E8M0 scale of a block whose largest magnitude this is (OCP Microscaling 1.0, section 6.3).
unsigned encodeScaleE8M0(BlockElement element, float largestMagnitude);

} // namespace intarsia::nn

#endif
