//===- Artifact.h - Check an .itx before its code is loaded -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ARTIFACT_H
#define INTARSIA_LIB_FORMATS_ARTIFACT_H

#include "lib/Formats/ArtifactFormat.h"
#include "lib/Formats/Manifest.h"

namespace intarsia {

/// The extent of the module inside a file.
struct ArtifactExtent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// Finds the module for this machine in `data`: all of it for an .itx, one entry for a bundle.
Status findArtifact(const uint8_t *data, uint64_t bytes, const std::string &name, ArtifactExtent &extent);

/// Finds the payload at the end of an executable. ITX_NOT_FOUND if it has none.
Status findPayload(const uint8_t *data, uint64_t bytes, const std::string &name, ArtifactExtent &extent);

/// Checks format, version, machine and size; `data` is the ELF file and the bytes behind it.
Status checkArtifactHeader(const uint8_t *data, uint64_t bytes, const std::string &name, ArtifactHeader &header);

/// Checks hash and manifest; `data` are the header's fileBytes bytes.
Status checkArtifactContents(const uint8_t *data, uint64_t bytes, const std::string &name, Manifest &manifest);

/// Computes the hash of an ELF file with the header's hash field (at `headerOffset`) taken as zero.
void artifactHash(const uint8_t *data, uint64_t bytes, uint64_t headerOffset, uint8_t (&hash)[16]);

} // namespace intarsia

#endif
