//===- MicrosoftAttention.h - What ops of attention of com.microsoft have in common -------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_MICROSOFTATTENTION_H
#define INTARSIA_IMPORT_ONNX_OPS_MICROSOFTATTENTION_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

/// Queries, keys and values [batch, heads, sequence, features].
struct Heads {
  mlir::Value query, key, value;
};

/// Returns rows [batch, sequence, heads * features] as [batch, heads, sequence, features]; refuses others.
mlir::Value headsFirst(NodeContext &node, mlir::Value rows, int64_t heads);

/// Returns [batch, heads, sequence, features] as rows.
mlir::Value rowsOf(NodeContext &node, mlir::Value heads);

/// Returns a part of a dimension of known size; refuses one that is outside.
mlir::Value partOf(NodeContext &node, mlir::Value tensor, int64_t axis, int64_t begin, int64_t count);

/// The inputs of attention other than queries, keys and values.
struct AttentionOptions {
  mlir::Value mask;               ///< is added to scores; may be null
  mlir::Value pastKey, pastValue; ///< keys and values before those of the call; may be null
  bool isCausal = false;          ///< queries read no keys behind them; each head has keys of its own then
  double softcap = 0;             ///< 0: none
};

/// Results of attention: rows [batch, sequence, heads * features], and all keys and values, those of the past first.
struct Attended {
  mlir::Value rows, key, value;
};

/// Builds attention of the standard; the results are null if it is refused. The attribute `scale` is the node's.
Attended attended(NodeContext &node, const Heads &heads, DataType type, const AttentionOptions &options);

/// Returns the sum of a mask and of an input that is added to scores; either may be missing.
mlir::Value withBias(NodeContext &node, mlir::Value mask, size_t input, DataType type);

void groupQueryAttention(NodeContext &node);

/// Numbers of the inputs of attention that computes its own queries, keys and values.
struct AttentionInputs {
  size_t mask, past, bias;
};

/// Builds attention of queries, keys and values that lie one behind the other in rows [batch, sequence, features], and
/// sets the results of the node.
void attentionOfProjections(NodeContext &node, mlir::Value projections, DataType type, const AttentionInputs &inputs);

/// Returns positions [batch, sequence] of i64 that count from `begin`, i64 of the shape [batch] or [].
mlir::Value positionsFrom(NodeContext &node, mlir::Value begin, const Size &batch, const Size &sequence);

/// Returns [batch, heads, sequence, features] with rotary positions; the inputs `tables` and the one behind it have
/// cosines and sines. Null if the node is refused.
mlir::Value rotated(NodeContext &node, mlir::Value heads, mlir::Value positions, size_t tables, DataType type,
                    bool isInterleaved);

} // namespace intarsia::onnx

#endif
