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

} // namespace intarsia::fuse

#endif
