//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_REGISTRATION_REGISTRATION_H
#define INTARSIA_REGISTRATION_REGISTRATION_H

#include "mlir/IR/DialectRegistry.h"

namespace intarsia {

/// Adds the dialects of Intarsia, and the upstream ones that its phases produce, to a registry.
void registerAllIntarsia(mlir::DialectRegistry &registry);
/// Registers every pass and pipeline of every phase.
void registerIntarsiaPasses();
/// Moves all flags registered so far, those of LLVM's libraries, from --help to --help-hidden. A tool calls this before
/// it makes its own flags.
void hideLibraryFlags();

} // namespace intarsia

#endif
