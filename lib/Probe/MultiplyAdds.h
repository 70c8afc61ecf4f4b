//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Loops of multiply-adds, by instruction set.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PROBE_MULTIPLYADDS_H
#define INTARSIA_LIB_PROBE_MULTIPLYADDS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace intarsia::probe {

/// A loop over registers alone, with as many independent sums as hide the latency of its instruction.
struct MultiplyAdds {
  const char *element;                ///< as the catalogue names it
  const char *instructions;           ///< name for messages
  llvm::ArrayRef<const char *> needs; ///< features, as LLVM spells them
  double operations;                  ///< operations of one turn of the loop; multiply and add count separately
  void (*run)(int64_t turns);         ///< runs the loop on the calling thread
};

/// Returns the loops of this architecture, the fastest of each element type first. The last of f32 needs no features.
llvm::ArrayRef<MultiplyAdds> multiplyAdds();

/// Asks the kernel for tile registers (AMX), once for the process. Returns false if they are not available.
bool allowTiles();

/// Returns the sum of `count` words, a multiple of 64, to force that each is read.
uint64_t sumOf(const uint64_t *words, int64_t count);

} // namespace intarsia::probe

#endif
