//===- LoopEmitter.h - Index arithmetic and loops ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_CPU_LOOPEMITTER_H
#define INTARSIA_LIB_TARGET_CPU_LOOPEMITTER_H

#include "lib/Target/CPU/TileConfig.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"
#include <functional>
#include <map>

namespace intarsia::cpu {

/// The lowest layer of a kernel's emitter: numbers of sizes and indices (i64, folded where they are constants), vectors
/// of constants, loops.
class LoopEmitter {
public:
  LoopEmitter(const TileConfig &config, mlir::Location loc) : config(config), b(loc.getContext()), loc(loc) {}
  virtual ~LoopEmitter() = default;

protected:
  using Body = std::function<void(mlir::Value iv)>;

  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value rem(mlir::Value a, mlir::Value b);
  mlir::Value ceilDiv(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value floatConstant(double value, mlir::Type type, int64_t width);
  mlir::Value splat(mlir::Value scalar, int64_t width);
  mlir::Type vectorOf(mlir::Type element, int64_t width);
  void forLoop(mlir::Value begin, mlir::Value end, mlir::Value step, const Body &body);
  llvm::SmallVector<mlir::Value>
  forLoop(mlir::Value begin, mlir::Value end, mlir::Value step, mlir::ValueRange inits,
          llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise = nullptr);
  /// Calls body(i, width) for [0, size) in steps of whole vectors, then element by element.
  void vectorLoop(mlir::Value size, llvm::function_ref<void(mlir::Value i, int64_t width)> body);
  /// Returns the sum or maximum of element(i, width) for i in [0, size): several vector accumulators, then a scalar
  /// tail.
  mlir::Value reduce(mlir::Value size, bool maximum, mlir::Type type,
                     llvm::function_ref<mlir::Value(mlir::Value i, int64_t width)> element);

  const TileConfig &config;
  mlir::OpBuilder b;
  mlir::Location loc;
  /// The op of the function that is being emitted before which sizes are computed; constants begin its block.
  mlir::Operation *prologueEnd = nullptr;
  std::map<int64_t, mlir::Value> constants;

  /// Elements of tensors already emitted, by tensor, indices and width: a level for each block around this place.
  using MemoKey = std::pair<void *, std::vector<std::pair<void *, int64_t>>>;
  llvm::SmallVector<std::map<MemoKey, mlir::Value>> memo;
};

} // namespace intarsia::cpu

#endif
