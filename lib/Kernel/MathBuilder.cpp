//===- MathBuilder.cpp - Arithmetic that elementary functions are made of --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/MathBuilder.h"

using namespace mlir;

namespace intarsia::kernel {

// 1/π cut into seven pieces of 28 bits: the product of a piece and an f32 number is exact in f64. Together 196 bits:
// 128 for the largest exponent, and 68 behind the point, for f32 arguments come as close as 2^-30 to a multiple of π/2.
constexpr int inversePiPieces = 7;
constexpr double inversePi[inversePiPieces] = {0xA2F9836p-29,  0xE4E4415p-57,  0x29FC275p-85, 0x7D1F534p-113,
                                               0xDDC0DB6p-141, 0x295993Cp-169, 0x439041Fp-197};

Value MathBuilder::halfTurns(Value x) {
  Value wide = f64Of(x);
  Value sum;
  for (double piece : inversePi) {
    // Exact: a product has 52 bits, and as long as it is above 1 the sum so far is a multiple of its lowest one.
    sum = sum ? fma(wide, f64(piece), sum) : mul(wide, f64(piece));
    sum = fma(roundEvenF64(mul(sum, f64(0.5))), f64(-2.0), sum);
  }
  return sum;
}

} // namespace intarsia::kernel
