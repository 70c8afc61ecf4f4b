//===- DumpCode.h - Code of devices, out of an artifact -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_DUMPCODE_H
#define INTARSIA_TOOLS_RUN_DUMPCODE_H

#include <string>

namespace intarsia::run {

/// Writes the code of an artifact's devices to files of a folder, which is made: <device>.<variant>.<kind>, for
/// instance cuda.sm_80.ptx. No device has to be there, and nothing of the artifact is run. An empty path is that of the
/// running program, which carries an artifact. Returns the names of the files, a line each; throws Failure.
std::string dumpCode(const std::string &module, const std::string &folder);

} // namespace intarsia::run

#endif
