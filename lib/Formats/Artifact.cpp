//===- Artifact.cpp - Check an .itx before its code is loaded -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Artifact.h"

#include "intarsia/Version.h"
#include "lib/Formats/ElfReader.h"
#include "lib/Support/Hash.h"

#include <cstddef>
#include <cstring>
#include <elf.h>

namespace intarsia {

Status findArtifact(const uint8_t *data, uint64_t bytes, const std::string &name, ArtifactExtent &extent) {
  const char *where = name.c_str();
  BundleHeader header;
  if (bytes < sizeof(header) || std::memcmp(data, bundleMagic, sizeof(bundleMagic)) != 0) {
    extent = {0, bytes};
    return Status::success();
  }
  std::memcpy(&header, data, sizeof(header));
  if (header.formatVersion != artifactFormatVersion)
    return error(ITX_VERSION_MISMATCH, "%s: is a bundle of format %u, this runtime (%s) reads format %u", where,
                 header.formatVersion, INTARSIA_VERSION, artifactFormatVersion);
  if (header.count > bundleMaximumCount || header.count * sizeof(BundleEntry) > bytes - sizeof(header))
    return error(ITX_CORRUPT, "%s: is truncated or damaged: a bundle of %u modules in %llu bytes", where, header.count,
                 (unsigned long long)bytes);
  std::vector<std::string> machines;
  for (uint32_t i = 0; i < header.count; ++i) {
    BundleEntry entry;
    std::memcpy(&entry, data + sizeof(header) + i * sizeof(entry), sizeof(entry));
    if (entry.offset % artifactPageBytes != 0 || entry.offset > bytes || entry.bytes > bytes - entry.offset)
      return error(ITX_CORRUPT, "%s: is truncated or damaged: module %u of the bundle goes beyond the file", where, i);
    if (entry.machine == hostElfMachine()) {
      extent = {entry.offset, entry.bytes};
      return Status::success();
    }
    machines.push_back(elfMachineName(entry.machine));
  }
  return error(ITX_UNSUPPORTED, "%s: is a bundle for %s; this machine is %s", where, join(machines).c_str(),
               elfMachineName(hostElfMachine()).c_str());
}

/// Returns true if a module follows a program in the file. Without a trailer such a file is incomplete.
static bool hasModuleAfterProgram(const uint8_t *data, uint64_t bytes) {
  Elf64_Ehdr header;
  if (bytes < sizeof(header) || std::memcmp(data, ELFMAG, SELFMAG) != 0)
    return false;
  std::memcpy(&header, data, sizeof(header));
  // Linkers write section headers last.
  uint64_t end = header.e_shoff + uint64_t(header.e_shnum) * header.e_shentsize;
  uint64_t begin = (end + artifactPageBytes - 1) / artifactPageBytes * artifactPageBytes;
  if (header.e_shoff > bytes || begin > bytes - SELFMAG)
    return false;
  return std::memcmp(data + begin, ELFMAG, SELFMAG) == 0 ||
         (bytes - begin >= sizeof(bundleMagic) && std::memcmp(data + begin, bundleMagic, sizeof(bundleMagic)) == 0);
}

Status findPayload(const uint8_t *data, uint64_t bytes, const std::string &name, ArtifactExtent &extent) {
  PayloadTrailer trailer;
  if (bytes < sizeof(trailer))
    return error(ITX_NOT_FOUND, "%s: carries no module", name.c_str());
  std::memcpy(&trailer, data + bytes - sizeof(trailer), sizeof(trailer));
  if (std::memcmp(trailer.magic, payloadMagic, sizeof(payloadMagic)) != 0) {
    if (hasModuleAfterProgram(data, bytes))
      return error(ITX_CORRUPT, "%s: is truncated: the module that it carries has no end", name.c_str());
    return error(ITX_NOT_FOUND, "%s: carries no module", name.c_str());
  }
  if (trailer.offset % artifactPageBytes != 0 || trailer.offset > bytes - sizeof(trailer) ||
      trailer.bytes > bytes - sizeof(trailer) - trailer.offset)
    return error(ITX_CORRUPT, "%s: is damaged: the module that it carries goes beyond the file", name.c_str());
  extent = {trailer.offset, trailer.bytes};
  return Status::success();
}

static Status readHeader(const uint8_t *data, uint64_t bytes, const std::string &name, ElfReader &elf,
                         ArtifactHeader &header, uint64_t &offset) {
  ITX_RETURN_IF_ERROR(ElfReader::parse(data, bytes, name, elf));
  const ElfSection *section = elf.find(artifactHeaderSection);
  if (!section || section->bytes < 16 || std::memcmp(data + section->offset, artifactMagic, sizeof(artifactMagic)) != 0)
    return error(ITX_CORRUPT, "%s: is an ELF file, but not a compiled module (.itx): it has no proper %s section",
                 name.c_str(), artifactHeaderSection);
  offset = section->offset;
  header = {};
  std::memcpy(&header, data + offset, section->bytes < sizeof(header) ? section->bytes : sizeof(header));
  if (header.formatVersion != artifactFormatVersion)
    return error(ITX_VERSION_MISMATCH,
                 "%s: has artifact format %u, this runtime (%s) reads format %u: compile the model again with this "
                 "version, or use the runtime of the version that compiled it",
                 name.c_str(), header.formatVersion, INTARSIA_VERSION, artifactFormatVersion);
  if (section->bytes != sizeof(header))
    return error(ITX_CORRUPT, "%s: is damaged: its header section has %llu bytes instead of %zu", name.c_str(),
                 (unsigned long long)section->bytes, sizeof(header));
  return Status::success();
}

Status checkArtifactHeader(const uint8_t *data, uint64_t bytes, const std::string &name, ArtifactHeader &header) {
  const char *where = name.c_str();
  ElfReader elf;
  uint64_t offset = 0;
  ITX_RETURN_IF_ERROR(readHeader(data, bytes, name, elf, header, offset));
  bool embedded = header.weightsOffset != 0;
  bool consistent = embedded
                        ? header.weightsOffset % artifactPageBytes == 0 && header.weightsOffset >= header.fileBytes &&
                              header.weightsBytes <= UINT64_MAX - header.weightsOffset
                        : header.weightsBytes == 0;
  if (!consistent || header.fileBytes < sizeof(header))
    return error(ITX_CORRUPT, "%s: is damaged: the sizes in its header contradict each other", where);
  uint64_t expected = embedded ? header.weightsOffset + header.weightsBytes : header.fileBytes;
  if (bytes != expected)
    return error(ITX_CORRUPT, "%s: %s: has %llu bytes, its header says %llu", where,
                 bytes < expected ? "is truncated" : "is damaged", (unsigned long long)bytes,
                 (unsigned long long)expected);
  return Status::success();
}

void artifactHash(const uint8_t *data, uint64_t bytes, uint64_t headerOffset, uint8_t (&hash)[16]) {
  static const uint8_t zeros[16] = {};
  uint64_t field = headerOffset + offsetof(ArtifactHeader, hash);
  Hasher hasher;
  hasher.update(data, field);
  hasher.update(zeros, sizeof(zeros));
  hasher.update(data + field + sizeof(zeros), bytes - field - sizeof(zeros));
  Hash128 result = hasher.finish();
  std::memcpy(hash, result.data(), sizeof(hash));
}

Status checkArtifactContents(const uint8_t *data, uint64_t bytes, const std::string &name, Manifest &manifest) {
  const char *where = name.c_str();
  ElfReader elf;
  ArtifactHeader header;
  uint64_t offset = 0;
  ITX_RETURN_IF_ERROR(readHeader(data, bytes, name, elf, header, offset));
  uint8_t hash[16];
  artifactHash(data, bytes, offset, hash);
  if (std::memcmp(hash, header.hash, sizeof(hash)) != 0)
    return error(ITX_CORRUPT, "%s: is damaged: its contents do not have the hash that its header says", where);
  if (elf.machine() != hostElfMachine())
    return error(ITX_UNSUPPORTED, "%s: is compiled for %s, this machine is %s: compile the model with --target=cpu:%s",
                 where, elfMachineName(elf.machine()).c_str(), elfMachineName(hostElfMachine()).c_str(),
                 hostElfMachine() == 62 ? "x86-64-v3" : elfMachineName(hostElfMachine()).c_str());
  const ElfSection *section = elf.find(artifactManifestSection);
  if (!section)
    return error(ITX_CORRUPT, "%s: is damaged: it has no %s section", where, artifactManifestSection);
  std::string_view text(reinterpret_cast<const char *>(data + section->offset), section->bytes);
  return parseManifest(text, name, manifest);
}

} // namespace intarsia
