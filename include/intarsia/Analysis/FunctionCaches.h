//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The key/value caches of a function, and how their formats change.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_ANALYSIS_FUNCTIONCACHES_H
#define INTARSIA_ANALYSIS_FUNCTIONCACHES_H

#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace intarsia {

/// A paged cache of a function.
struct FunctionCache {
  std::string name; ///< that of its tensor of elements: "cache.0.keys"
  nn::CacheFormatAttr format;
  llvm::SmallVector<mlir::BlockArgument> tensors; ///< arguments of the function, in the order of the format
  llvm::SmallVector<mlir::Operation *> users;     ///< nn.cache_append and nn.cached_attention, in their order
};

/// Returns the caches of a function whose tensors are its arguments, in the order of their first use. Emits an error
/// where ops disagree about the format of a cache, or where a cache whose layout is open is no state of the function.
mlir::FailureOr<llvm::SmallVector<FunctionCache>> findCaches(mlir::func::FuncOp function);

/// Gives a cache another format with as many tensors: types, names of sizes and ops. The first dimension of each tensor
/// stays as it is. Dimensions that have become static take their names out of the function's attributes.
void setFormat(mlir::func::FuncOp function, FunctionCache &cache, nn::CacheFormatAttr format);

/// Gives a cache of floats quantized elements: its further tensors become arguments and results behind those that there
/// are, and the tail is updated after everything that reads it. Emits an error if the function does not use the cache
/// in a way that its format allows.
mlir::LogicalResult quantizeCache(mlir::func::FuncOp function, FunctionCache &cache, nn::CacheFormatAttr format);

} // namespace intarsia

#endif
