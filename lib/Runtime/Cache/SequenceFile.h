//===- SequenceFile.h - A sequence's cache as a file --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CACHE_SEQUENCEFILE_H
#define INTARSIA_RUNTIME_CACHE_SEQUENCEFILE_H

#include "lib/Support/File.h"
#include "lib/Support/Hash.h"

#include <vector>

namespace intarsia::runtime {

inline constexpr char sequenceMagic[8] = {'I', 'T', 'X', 'S', 'E', 'Q', 0, 1};
inline constexpr uint32_t sequenceFormatVersion = 1;

struct SequenceFileHeader {
  char magic[8];
  uint32_t formatVersion;
  uint32_t states;    // number of SequenceFileState structures after the header; tokens (64 bits each) follow them
  uint8_t hash[16];   // XXH3-128 of the file with this field zero
  uint8_t module[16]; // the hash in the header of the artifact
  uint64_t function;  // number in the artifact
  uint64_t tokens;
  uint64_t pageTokens; // tokens of a page
  uint64_t fileBytes;
};
static_assert(sizeof(SequenceFileHeader) == 80);

/// One input that the function updates in place.
struct SequenceFileState {
  uint32_t dtype;
  uint32_t paged; // 1: a unit for each page of tokens; 0: one unit
  uint64_t unitBytes;

  bool operator==(const SequenceFileState &) const = default;
};
static_assert(sizeof(SequenceFileState) == 16);

/// The contents of a file. The units of each state follow the tokens, state after state, each at a multiple of 64
/// bytes.
struct SequenceFileContents {
  Hash128 module = {};
  uint64_t function = 0;
  uint64_t pageTokens = 0;
  std::vector<int64_t> tokens;
  std::vector<SequenceFileState> states;
  std::vector<uint64_t> stateOffsets; // of parsed files
};

/// Checks that everything in the header's tables lies inside the file. `name` starts each message.
Status parseSequenceFile(const uint8_t *data, uint64_t bytes, const std::string &name, SequenceFileContents &contents);

/// Checks the hash of a file that was parsed.
Status checkSequenceHash(const uint8_t *data, uint64_t bytes, const std::string &name);

/// Writes a file, which appears when it is complete. units[s] holds the units of state s in order: one a page, or one.
Status writeSequenceFile(const std::string &path, const SequenceFileContents &contents,
                         const std::vector<std::vector<const uint8_t *>> &units);

} // namespace intarsia::runtime

#endif
