//===- LogitEmitter.h - The largest of logits ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_LOGITEMITTER_H
#define INTARSIA_LIB_KERNEL_LOGITEMITTER_H

#include "lib/Kernel/MemoryEmitter.h"
#include <limits>

namespace intarsia::kernel {

/// Finds the largest of logits. They become integers in the same order, NaN the largest; the least integer is none.
class LogitEmitter : public LoopEmitter {
public:
  explicit LogitEmitter(const LoopEmitter &loops) : LoopEmitter(loops), memory(loops) {}

  static constexpr int32_t leastKey = std::numeric_limits<int32_t>::min();
  static constexpr int32_t largestKey = std::numeric_limits<int32_t>::max();

  mlir::Value integers(int32_t value, int64_t width) { return splat(word(value), width); }
  mlir::Value keysOf(mlir::Value logits, int64_t width);
  /// Returns the largest of `count` integers in memory, a multiple of the lanes.
  mlir::Value largestKeyOf(mlir::Value keys, int64_t count);
  /// Returns the first slot that has it, i32. `iota` is the numbers of the lanes.
  mlir::Value slotOfLargest(mlir::Value keys, int64_t count, mlir::Value iota);
  /// Returns what is subtracted from logits before their exponentials: the largest one; 0 if all are -inf, so that
  /// exponentials stay zero.
  mlir::Value shiftOf(mlir::Value largest);

private:
  MemoryEmitter memory;
};

} // namespace intarsia::kernel

#endif
