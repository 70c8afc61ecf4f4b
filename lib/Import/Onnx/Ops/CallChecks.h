//===- CallChecks.h - Sizes that inputs of a node must have -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPS_CALLCHECKS_H
#define INTARSIA_IMPORT_ONNX_OPS_CALLCHECKS_H

#include "lib/Import/Onnx/OpTable.h"

namespace intarsia::onnx {

// Sizes that are known are compared now: the node is refused if they do not fit. Sizes of the call are compared by each
// call, which ends with an error that names the node and what does not fit. Each function returns false if the node is
// refused.

/// A size with what messages call it, such as "dimension 0 of input 'key'".
struct NamedSize {
  Size size;
  std::string name;
};

/// Returns a dimension of an input.
NamedSize dimensionOf(llvm::StringRef input, unsigned dimension, const Shape &shape);

/// Checks that two sizes are equal.
bool requireEqual(NodeContext &node, const NamedSize &size, const NamedSize &wanted);
/// Checks that a size is at most another.
bool requireAtMost(NodeContext &node, const NamedSize &size, const NamedSize &limit);
/// Checks that a size is at least another.
bool requireAtLeast(NodeContext &node, const NamedSize &size, const NamedSize &limit);
/// Checks that a size is equal to one of two.
bool requireEither(NodeContext &node, const NamedSize &size, const NamedSize &one, const NamedSize &other);
/// Checks that a size is a multiple of another, which is at least 1.
bool requireMultiple(NodeContext &node, const NamedSize &size, const NamedSize &divisor);

} // namespace intarsia::onnx

#endif
