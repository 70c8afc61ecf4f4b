//===- SequenceFile.cpp - A sequence's cache as a file ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/SequenceFile.h"

#include <cstddef>
#include <cstring>

namespace intarsia::runtime {

static constexpr uint64_t alignment = 64;
static const uint8_t zeros[alignment] = {};

/// Adds `count` times `each` to a size; returns false if the result exceeds 2^62.
static bool add(uint64_t &size, uint64_t count, uint64_t each) {
  uint64_t product = 0;
  return !__builtin_mul_overflow(count, each, &product) && !__builtin_add_overflow(size, product, &size) &&
         size <= uint64_t(1) << 62;
}

static uint64_t padded(uint64_t size) { return (size + alignment - 1) / alignment * alignment; }

Status parseSequenceFile(const uint8_t *data, uint64_t bytes, const std::string &name, SequenceFileContents &contents) {
  const char *where = name.c_str();
  SequenceFileHeader header;
  if (bytes < sizeof(header) || std::memcmp(data, sequenceMagic, sizeof(sequenceMagic)) != 0)
    return error(ITX_CORRUPT, "%s: is no saved sequence", where);
  std::memcpy(&header, data, sizeof(header));
  if (header.formatVersion != sequenceFormatVersion)
    return error(ITX_VERSION_MISMATCH, "%s: has format %u, this runtime reads %u: save it again with this version",
                 where, header.formatVersion, sequenceFormatVersion);
  if (header.fileBytes != bytes)
    return error(ITX_CORRUPT, "%s: is %s: has %llu bytes, its header says %llu", where,
                 bytes < header.fileBytes ? "truncated" : "damaged", (unsigned long long)bytes,
                 (unsigned long long)header.fileBytes);
  Status damaged = error(ITX_CORRUPT, "%s: is damaged: the sizes in its header contradict each other", where);
  uint64_t tokensOffset = sizeof(header);
  if (!add(tokensOffset, header.states, sizeof(SequenceFileState)) || tokensOffset > bytes)
    return damaged;
  uint64_t end = tokensOffset;
  if (!add(end, header.tokens, sizeof(int64_t)) || end > bytes || header.pageTokens == 0)
    return damaged;
  uint64_t pages = header.tokens / header.pageTokens + (header.tokens % header.pageTokens != 0);
  SequenceFileContents result;
  result.states.resize(header.states);
  if (header.states != 0)
    std::memcpy(result.states.data(), data + sizeof(header), header.states * sizeof(SequenceFileState));
  for (const SequenceFileState &state : result.states) {
    end = padded(end);
    result.stateOffsets.push_back(end);
    if (state.paged > 1 || !add(end, state.paged ? pages : 1, state.unitBytes) || end > bytes)
      return damaged;
  }
  if (end != bytes)
    return damaged;
  result.tokens.resize(header.tokens);
  if (header.tokens != 0)
    std::memcpy(result.tokens.data(), data + tokensOffset, header.tokens * sizeof(int64_t));
  std::memcpy(result.module.data(), header.module, sizeof(header.module));
  result.function = header.function;
  result.pageTokens = header.pageTokens;
  contents = std::move(result);
  return Status::success();
}

Status checkSequenceHash(const uint8_t *data, uint64_t bytes, const std::string &name) {
  constexpr uint64_t field = offsetof(SequenceFileHeader, hash), fieldBytes = sizeof(SequenceFileHeader::hash);
  Hasher hasher;
  hasher.update(data, field);
  hasher.update(zeros, fieldBytes);
  hasher.update(data + field + fieldBytes, bytes - field - fieldBytes);
  if (std::memcmp(hasher.finish().data(), data + field, fieldBytes) != 0)
    return error(ITX_CORRUPT, "%s: is damaged: its contents do not have the hash that its header says", name.c_str());
  return Status::success();
}

/// Gives the bytes of a file to `consume(data, bytes)`, piece by piece.
template <typename Consume>
static Status forEachPiece(const SequenceFileHeader &header, const SequenceFileContents &contents,
                           const std::vector<std::vector<const uint8_t *>> &units, Consume consume) {
  uint64_t position = 0;
  auto give = [&](const void *data, uint64_t bytes) {
    position += bytes;
    return bytes ? consume(data, bytes) : Status::success();
  };
  ITX_RETURN_IF_ERROR(give(&header, sizeof(header)));
  ITX_RETURN_IF_ERROR(give(contents.states.data(), contents.states.size() * sizeof(SequenceFileState)));
  ITX_RETURN_IF_ERROR(give(contents.tokens.data(), contents.tokens.size() * sizeof(int64_t)));
  for (size_t i = 0; i < units.size(); ++i) {
    ITX_RETURN_IF_ERROR(give(zeros, padded(position) - position));
    for (const uint8_t *unit : units[i])
      ITX_RETURN_IF_ERROR(give(unit, contents.states[i].unitBytes));
  }
  return Status::success();
}

Status writeSequenceFile(const std::string &path, const SequenceFileContents &contents,
                         const std::vector<std::vector<const uint8_t *>> &units) {
  SequenceFileHeader header = {};
  std::memcpy(header.magic, sequenceMagic, sizeof(sequenceMagic));
  header.formatVersion = sequenceFormatVersion;
  header.states = uint32_t(contents.states.size());
  std::memcpy(header.module, contents.module.data(), sizeof(header.module));
  header.function = contents.function;
  header.tokens = contents.tokens.size();
  header.pageTokens = contents.pageTokens;
  auto count = [&](const void *, uint64_t bytes) {
    header.fileBytes += bytes;
    return Status::success();
  };
  ITX_RETURN_IF_ERROR(forEachPiece(header, contents, units, count));
  Hasher hasher;
  auto hash = [&](const void *data, uint64_t bytes) {
    hasher.update(data, bytes);
    return Status::success();
  };
  ITX_RETURN_IF_ERROR(forEachPiece(header, contents, units, hash));
  std::memcpy(header.hash, hasher.finish().data(), sizeof(header.hash));
  std::unique_ptr<AtomicFile> file;
  ITX_RETURN_IF_ERROR(AtomicFile::create(path, file));
  auto write = [&](const void *data, uint64_t bytes) { return file->write(data, bytes); };
  ITX_RETURN_IF_ERROR(forEachPiece(header, contents, units, write));
  return file->commit();
}

} // namespace intarsia::runtime
