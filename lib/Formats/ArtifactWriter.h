//===- ArtifactWriter.h - Finish and write .itx files -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files are written in place. A caller that wants them to appear complete gives a temporary name and renames.
//
// The linker makes an ELF file whose .itx.header section is 64 arbitrary bytes; this file fills them in. It needs no
// LLVM, and the bytes it writes depend only on its inputs.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ARTIFACTWRITER_H
#define INTARSIA_LIB_FORMATS_ARTIFACTWRITER_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace intarsia {

/// Writes an artifact: `elf` with its header filled in and, when embeddedWeights names a file, that file's bytes after
/// it. The manifest inside `elf` must then have "weights"."file" null.
Status writeArtifact(const std::string &path, const void *elf, uint64_t elfBytes,
                     const std::string &embeddedWeights = {});

/// Writes an executable: the runner (intarsia-run of the same triple) with an artifact or bundle after it.
Status writeExecutable(const std::string &path, const std::string &runner, const std::string &artifact);

/// Writes a bundle of artifacts for different machines.
Status writeBundle(const std::string &path, const std::vector<std::string> &artifacts);

} // namespace intarsia

#endif
