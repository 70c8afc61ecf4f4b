//===- ReferenceTarget.h - The slow, exact device of every machine --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_REFERENCE_REFERENCETARGET_H
#define INTARSIA_LIB_TARGET_REFERENCE_REFERENCETARGET_H

#include "intarsia/Target/Target.h"

namespace intarsia::reference {

/// The device that lib/Runtime/Reference drives.
const target::Target &referenceTarget();

} // namespace intarsia::reference

#endif
