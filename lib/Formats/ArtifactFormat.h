//===- ArtifactFormat.h - Bytes of an .itx file -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An .itx is an ELF shared object with the sections .itx.header (ArtifactHeader), .itx.manifest (JSON) and, for each
// object of other devices than the host's CPU, .itx.object.<number>; packed weights may follow it. A bundle is several
// of them, for several machines, behind a table. An executable is the runner with one .itx (or bundle) after it and
// PayloadTrailer as its last bytes. All numbers are little endian.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ARTIFACTFORMAT_H
#define INTARSIA_LIB_FORMATS_ARTIFACTFORMAT_H

#include <cstdint>
#include <string>

namespace intarsia {

inline constexpr char artifactMagic[8] = {'I', 'T', 'X', 'M', 'O', 'D', 0, 1};
inline constexpr uint32_t artifactFormatVersion = 1;
inline constexpr char artifactHeaderSection[] = ".itx.header";
inline constexpr char artifactManifestSection[] = ".itx.manifest";

/// Returns the section of an object, whose number is that in the manifest.
inline std::string artifactObjectSection(uint32_t number) { return ".itx.object." + std::to_string(number); }

/// Alignment of parts that are mapped separately: the largest page of the hosts (AArch64 with 64 KiB pages).
inline constexpr uint64_t artifactPageBytes = 65536;

/// Contents of .itx.header. The first 16 bytes mean the same in every version.
struct ArtifactHeader {
  char magic[8];
  uint32_t formatVersion;
  uint32_t flags;         // 0
  uint64_t fileBytes;     // bytes of the ELF file, without the bytes behind it
  uint8_t hash[16];       // XXH3-128 of these bytes, most significant byte first, with this field zero
  uint64_t weightsOffset; // from the start of the ELF file, a multiple of artifactPageBytes; 0: weights not embedded
  uint64_t weightsBytes;
  uint64_t reserved; // 0
};
static_assert(sizeof(ArtifactHeader) == 64);

/// Returns the temporary name of new weights beside an artifact, until they replace the old ones:
/// "m.safetensors" → "m.<hash of their header>.safetensors".
inline std::string waitingWeights(const std::string &name, const std::string &headerHash) {
  size_t stem = name.rfind('.');
  return stem == std::string::npos ? name + "." + headerHash
                                   : name.substr(0, stem) + "." + headerHash + name.substr(stem);
}

inline constexpr char bundleMagic[8] = {'I', 'T', 'X', 'B', 'N', 'D', 0, 1};

struct BundleHeader {
  char magic[8];
  uint32_t formatVersion;
  uint32_t count; // BundleEntry structures follow
};
static_assert(sizeof(BundleHeader) == 16);

struct BundleEntry {
  uint32_t machine; // e_machine of the ELF file
  uint32_t reserved;
  uint64_t offset; // multiple of artifactPageBytes
  uint64_t bytes;
};
static_assert(sizeof(BundleEntry) == 24);
inline constexpr uint32_t bundleMaximumCount = 64;

inline constexpr char payloadMagic[8] = {'I', 'T', 'X', 'E', 'X', 'E', 0, 1};

struct PayloadTrailer {
  uint64_t offset; // from the start of the executable, a multiple of artifactPageBytes
  uint64_t bytes;
  uint64_t reserved;
  char magic[8];
};
static_assert(sizeof(PayloadTrailer) == 32);

} // namespace intarsia

#endif
