//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TARGET_CANDIDATES_H
#define INTARSIA_TARGET_CANDIDATES_H

#include "intarsia/Target/Target.h"

namespace intarsia::target {

/// Returns true if kernels of a target compute nn.candidates, so that logits may stay in the memory of its device.
bool findsCandidates(const Target &target);

} // namespace intarsia::target

#endif
