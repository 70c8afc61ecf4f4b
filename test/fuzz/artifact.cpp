//===- artifact.cpp - Fuzz the checks before an .itx is loaded ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hash check would refuse nearly every input, so the target writes the right hash, as an attacker would.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Artifact.h"
#include "lib/Formats/ElfReader.h"
#include "lib/Formats/Safetensors.h"

#include <cstddef>
#include <cstring>

using namespace intarsia;

/// A module or a bundle of them, up to the weights inside.
static void check(const uint8_t *data, size_t bytes) {
  ArtifactExtent extent;
  if (!findArtifact(data, bytes, "fuzz", extent).ok())
    return;
  data += extent.offset;
  bytes = extent.bytes;
  ArtifactHeader header;
  if (!checkArtifactHeader(data, bytes, "fuzz", header).ok())
    return;
  if (header.weightsOffset != 0) {
    std::unique_ptr<SafetensorsFile> weights;
    (void)SafetensorsFile::parse(data + header.weightsOffset, header.weightsBytes, "fuzz", weights);
  }
  std::vector<uint8_t> copy(data, data + header.fileBytes);
  ElfReader elf;
  if (ElfReader::parse(copy.data(), copy.size(), "fuzz", elf).ok())
    if (const ElfSection *section = elf.find(artifactHeaderSection); section && section->bytes == sizeof(header)) {
      artifactHash(copy.data(), copy.size(), section->offset, header.hash);
      std::memcpy(copy.data() + section->offset + offsetof(ArtifactHeader, hash), header.hash, sizeof(header.hash));
    }
  Manifest manifest;
  (void)checkArtifactContents(copy.data(), copy.size(), "fuzz", manifest);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  ArtifactExtent payload;
  if (findPayload(data, bytes, "fuzz", payload).ok())
    check(data + payload.offset, payload.bytes);
  check(data, bytes);
  return 0;
}
