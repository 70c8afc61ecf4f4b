//===- Hash.h - XXH3-128 as artifacts use it ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hashes find damage; they are no signature. They are written as 32 lower-case hexadecimal digits, most significant
// first.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_SUPPORT_HASH_H
#define INTARSIA_LIB_SUPPORT_HASH_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace intarsia {

using Hash128 = std::array<uint8_t, 16>; // most significant byte first

/// XXH3-128 of a stream of bytes.
class Hasher {
public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher &) = delete;
  Hasher &operator=(const Hasher &) = delete;
  void update(const void *data, size_t bytes);
  Hash128 finish() const;

private:
  void *state_;
};

Hash128 hashBytes(const void *data, size_t bytes);
std::string hashText(const Hash128 &hash);
inline std::string hashTextOf(const void *data, size_t bytes) { return hashText(hashBytes(data, bytes)); }

} // namespace intarsia

#endif
