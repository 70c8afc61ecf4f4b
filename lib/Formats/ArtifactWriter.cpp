//===- ArtifactWriter.cpp - Finish and write .itx files -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/ArtifactWriter.h"

#include "lib/Formats/Artifact.h"
#include "lib/Formats/ElfReader.h"
#include "lib/Support/File.h"

#include <cstring>

namespace intarsia {

static uint64_t alignUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

/// Streams a file through its mapping: page cache, no anonymous memory.
static Status append(OutputFile &file, const std::string &path) {
  std::unique_ptr<MappedFile> source;
  ITX_RETURN_IF_ERROR(MappedFile::open(path, source));
  return file.write(source->data(), source->size());
}

Status writeArtifact(const std::string &path, const void *elf, uint64_t elfBytes, const std::string &embeddedWeights) {
  std::vector<uint8_t> bytes(static_cast<const uint8_t *>(elf), static_cast<const uint8_t *>(elf) + elfBytes);
  ElfReader reader;
  ITX_RETURN_IF_ERROR(ElfReader::parse(bytes.data(), bytes.size(), path, reader));
  const ElfSection *section = reader.find(artifactHeaderSection);
  if (!section || section->bytes != sizeof(ArtifactHeader))
    return error(ITX_INTERNAL, "%s: the linked module has no %s section of %zu bytes", path.c_str(),
                 artifactHeaderSection, sizeof(ArtifactHeader));
  if (!reader.find(artifactManifestSection))
    return error(ITX_INTERNAL, "%s: the linked module has no %s section", path.c_str(), artifactManifestSection);

  std::unique_ptr<MappedFile> weights;
  ArtifactHeader header = {};
  std::memcpy(header.magic, artifactMagic, sizeof(artifactMagic));
  header.formatVersion = artifactFormatVersion;
  header.fileBytes = bytes.size();
  if (!embeddedWeights.empty()) {
    ITX_RETURN_IF_ERROR(MappedFile::open(embeddedWeights, weights));
    header.weightsOffset = alignUp(bytes.size(), artifactPageBytes);
    header.weightsBytes = weights->size();
  }
  uint64_t offset = section->offset;
  std::memcpy(bytes.data() + offset, &header, sizeof(header));
  artifactHash(bytes.data(), bytes.size(), offset, header.hash);
  std::memcpy(bytes.data() + offset, &header, sizeof(header));

  std::unique_ptr<OutputFile> file;
  ITX_RETURN_IF_ERROR(OutputFile::create(path, file));
  ITX_RETURN_IF_ERROR(file->write(bytes.data(), bytes.size()));
  if (weights) {
    ITX_RETURN_IF_ERROR(file->alignTo(artifactPageBytes));
    ITX_RETURN_IF_ERROR(file->write(weights->data(), weights->size()));
  }
  return file->close();
}

Status writeExecutable(const std::string &path, const std::string &runner, const std::string &artifact) {
  std::unique_ptr<OutputFile> file;
  ITX_RETURN_IF_ERROR(OutputFile::create(path, file));
  ITX_RETURN_IF_ERROR(file->makeExecutable());
  ITX_RETURN_IF_ERROR(append(*file, runner));
  ITX_RETURN_IF_ERROR(file->alignTo(artifactPageBytes));
  PayloadTrailer trailer = {};
  trailer.offset = file->position();
  ITX_RETURN_IF_ERROR(append(*file, artifact));
  trailer.bytes = file->position() - trailer.offset;
  std::memcpy(trailer.magic, payloadMagic, sizeof(payloadMagic));
  ITX_RETURN_IF_ERROR(file->write(&trailer, sizeof(trailer)));
  return file->close();
}

Status writeBundle(const std::string &path, const std::vector<std::string> &artifacts) {
  if (artifacts.empty() || artifacts.size() > bundleMaximumCount)
    return error(ITX_INVALID_ARGUMENT, "%s: a bundle holds 1 to %u modules, not %zu", path.c_str(), bundleMaximumCount,
                 artifacts.size());
  BundleHeader header = {};
  std::memcpy(header.magic, bundleMagic, sizeof(bundleMagic));
  header.formatVersion = artifactFormatVersion;
  header.count = uint32_t(artifacts.size());
  std::vector<BundleEntry> entries;
  uint64_t offset = alignUp(sizeof(header) + artifacts.size() * sizeof(BundleEntry), artifactPageBytes);
  for (const std::string &artifact : artifacts) {
    std::unique_ptr<MappedFile> file;
    ITX_RETURN_IF_ERROR(MappedFile::open(artifact, file));
    ElfReader reader;
    ITX_RETURN_IF_ERROR(ElfReader::parse(file->data(), file->size(), artifact, reader));
    for (const BundleEntry &other : entries)
      if (other.machine == reader.machine())
        return error(ITX_INVALID_ARGUMENT, "%s: two modules of the bundle are for %s", path.c_str(),
                     elfMachineName(reader.machine()).c_str());
    entries.push_back({reader.machine(), 0, offset, file->size()});
    offset = alignUp(offset + file->size(), artifactPageBytes);
  }
  std::unique_ptr<OutputFile> file;
  ITX_RETURN_IF_ERROR(OutputFile::create(path, file));
  ITX_RETURN_IF_ERROR(file->write(&header, sizeof(header)));
  ITX_RETURN_IF_ERROR(file->write(entries.data(), entries.size() * sizeof(BundleEntry)));
  for (const std::string &artifact : artifacts) {
    ITX_RETURN_IF_ERROR(file->alignTo(artifactPageBytes));
    ITX_RETURN_IF_ERROR(append(*file, artifact));
  }
  return file->close();
}

} // namespace intarsia
