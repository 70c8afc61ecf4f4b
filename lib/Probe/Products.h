//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Loops that do nothing but products, by instruction set.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PROBE_PRODUCTS_H
#define INTARSIA_LIB_PROBE_PRODUCTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace intarsia::probe {

/// A loop over registers alone, with as many independent sums as hide the latency of its instruction.
struct Products {
  const char *element;                ///< as the catalogue names it
  const char *instructions;           ///< what messages say
  llvm::ArrayRef<const char *> needs; ///< features, as LLVM spells them
  double operations;                  ///< of one turn of the loop, multiply and add apart
  void (*run)(int64_t turns);         ///< on the calling thread
};

/// Of this architecture, the fastest of an element first. The last of f32 needs no features.
llvm::ArrayRef<Products> products();

/// Asks the kernel for tile registers (AMX), once for the process. False where it has none to give.
bool allowTiles();

/// Sum of `count` words, a multiple of 64: what matters is that each was read.
uint64_t sumOf(const uint64_t *words, int64_t count);

} // namespace intarsia::probe

#endif
