//===- RankLoad.h - What a world of ranks has to do --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PARTITION_RANKLOAD_H
#define INTARSIA_LIB_PARTITION_RANKLOAD_H

#include "intarsia/Partition/Partition.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace intarsia::partition {

/// The sizes of one call of a function that keeps caches.
struct CallSizes {
  int64_t tokens = 1;    ///< of all sequences together
  int64_t sequences = 1; ///< in the page table
  int64_t outputs = 1;   ///< rows of logits
  int64_t length = 1;    ///< tokens that each sequence has
};

/// Returns the sizes of a call that continues `sequences` of the load by a token each.
CallSizes sizesOfStep(const RankLoad &load, int64_t sequences);
/// Returns the sizes of a call with so many tokens of prompts.
CallSizes sizesOfPromptPart(const RankLoad &load, int64_t tokens);

/// Sets `nn.expected_sizes` of a function with caches to those of a call.
void expectSizes(mlir::func::FuncOp function, const CallSizes &sizes);
/// Sets `nn.expected_sizes` of a function without caches: so many examples, and tokens of each where it has tokens.
void expectExamples(mlir::func::FuncOp function, const RankLoad &load);

/// Returns the most tokens of a sequence that a function takes; 0 if it does not say.
int64_t mostTokens(mlir::func::FuncOp function);

/// True for a function that keeps caches.
bool hasState(mlir::func::FuncOp function);

} // namespace intarsia::partition

#endif
