//===- FileNames.h - Which files models and IR may name ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_NN_FILENAMES_H
#define INTARSIA_DIALECTS_NN_FILENAMES_H

#include "llvm/ADT/StringRef.h"

namespace intarsia::nn {

/// Returns whether a name in a model or in IR stays below the directory that it is looked up in. Any other name would
/// let a model from elsewhere read the user's files, and pack them into an artifact that is passed on; a user who wants
/// a file that lies elsewhere gives a directory above it (--archives). Symbolic links are followed: the directories of
/// the Hugging Face cache consist of them, and text cannot make one.
bool isBelowDirectory(llvm::StringRef name);

} // namespace intarsia::nn

#endif
