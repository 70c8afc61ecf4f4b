//===- SizeElements.h - What elements that are sizes of the call are combined to ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_SIZEELEMENTS_H
#define INTARSIA_IMPORT_ONNX_SIZEELEMENTS_H

#include "lib/Import/Onnx/NodeContext.h"

namespace intarsia::onnx {

// A bool that depends on sizes of the call is a size that is 0 or 1.

/// Combines two elements, of which one at least is a size, by an op of the standard; nullopt if sizes have no such op.
std::optional<Element> combineSizes(NodeContext &node, llvm::StringRef op, const Element &left, const Element &right);

/// Returns 1 - element: what a bool that is a size is not.
Element negated(NodeContext &node, const Element &element);

/// Returns one of two integers or sizes by a bool that is a size.
std::optional<Element> chosen(NodeContext &node, const Element &condition, const Element &yes, const Element &no);

} // namespace intarsia::onnx

#endif
