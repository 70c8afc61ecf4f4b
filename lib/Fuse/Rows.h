//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Kernels that work a row at a time: shared by the passes for embeddings and for elementwise chains.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_ROWS_H
#define INTARSIA_LIB_FUSE_ROWS_H

#include "lib/Fuse/Fuser.h"

namespace intarsia::fuse {

/// Grows a candidate of kind "rows" in both directions: elementwise ops, embeddings and slices over the same rows, with
/// at most one norm or softmax.
void growRows(Fuser &fuser, Candidate &candidate);

/// Grows a candidate around a concatenation: others that give parts of it, along dimensions before the last one.
void growConcat(Fuser &fuser, Candidate &candidate);

/// True if an op reduces the last dimension of its inputs, and has a value for each row.
bool isRowReduction(mlir::Operation *op, const WorkModel &work);
/// The same from a reduction of rows: what is computed with its result, and further reductions of the same rows, as far
/// as whole rows come out: a softmax, a norm.
void growReducedRows(Fuser &fuser, Candidate &candidate);

} // namespace intarsia::fuse

#endif
